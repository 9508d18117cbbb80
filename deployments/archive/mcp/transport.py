"""The HTTP side of the archive: replies without JSON-RPC (401, 403, 405), origins, and writing replies.

A foreign `Origin` gets 403. A preflight (`OPTIONS` with `Origin` and `Access-Control-Request-Method`) of an allowed
origin gets 204, every other `OPTIONS` 405.
Source: Model Context Protocol 2025-06-18, Transports
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cluster.addresses.origin import WEB, canonical_origin, is_loopback
from deployments.archive.mcp.jsonrpc import RpcError, render_error
from deployments.archive.oauth.addresses import resource_metadata_of
from deployments.edge.http.replies import JSON_TYPE, NO_STORE, NOSNIFF, Header, Reply, dumps
from deployments.edge.http.request_log import Send, send_reply

NOT_SIGNED_IN = "valid bearer token required"
WRONG_METHOD = "Method Not Allowed"
WRONG_ORIGIN = "origin is not allowed"

_PRIVATE = (NO_STORE, NOSNIFF)
_PREFLIGHT: tuple[Header, ...] = (
    # GET and DELETE too, so that a browser client gets the 405 that means "no stream, no session".
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (
        b"access-control-allow-headers",
        b"Content-Type, Accept, Authorization, MCP-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, "
        b"Last-Event-ID",
    ),
    (b"access-control-max-age", b"86400"),
)


def unauthorized_reply(origin: str, archive_id: str = "") -> Reply:
    """Return a 401 with the address at which clients start their sign-in for an archive."""
    address = resource_metadata_of(origin, archive_id)
    # Without `error="invalid_token"`: the interface fixes the whole value.
    header = (b"www-authenticate", f'Bearer resource_metadata="{address}"'.encode())
    return Reply(401, _body("unauthorized", NOT_SIGNED_IN, 401, address), (header,))


def wrong_method_reply() -> Reply:
    """Return a 405, which means "no event stream" to clients."""
    return Reply(405, _body("method_not_allowed", WRONG_METHOD, 405), ((b"allow", b"POST"),))


def wrong_origin_reply() -> Reply:
    """Return a 403."""
    return Reply(403, _body("forbidden", WRONG_ORIGIN, 403))


def preflight_reply() -> Reply:
    """Return the answer to a preflight request."""
    return Reply(204, b"", _PREFLIGHT)


def result_reply(body: bytes) -> Reply:
    """Return a 200 with JSON-RPC."""
    return Reply(200, body)


def error_reply(problem: RpcError) -> Reply:
    """Return an error of JSON-RPC with its HTTP status."""
    return Reply(problem.status, render_error(problem))


def accepted_reply() -> Reply:
    """Return the answer to a notification: 202 without a body."""
    return Reply(202, b"")


@dataclass(frozen=True, slots=True)
class AllowedOrigins:
    """The origins of pages that may call from a browser: this installation, loopback, and the configured ones."""

    allowed: frozenset[str] = frozenset()

    @classmethod
    def from_config(cls, origins: Iterable[str]) -> AllowedOrigins:
        """Parse a list from the configuration."""
        return cls(frozenset(origin for origin in map(canonical_origin, origins) if origin))

    def allows(self, origin: bytes, server_origin: str) -> bool:
        """Compare whole origins, never prefixes."""
        canonical = canonical_origin(origin.decode("latin-1"))
        if not canonical:
            return False
        scheme, _, host = canonical.partition("://")
        return (
            canonical == canonical_origin(server_origin)
            or canonical in self.allowed
            or (scheme in WEB and is_loopback(host))
        )


async def write_reply(reply: Reply, method: str, origin: bytes | None, request_id: str, send: Send) -> int:
    """Send a reply and return its status; pages of `origin`, an allowed one, may then read it."""
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
    # Also without an allowed origin: a cache must not give this reply to a page of another one.
    headers += [(b"vary", b"Origin"), *reply.headers]
    return await send_reply(reply, headers, method, send)


def _body(code: str, message: str, status: int, hint: str = "") -> bytes:
    error: dict[str, str | int] = {"code": code, "message": message, "status": status}
    if hint:
        error["hint"] = hint
    return dumps({"error": error, "message": message})
