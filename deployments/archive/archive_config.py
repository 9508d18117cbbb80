"""The configurations of archives: from the settings, and of named archives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from cluster.records.archive.named_archive import NamedArchive
from deployments.archive.archive_apps import ArchiveApps
from deployments.archive.citation_rules import CitationRules
from deployments.archive.licence_terms import LicenceTerms
from deployments.archive.oauth.addresses import resource_of
from deployments.archive.oauth.client_identity.clients import OAuthClient
from deployments.archive.tools import CONNECTOR_TOOLS, SUBJECTS, Tool, build_tools
from deployments.edge.http.client_address import DIRECT, ClientAddresses
from deployments.edge.http.server_origin import ServerOrigin
from deployments.sign_in.identity_provider import ProviderConfig

TITLE = "News Archive Search"
PLAYGROUND = "playground"
"The app with sample articles."


@dataclass(frozen=True, slots=True)
class ArchiveConfig:
    """The archive's part of the settings."""

    app_id: str = PLAYGROUND
    title: str = TITLE
    archive_id: str = ""
    "App of a named archive, as it stands in the path; empty for the default one."
    languages: tuple[str, ...] = ()
    "Languages of the articles, as agents read them; empty: nothing is said."
    subjects: str | None = None
    "What the archive covers, as agents read it; empty: nothing is said; None: see `covers`."
    includes: tuple[str, ...] = ()
    "Named archives whose articles are searched too."
    members_only: bool = False
    "Whether only accounts with a role in the app may read it."
    version: str = "0.1.0"
    "Release of the archive's interface, as its page names it; independent of the release of Kiosk."
    public_url: str = ""
    edge_url: str = ""
    "Origin by which browsers reach the API; empty: `public_url`."
    host: str = "127.0.0.1"
    port: int = 8000
    connectors: bool = False
    "Whether clients of the handshake see `search` and `fetch` too; clients of revision 2026-07-28 always do."
    has_teasers: bool = False
    "Whether answers name locked articles that fit a question, by title and link."
    origins: tuple[str, ...] = ()
    "Origins of pages that may call from a browser, beside this installation and loopback."
    citation: CitationRules = field(default_factory=CitationRules)
    plain_sign_in: bool = False
    "Whether users may sign in over plain http beyond loopback."
    client_addresses: ClientAddresses = DIRECT
    provider: ProviderConfig | None = None
    "The provider of identities; needs the console, to which it leads people back."
    client_documents: str = "off"
    "Which metadata documents of clients are accepted: `off`, `pinned` or `fetch`."
    pinned_clients: Mapping[str, OAuthClient] = field(default_factory=dict)
    "Clients by the address of their document, which is not fetched."
    signed_agents: str = "off"
    "Whether signatures of requests are verified, with keys fetched from agents: `off` or `fetch`."
    has_passwords: bool = True
    "Whether people may sign in with a password beside the provider."

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the tools for clients of the handshake, with the subjects of this archive."""
        return self.all_tools if self.connectors else build_tools(self.covers(self.app_id))

    @property
    def all_tools(self) -> tuple[Tool, ...]:
        """Return the tools for clients of revision 2026-07-28."""
        return (*build_tools(self.covers(self.app_id)), *CONNECTOR_TOOLS)

    def covers(self, app_id: str) -> str:
        """Return what the articles of an app cover. Without a setting only those of the playground are known."""
        if self.subjects is not None:
            return self.subjects
        return SUBJECTS if app_id == PLAYGROUND else ""

    def for_archive(self, app_id: str, archive: NamedArchive) -> ArchiveConfig:
        """Return the configuration of a named archive; what is not its own is that of the installation."""
        return replace(
            self,
            app_id=app_id,
            archive_id=app_id,
            title=archive.title,
            subjects=archive.subjects,
            languages=archive.languages,
            connectors=archive.connectors,
            includes=archive.includes,
            members_only=archive.members_only,
            citation=CitationRules(archive.licence, archive.citation),
            has_teasers=archive.teasers,
        )


@dataclass(frozen=True, slots=True)
class ArchiveConfigs:
    """The configurations that the pages of archives show."""

    config: ArchiveConfig
    apps: ArchiveApps
    addresses: ServerOrigin

    def find(self, archive_id: str) -> ArchiveConfig | None:
        """Return the configuration of an archive, the default one for an empty name; None if there is none."""
        if not archive_id:
            subjects = self.config.covers(self.apps.default_archive_app(self.config.app_id))
            return replace(self.config, subjects=subjects)
        archive = self.apps.find_archive(archive_id)
        return None if archive is None else self.config.for_archive(archive_id, archive)

    def find_terms(self, archive_id: str) -> LicenceTerms | None:
        """Return the terms of an archive for machines, the default one for an empty name; None if there is none."""
        if archive_id and self.apps.find_archive(archive_id) is None:
            return None
        find_app = (
            partial(str, archive_id)
            if archive_id
            else partial(self.apps.default_archive_app, self.config.app_id)
        )
        origin = self.addresses.public_url or self.addresses.fallback
        return LicenceTerms(self.apps, find_app, resource_of(origin, archive_id))

    def list_titles(self) -> dict[str, str]:
        """Return the titles of all archives by name, the default one first."""
        named = {app_id: archive.title for app_id, archive in self.apps.list_archives().items()}
        return {"": self.config.title, **named}
