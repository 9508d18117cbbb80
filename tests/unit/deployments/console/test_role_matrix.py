"""Each page and form of the console, for each role: who gets through is computed here from the order of roles."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, quote

import pytest
from starlette.responses import PlainTextResponse, Response

from cluster.records.administration import AppRole
from cluster.store.stores import Stores
from deployments.console.page import Page
from deployments.console.pages.all_pages import PAGES
from deployments.console.request import ConsoleRequest
from tests.fakes.archive_oauth import an_account
from tests.fakes.console import Visitor, console_app, open_console_services
from tests.suites.doing import NOW
from tests.suites.manual_clock import ManualClock

RANK: dict[AppRole, int] = {"viewer": 1, "analyst": 2, "editor": 3, "owner": 4}
PRIVATE = [page for page in PAGES if not page.is_public]
FOR_EVERYBODY = {
    "/", "/account", "/account/password", "/account/second-factor", "/account/second-factor/confirm",
    "/account/second-factor/remove", "/account/sessions", "/apps", "/live", "/tokens", "/tokens/revoke",
}  # fmt: skip


@dataclass
class Walk:
    """The console with pages that do nothing but note that they were reached."""

    stores: Stores
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    reached: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        services = open_console_services(self.stores, self.clock, app_ids=("shop", "news"))
        pages = [page if page.is_public else replace(page, handler=self._note) for page in PAGES]
        self.visitor = Visitor(console_app(services, pages))

    async def _note(self, request: ConsoleRequest) -> Response:
        self.reached.append(f"{request.method} {request.raw.url.path}")
        return PlainTextResponse(request.csrf)

    async def open(self, page: Page, app_id: str, proof: str) -> int:
        """Open a page or send its form; return the status."""
        self.clock.advance(2_000)
        values = {"app_id": app_id, **dict(parse_qsl(page.example.strip("-")))}
        names = page.path.replace(":path}", "}")
        path = names.format_map(_Filled(values))
        self.reached.clear()
        status = 200
        for method in page.methods:
            if method == "GET":
                answer = await self.visitor.get(path)
            else:
                headers = {"origin": self.visitor.origin, "content-type": "application/x-www-form-urlencoded"}
                answer = await self.visitor.http.request(
                    method, f"/console{path}", data={"csrf": proof}, headers=headers
                )
            status = answer.status_code
            assert bool(self.reached) is (status == 200), (page.path, method, status)
        return status


class _Filled(dict[str, str]):
    """Values of placeholders; one without an example is `x`."""

    def __missing__(self, name: str) -> str:
        return "x"

    def __getitem__(self, name: str) -> str:
        return quote(self.get(name, "x"), safe="")


@pytest.fixture
async def walk(memory_stores: Stores) -> AsyncIterator[Walk]:
    walk = Walk(memory_stores)
    yield walk
    await walk.visitor.http.aclose()


async def _sign_in(walk: Walk, roles: dict[str, AppRole], *, is_administrator: bool = False) -> str:
    account = an_account(role="administrator" if is_administrator else "reader")
    await walk.stores.accounts.add(account.model_copy(update={"roles": roles}))
    page = await walk.visitor.sign_in()
    return page.text


def _expected(page: Page, ranks: dict[str, int], app_id: str, *, is_administrator: bool) -> int:
    """Compute the status from nothing but the declaration of the page."""
    if page.role is None or is_administrator:
        return 200
    if "{app_id}" not in page.path:
        return 403
    return 200 if ranks.get(app_id, 0) >= RANK[page.role] else 403


@pytest.mark.parametrize("role", [*RANK, "administrator"])
async def test_a_role_opens_the_pages_it_may_in_its_app_and_none_elsewhere(walk: Walk, role: AppRole) -> None:
    is_administrator = role not in RANK
    proof = await _sign_in(
        walk, {} if is_administrator else {"shop": role}, is_administrator=is_administrator
    )
    ranks = {} if is_administrator else {"shop": RANK[role]}
    wrong = {}
    for page in PRIVATE:
        for app_id in ("shop", "news"):
            due = _expected(page, ranks, app_id, is_administrator=is_administrator)
            status = await walk.open(page, app_id, proof)
            if status != due:
                wrong[page.path, app_id] = status, due
    assert wrong == {}


async def test_without_a_role_nobody_opens_any_page(walk: Walk) -> None:
    assert {
        page.path: status for page in PRIVATE if (status := await walk.open(page, "shop", "")) != 303
    } == {}
    proof = await _sign_in(walk, {})
    assert {
        page.path: status for page in PRIVATE if (status := await walk.open(page, "shop", proof)) != 403
    } == {}


def test_pages_for_everybody_are_few_and_listed() -> None:
    assert len(PRIVATE) > 100
    assert {page.path for page in PRIVATE if page.role is None} == FOR_EVERYBODY
