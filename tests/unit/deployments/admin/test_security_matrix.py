"""Every operation, for every role, app and credential: who gets through is computed here from the order of roles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.records.administration import AppRole
from cluster.store.stores import Stores
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.framework.examples import example_arguments
from deployments.operations.framework.operation import Operation
from deployments.operations.framework.operation_executor import Administration
from deployments.operations.framework.services import AdminServices
from tests.fakes.administration import (
    VAULT,
    add_apps,
    add_person,
    bearer,
    give_token,
    open_memory_admin,
    serve,
)
from tests.fakes.asgi import Answer, call
from tests.suites.doing import NOW
from tests.suites.manual_clock import ManualClock

RANK: dict[AppRole, int] = {"viewer": 1, "analyst": 2, "editor": 3, "owner": 4}
FOR_EVERYBODY = {
    "apps.list", "me.get", "tokens.create", "tokens.list", "tokens.revoke", "engines.list_all", "runs.find",
    "runs.list_all", "schedules.list_all", "me.begin_second_factor", "me.change_password", "me.confirm_second_factor",
    "me.end_sessions", "me.remove_second_factor", "overview.get",
}  # fmt: skip
"Operations without a role; each keeps to what its caller may see, and has tests of that."


class Gate:
    """The HTTP application over operations that do nothing but note that they were reached."""

    def __init__(self, stores: Stores, clock: ManualClock) -> None:
        self.stores = stores
        self.clock = clock
        self.reached: list[str] = []
        admin = open_memory_admin(stores, clock)
        table = {name: self._harmless(operation) for name, operation in OPERATIONS.items()}
        self.app = serve(
            Administration(admin.services, table, stores.audit, clock, AdminServices.for_principal)
        )

    async def ask(self, operation: Operation[Any, Any], app_id: str, headers: dict[str, str]) -> Answer:
        """Send an operation's example, for an app."""
        given = example_arguments(operation)
        if "app_id" in operation.arguments.model_fields:
            given["app_id"] = app_id
        path = operation.path
        for name in operation.path_fields:
            path = path.replace(f"{{{name}}}", quote(str(given.pop(name)), safe=""))
        if operation.method in ("GET", "DELETE") or operation.stream_field:
            query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in given.items())
            return await call(self.app, operation.method, f"/v1/admin{path}?{query}", headers=headers)
        return await call(self.app, operation.method, f"/v1/admin{path}", headers=headers, json=given)

    def _harmless(self, operation: Operation[Any, Any]) -> Operation[Any, Any]:
        async def note(services: Any, given: Any) -> dict[str, bool]:
            self.reached.append(operation.name)
            return {"reached": True}

        return replace(operation, call=note, read_before=None)


@pytest.fixture
async def gate(memory_stores: Stores) -> Gate:
    await add_apps(memory_stores)
    await add_person(memory_stores, "root", administrator=True)
    for role in RANK:
        await add_person(memory_stores, role, shop=role)
    return Gate(memory_stores, ManualClock(NOW))


def expected(
    operation: Operation[Any, Any], *, rank_in: dict[str, int], installation: bool, app_id: str
) -> int:
    """Compute the status from nothing but the operation's declaration."""
    if operation.name in FOR_EVERYBODY:
        return 200
    names_app = "app_id" in operation.arguments.model_fields and operation.scope != "installation"
    if not names_app:
        return 200 if installation else 403
    return 200 if rank_in.get(app_id, 0) >= RANK[operation.role] else 403


OPERATION_NAMES = sorted(OPERATIONS)


def test_operations_for_everybody_are_few_and_listed() -> None:
    assert {name for name, operation in OPERATIONS.items() if operation.scope == "person"} == FOR_EVERYBODY


@pytest.mark.parametrize("name", OPERATION_NAMES)
async def test_a_role_reaches_what_it_may_in_its_app_and_nothing_elsewhere(gate: Gate, name: str) -> None:
    operation = OPERATIONS[name]
    for role in RANK:
        headers = bearer(await give_token(gate.stores, role))
        for app_id in ("shop", "news"):
            rank_in = {"shop": RANK[role]}
            status = expected(operation, rank_in=rank_in, installation=False, app_id=app_id)
            await _check(gate, operation, app_id, headers, status)


@pytest.mark.parametrize("name", OPERATION_NAMES)
async def test_a_token_allows_no_more_than_its_ceiling_and_its_apps(gate: Gate, name: str) -> None:
    operation = OPERATIONS[name]
    for role, rank in RANK.items():
        headers = bearer(await give_token(gate.stores, "owner", role=role))
        status = expected(operation, rank_in={"shop": rank}, installation=False, app_id="shop")
        await _check(gate, operation, "shop", headers, status)
        # An administrator with a lesser ceiling is no owner of the installation either.
        headers = bearer(await give_token(gate.stores, "root", role=role))
        for app_id in ("shop", "news"):
            both = {"shop": rank, "news": rank}
            installation = rank >= RANK[operation.role]
            status = expected(operation, rank_in=both, installation=installation, app_id=app_id)
            await _check(gate, operation, app_id, headers, status)
    headers = bearer(await give_token(gate.stores, "root", apps=("shop",)))
    for app_id in ("shop", "news"):
        status = expected(operation, rank_in={"shop": 4}, installation=False, app_id=app_id)
        await _check(gate, operation, app_id, headers, status)


@pytest.mark.parametrize("name", OPERATION_NAMES)
async def test_nobody_gets_in_without_a_valid_token(gate: Gate, name: str) -> None:
    operation, stores = OPERATIONS[name], gate.stores
    expired = await give_token(stores, "root", life_ms=0)
    revoked = await give_token(stores, "root")
    assert await stores.admin_tokens.remove(f"tok-{revoked[4:12]}")
    await add_person(stores, "locked", administrator=True)
    locked = await give_token(stores, "locked")
    await stores.accounts.update("locked", lambda account: account.model_copy(update={"disabled": True}))
    await add_person(stores, "renewed", administrator=True)
    renewed = await give_token(stores, "renewed")
    await stores.accounts.update("renewed", lambda account: account.model_copy(update={"epoch": 1}))
    gone = await add_person(stores, "gone", administrator=True)
    deleted = await give_token(stores, "gone")
    await stores.accounts.remove(gone)
    (secret,) = [
        entry.text
        for entry in await AppKeyAdmin(stores.access, VAULT).keys(app_id="shop", reveal=True)
        if entry.key.kind == "secret"
    ]
    good = await give_token(stores, "root")
    mistyped = good[:-1] + ("1" if good.endswith("0") else "0")
    refused: list[dict[str, str]] = [
        {}, bearer(expired), bearer(revoked), bearer(locked), bearer(renewed), bearer(deleted), bearer(secret),
        {"X-API-KEY": secret}, {**bearer(good), "X-API-KEY": secret}, bearer(mistyped), bearer(""),
        {"Authorization": good}, {"Authorization": f"Basic {good}"}, {"Cookie": f"kiosk_session={good}"},
    ]  # fmt: skip
    for headers in refused:
        answer = await gate.ask(operation, "shop", headers)
        assert answer.status == 401, headers
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert secret not in answer.body.decode()
    assert gate.reached == []
    assert [row async for row in stores.audit.rows()] == []


async def _check(
    gate: Gate, operation: Operation[Any, Any], app_id: str, headers: dict[str, str], status: int
) -> None:
    gate.reached.clear()
    answer = await gate.ask(operation, app_id, headers)
    assert (answer.status, gate.reached) == (status, [operation.name] if status == 200 else []), answer.body
