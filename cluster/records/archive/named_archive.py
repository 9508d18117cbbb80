"""Archives beside the default one: an app that agents read at an address of its own, with its own settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

MCP_PATH = "/mcp"
"Path of the default archive."
RESERVED_NAMES = frozenset({"server-card"})
"Apps whose address another page of `/mcp/` has."


class NamedArchive(BaseModel):
    """The settings of an app that agents read at `/mcp/{app_id}`."""

    model_config = ConfigDict(frozen=True)

    title: str
    "What the archive is called, on its pages and to agents."
    subjects: str = ""
    "What the archive covers, as agents read it; empty: nothing."
    languages: tuple[str, ...] = ()
    "ISO 639-1 codes of the languages of its articles, as agents read them."
    licence: str = "All rights reserved"
    "Licence of articles that name none of their own."
    citation: str = ""
    "A sentence added to what agents are told about citing."
    connectors: bool = False
    "Whether clients of the handshake see `search` and `fetch` too."
    teasers: bool = False
    "Whether answers name locked articles that fit a question, by title and link alone."
    includes: tuple[str, ...] = ()
    "Named archives of the same owner whose articles are searched too; one that is closed is left out."
    members_only: bool = True
    "Whether only accounts with a role in the app, and administrators, may connect agents; else all accounts may."


def why_left_out(included: NamedArchive | None, including: NamedArchive | None) -> str:
    """Return why an included archive is not searched; empty: it is."""
    if included is None:
        return "it is closed"
    # its members alone may read it; an archive that is open to every account would hand it on
    if included.members_only and (including is None or not including.members_only):
        return "it is for its members alone"
    return ""


def mcp_path(archive_id: str = "") -> str:
    """Return the path of an archive: the app of a named one, empty for the default one."""
    return f"{MCP_PATH}/{archive_id}" if archive_id else MCP_PATH


def archive_of(resource: str) -> str:
    """Return the app of a named archive from its protected resource; empty for the default archive."""
    path = resource.partition("://")[2].partition("/")[2]
    return path.removeprefix("mcp/") if path.startswith("mcp/") else ""
