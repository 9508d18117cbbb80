"""Requests of strangers that never become whole: what is sent over a connection that then says nothing more."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

READ = "/v1/recommendation/user_to_trending"
PADDING = "".join(f"X-Pad-{number}: {'p' * 1000}\r\n" for number in range(24))


def hostile_requests(public: str) -> dict[str, bytes]:
    """Give the raw bytes of the findings, and some more of their kind; `public` is a publishable key."""
    expect = "Host: x\r\nExpect: 100-continue\r\nContent-Length: 200\r\n\r\n"
    rows = {
        "expect, wrong key": f"POST /v1/search/search?api_key=nonsense HTTP/1.1\r\n{expect}",
        "GET with a length, no key": "GET /v1/search/x HTTP/1.1\r\nHost: x\r\nContent-Length: 200\r\n\r\n",
        "16.5 KB of 200 KB, no key": (
            "POST /v1/search/search HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + " " * 16_500
        ),
        "DELETE with expect, no key": f"DELETE /v1/search/search HTTP/1.1\r\n{expect}",
        "expect, browser key": f"POST {READ}?api_key={public} HTTP/1.1\r\n{expect}",
        "GET with a length, browser key": (
            f"GET {READ}?api_key={public} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
        ),
        "40 KB of 200 KB, browser key": (
            f"POST {READ}?api_key={public} HTTP/1.1\r\nHost: x\r\nUser-Agent: Mozilla/5.0\r\n"
            "Content-Length: 200000\r\n\r\n" + " " * 40_000
        ),
        "long head, browser key": (
            f"POST {READ}?api_key={public} HTTP/1.1\r\nHost: x\r\nUser-Agent: Mozilla/5.0\r\n{PADDING}"
            "Content-Length: 12000\r\n\r\n" + " " * 9_000
        ),
        "chunks without an end, browser key": (
            f"POST {READ}?api_key={public} HTTP/1.1\r\nHost: x\r\nUser-Agent: Mozilla/5.0\r\n"
            "Transfer-Encoding: chunked\r\n\r\n9c40\r\n" + " " * 40_000 + "\r\n"
        ),
        "forged secret key, wrong": f"POST {READ} HTTP/1.1\r\nX-API-KEY: ksk_dev_nonsense\r\n{expect}",
        "sign-in, 16.5 KB of 20 KB": (
            "POST /oauth/token HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n\r\n" + "a" * 16_500
        ),
        "sign-in, expect": (
            "POST /oauth/token HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 20000\r\n\r\n"
        ),
        "sign-in, long head": (
            f"POST /oauth/register HTTP/1.1\r\nHost: x\r\n{PADDING}Content-Length: 19000\r\n\r\n" + "{" * 9_000
        ),
        "archive, no token": "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + " " * 40_000,
        "upload, no key": "POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + " " * 40_000,
        "half a head": "POST /v1/users HTTP/1.1\r\nHost: x\r\nX-Slow: ",
    }  # fmt: skip
    return {name: text.encode() for name, text in rows.items()}


ROWS = (
    "expect, wrong key", "GET with a length, no key", "16.5 KB of 200 KB, no key", "DELETE with expect, no key",
    "expect, browser key", "GET with a length, browser key", "40 KB of 200 KB, browser key", "long head, browser key",
    "chunks without an end, browser key", "forged secret key, wrong", "sign-in, 16.5 KB of 20 KB", "sign-in, expect",
    "sign-in, long head", "archive, no token", "upload, no key", "half a head",
)  # fmt: skip


@contextmanager
def open_connections(port: int, raw: bytes, count: int, addresses: Sequence[str]) -> Iterator[None]:
    """Open connections from several addresses, send the same bytes over each, and nothing more."""
    with ExitStack() as stack:
        for number in range(count):
            line = stack.enter_context(socket.socket())
            line.bind((addresses[number % len(addresses)], 0))
            line.settimeout(3)
            with suppress(OSError):  # refused: that is an answer too
                line.connect(("127.0.0.1", port))
                line.sendall(raw)
        yield


def addresses(count: int) -> list[str]:
    """Name loopback addresses that are not the one honest callers use."""
    return [f"127.0.0.{2 + number}" for number in range(count)]
