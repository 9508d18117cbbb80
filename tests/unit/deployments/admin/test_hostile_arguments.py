"""Every operation with values that no form sends: each is refused or taken, none breaks it or the audit log."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.store.stores import Stores
from deployments.operations.access.apps import CreateApp
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.framework.examples import example_arguments
from deployments.operations.framework.operation import Operation
from deployments.operations.framework.operation_executor import redact_secrets
from deployments.operations.framework.principal import COMMAND_LINE
from deployments.operations.framework.services import AdminConfig
from deployments.operations.open_admin import open_admin
from tests.fakes.administration import VAULT, add_apps, add_person, bearer, give_token, serve
from tests.fakes.asgi import Answer, call
from tests.suites.doing import NOW
from tests.suites.manual_clock import ManualClock

TEXTS = ("9" * 30, "-1", "NaN", "../../x", "a\u2028b\u202e", "İ", "x" * 3_000, "http://169.254.169.254/")
VALUES: tuple[Any, ...] = (10**30, 2**63, -1, 1e308, True, None, [], {}, ["x"] * 3_000, *TEXTS)
SLOW = {"people.create", "people.set_password", "overview.get"}
"They hash passwords; the overview needs a server."


def is_in_address(operation: Operation[Any, Any]) -> bool:
    """Return whether the arguments of an operation stand in the address."""
    return operation.method in ("GET", "DELETE")


async def send(app: Any, headers: dict[str, str], operation: Operation[Any, Any], given: Any) -> Answer:
    """Send an operation with arguments."""
    given, path = dict(given), operation.path
    for name in operation.path_fields:
        path = path.replace(f"{{{name}}}", quote(str(given.pop(name)), safe=""))
    if is_in_address(operation):
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in given.items())
        return await call(app, operation.method, f"/v1/admin{path}?{query}", headers=headers)
    return await call(app, operation.method, f"/v1/admin{path}", headers=headers, json=given)


async def test_no_argument_breaks_an_operation(memory_stores: Stores, tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    await add_apps(memory_stores)
    await add_person(memory_stores, "root", administrator=True)
    admin = open_admin(
        memory_stores, VAULT, clock, ArtifactStore.open(tmp_path / "a"), config=AdminConfig(data_dir=tmp_path)  # type: ignore[arg-type]
    )  # fmt: skip
    app, headers = serve(admin), bearer(await give_token(memory_stores, "root", life_ms=10**9))
    broken = []
    for operation in OPERATIONS.values():
        if operation.name in SLOW or operation.stream_field:
            continue
        arguments = {
            **example_arguments(operation),
            **({"app_id": "shop"} if "{app_id}" in operation.path else {}),
        }
        for field in set(operation.arguments.model_fields) - {"app_id"}:
            for value in TEXTS if is_in_address(operation) or field in operation.path_fields else VALUES:
                clock.advance(2_000)
                answer = await send(app, headers, operation, {**arguments, field: value})
                if answer.status >= 500 and answer.status != 503:
                    broken.append((operation.name, field, str(value)[:20], answer.status))
    assert broken == []
    assert (await memory_stores.audit.verify()).rows > 500


async def test_no_operation_changes_an_app_that_does_not_exist(memory_stores: Stores, tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    await add_person(memory_stores, "root", administrator=True)
    admin = open_admin(memory_stores, VAULT, clock, ArtifactStore.open(tmp_path))  # type: ignore[arg-type]
    app, headers = serve(admin), bearer(await give_token(memory_stores, "root", life_ms=10**9))
    statuses = {}
    for operation in OPERATIONS.values():
        if operation.changes and "{app_id}" in operation.path and not operation.stream_field:
            clock.advance(2_000)
            answer = await send(app, headers, operation, {**example_arguments(operation), "app_id": "absent"})
            statuses[operation.name] = answer.status
    assert len(statuses) > 40
    assert set(statuses.values()) == {404}, statuses


@pytest.mark.parametrize("value", [10**30, -(10**400), "\ud800", {"\udfff": 1}, [2**63, -(2**63)]])
async def test_every_value_reaches_the_audit_log(memory_stores: Stores, value: Any) -> None:
    clock = ManualClock(NOW)
    admin = open_admin(memory_stores, VAULT, clock, lambda: None)  # type: ignore[arg-type, return-value]
    row = admin._build_row(
        COMMAND_LINE, OPERATIONS["apps.create"], CreateApp(app_id="books"), "done", after={"value": value}
    )  # fmt: skip
    await memory_stores.audit.append(row)
    assert (await memory_stores.audit.verify()).rows == 1


def test_a_key_as_a_name_is_struck_out() -> None:
    key = "ksk_dev_" + "a" * 32 + "_abcdef"
    assert key not in str(redact_secrets({key: {key: 1}}, frozenset()))
