"""Calls an ASGI application in this process: no server, no sockets."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes
    names: tuple[str, ...] = ()
    "Names of all headers as sent, repeated ones repeated."

    def json(self) -> Any:
        """Parse the body."""
        return jsonlib.loads(self.body)


class HungUp(Exception):
    """The application ended without an answer, as it may when the caller is gone."""


async def call(
    app: Any,
    method: str,
    target: str,
    *,
    headers: Mapping[str, str | bytes] | None = None,
    json: Any = None,
    body: bytes | None = None,
    chunks: Sequence[bytes] | None = None,
    hang_up: bool = False,
    client: tuple[str, int] | None = ("192.0.2.7", 40000),
) -> Answer:
    """Send one request. `target` is the raw path with its query string.

    `chunks` sends the body in pieces without a length; `hang_up` ends it with a disconnect.
    """
    path, _, query = target.partition("?")
    sent = {name.lower(): value for name, value in (headers or {}).items()}
    if json is not None:
        body = jsonlib.dumps(json).encode()
    if chunks is None:
        chunks = [body or b""]
        if body is not None:
            sent.setdefault("content-length", str(len(body)))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote_to_bytes(path).decode("utf-8", "replace"),
        "raw_path": path.encode("latin-1"),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), _bytes(value)) for name, value in sent.items()],
        "client": client,
        "server": ("127.0.0.1", 80),
    }
    arriving = iter(_messages(chunks, hang_up))
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return next(arriving, {"type": "http.disconnect"})

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    await app(scope, receive, send)
    if not messages:
        raise HungUp
    start, *rest = messages
    pairs = [(name.decode(), value.decode("latin-1")) for name, value in start["headers"]]
    whole = b"".join(message.get("body", b"") for message in rest)
    return Answer(start["status"], dict(pairs), whole, tuple(name for name, _ in pairs))


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1")


def _messages(chunks: Sequence[bytes], hang_up: bool) -> Iterable[dict[str, Any]]:
    for at, chunk in enumerate(chunks):
        more = hang_up or at + 1 < len(chunks)
        yield {"type": "http.request", "body": chunk, "more_body": more}
