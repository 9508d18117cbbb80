"""The fast way in: a layer in front of the framework and of Serve's own accounting.

Installed by Serve itself through `RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=deployments.api.http.hot:middlewares`, it
stands outermost in every process that speaks HTTP. In a replica whose deployment has a `door` it answers hot
endpoints at once; everything else goes on inside.

    request -> HotLayer -> door                                     hot endpoints
                      \\-> Serve -> FastAPI -> door                  the rest

Standing outside Serve's accounting it keeps no count of its own: whoever answers counts a request when its key is
known and its body is here (`RequestHandler`, `McpEndpoint`), so nobody without a key takes a place. Draining
needs nothing:
the HTTP server waits for requests in flight wherever they are answered.

The layer also refuses what no endpoint sees: websockets, and Serve's own paths except the health check.

Source: decision S2
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.middleware import Middleware

from cluster.errors import TooMany, messages
from deployments.api.http.request_handler import RequestHandler
from deployments.edge import cors
from deployments.edge.body import Receive
from deployments.edge.credentials import HEADER as KEY_HEADER
from deployments.edge.credentials import find_key
from deployments.edge.envelope import Reply
from deployments.edge.errors import reply_from_error, unknown_path_reply
from deployments.edge.request import Scope, Send
from deployments.edge.request_log import HEADER, request_id_from

Find = Callable[[], "RequestHandler | None"]
SHORT_BYTES = 16_000
"Bodies up to here are whole before HAProxy passes them on, so their connections can be kept after any answer."
MOST_ARRIVING = (64 << 20, 1 << 30)
"Bytes of longer bodies that one process keeps before they are whole: of browsers, and of servers and agents."
HEALTH = "/-/healthz"


def middlewares() -> list[Middleware]:
    """Name the layer to Serve."""
    return [Middleware(HotLayer, find=_find_request_handler)]


class HotLayer:
    """An ASGI layer that answers hot endpoints itself.

    `find` names the door once it is open; a process without one is asked again a hundred times and then left
    alone.
    """

    def __init__(self, app: Any, find: Find, *, most_arriving: tuple[int, int] = MOST_ARRIVING) -> None:
        self._app = app
        self._find = find
        self._handler: RequestHandler | None = None
        self._tries = 100
        self._most_arriving = most_arriving
        self._arriving = [0, 0]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a hot request, or pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008, "reason": ""})
                return
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        if path.startswith("/-/") and path != HEALTH:
            await _write(unknown_path_reply(), scope, send)
            return
        if _is_long(scope):
            await self._answer_long(scope, receive, send)
        else:
            await self._answer(scope, receive, send)

    async def _answer_long(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose body may still be on its way.

        Bytes that arrived count until the answer is out. The connection ends if the answer goes out before the body
        was read, or the caller could keep it for as long as it sends the rest.
        """
        key = find_key(dict(scope["headers"]).get(KEY_HEADER), scope.get("query_string", b""))
        kind = 0 if key.startswith("kpk_") else 1
        whole, refused, taken = False, False, 0

        async def receive_counted() -> Any:
            nonlocal whole, refused, taken
            message = await receive()
            size = len(message.get("body", b""))
            if self._arriving[kind] + size > self._most_arriving[kind] and not refused:
                # Answered here, because Serve takes an exception of this function for a fault of its own.
                full = TooMany(messages.OVERLOADED, retry_after_s=1)
                await _write(reply_from_error(full, "message", request_id=""), scope, send_and_close)
                refused = True
            if refused:
                return {"type": "http.disconnect"}
            self._arriving[kind] += size
            taken += size
            whole = not message.get("more_body", False)
            return message

        async def send_and_close(message: Any) -> None:
            if refused:
                return
            if message["type"] == "http.response.start" and not whole:
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        try:
            await self._answer(scope, receive_counted, send_and_close)
        finally:
            self._arriving[kind] -= taken

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self._handler or self._find_handler()
        if handler is None:
            await self._app(scope, receive, send)
            return
        if scope["path"] == HEALTH:
            send = _ready_while_draining(send)
        match = handler.find(scope)
        endpoint = match.endpoint(scope["method"]) if match is not None else None
        if endpoint is not None and endpoint.hot:
            await handler.serve(match, scope, receive, send)
        else:
            await self._pass_on(scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request to the framework under one request id, answered once.

        Serve mints an id and appends a header of its own; it keeps the one it finds, and the second header is
        dropped here.
        """
        request_id = request_id_from(dict(scope["headers"]).get(HEADER)).encode()
        headers = [pair for pair in scope["headers"] if pair[0] != HEADER]
        scope = {**scope, "headers": [*headers, (HEADER, request_id)]}

        async def send_once(message: Any) -> None:
            if message["type"] == "http.response.start":
                seen = [pair for pair in message["headers"] if pair[0].lower() != HEADER]
                message = {**message, "headers": [*seen, (HEADER, request_id)]}
            await send(message)

        await self._app(scope, receive, send_once)

    def _find_handler(self) -> RequestHandler | None:
        if self._tries:
            self._tries -= 1
            self._handler = self._find()
        return self._handler


def _is_long(scope: Scope) -> bool:
    """May part of the body still be on its way when the request arrives here?"""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return len(value) > 5 or not value.isdigit() or int(value) > SHORT_BYTES
        if name == b"transfer-encoding":
            return True
    return False


def _ready_while_draining(send: Send) -> Send:
    """Call a replica ready for as long as it takes requests, although it is to stop.

    Serve calls it unhealthy at once, so a busy HAProxy would drop it before it knows the replica that takes its place.
    HAProxy drops it when Serve writes the new list, and the replica listens until then.
    """
    start_message: Any = None

    async def send_ready(message: Any) -> None:
        nonlocal start_message
        if message["type"] == "http.response.start" and message["status"] == 503:
            start_message = message
            return
        if start_message is not None:
            is_draining = b"DRAINING" in message.get("body", b"")
            await send({**start_message, "status": 200} if is_draining else start_message)
            start_message = None
        await send(message)

    return send_ready


async def _write(reply: Reply, scope: Scope, send: Send) -> None:
    headers = [
        reply.content_type,
        (b"content-length", b"%d" % len(reply.body)),
        (b"x-request-id", request_id_from(dict(scope["headers"]).get(HEADER)).encode()),
        cors.ORIGIN,
        cors.EXPOSE,
        *reply.headers,
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


def _find_request_handler() -> RequestHandler | None:
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
    handler = getattr(gateway, "handler", None)
    loop = getattr(gateway, "loop", None)
    return handler if isinstance(handler, RequestHandler) and loop is asyncio.get_running_loop() else None
