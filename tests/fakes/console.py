"""The console over in-memory or real stores, with a person in a browser who has no scripts."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.applications import Starlette

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.crypto import Vault
from cluster.records.administration import AppRole
from cluster.store.stores import Stores
from deployments.console.app import build_console_routes
from deployments.console.page import Page
from deployments.console.pages.all_pages import PAGES
from deployments.console.services import ConsoleServices
from deployments.edge.http.server_origin import ServerOrigin
from deployments.edge.limits.signin_limits import SignInRates
from deployments.edge.limits.token_buckets import TokenBuckets
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.framework.operation_executor import Administration
from deployments.operations.framework.services import AdminServices
from deployments.sign_in.identity_provider import IdentityProvider, ProviderConfig
from deployments.sign_in.sign_in import SignIn
from tests.fakes.archive_oauth import MASTER, PASSWORD, an_account

HTTPS = "https://shop.example.com"
_TOKEN = re.compile(r'name="csrf" value="([^"]+)"')


def no_artifacts() -> ArtifactStore:
    """Fail: nothing here reads artifacts."""
    raise AssertionError("no page of these tests reads artifacts")


def open_console_services(
    stores: Stores,
    clock: Clock,
    *,
    services: Any = None,
    operations: Mapping[str, Any] = OPERATIONS,
    audit: Any = None,
    app_ids: Iterable[str] = ("shop",),
    public_url: str = HTTPS,
    rates: SignInRates | None = None,
    provider: ProviderConfig | None = None,
    has_passwords: bool = True,
    display_name_of: Callable[[str], str] = str,
) -> ConsoleServices:
    """Open the console's services; `services` are the AdminServices of the operations."""
    vault = Vault(MASTER)
    given = services or AdminServices(stores, vault, clock, no_artifacts)  # type: ignore[arg-type]
    administration: Administration[Any] = Administration(
        given, operations, audit or stores.audit, clock, AdminServices.for_principal
    )
    sign_in = SignIn(
        stores, vault, clock, rates=rates, has_passwords=has_passwords,
        provider=None if provider is None else IdentityProvider(provider, clock),
    )  # fmt: skip
    return ConsoleServices(
        administration, stores.accounts, sign_in, TokenBuckets(clock), clock, ServerOrigin.from_config(public_url),
        app_ids=lambda: tuple(app_ids), display_name_of=display_name_of, version="0",
    )  # fmt: skip


def console_app(services: ConsoleServices, pages: Sequence[Page] = PAGES) -> Starlette:
    """Make the application of the console alone."""
    return Starlette(routes=build_console_routes(services, pages=pages))


@dataclass
class Visitor:
    """A person with a browser: keeps cookies, and sends forms with the token of the last page that had one."""

    app: Any
    origin: str = HTTPS
    http: httpx.AsyncClient = field(init=False)
    page: httpx.Response = field(init=False)
    token: str = ""
    "Proof of the forms of a session."

    def __post_init__(self) -> None:
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=self.origin)

    async def get(self, path: str, **headers: str) -> httpx.Response:
        """Open an address below `/console`."""
        return self.show(await self.http.get("/console" + path, headers=headers))

    def show(self, page: httpx.Response) -> httpx.Response:
        """Keep a page, and the token of its forms."""
        self.page = page
        match = _TOKEN.search(page.text)
        if match is not None:
            self.token = html.unescape(match[1])
        return page

    async def post(
        self, path: str, *, headers: Mapping[str, str] | None = None, **form: str
    ) -> httpx.Response:
        """Send a form."""
        data = {"csrf": self.token, **form}
        return self.show(await self.http.post("/console" + path, data=data, headers=dict(headers or {})))

    async def sign_in(
        self, username: str = "ada", password: str = PASSWORD, goal: str = "/account"
    ) -> httpx.Response:
        """Sign in, and open the page it leads to."""
        await self.get("/sign-in")
        answer = await self.post("/sign-in", username=username, password=password, next="/console" + goal)
        if answer.status_code == 303:
            return self.show(await self.http.get(answer.headers["location"]))
        return answer


async def visit_with_role(
    stores: Stores,
    clock: Clock,
    role: AppRole,
    *,
    app_id: str = "shop",
    username: str = "ada",
    **options: Any,
) -> Visitor:
    """Sign somebody in who has a role in an app; options as of `open_console_services`."""
    await stores.accounts.add(an_account(username).model_copy(update={"roles": {app_id: role}}))
    visitor = Visitor(console_app(open_console_services(stores, clock, **options)))
    page = await visitor.sign_in(username)
    assert page.status_code == 200, page.text
    return visitor
