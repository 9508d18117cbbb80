"""The session of the console opens `/v1/admin` to pages of this origin and to nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette

from cluster.store.stores import Stores
from deployments.console.app import build_console_routes
from deployments.console.session_principal import find_session_principal
from tests.fakes.administration import add_apps, open_memory_admin, serve
from tests.fakes.archive_oauth import an_account
from tests.fakes.console import HTTPS, Visitor, open_console_services
from tests.suites.manual_clock import ManualClock

LIMITS = "/v1/admin/apps/shop/limits"


@pytest.fixture(params=[HTTPS, "http://127.0.0.1:8000"])
async def visitor(memory_stores: Stores, request: pytest.FixtureRequest) -> Visitor:
    """Somebody who is signed in, over https or over loopback."""
    await add_apps(memory_stores)
    await memory_stores.accounts.add(an_account().model_copy(update={"roles": {"shop": "owner"}}))
    clock = ManualClock()
    public_url = HTTPS if request.param == HTTPS else ""
    services = open_console_services(memory_stores, clock, public_url=public_url)
    http = serve(open_memory_admin(memory_stores, clock), find_session_principal(services))
    visitor = Visitor(Starlette(routes=[*http.routes, *build_console_routes(services)]), origin=request.param)
    await visitor.sign_in()
    return visitor


async def change(visitor: Visitor, **headers: str) -> Any:
    """Change limits over the session."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await visitor.http.patch(LIMITS, json={"queries_per_s": 3}, headers=named)


async def test_a_page_reads_and_changes_as_the_person(visitor: Visitor, memory_stores: Stores) -> None:
    me = (await visitor.http.get("/v1/admin/me")).json()["data"]
    assert (me["username"], me["way"], me["roles"]) == ("ada", "console", {"shop": "owner"})
    await visitor.get("/account")
    done = await change(visitor, x_csrf_token=visitor.token)
    assert done.status_code == 200, done.text
    rows = [(row.operation, row.way) async for row in memory_stores.audit.rows()]
    assert rows == [("session.begin", "console"), ("apps.set_limits", "console")]
    assert (await visitor.http.get("/v1/admin/audit")).status_code == 403


async def test_no_other_site_changes_anything(visitor: Visitor, memory_stores: Stores) -> None:
    await visitor.get("/account")
    token = visitor.token
    for headers in (
        {}, {"x_csrf_token": "x" * 43}, {"x_csrf_token": token, "origin": "https://evil.example"},
        {"x_csrf_token": token, "sec_fetch_site": "cross-site"},
    ):  # fmt: skip
        assert (await change(visitor, **headers)).status_code == 403, headers
    assert [row.operation async for row in memory_stores.audit.rows()] == ["session.begin"]


async def test_a_session_ends_with_the_password(visitor: Visitor, memory_stores: Stores) -> None:
    assert (await visitor.http.get("/v1/admin/me")).status_code == 200
    await memory_stores.accounts.update(
        "ada", lambda account: account.model_copy(update={"epoch": account.epoch + 1})
    )
    assert (await visitor.http.get("/v1/admin/me")).status_code == 401
