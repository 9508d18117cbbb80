"""The paths of OAuth, and the addresses built from them."""

from __future__ import annotations

from cluster.addresses.origin import is_loopback as is_loopback
from cluster.records.archive.named_archive import MCP_PATH as MCP_PATH
from cluster.records.archive.named_archive import archive_of as archive_of
from cluster.records.archive.named_archive import mcp_path as mcp_path

ISSUER_PATH = "/archive"
AUTHORIZE_PATH = "/oauth/authorize/archive"
CLIENTS_PATH = "/oauth/authorize/clients"
TOKEN_PATH = "/oauth/token"  # noqa: S105 - a path
REGISTER_PATH = "/oauth/register"
REVOKE_PATH = "/oauth/revoke"
RESOURCE_METADATA_PATH = "/.well-known/oauth-protected-resource"
SERVER_METADATA_PATH = "/.well-known/oauth-authorization-server"


def resource_of(origin: str, archive_id: str = "") -> str:
    """Return the protected resource, for which tokens are valid; each archive is one of its own.

    Source: RFC 8707 section 2
    """
    return origin + mcp_path(archive_id)


def issuer_of(origin: str) -> str:
    """Return the authorization server."""
    return origin + ISSUER_PATH


def resource_metadata_of(origin: str, archive_id: str = "") -> str:
    """Return the address of the resource's metadata, which every 401 contains.

    Source: RFC 9728 section 3.1
    """
    return origin + RESOURCE_METADATA_PATH + mcp_path(archive_id)
