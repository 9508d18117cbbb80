"""The HTTP side of the MCP endpoint: replies that are not JSON-RPC (401, 403, 405), origins, and the response writer.

A foreign `Origin` gets 403. A preflight (`OPTIONS` with `Origin` and `Access-Control-Request-Method`) of an allowed
origin gets 204, every other `OPTIONS` 405.
Source: Model Context Protocol 2025-06-18, Transports
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cluster.origin import WEB, canonical_origin, is_loopback
from deployments.archive.oauth.addresses import resource_metadata_of
from deployments.edge.envelope import JSON_TYPE, NO_STORE, NOSNIFF, Header, Reply, dumps
from deployments.edge.request import Send

NOT_SIGNED_IN = "valid bearer token required"
WRONG_METHOD = "Method Not Allowed"
WRONG_ORIGIN = "origin is not allowed"

_PRIVATE = (NO_STORE, NOSNIFF)
_PREFLIGHT: tuple[Header, ...] = (
    # GET and DELETE too, so that a client in a browser sees the 405 it takes for "no stream, no session".
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (
        b"access-control-allow-headers",
        b"Content-Type, Accept, Authorization, MCP-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, "
        b"Last-Event-ID",
    ),
    (b"access-control-max-age", b"86400"),
)


def unauthorized_reply(base: str) -> Reply:
    """Answer 401: clients begin their sign-in from the address it names."""
    address = resource_metadata_of(base)
    header = (b"www-authenticate", f'Bearer resource_metadata="{address}"'.encode())
    return Reply(401, _body("unauthorized", NOT_SIGNED_IN, 401, address), (header,))


def wrong_method_reply() -> Reply:
    """Answer 405; clients take it for "there is no event stream here"."""
    return Reply(405, _body("method_not_allowed", WRONG_METHOD, 405), ((b"allow", b"POST"),))


def wrong_origin_reply() -> Reply:
    """Answer 403."""
    return Reply(403, _body("forbidden", WRONG_ORIGIN, 403))


def preflight_reply() -> Reply:
    """Answer a browser that asks before it sends."""
    return Reply(204, b"", _PREFLIGHT)


def result_reply(body: bytes) -> Reply:
    """Answer 200 with JSON-RPC."""
    return Reply(200, body)


def accepted_reply() -> Reply:
    """Answer a notification: 202 and nothing else."""
    return Reply(202, b"")


@dataclass(frozen=True, slots=True)
class AllowedOrigins:
    """Which pages may call from a browser: our own, loopback, and those the configuration names."""

    allowed: frozenset[str] = frozenset()

    @classmethod
    def from_config(cls, origins: Iterable[str]) -> AllowedOrigins:
        """Take a list from the configuration."""
        return cls(frozenset(found for found in map(canonical_origin, origins) if found))

    def allows(self, origin: bytes, base: str) -> bool:
        """Compare whole origins, never beginnings of them."""
        found = canonical_origin(origin.decode("latin-1"))
        if not found:
            return False
        scheme, _, host = found.partition("://")
        return (
            found == canonical_origin(base) or found in self.allowed or (scheme in WEB and is_loopback(host))
        )


async def write(reply: Reply, method: str, origin: bytes | None, request_id: str, send: Send) -> None:
    """Send a reply; `origin` is an allowed one, which may then read it."""
    headers: list[Header] = [
        (b"content-length", b"%d" % len(reply.body)),
        (b"x-request-id", request_id.encode()),
    ]
    if reply.body:
        headers.append(JSON_TYPE)
    headers += _PRIVATE
    if origin is not None:
        headers += [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", b"WWW-Authenticate, X-Request-Id"),
        ]
    headers += [(b"vary", b"Origin"), *reply.headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else reply.body})


def _body(code: str, message: str, status: int, hint: str = "") -> bytes:
    error: dict[str, str | int] = {"code": code, "message": message, "status": status}
    if hint:
        error["hint"] = hint
    return dumps({"error": error, "message": message})
