"""The live part of the Overview: made once for many consoles, and never for people with other rights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cluster.store.ports.stores import Stores
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.overview import AppState, Overview, summarize_windows
from deployments.operations.services import AdminServices
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
