"""Answers hot endpoints in front of the framework and of Serve's request accounting.

Installed by Serve itself through `RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=deployments.api.http.hot:middlewares`, it
is the outermost layer of every HTTP process. In an API replica it answers hot endpoints itself and passes all other
requests on.

    request -> HotPathMiddleware -> RequestHandler                           hot endpoints
                      \\-> Serve -> Starlette -> RequestHandler      the rest

The layer counts no requests. `RequestHandler` and `McpEndpoint` count a request once its key is valid and its body is
complete, so clients without a key take no slot. On shutdown the HTTP server waits for all requests in flight,
also for those that Serve does not count.

The layer also answers `/-/ready`, and refuses websockets and Serve's internal paths except the health check.

Source: `docs/decisions/0002-asgi-layer-before-fastapi.md`
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.middleware import Middleware

from cluster.errors import TooMany, messages
from deployments.api.http.request_handler import RequestHandler
from deployments.edge.http.credentials import HEADER as KEY_HEADER
from deployments.edge.http.credentials import find_key
from deployments.edge.http.errors import reply_from_error, unknown_path_reply
from deployments.edge.http.replies import CORS_EXPOSE, CORS_ORIGIN, Reply
from deployments.edge.http.request import Receive, Scope
from deployments.edge.http.request_log import HEADER, Send, request_id_from
from deployments.edge.observation.readiness import PATH as READY
from deployments.edge.observation.readiness import not_open_yet

Find = Callable[[], "RequestHandler | None"]
SHORT_BYTES = 16_000
"HAProxy buffers shorter bodies, so their connections stay open after any reply."
MOST_ARRIVING = (64 << 20, 1 << 30)
"Bytes of longer, incomplete bodies that one process buffers: of publishable keys, and of all other clients."
HEALTH = "/-/healthz"


def middlewares() -> list[Middleware]:
    """Return the middlewares that Serve installs in front of its HTTP server."""
    return [Middleware(HotPathMiddleware, find=_find_request_handler)]


class HotPathMiddleware:
    """An ASGI layer that answers hot endpoints itself.

    `find` returns the request handler once it is open. After a hundred calls without a handler the layer stops
    looking for it.
    """

    def __init__(self, app: Any, find: Find, *, most_arriving: tuple[int, int] = MOST_ARRIVING) -> None:
        self._app = app
        self._find = find
        self._handler: RequestHandler | None = None
        # Not every process with this layer is an API replica; without an end, each of its requests would look
        # for a handler.
        self._tries = 100
        self._most_arriving = most_arriving
        self._arriving = [0, 0]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a hot request, or pass it to the framework."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                # 1008 is a violated policy (RFC 6455, 7.4.1). Before an accept, the server answers with 403.
                await send({"type": "websocket.close", "code": 1008, "reason": ""})
                return
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        if path == READY:
            await _write(await self._ready_reply(), scope, send)
            return
        # Serve answers `/-/routes` with the list of its applications to anybody.
        if path.startswith("/-/") and path != HEALTH:
            await _write(unknown_path_reply(), scope, send)
            return
        if _is_long(scope):
            await self._answer_long(scope, receive, send)
        else:
            await self._answer(scope, receive, send)

    async def _answer_long(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose body may be incomplete.

        Received bytes count until the reply is sent. If the reply is sent before the body is read, the connection is
        closed; otherwise the client could keep it open while it sends the rest.
        """
        key = find_key(dict(scope["headers"]).get(KEY_HEADER), scope.get("query_string", b""))
        # The form of the key is enough, because it is verified later. Every visitor has a publishable key, so
        # these bodies must not take the room of servers.
        kind = 0 if key.startswith("kpk_") else 1
        whole = False
        refused = False
        taken = 0

        async def receive_counted() -> Any:
            nonlocal whole, refused, taken
            message = await receive()
            size = len(message.get("body", b""))
            if self._arriving[kind] + size > self._most_arriving[kind] and not refused:
                # Answered here, because Serve treats an exception in this function as an internal error.
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

    async def _ready_reply(self) -> Reply:
        handler = self._handler or self._find_handler()
        if handler is None or handler.readiness is None:
            return not_open_yet()
        return await handler.readiness.reply()

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the framework with one request id.

        Serve would otherwise generate an id and append its header. It keeps an id that the request has, and this
        method removes the second header.
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
    """Return whether part of the body may still be missing when the request arrives."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            # The number of digits comes first: a client may write thousands of them.
            return len(value) > 5 or not value.isdigit() or int(value) > SHORT_BYTES
        if name == b"transfer-encoding":
            return True
    return False


def _ready_while_draining(send: Send) -> Send:
    """Report a draining replica as healthy while it accepts requests.

    Serve reports it unhealthy at once, so a busy HAProxy would drop it before it knows the new replica.
    HAProxy drops it when Serve writes the new server list, and the replica listens until then.
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
        CORS_ORIGIN,
        CORS_EXPOSE,
        *reply.headers,
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


def _find_request_handler() -> RequestHandler | None:
    """Return the request handler of this process, if it runs on this event loop.

    If Serve runs user code in another thread, its HTTP server and the gateway have different loops. Then all
    requests pass through the framework.
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
