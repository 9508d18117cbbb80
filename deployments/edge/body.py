"""Read a request body with a size limit.

The announced length is checked before reading, the received length while reading. A compressed body is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from cluster.errors import HouseError, Malformed, TooLarge, messages

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class ClientDisconnected(HouseError):
    """The client disconnected before its request was complete, so there is no reply."""

    code = "gone"


async def read_body(
    receive: Receive, *, announced: bytes | None, encoding: bytes | None, most_bytes: int
) -> bytes:
    """Read and return a whole body.

    Errors:
        TooLarge: the announced or received body exceeds `most_bytes`; no more than that is kept in memory
        Malformed: a compressed body (a small one may expand to any size), or a length that is not a number
        Gone: the client disconnected
    """
    if encoding and encoding.strip().lower() not in (b"", b"identity"):
        raise Malformed("Content-Encoding is not supported; send the body as it is.")
    if announced is not None:
        if not announced.isdigit():
            raise Malformed(messages.MALFORMED)
        # The first digits of a very long number are enough to refuse it.
        if len(announced) > 18 or int(announced) > most_bytes:
            raise _too_large(most_bytes)
    message = await receive()
    if message["type"] != "http.request":
        raise ClientDisconnected
    first: bytes = message.get("body", b"")
    if len(first) > most_bytes:
        raise _too_large(most_bytes)
    if not message.get("more_body", False):
        return first
    return await _read_on(receive, bytearray(first), most_bytes)


async def _read_on(receive: Receive, body: bytearray, most_bytes: int) -> bytes:
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnected
        body += message.get("body", b"")
        if len(body) > most_bytes:
            raise _too_large(most_bytes)
        if not message.get("more_body", False):
            return bytes(body)


def _too_large(most_bytes: int) -> TooLarge:
    return TooLarge(f"The request body is larger than {most_bytes >> 20} MB.")
