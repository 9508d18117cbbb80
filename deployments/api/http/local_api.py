"""Calls of the REST API from inside its process: the same request handler as for customers, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson

from cluster.deadline import run_within
from cluster.errors import Conflict, TooLarge, Unavailable
from deployments.edge.http.request import Scope

Application = Callable[[Scope, Any, Any], Awaitable[None]]

MOST_SENT = 1 << 20
"Bytes of the body of a call."
MOST_RECEIVED = 16 << 20
"Bytes of an answer."
WITHIN_S = 10.0


class LocalApi:
    """Calls endpoints as an app, with its secret key; the limits of the app hold as they do for its servers."""

    def __init__(
        self, handler: Application, secret_of: Callable[[str], str], *, within_s: float = WITHIN_S
    ) -> None:
        """`secret_of` returns a live secret key of an app, or an empty text."""
        self._handler = handler
        self._secret_of = secret_of
        self._within_s = within_s

    async def call(
        self, app_id: str, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int, Any]:
        """Return status and parsed body; `path` may have a query string.

        Errors:
            Conflict: the app has no secret key
            Unavailable: the answer took too long
            TooLarge: the body or the answer exceeds its bound
        """
        key = self._secret_of(app_id)
        if not key:
            raise Conflict(f"the app {app_id} has no live secret key; create one first")
        data = b"" if body is None else orjson.dumps(body)
        if len(data) > MOST_SENT:
            raise TooLarge(f"the body of a call is larger than {MOST_SENT >> 20} MB")
        exchange = _Exchange(data)
        scope = _build_scope(method, path, key, len(data) if body is not None else None)
        try:
            await run_within(self._handler(scope, exchange.receive, exchange.send), self._within_s)
        except asyncio.TimeoutError:
            raise Unavailable(f"the API did not answer within {self._within_s:.0f} s", told=True) from None
        return exchange.status, exchange.read_answer()


class _Exchange:
    """One request and its answer."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._is_sent = False
        self._parts: list[bytes] = []
        self._size = 0
        self.status = 503

    async def receive(self) -> dict[str, Any]:
        if self._is_sent:
            # After the body, ASGI has only the end of the client to report.
            return {"type": "http.disconnect"}
        self._is_sent = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            return
        part = bytes(message.get("body", b""))
        # Counted on beyond the bound, so that a longer answer is refused and not cut.
        self._size += len(part)
        if self._size <= MOST_RECEIVED:
            self._parts.append(part)

    def read_answer(self) -> Any:
        """Return the parsed answer; None for an empty one.

        Errors:
            TooLarge: it exceeds the bound
        """
        if self._size > MOST_RECEIVED:
            raise TooLarge(
                f"the answer is larger than {MOST_RECEIVED >> 20} MB; ask for fewer rows or fields"
            )
        text = b"".join(self._parts)
        if not text:
            return None
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return text.decode("utf-8", "replace")


def _build_scope(method: str, target: str, key: str, length: int | None) -> dict[str, Any]:
    path, _, query = target.partition("?")
    headers = [(b"x-api-key", key.encode()), (b"content-type", b"application/json")]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote_to_bytes(path).decode("utf-8", "replace"),
        "raw_path": path.encode("ascii", "replace"),
        "root_path": "",
        "query_string": query.encode("ascii", "replace"),
        "headers": headers,
        "client": None,
        "server": None,
    }
