"""The routes of the archive: everything under `/mcp`, its sign-in, and the discovery pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Protocol

from starlette.routing import BaseRoute, Route

from actors.archive.client import ArchiveClient
from cluster.clock import Clock
from cluster.secrecy import Vault
from cluster.store.stores import Stores
from deployments.archive import archive_tools, text_fence
from deployments.archive.admission import ClientAdmission
from deployments.archive.archive_tools import ArchiveTools, OffsetSigner
from deployments.archive.card import build_pages
from deployments.archive.citation import CitationRules
from deployments.archive.endpoint import McpEndpoint
from deployments.archive.methods import McpMethods
from deployments.archive.oauth.addresses import MCP_PATH
from deployments.archive.oauth.clients import OAuthClient
from deployments.archive.oauth.document_clients import DocumentClients
from deployments.archive.oauth.routes import build_oauth_routes
from deployments.archive.oauth.services import OAuthServices, open_oauth
from deployments.archive.stateless_methods import StatelessMethods
from deployments.archive.tools import CONNECTOR_TOOLS, SUBJECTS, Tool, build_tools
from deployments.archive.transport import AllowedOrigins
from deployments.archive.usage_log import UsageLog
from deployments.edge.http.client_address import DIRECT, ClientAddresses
from deployments.edge.http.request_log import AccessLog, RequestCounts
from deployments.edge.http.server_addresses import ServerAddresses
from deployments.edge.observation.request_observer import RequestObserver
from deployments.edge.observation.request_tracing import TracedApp
from deployments.sign_in.identity_provider import ProviderConfig

TITLE = "News Archive Search"


@dataclass(frozen=True, slots=True)
class ArchiveConfig:
    """The archive's part of the settings."""

    app_id: str = "playground"
    title: str = TITLE
    subjects: str = SUBJECTS
    "What the archive covers, as agents read it; empty: nothing is said."
    version: str = "0.1.0"
    "Release of the archive's interface, as its page names it; independent of the release of Kiosk."
    public_url: str = ""
    edge_url: str = ""
    "Origin by which browsers reach the API; empty: `public_url`."
    host: str = "127.0.0.1"
    port: int = 8000
    connectors: bool = False
    "Whether clients of the handshake see `search` and `fetch` too; clients of revision 2026-07-28 always do."
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
    has_passwords: bool = True
    "Whether people may sign in with a password beside the provider."

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the tools for clients of the handshake, with the subjects of this archive."""
        return self.all_tools if self.connectors else build_tools(self.subjects)

    @property
    def all_tools(self) -> tuple[Tool, ...]:
        """Return the tools for clients of revision 2026-07-28."""
        return (*build_tools(self.subjects), *CONNECTOR_TOOLS)


class ArchiveAppChoice(Protocol):
    """Knows the app that an administrator chose for agents: the keyring of a replica."""

    def archive_app(self, default: str) -> str:
        """Return the chosen app, or the default before a choice."""
        ...


@dataclass(frozen=True, slots=True)
class ArchiveServices:
    """What the archive's routes depend on, created, started and closed once per process."""

    config: ArchiveConfig
    oauth: OAuthServices
    gate: ClientAdmission
    usage: UsageLog
    endpoint: McpEndpoint

    @property
    def is_following(self) -> bool:
        """Whether revocations are followed; otherwise a token would stay valid after its end."""
        return self.oauth.bearer.is_following

    async def start(self) -> None:
        """Start to follow revocations and rules, and to write the usage log."""
        await self.oauth.bearer.start()
        await self.gate.start()
        await self.usage.start()

    async def close(self) -> None:
        """Stop, and write the remaining entries of the usage log."""
        await self.oauth.bearer.close()
        await self.gate.close()
        await self.usage.close()


def open_archive(
    stores: Stores,
    vault: Vault,
    archive: ArchiveClient,
    clock: Clock,
    config: ArchiveConfig,
    apps: ArchiveAppChoice | None = None,
    request_counts: RequestCounts | None = None,
    *,
    access_log: AccessLog | None = None,
) -> ArchiveServices:
    """Create the services; nothing runs before `start`. `apps` knows the app that agents read at present;
    None: always the one of the configuration.

    Errors:
        Invalid: the public address is invalid
    """
    addresses = ServerAddresses.from_config(
        config.public_url, host=config.host, port=config.port, plain_sign_in=config.plain_sign_in
    )
    oauth = open_oauth(
        stores, vault, clock, addresses, title=config.title, client_addresses=config.client_addresses,
        provider=config.provider, has_passwords=config.has_passwords,
        documents=DocumentClients(config.client_documents, config.pinned_clients, clock),
    )  # fmt: skip
    find_app = partial(str if apps is None else apps.archive_app, config.app_id)
    usage = UsageLog(stores.archive_calls, find_app, clock)
    gate = ClientAdmission(stores.client_rules, stores.limits, find_app, clock)
    research = ArchiveTools(
        find_app,
        archive,
        OffsetSigner(vault.derive_all(archive_tools.PURPOSE)),
        vault.derive(text_fence.PURPOSE),
        config.citation,
    )
    endpoint = McpEndpoint(
        methods=McpMethods(research, usage, title=config.title, version=config.version, tools=config.tools),
        stateless=StatelessMethods(
            research,
            usage,
            title=config.title,
            version=config.version,
            tools=config.all_tools,
        ),
        gate=gate,
        bearer=oauth.bearer,
        addresses=addresses,
        origins=AllowedOrigins.from_config(config.origins),
        clock=clock,
        request_counts=request_counts or RequestCounts(),
        access_log=access_log or AccessLog(0.0, Random()),
    )
    return ArchiveServices(config, oauth, gate, usage, endpoint)


def build_archive_routes(
    services: ArchiveServices, observer: RequestObserver | None = None
) -> list[BaseRoute]:
    """Return all routes of the archive, those of OAuth included; an observer with a tracer traces their requests."""
    paths: Iterable[str] = (MCP_PATH, MCP_PATH + "/")
    routes: list[BaseRoute] = [
        *(Route(path, endpoint=services.endpoint) for path in paths),
        *build_oauth_routes(services.oauth),
        *build_pages(services.config, services.oauth.addresses),
    ]
    if observer is not None and observer.is_tracing:
        for route in routes:
            if isinstance(route, Route):
                route.app = TracedApp(route.app, route.path, observer)
    return routes
