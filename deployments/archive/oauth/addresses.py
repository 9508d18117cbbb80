"""Where clients find us: one origin, from which every address in metadata, tokens and redirects is built.

A public address comes from the configuration and from nowhere else; what a request says in `Host` or
`X-Forwarded-Host` could be anybody's words, and metadata built from them would send clients to a stranger. Without
a configured one only loopback is served, and there the three spellings of it are told apart as clients compare
them: whoever came by `localhost` finds `localhost`.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.origin import is_loopback as is_loopback
from cluster.origin import parse_origin

MCP_PATH = "/mcp"
ISSUER_PATH = "/archive"
AUTHORIZE_PATH = "/oauth/authorize/archive"
CLIENTS_PATH = "/oauth/authorize/clients"
TOKEN_PATH = "/oauth/token"  # noqa: S105 - a path
REGISTER_PATH = "/oauth/register"
REVOKE_PATH = "/oauth/revoke"
RESOURCE_METADATA_PATH = "/.well-known/oauth-protected-resource"
SERVER_METADATA_PATH = "/.well-known/oauth-authorization-server"


@dataclass(frozen=True, slots=True)
class ServerAddresses:
    """Makes the origin for a request."""

    public_url: str
    "Configured origin; empty: none."
    fallback: str
    "Origin for requests whose `Host` is not loopback while none is configured."
    plain_sign_in: bool = False
    "People may sign in beyond loopback although no https origin is configured."

    @classmethod
    def from_config(
        cls, public_url: str, *, host: str = "127.0.0.1", port: int = 8000, plain_sign_in: bool = False
    ) -> ServerAddresses:
        """Check a configured origin; without one, `host` and `port` are where the doors listen.

        Errors:
            Invalid: not an origin, or plain http beyond loopback
        """
        own = host if host in ("127.0.0.1", "localhost") else "127.0.0.1"
        fallback = f"http://[::1]:{port}" if host == "::1" else f"http://{own}:{port}"
        return cls(parse_origin(public_url) if public_url else "", fallback, plain_sign_in)

    def origin_for_host(self, host: str) -> str:
        """Choose the origin for a request with this `Host` header."""
        if self.public_url:
            return self.public_url
        return f"http://{host}" if is_loopback(host) else self.fallback

    def may_sign_in(self, host: str) -> bool:
        """Say whether passwords may be typed in at this `Host`: not where they travel in the clear."""
        return bool(self.public_url) or self.plain_sign_in or is_loopback(host)


def resource_of(base: str) -> str:
    """Name the protected resource: what tokens are bound to."""
    return base + MCP_PATH


def issuer_of(base: str) -> str:
    """Name the authorization server."""
    return base + ISSUER_PATH


def resource_metadata_of(base: str) -> str:
    """Where the resource's metadata stands: the address every 401 names."""
    return base + RESOURCE_METADATA_PATH + MCP_PATH
