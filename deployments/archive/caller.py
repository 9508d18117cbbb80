"""The caller of the archive: the account that signed in, and its client."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ArchiveCaller:
    """The holder of a valid access token."""

    user_id: str
    "The account; search results belong to it, whatever the client."
    client_id: str
    client_name: str
    "The name that the client gave itself; never trusted."
    client_host: str = ""
    "Target of the client's redirect: a host, or the scheme of an application; empty in grants of earlier releases."
