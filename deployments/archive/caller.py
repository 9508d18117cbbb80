"""Who asks the archive: the account that signed in, and the client it signed in for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ArchiveCaller:
    """The bearer of a valid access token."""

    user_id: str
    "The account; what a search returned belongs to it, whichever client asked."
    client_id: str
    client_name: str
    "What the client calls itself: a stranger's text, never trusted."
    client_host: str = ""
    "Where the client's answers go: a host, or the scheme of an application; empty in grants of earlier releases."
