"""Spans for requests that the request handler does not answer: MCP and the sign-in of its clients.

A span has the path of the route, never an id or a query string. Without a tracer no route is wrapped.
"""

from __future__ import annotations

from typing import Any, Final

from cluster.tracing import CURRENT, RequestTrace
from deployments.edge.http.request import Message, Receive, Scope
from deployments.edge.http.request_log import HEADER as REQUEST_ID
from deployments.edge.http.request_log import Send
from deployments.edge.observation.request_observer import HEADER as TRACEPARENT
from deployments.edge.observation.request_observer import RequestObserver

_START: Final = "http.response.start"


class TracedApp:
    """An ASGI application with a span around each request that the observer chooses."""

    def __init__(self, app: Any, path: str, observer: RequestObserver) -> None:
        self._app = app
        self._path = path
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        self._observer.untraced -= 1
        span = self._observer.start(scope["method"], self._path, headers.get(TRACEPARENT))
        if span is None:
            await self._app(scope, receive, send)
            return
        status = 500
        request_id = ""

        async def send_noted(message: Message) -> None:
            nonlocal status, request_id
            if message["type"] == _START:
                status = message["status"]
                request_id = dict(message["headers"]).get(REQUEST_ID, b"").decode("latin-1")
            await send(message)

        trace = RequestTrace(span)
        token = CURRENT.set(trace)
        error = ""
        try:
            await self._app(scope, receive, send_noted)
        except BaseException as caught:
            error = type(caught).__name__
            raise
        finally:
            trace.is_open = False
            CURRENT.reset(token)
            span.set(**{"http.response.status_code": status, "kiosk.request_id": request_id})
            span.end(error or (f"status {status}" if status >= 500 else ""))
