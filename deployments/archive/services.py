"""The routes of the archive: everything under `/mcp`, its sign-in, and the discovery pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

from starlette.routing import BaseRoute, Route

from actors.archive.client import ArchiveClient
from cluster.admin.citation_signing_keys import CitationSigningKeys
from cluster.clock import Clock
from cluster.crypto import Vault
from cluster.external_fetcher import ExternalFetcher
from cluster.meter import Meter, SilentMeter
from cluster.records.archive.archive_client import ArchiveCall
from cluster.records.archive.named_archive import NamedArchive, why_left_out
from cluster.store.stores import Stores
from deployments.archive import archive_tools, text_fence
from deployments.archive.admission import ClientAdmission
from deployments.archive.archive_apps import ArchiveApps, DefaultArchive
from deployments.archive.archive_config import ArchiveConfig, ArchiveConfigs
from deployments.archive.archive_tools import ArchiveTools, OffsetSigner
from deployments.archive.call_context import AssignQuestion, CallContexts, assign_nothing
from deployments.archive.citation_rules import CitationRules
from deployments.archive.citations import article_reads, citation_marks
from deployments.archive.citations.article_reads import ArticleReads
from deployments.archive.citations.citation_endpoints import build_citation_routes
from deployments.archive.citations.citation_marks import MarkSigner
from deployments.archive.citations.citation_tools import CitationTools
from deployments.archive.citations.visit_tracking import VisitTracker
from deployments.archive.combined_tools import CombinedTools, SourceArchive
from deployments.archive.discovery_pages import build_pages
from deployments.archive.licence_terms import LicenceTerms
from deployments.archive.mcp.endpoint import McpArchive, McpEndpoint
from deployments.archive.mcp.methods import McpMethods
from deployments.archive.mcp.stateless_methods import StatelessMethods
from deployments.archive.mcp.transport import AllowedOrigins
from deployments.archive.named_archives import ArchiveWorkers, NamedArchives
from deployments.archive.oauth.addresses import MCP_PATH, resource_of
from deployments.archive.oauth.client_identity.document_clients import DocumentClients
from deployments.archive.oauth.routes import build_oauth_routes
from deployments.archive.oauth.services import OAuthServices, open_oauth
from deployments.archive.signatures.key_directories import KeyDirectories
from deployments.archive.signatures.signed_agents import SignedAgents
from deployments.archive.usage_log import UsageLog
from deployments.edge.http.request_log import RequestLog
from deployments.edge.http.server_origin import ServerOrigin
from deployments.edge.observation.request_observer import RequestObserver
from deployments.edge.observation.request_tracing import TracedApp


@dataclass(frozen=True, slots=True)
class ArchiveServices:
    """What the archive's routes depend on, created, started and closed once per process."""

    config: ArchiveConfig
    apps: ArchiveApps
    oauth: OAuthServices
    workers: ArchiveWorkers
    "Those of the default archive."
    archives: NamedArchives
    endpoint: McpEndpoint
    visits: VisitTracker
    clock: Clock

    @property
    def is_following(self) -> bool:
        """Whether revocations are followed; otherwise a token would stay valid after its end."""
        return self.oauth.access_tokens.is_following

    async def start(self) -> None:
        """Start to follow revocations and rules, and to write the usage log."""
        await self.oauth.access_tokens.start()
        await self.workers.start()

    async def close(self) -> None:
        """Stop, and write the remaining entries of the usage log."""
        await self.oauth.access_tokens.close()
        await self.workers.close()
        await self.archives.close()


def open_archive(
    stores: Stores,
    vault: Vault,
    archive: ArchiveClient,
    clock: Clock,
    config: ArchiveConfig,
    apps: ArchiveApps | None = None,
    log: RequestLog | None = None,
    *,
    on_call: Callable[[str, ArchiveCall], None] = lambda app_id, call: None,
    assign: AssignQuestion = assign_nothing,
    meter: Meter | None = None,
    key_documents: ExternalFetcher | None = None,
) -> ArchiveServices:
    """Create the services; nothing runs before `start`. `apps` knows the apps that agents read at present;
    None: always the one of the configuration. `assign` returns the variants of a question, and `key_documents` fetches
    keys of agents.
    """
    addresses = ServerOrigin.from_config(
        config.public_url, host=config.host, port=config.port, plain_sign_in=config.plain_sign_in
    )
    apps = apps or DefaultArchive()
    oauth = open_oauth(
        stores,
        vault,
        clock,
        addresses,
        title=config.title,
        client_addresses=config.client_addresses,
        provider=config.provider,
        has_passwords=config.has_passwords,
        archives=apps,
        documents=DocumentClients(config.client_documents, config.pinned_clients, clock),
    )
    fence_key = vault.derive(text_fence.PURPOSE)
    publisher_keys = CitationSigningKeys(vault, stores.publisher_keys, clock)
    marks = MarkSigner(vault.derive_all(citation_marks.PURPOSE))
    origin = addresses.public_url or addresses.fallback
    signer = OffsetSigner(vault.derive_all(archive_tools.PURPOSE))
    builder = ToolBuilder(apps, archive, signer, fence_key, origin)

    open_workers = partial(_open_workers, stores, vault, clock, on_call, apps, meter)

    def build(config: ArchiveConfig, find_app: Callable[[], str], workers: ArchiveWorkers) -> McpArchive:
        research = builder.build(find_app, config.archive_id, config.citation, config.has_teasers)
        tools = builder.combine(research, config) if config.includes else research
        citations = CitationTools(
            find_app, archive, publisher_keys, workers.reads, fence_key, research.terms.resource, clock
        )
        contexts = CallContexts(find_app, config.archive_id, apps.settings_of, marks, origin, clock, assign)
        named = {"title": config.title, "version": config.version}
        return McpArchive(
            config.archive_id,
            McpMethods(tools, citations, workers.usage, **named, tools=config.tools, contexts=contexts),
            StatelessMethods(
                tools, citations, workers.usage, **named, tools=config.all_tools, contexts=contexts
            ),
            workers.gate,
            citations,
            research.terms,
            config.members_only,
        )

    find_default = partial(apps.default_archive_app, config.app_id)
    workers = open_workers(find_default)
    # Operators may choose another app for the default archive, and tools name what it covers.
    covering = cache(lambda subjects: build(replace(config, subjects=subjects), find_default, workers))
    archives = NamedArchives(
        lambda: covering(config.covers(find_default())),
        apps,
        # `partial(str, app_id)` returns `app_id` whenever it is called.
        lambda app_id: open_workers(partial(str, app_id)),
        lambda app_id, named, opened: build(config.for_archive(app_id, named), partial(str, app_id), opened),
    )
    endpoint = McpEndpoint(
        archives=archives,
        tokens=oauth.access_tokens,
        addresses=addresses,
        origins=AllowedOrigins.from_config(config.origins),
        clock=clock,
        log=log or RequestLog(),
        agents=_open_agents(config, stores, clock, meter or SilentMeter(), key_documents),
    )
    visits = VisitTracker(
        marks, find_default, apps, workers.usage, stores.records, config.client_addresses, clock
    )
    return ArchiveServices(config, apps, oauth, workers, archives, endpoint, visits, clock)


@dataclass(frozen=True, slots=True)
class ToolBuilder:
    """Creates the tools of archives."""

    apps: ArchiveApps
    archive: ArchiveClient
    signer: OffsetSigner
    fence_key: bytes
    origin: str

    def build(
        self, find_app: Callable[[], str], archive_id: str, rules: CitationRules, has_teasers: bool
    ) -> ArchiveTools:
        """Return the tools of an archive alone."""
        terms = LicenceTerms(self.apps, find_app, resource_of(self.origin, archive_id))
        return ArchiveTools(
            find_app, self.archive, self.signer, self.fence_key, rules, terms, has_teasers=has_teasers
        )

    def combine(self, tools: ArchiveTools, config: ArchiveConfig) -> CombinedTools:
        """Return the tools of an archive together with archives that it includes."""

        def list_included() -> list[SourceArchive]:
            # Looked up at each call: an included archive may be opened, changed or closed while this one
            # runs.
            including = self.apps.find_archive(config.archive_id)
            # Each once, although an owner may have named one twice.
            sources = [self._open_included(app_id, including) for app_id in dict.fromkeys(config.includes)]
            return [source for source in sources if source is not None]

        return CombinedTools(SourceArchive(config.app_id, config.title, tools), list_included)

    def _open_included(self, app_id: str, including: NamedArchive | None) -> SourceArchive | None:
        named = self.apps.find_archive(app_id)
        if named is None or why_left_out(named, including):
            return None
        rules = CitationRules(named.licence, named.citation)
        tools = self.build(partial(str, app_id), app_id, rules, named.teasers)
        return SourceArchive(app_id, named.title, tools)


def _open_workers(
    stores: Stores,
    vault: Vault,
    clock: Clock,
    on_call: Callable[[str, ArchiveCall], None],
    apps: ArchiveApps,
    meter: Meter | None,
    find_app: Callable[[], str],
) -> ArchiveWorkers:
    agent_key = vault.derive(article_reads.PURPOSE)
    return ArchiveWorkers(
        ClientAdmission(stores.client_rules, stores.limits, find_app, clock),
        UsageLog(stores.archive_calls, find_app, clock, on_call, apps.settings_of, meter),
        ArticleReads(stores.article_reads, find_app, agent_key, clock),
    )


def _open_agents(
    config: ArchiveConfig, stores: Stores, clock: Clock, meter: Meter, documents: ExternalFetcher | None
) -> SignedAgents | None:
    if config.signed_agents == "off":
        return None
    return SignedAgents(KeyDirectories(clock, documents), stores.grants, clock, meter)


def build_archive_routes(
    services: ArchiveServices, observer: RequestObserver | None = None
) -> list[BaseRoute]:
    """Return all routes of the archive, those of OAuth included; an observer with a tracer traces their requests."""
    named = MCP_PATH + "/{archive}"
    addresses = services.oauth.addresses
    endpoint = services.endpoint
    routes: list[BaseRoute] = [
        # First, because most calls go there, and Starlette tries the routes in their order.
        *(Route(path, endpoint=endpoint) for path in (MCP_PATH, MCP_PATH + "/")),
        *build_pages(ArchiveConfigs(services.config, services.apps, addresses), addresses),
        *build_citation_routes(services.archives, services.config.client_addresses, services.clock),
        *services.visits.build_routes(),
        # After the pages, because the name of an archive would also take the names of pages.
        *(Route(path, endpoint=endpoint) for path in (named, named + "/")),
        *build_oauth_routes(services.oauth),
    ]
    if observer is not None and observer.is_tracing:
        for route in routes:
            if isinstance(route, Route):
                route.app = TracedApp(route.app, route.path, observer)
    return routes
