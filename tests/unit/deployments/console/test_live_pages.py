"""Live parts of pages: made once for many consoles, and never for people with other rights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from starlette.responses import Response

from cluster.store.stores import Stores
from deployments.console.page import Page
from deployments.console.pages.all_pages import PAGES
from deployments.console.request import ConsoleRequest
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.framework.services import AdminServices
from deployments.operations.insight.overview import AppState, Overview, summarize_windows
from tests.fakes.administration import add_apps
from tests.fakes.archive_oauth import an_account
from tests.fakes.console import Visitor, console_app, open_console_services
from tests.suites.manual_clock import ManualClock

HTMX = {"hx-request": "true"}


@pytest.fixture
def read() -> list[str]:
    """Who had the state of the installation read for them."""
    return []


@pytest.fixture
async def app(memory_stores: Stores, read: list[str]) -> Any:
    for name in ("ada", "ben"):
        await memory_stores.accounts.add(an_account(name, role="administrator"))
    await add_apps(memory_stores)

    async def overview(services: AdminServices, _: Any) -> Overview:
        principal = services.principal
        read.append(principal.username)
        apps = [AppState(name, 0, 0, 0, 1, 0) for name in principal.app_ids or ("shop", "news")]
        return Overview([], summarize_windows([{}, {}], 1_000_000), apps, 0, {})

    table = {**OPERATIONS, "overview.get": replace(OPERATIONS["overview.get"], call=overview)}
    return console_app(open_console_services(memory_stores, ManualClock(), operations=table))


async def test_consoles_with_the_same_rights_share_one_reading(app: Any, read: list[str]) -> None:
    visitors = [Visitor(app) for _ in range(5)]
    for number, visitor in enumerate(visitors):
        await visitor.sign_in(("ada", "ben")[number % 2])
    bodies = {(await visitor.get("/live", **HTMX)).text for visitor in visitors}
    assert len(bodies) == 1
    assert ">news<" in bodies.pop()
    assert len(read) == 1
    assert (await visitors[0].get("/live", **HTMX)).headers["cache-control"] == "no-store"


async def test_somebody_of_one_app_sees_nothing_of_another(
    app: Any, memory_stores: Stores, read: list[str]
) -> None:
    eva = an_account("eva").model_copy(update={"roles": {"shop": "viewer"}})
    await memory_stores.accounts.add(eva)
    admin, viewer = Visitor(app), Visitor(app)
    await admin.sign_in()
    await admin.get("/live", **HTMX)
    await viewer.sign_in("eva")
    page = await viewer.get("/live", **HTMX)
    assert page.status_code == 200
    assert ">shop<" in page.text
    assert ">news<" not in page.text
    assert read == ["ada", "eva"]
    assert (await Visitor(app).get("/live", **HTMX)).headers["hx-redirect"].startswith("/console/sign-in")


async def test_a_shared_part_has_the_form_token_of_each_person(memory_stores: Stores) -> None:
    rendered: list[str] = []

    async def show(request: ConsoleRequest) -> Response:
        async def read() -> dict[str, Any]:
            rendered.append(request.principal.username)
            counts = dict.fromkeys(("rows", "accepted", "refused", "failed"), 0)
            view = {"status": "running", **counts, "error": "", "is_stopping": False}
            return {"view": view, "address": "/console/ticking", "headers": {"x-part": "import"}}

        return await request.live_fragment("imports/progress.html", read, 60.0)

    async def take(request: ConsoleRequest) -> Response:
        return request.redirect("/account")

    for name in ("ada", "ben"):
        await memory_stores.accounts.add(an_account(name, role="administrator"))
    pages = (*PAGES, Page("/ticking", show), Page("/ticking/cancel", take, methods=("POST",)))
    services = open_console_services(memory_stores, ManualClock())
    app = console_app(services, pages)
    tokens = []
    for name in ("ada", "ben"):
        visitor = Visitor(app)
        await visitor.sign_in(name)
        part = await visitor.get("/ticking", **HTMX)
        assert part.headers["x-part"] == "import"
        assert services.live_token not in part.text
        assert int(part.headers["content-length"]) == len(part.content)
        tokens.append(visitor.token)
        assert (await visitor.post("/ticking/cancel")).status_code == 303
    assert len(set(tokens)) == 2
    assert rendered == ["ada"]
