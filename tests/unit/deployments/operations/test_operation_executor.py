"""One way into the administration: rights, arguments, and a row for each change."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from cluster.crypto import mint_key, mint_token
from cluster.errors import Conflict, Forbidden, NotFound, TooMany, Unavailable, Unprocessable
from cluster.log import redact
from cluster.records.administration import APP_ROLES, TOKEN_PREFIX, AppRole, AuditRow
from deployments.operations.access.audit_log import MOST_TAKEN_MS
from deployments.operations.framework.operation import OfApp, Operation
from deployments.operations.framework.operation_executor import REFUSED, Administration, redact_secrets
from deployments.operations.framework.principal import COMMAND_LINE, Principal
from tests.fakes.administration import open_memory_admin
from tests.fakes.audit_list import AuditList
from tests.fakes.dying_shelf import Killed
from tests.fakes.dying_stores import Life, mortal
from tests.fakes.stores.memory import memory_stores
from tests.suites.manual_clock import ManualClock

if TYPE_CHECKING:
    from cluster.store.connect import OpenStores


@dataclass
class Names:
    values: dict[str, str] = field(default_factory=dict)


class Rename(OfApp):
    title: str
    password: str = ""


async def rename(names: Names, given: Rename) -> dict[str, str]:
    if given.title == "taken":
        raise Conflict("the title is taken")
    names.values[given.app_id] = given.title
    return {"title": given.title, "token": "s3cret"}


async def read(names: Names, given: OfApp) -> str:
    return names.values.get(given.app_id, "")


RENAME: Operation[Names, Rename] = Operation(
    "names.rename", "Rename an app.", "editor", "POST", "/apps/{app_id}/rename", Rename, rename,
    secret_fields=frozenset({"password"}), secret_results=frozenset({"token"}), read_before=read,
)  # fmt: skip
READ: Operation[Names, OfApp] = Operation(
    "names.read", "Read the name of an app.", "viewer", "GET", "/apps/{app_id}/name", OfApp, read
)


def opened() -> tuple[Administration[Names], AuditList]:
    audit = AuditList()
    table: dict[str, Operation[Names, Any]] = {operation.name: operation for operation in (RENAME, READ)}
    return Administration(Names(), table, audit, ManualClock()), audit


def person(role: AppRole, **more: Any) -> Principal:
    return Principal("ada", "usr-1", "console", address="192.0.2.1", roles={"shop": role}, **more)


@pytest.mark.parametrize("role", APP_ROLES)
async def test_a_role_may_what_lesser_roles_may(role: AppRole) -> None:
    administration, audit = opened()
    assert await administration.perform(person(role), "names.read", {"app_id": "shop"}) == ""
    given = {"app_id": "shop", "title": "Books"}
    if role in ("editor", "owner"):
        await administration.perform(person(role), "names.rename", given)
        assert audit.rows[-1].outcome == "done"
    else:
        with pytest.raises(Forbidden, match=f"needs the role editor; your role in shop is {role}"):
            await administration.perform(person(role), "names.rename", given)
        assert audit.rows[-1].outcome == "refused"
        assert administration.services.values == {}


async def test_other_apps_and_the_ceiling_of_a_token_are_refused() -> None:
    administration, _ = opened()
    administrator = Principal(
        "root", "usr-0", "token", is_administrator=True, ceiling="viewer", apps=("shop",)
    )
    await administration.perform(administrator, "names.read", {"app_id": "shop"})
    for principal, app_id in ((administrator, "news"), (person("owner"), "news")):
        with pytest.raises(Forbidden, match="you have no role in news"):
            await administration.perform(principal, "names.read", {"app_id": app_id})
    with pytest.raises(Forbidden):
        await administration.perform(administrator, "names.rename", {"app_id": "shop", "title": "x"})
    assert not administrator.may("viewer", "")
    assert COMMAND_LINE.may("owner", "")


async def test_a_change_leaves_a_row_without_secrets() -> None:
    administration, audit = opened()
    for title in ("Books", "More books"):
        given = {"app_id": "shop", "title": title, "password": "hidden"}
        await administration.perform(person("editor"), "names.rename", given)
    row = audit.rows[-1]
    assert (row.username, row.way, row.address, row.app_id) == ("ada", "console", "192.0.2.1", "shop")
    assert row.arguments == {"app_id": "shop", "title": "More books", "password": "***"}
    assert (row.before, row.after) == ("Books", {"title": "More books", "token": "***"})
    with pytest.raises(Conflict):
        await administration.perform(person("editor"), "names.rename", {"app_id": "shop", "title": "taken"})
    assert (audit.rows[-1].outcome, audit.rows[-1].reason) == ("refused", "the title is taken")
    await administration.perform(person("editor"), "names.read", {"app_id": "shop"})
    assert len(audit.rows) == 3


@pytest.mark.parametrize("left", range(12))
async def test_a_change_without_an_end_stands_in_the_log(left: int) -> None:
    """The process dies at any call of any store, or the store goes away there."""
    clock = ManualClock()
    stores = memory_stores(clock)
    life = Life(left)
    dying = cast("OpenStores", mortal(stores, life))
    with suppress(Killed):
        await open_memory_admin(dying, clock).perform(COMMAND_LINE, "apps.create", {"app_id": "shop"})
    is_made = "shop" in (await stores.access.read_all()).apps
    clock.advance(MOST_TAKEN_MS + 1)
    admin = open_memory_admin(stores, clock)
    for _ in range(2):  # the second reader adds nothing
        rows = (await admin.perform(COMMAND_LINE, "audit.list", {})).page.rows
        assert [row.operation for row in rows] == ["apps.create"] * len(rows)
        assert len(rows) == 1 or (not rows and not is_made)
    if rows:
        assert rows[0].outcome in (("done",) if life.left else ("begun", "done"))
        assert rows[0].arguments == {"app_id": "shop"}


async def test_a_caller_hears_that_the_change_was_made_without_its_row() -> None:
    class Away(AuditList):
        async def append(self, row: AuditRow, *, begun_id: str = "", only_begun: bool = False) -> AuditRow:
            raise Unavailable("the store is away")

    administration, _ = opened()
    away = Administration(administration.services, administration.operations, Away(), ManualClock())
    with pytest.raises(Unavailable, match=r"names\.rename was done, but the store went away"):
        await away.perform(person("editor"), "names.rename", {"app_id": "shop", "title": "Books"})
    assert administration.services.values == {"shop": "Books"}


async def test_wrong_arguments_are_named() -> None:
    administration, audit = opened()
    with pytest.raises(Unprocessable, match="titel: extra inputs are not permitted") as caught:
        await administration.perform(
            person("editor"), "names.rename", {"app_id": "shop", "title": "x", "titel": "y"}
        )
    assert caught.value.facts["detail"][0]["loc"] == ["body", "titel"]
    with pytest.raises(NotFound):
        await administration.perform(person("editor"), "names.remove", {})
    assert audit.rows == []


def test_long_texts_are_cut() -> None:
    cut = redact_secrets({"text": "x" * 50_000, "password": ""}, frozenset({"password"}))
    assert len(cut["text"]) < 21_000
    assert cut["password"] == ""


def test_a_key_in_a_wrong_place_is_struck_out() -> None:
    key, token = mint_key("secret", "development"), mint_token(TOKEN_PREFIX)
    given = {"title": f"moved {key} here", "tags": [token], "link": "https://example.com/a?b=c"}
    assert redact_secrets(given, frozenset()) == {
        "title": "moved ksk_dev_*** here", "tags": ["kat_***"], "link": "https://example.com/a?b=c",
    }  # fmt: skip
    assert redact(f"Authorization {token}") == "Authorization kat_***"


async def test_a_change_leaves_its_row_although_the_caller_went_away() -> None:
    administration, audit = opened()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(names: Names, given: Rename) -> dict[str, str]:
        begun.set()
        await go_on.wait()
        return await rename(names, given)

    administration.operations = {"names.rename": replace(RENAME, call=slow)}
    given = {"app_id": "shop", "title": "Oak"}
    caller = asyncio.ensure_future(administration.perform(person("editor"), "names.rename", given))
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go_on.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert administration.services.values == {"shop": "Oak"}
    assert [(row.operation, row.outcome) for row in audit.rows] == [("names.rename", "done")]


async def test_what_somebody_may_not_do_fills_no_audit_log() -> None:
    administration, audit = opened()
    given = {"app_id": "shop", "title": "\N{SNOWMAN}" * 50_000}
    for _ in range(REFUSED.burst + 1):
        with pytest.raises(Forbidden):
            await administration.perform(person("viewer"), "names.rename", given)
    with pytest.raises(TooMany):
        await administration.perform(person("viewer"), "names.rename", given)
    assert len(audit.rows) == REFUSED.burst + 1
    assert sum(len(row.model_dump_json()) for row in audit.rows) < REFUSED.burst * 6_000
    other = replace(person("editor"), user_id="usr-2")
    await administration.perform(other, "names.rename", {"app_id": "shop", "title": "Oak"})
    assert audit.rows[-1].outcome == "done"
