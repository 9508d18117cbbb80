"""The paths of OAuth, and the addresses built from them."""

from __future__ import annotations

from cluster.origin import is_loopback as is_loopback

MCP_PATH = "/mcp"
ISSUER_PATH = "/archive"
AUTHORIZE_PATH = "/oauth/authorize/archive"
CLIENTS_PATH = "/oauth/authorize/clients"
TOKEN_PATH = "/oauth/token"  # noqa: S105 - a path
REGISTER_PATH = "/oauth/register"
REVOKE_PATH = "/oauth/revoke"
RESOURCE_METADATA_PATH = "/.well-known/oauth-protected-resource"
SERVER_METADATA_PATH = "/.well-known/oauth-authorization-server"


def resource_of(origin: str) -> str:
    """Return the protected resource, for which tokens are valid."""
    return origin + MCP_PATH


def issuer_of(origin: str) -> str:
    """Return the authorization server."""
    return origin + ISSUER_PATH


def resource_metadata_of(origin: str) -> str:
    """Return the address of the resource's metadata, which every 401 contains."""
    return origin + RESOURCE_METADATA_PATH + MCP_PATH
