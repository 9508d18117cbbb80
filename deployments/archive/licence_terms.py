"""The terms of an archive for machines: in headers of its replies, in results of its tools, and as licence files.

Without terms no reply changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cluster.records.archive.archive_terms import ArchiveTerms, express_preferences, find_terms
from cluster.records.archive.rsl_document import (
    format_link,
    licence_path,
    list_file_terms,
    render_licence_file,
)
from deployments.archive.archive_apps import ArchiveApps
from deployments.edge.http.replies import Header

_NOTHING: Mapping[str, ArchiveTerms] = {}


@dataclass(frozen=True, slots=True)
class LicenceTerms:
    """The terms of one archive."""

    apps: ArchiveApps
    find_app: Callable[[], str]
    "Returns the app that agents read at present."
    resource: str
    "Address of the archive."

    def exist(self) -> bool:
        """Return whether any archive of the installation has terms."""
        return bool(self.apps.list_archive_terms())

    def list_headers(self) -> tuple[Header, ...]:
        """Return `Link` to the licence file and `Content-Usage`, for replies. Cost: 0.2 microseconds without terms."""
        if not self.apps.list_archive_terms():
            return ()
        terms = self._terms()
        if not list_file_terms(terms):
            return ()
        link: Header = (b"link", format_link(self.resource + licence_path()).encode())
        preferences = express_preferences(terms[""]) if "" in terms else ""
        return (link, (b"content-usage", preferences.encode())) if preferences else (link,)

    def describe(self, licence: str, *, only_other: bool = False) -> dict[str, str]:
        """Return address and usage preferences of the terms of an article with a licence; empty without terms.

        With `only_other`, terms that are those of the archive are left out.
        """
        if not self.exist():
            return {}
        named = find_terms(self._terms(), licence)
        if named is None or (only_other and not named[0]):
            return {}
        preferences = express_preferences(named[1])
        more = {"content_usage": preferences} if preferences else {}
        return {"license_url": self.resource + licence_path(named[0]), **more}

    def render_file(self, name: str = "") -> str | None:
        """Return a licence file by the name of its terms; None if there is none."""
        return render_licence_file(self._terms(), name)

    def _terms(self) -> Mapping[str, ArchiveTerms]:
        return self.apps.list_archive_terms().get(self.find_app(), _NOTHING)
