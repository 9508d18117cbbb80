"""The fast way in: a layer in front of the framework and of Serve's own accounting.

Installed by Serve itself through `RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=deployments.api.hot:middlewares`, it
stands outermost in every process that speaks HTTP. In a replica whose deployment has a `door` it answers hot
endpoints at once; everything else goes on inside.

    request -> HotPath -> door                                     hot endpoints
                      \\-> Serve -> FastAPI -> door                  the rest

Standing outside Serve's accounting it keeps its own: how many requests are in flight (`Door.in_flight`, reported
to the autoscaler by the gateway), and a bound beyond which it refuses with 503. Draining needs nothing: the HTTP
server waits for requests in flight wherever they are answered.

Source: decision S2
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.middleware import Middleware

from deployments.api.door import Door
from deployments.edge.arrival import Scope, Send
from deployments.edge.body import Receive
from deployments.edge.trace import HEADER, request_id_of

Find = Callable[[], "Door | None"]


def middlewares() -> list[Middleware]:
    """Name the layer to Serve."""
    return [Middleware(HotPath, find=_door_of_this_replica)]


class HotPath:
    """An ASGI layer that answers hot endpoints itself.

    `find` names the door once it is open; a process without one is asked again a hundred times and then left
    alone. Serve's own questions (`/-/healthz`) are never refused.
    """

    def __init__(self, app: Any, find: Find, *, most_inside: int = 128) -> None:
        self._app = app
        self._find = find
        self._door: Door | None = None
        self._tries = 100
        self._most_inside = most_inside
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a hot request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        door = self._door or self._look()
        if door is None:
            await self._app(scope, receive, send)
            return
        match = door.find(scope)
        endpoint = match.endpoint(scope["method"]) if match is not None else None
        if endpoint is not None and endpoint.hot:
            if door.in_flight >= door.most_in_flight:
                await door.refuse(scope, receive, send)
                return
            await door.serve(match, scope, receive, send)
        elif self._inside >= self._most_inside and not scope["path"].startswith("/-/"):
            await door.refuse(scope, receive, send)
        else:
            await self._pass_on(scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request to the framework under one request id, answered once.

        Serve mints an id and appends a header of its own; it keeps the one it finds, and the second header is
        dropped here.
        """
        request_id = request_id_of(dict(scope["headers"]).get(HEADER)).encode()
        headers = [pair for pair in scope["headers"] if pair[0] != HEADER]
        scope = {**scope, "headers": [*headers, (HEADER, request_id)]}

        async def send_once(message: Any) -> None:
            if message["type"] == "http.response.start":
                seen = [pair for pair in message["headers"] if pair[0].lower() != HEADER]
                message = {**message, "headers": [*seen, (HEADER, request_id)]}
            await send(message)

        self._inside += 1
        try:
            await self._app(scope, receive, send_once)
        finally:
            self._inside -= 1

    def _look(self) -> Door | None:
        if self._tries:
            self._tries -= 1
            self._door = self._find()
        return self._door


def _door_of_this_replica() -> Door | None:
    """Find the gateway of this process, if it is one and runs on this event loop.

    With user code in a thread of its own, Serve's HTTP server and the gateway live on different loops; then all
    requests take the ordinary way.
    """
    from ray import serve
    from ray.serve.exceptions import RayServeException

    try:
        gateway = serve.get_replica_context().servable_object
    except RayServeException:
        return None
    door = getattr(gateway, "door", None)
    loop = getattr(gateway, "loop", None)
    return door if isinstance(door, Door) and loop is asyncio.get_running_loop() else None
