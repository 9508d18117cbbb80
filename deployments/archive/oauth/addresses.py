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
    """Returns the origin of a request."""

    public_url: str
    "Configured origin; empty: none."
    fallback: str
    "Origin of requests whose `Host` is not loopback while none is configured."
    plain_sign_in: bool = False
    "Whether users may sign in beyond loopback without an https origin."

    @classmethod
    def from_config(
        cls, public_url: str, *, host: str = "127.0.0.1", port: int = 8000, plain_sign_in: bool = False
    ) -> ServerAddresses:
        """Check a configured origin; without one, use `host` and `port`, on which Kiosk listens.

        Errors:
            Invalid: not an origin, or plain http beyond loopback
        """
        own = host if host in ("127.0.0.1", "localhost") else "127.0.0.1"
        fallback = f"http://[::1]:{port}" if host == "::1" else f"http://{own}:{port}"
        return cls(parse_origin(public_url) if public_url else "", fallback, plain_sign_in)

    def origin_for_host(self, host: str) -> str:
        """Return the origin for a request with this `Host` header."""
        if self.public_url:
            return self.public_url
        return f"http://{host}" if is_loopback(host) else self.fallback

    def may_sign_in(self, host: str) -> bool:
        """Return whether users may type passwords at this `Host`: not if they travel unencrypted."""
        return bool(self.public_url) or self.plain_sign_in or is_loopback(host)


def resource_of(base: str) -> str:
    """Return the protected resource, to which tokens are bound."""
    return base + MCP_PATH


def issuer_of(base: str) -> str:
    """Return the authorization server."""
    return base + ISSUER_PATH


def resource_metadata_of(base: str) -> str:
    """Return the address of the resource's metadata, which every 401 contains."""
    return base + RESOURCE_METADATA_PATH + MCP_PATH
