"""Apps, keys, people, tokens and the audit log as everybody reaches them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from cluster.crypto import is_token, key_sha256
from cluster.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable, Unprocessable
from cluster.records.account import Account, check_password
from cluster.records.administration import TOKEN_PREFIX, AdminToken, AppRole
from cluster.store.stores import Stores
from deployments.operations.framework.operation import result_to_json
from deployments.operations.framework.operation_executor import Administration
from deployments.operations.framework.principal import COMMAND_LINE, Principal, principal_of
from deployments.operations.open_admin import Admin
from tests.fakes.administration import add_apps, add_person, open_memory_admin
from tests.suites.manual_clock import ManualClock

DAY_MS = 86_400_000


@pytest.fixture
async def stores(memory_stores: Stores) -> Stores:
    await add_apps(memory_stores)
    await add_person(memory_stores, "root", administrator=True)
    await add_person(memory_stores, "ada", shop="owner")
    await add_person(memory_stores, "vera", shop="viewer", news="editor")
    return memory_stores


@pytest.fixture
def admin(stores: Stores) -> Admin:
    return open_memory_admin(stores)


@dataclass(frozen=True)
class Caller:
    """Performs operations of an administration as one principal."""

    admin: Admin
    principal: Principal

    async def perform(self, operation: str, /, **arguments: Any) -> Any:
        return await self.admin.perform(self.principal, operation, arguments)


async def load_account(admin: Admin, username: str) -> Account:
    account = await admin.services.stores.accounts.get(username)
    assert account is not None
    return account


async def sign_in(admin: Admin, username: str) -> Caller:
    account = await load_account(admin, username)
    return Caller(admin, principal_of(account, "console", address="192.0.2.1"))


async def call_with_token(admin: Admin, token: AdminToken) -> Caller:
    account = await load_account(admin, token.username)
    return Caller(admin, principal_of(account, "token", token=token))


@pytest.fixture
def operator(admin: Admin) -> Caller:
    return Caller(admin, COMMAND_LINE)


@pytest.fixture
async def root(admin: Admin) -> Caller:
    return await sign_in(admin, "root")


@pytest.fixture
async def ada(admin: Admin) -> Caller:
    return await sign_in(admin, "ada")


@pytest.fixture
async def vera(admin: Admin) -> Caller:
    return await sign_in(admin, "vera")


async def rows(stores: Stores) -> list[dict[str, Any]]:
    return [row.model_dump() async for row in stores.audit.rows()]


async def test_a_person_sees_the_apps_of_their_roles(ada: Caller, root: Caller, operator: Caller) -> None:
    for caller, expected in ((ada, ["shop"]), (root, ["news", "shop"]), (operator, ["news", "shop"])):
        assert [app.app_id for app in (await caller.perform("apps.list")).apps] == expected


async def test_a_new_app_needs_an_administrator_even_with_a_role_by_its_name(
    admin: Admin, stores: Stores, root: Caller, operator: Caller
) -> None:
    await add_person(stores, "eve", books="owner")
    limited = Principal("root", "usr-root", "token", is_administrator=True, apps=("books",))
    for caller in (await sign_in(admin, "eve"), Caller(admin, limited)):
        with pytest.raises(Forbidden):
            await caller.perform("apps.create", app_id="books")
    made = await root.perform("apps.create", app_id="books")
    assert set(made.keys) == {"secret_key", "publishable_key"}
    with pytest.raises(Invalid, match="no environment"):
        await operator.perform("apps.create", app_id="x", environment="moon")


async def test_an_app_has_a_display_name_beside_its_id(ada: Caller, vera: Caller, operator: Caller) -> None:
    await operator.perform("apps.create", app_id="geschenke-laden", display_name=" Geschenke Laden ")
    shown = (await operator.perform("apps.get", app_id="geschenke-laden")).to_dict()
    assert (shown["app_id"], shown["display_name"]) == ("geschenke-laden", "Geschenke Laden")
    named = {"app_id": "shop", "display_name": "Лавка 🎁"}
    assert (await ada.perform("apps.set_display_name", **named)).app.display_name == "Лавка 🎁"
    for wrong in ("two\nlines", "right\u202eto left"):
        with pytest.raises(Invalid):
            await ada.perform("apps.set_display_name", **named | {"display_name": wrong})
    with pytest.raises(Unprocessable):
        await ada.perform("apps.set_display_name", **named | {"display_name": "x" * 101})
    with pytest.raises(Forbidden):
        await vera.perform("apps.set_display_name", **named)
    removed = await ada.perform("apps.set_display_name", **named | {"display_name": ""})
    assert removed.to_dict()["display_name"] == ""


async def test_limits_and_switches_take_values_of_json_and_texts(stores: Stores, ada: Caller) -> None:
    await ada.perform("apps.set_limits", app_id="shop", queries_per_s=200)
    given = {"strict_user_hash": True, "confidential_fields": ["margin", "cost"], "max_engines": 3}
    for switches in (
        given,
        {"strict_user_hash": "true", "confidential_fields": "margin,cost", "max_engines": "3"},
    ):
        changed = await ada.perform("apps.set_switches", app_id="shop", switches=switches)
        content = changed.to_dict()
        assert content["strict_user_hash"] is True
        assert content["max_engines"] == 3
        assert list(content["confidential_fields"]) == ["margin", "cost"]
    limits, first, _ = await rows(stores)
    assert (limits["before"]["queries_per_s"], limits["after"]["queries_per_s"]) == (50.0, 200.0)
    assert first["before"]["strict_user_hash"] is False
    with pytest.raises(Unprocessable, match="queries_per_s"):
        await ada.perform("apps.set_limits", app_id="shop", queries_per_s=0)


async def test_keys_are_revealed_to_owners_and_only_over_a_row(
    stores: Stores, ada: Caller, vera: Caller
) -> None:
    hidden = await ada.perform("keys.list", app_id="shop")
    assert not any(entry.text for entry in hidden.entries)
    shown = await ada.perform("keys.reveal", app_id="shop")
    assert all(entry.text.startswith(("ksk_", "kpk_")) for entry in shown.entries)
    for name in ("keys.list", "keys.reveal"):
        with pytest.raises(Forbidden):
            await vera.perform(name, app_id="shop")
    assert [(row["operation"], row["outcome"]) for row in await rows(stores)] == [
        ("keys.reveal", "done"), ("keys.list", "refused"), ("keys.reveal", "refused"),
    ]  # fmt: skip


async def test_a_key_of_another_app_is_unknown(ada: Caller, operator: Caller) -> None:
    other = (await operator.perform("keys.list", app_id="news")).entries[0].key
    with pytest.raises(NotFound):
        await ada.perform("keys.revoke", app_id="shop", key_id=other.key_id)
    key = (await ada.perform("keys.list", app_id="shop")).entries[0].key
    await ada.perform("keys.revoke", app_id="shop", key_id=key.key_id)
    assert len((await ada.perform("keys.list", app_id="shop")).entries) == 1


async def test_no_secret_reaches_the_audit_log(stores: Stores, root: Caller) -> None:
    made = await root.perform("apps.create", app_id="books")
    secrets = [*made.keys.values()]
    rotated = await root.perform("keys.rotate", app_id="books", kind="both")
    secrets += rotated.keys.values()
    shown = await root.perform("keys.reveal_all")
    secrets += [entry.text for entry in shown.entries]
    leaked = next(iter(rotated.keys.values()))
    await root.perform("keys.revoke_any", key=leaked)
    grown = await root.perform("people.create", username="eve")
    given = await root.perform("people.create", username="bob", password="a long password")
    fresh = await root.perform("people.set_password", username="eve")
    await root.perform("people.set_password", username="bob", password="an even longer one")
    secrets += [grown.password, "a long password", fresh.facts["password"], "an even longer one"]
    token = await root.perform("tokens.create", name="t", role="owner")
    secrets += [token.text, token.record.sha256]
    assert given.password == ""
    assert repr(token).count("kat_") == 0
    written = json.dumps(await rows(stores))
    assert len(secrets) > 12
    for secret in secrets:
        assert secret not in written
    assert "***" in written


async def test_roles_are_granted_by_owners_of_the_app(
    admin: Admin, stores: Stores, ada: Caller, operator: Caller
) -> None:
    await add_person(stores, "bob")
    given = {"app_id": "shop", "username": "Bob", "role": "analyst"}
    assert result_to_json(await ada.perform("people.grant_role", **given))["role"] == "analyst"
    bob = await sign_in(admin, "bob")
    assert bob.principal.roles == {"shop": "analyst"}
    with pytest.raises(Forbidden):
        await bob.perform("people.grant_role", **given | {"role": "owner"})
    with pytest.raises(Forbidden):
        await ada.perform("people.grant_role", **given | {"app_id": "news"})
    for role, username, error in (
        ("king", "bob", Invalid),
        ("viewer", "nobody", NotFound),
        ("viewer", "root", NotFound),
    ):
        with pytest.raises(error):
            await ada.perform("people.grant_role", app_id="shop", username=username, role=role)
    with pytest.raises(Conflict, match="is an administrator"):
        await operator.perform("people.grant_role", **given | {"username": "root"})
    with pytest.raises(NotFound, match="no app named moon"):
        await operator.perform("people.grant_role", **given | {"app_id": "moon"})
    named = await ada.perform("people.list_of_app", app_id="shop")
    assert [user["username"] for user in named.to_dict()["users"]] == ["ada", "bob", "vera"]
    await ada.perform("people.revoke_role", app_id="shop", username="bob")
    assert (await load_account(admin, "bob")).roles == {}
    row = (await rows(stores))[-1]
    assert (row["before"], row["after"]["role"]) == ({"role": "analyst"}, None)


async def test_a_token_is_stored_as_a_hash_with_its_bounds(stores: Stores, ada: Caller) -> None:
    made = await ada.perform("tokens.create", name="report", apps=["shop"])
    assert is_token(made.text, TOKEN_PREFIX)
    stored = await stores.admin_tokens.find(key_sha256(made.text))
    assert stored == made.record
    assert (stored.username, stored.role, stored.apps) == ("ada", "viewer", ("shop",))
    assert made.text not in stored.model_dump_json()
    for days in (0, 366):
        with pytest.raises(Unprocessable, match="days"):
            await ada.perform("tokens.create", name="x", days=days)
    with pytest.raises(NotFound, match="no app named moon"):
        await ada.perform("tokens.create", name="x", apps=["moon"])
    with pytest.raises(Forbidden, match="somebody else"):
        await ada.perform("tokens.create", name="x", username="root")


@pytest.mark.parametrize(
    ("role", "apps", "allowed"),
    [
        ("viewer", ["shop"], True),
        ("analyst", ["shop"], True),
        ("editor", ["shop"], False),
        ("viewer", [], False),
    ],
)
async def test_a_token_makes_none_that_allows_more(
    admin: Admin, ada: Caller, role: AppRole, apps: list[str], allowed: bool
) -> None:
    first = await ada.perform("tokens.create", name="a", role="analyst", apps=["shop"], days=2)
    limited = await call_with_token(admin, first.record)
    given = {"name": "b", "role": role, "apps": apps, "days": 300}
    if not allowed:
        with pytest.raises(Forbidden):
            await limited.perform("tokens.create", **given)
        return
    second = await limited.perform("tokens.create", **given)
    assert second.record.expires_at == first.record.expires_at
    strong = await ada.perform("tokens.create", name="c", role="owner")
    with pytest.raises(Forbidden):
        await limited.perform("tokens.revoke", token_id=strong.record.token_id)
    await limited.perform("tokens.revoke", token_id=first.record.token_id)


async def test_a_token_takes_those_that_it_created_with_it(
    admin: Admin, stores: Stores, ada: Caller, operator: Caller
) -> None:
    given = {"name": "a", "role": "analyst"}
    other = await ada.perform("tokens.create", **given)
    stolen = await ada.perform("tokens.create", **given)
    thief = await call_with_token(admin, stolen.record)
    child = await thief.perform("tokens.create", **given)
    await (await call_with_token(admin, child.record)).perform("tokens.create", **given)
    await ada.perform("tokens.revoke", token_id=stolen.record.token_id)
    assert await stores.admin_tokens.all() == [other.record]
    # A replica may know the thief for a second longer.
    with pytest.raises(Forbidden, match="revoked meanwhile"):
        await thief.perform("tokens.create", **given)
    kept = await call_with_token(admin, other.record)
    await operator.perform("people.set_password", username="ada")
    with pytest.raises(Forbidden, match="revoked meanwhile"):
        await kept.perform("tokens.create", **given)


@pytest.mark.parametrize("name", ["people.set_password", "people.reset_second_factor"])
async def test_nobody_changes_credentials_of_their_account_without_proof(
    root: Caller, operator: Caller, name: str
) -> None:
    with pytest.raises(Forbidden, match="My account"):
        await root.perform(name, username="ROOT")
    await root.perform(name, username="ada")
    await operator.perform(name, username="root")


async def test_tokens_of_others_are_unknown_but_to_administrators(
    ada: Caller, vera: Caller, root: Caller, operator: Caller
) -> None:
    made = await ada.perform("tokens.create", name="a")
    given = {"token_id": made.record.token_id}
    assert (await vera.perform("tokens.list")).tokens == []
    with pytest.raises(Forbidden):
        await vera.perform("tokens.list", everyone=True)
    with pytest.raises(NotFound):
        await vera.perform("tokens.revoke", **given)
    assert len((await root.perform("tokens.list", everyone=True)).tokens) == 1
    await root.perform("tokens.revoke", **given)
    assert (await operator.perform("tokens.list")).tokens == []


async def test_the_command_line_names_whose_token_it_is(operator: Caller) -> None:
    with pytest.raises(Invalid, match="name the account"):
        await operator.perform("tokens.create", name="a")
    made = await operator.perform("tokens.create", name="a", username="Vera")
    assert made.record.user_id == "usr-vera"
    await operator.perform("people.lock", username="vera")
    with pytest.raises(Conflict, match="locked"):
        await operator.perform("tokens.create", name="a", username="vera")


async def test_an_account_has_a_bounded_number_of_tokens(stores: Stores) -> None:
    clock = ManualClock()
    ada = await sign_in(open_memory_admin(stores, clock), "ada")
    for _ in range(50):
        await ada.perform("tokens.create", name="a", days=1)
    with pytest.raises(Conflict, match="the most"):
        await ada.perform("tokens.create", name="a")
    clock.advance(2 * DAY_MS)
    await ada.perform("tokens.create", name="a")


async def test_a_deleted_account_leaves_no_token(stores: Stores, ada: Caller, operator: Caller) -> None:
    await ada.perform("tokens.create", name="a")
    await operator.perform("people.delete", username="ada")
    assert await stores.admin_tokens.all() == []


async def test_a_second_factor_is_reset_and_sessions_end(admin: Admin, stores: Stores, root: Caller) -> None:
    await stores.accounts.update(
        "ada", lambda stored: stored.model_copy(update={"totp": "sealed", "totp_step": 9})
    )
    listed = result_to_json(await root.perform("people.get", username="ada"))
    assert listed["second_factor"] is True
    assert "sealed" not in json.dumps(listed)
    await root.perform("people.reset_second_factor", username="ada")
    account = await load_account(admin, "ada")
    assert (account.totp, account.totp_step, account.epoch) == ("", 0, 1)


@pytest.mark.parametrize("pending", ["", "x", "é", "A" * 60])
async def test_a_second_factor_needs_the_set_up_that_was_begun(ada: Caller, pending: str) -> None:
    with pytest.raises(Invalid, match="begin again"):
        await ada.perform("me.confirm_second_factor", pending=pending, code="123456")


async def test_pages_of_the_audit_log_keep_to_their_app(ada: Caller, vera: Caller, operator: Caller) -> None:
    for number in range(3):
        await ada.perform("apps.set_limits", app_id="shop", queries_per_s=10 + number)
    await operator.perform("apps.set_limits", app_id="news", queries_per_s=10)
    page = await ada.perform("audit.list_of_app", app_id="shop", limit=2)
    assert [row.after["queries_per_s"] for row in page.page.rows] == [12.0, 11.0]
    rest = await ada.perform("audit.list_of_app", app_id="shop", cursor=page.page.next)
    assert [row.after["queries_per_s"] for row in rest.page.rows] == [10.0]
    for name, given in (
        ("audit.list", {}),
        ("audit.verify", {}),
        ("audit.export", {}),
        ("audit.list_of_app", {"app_id": "news"}),
    ):
        with pytest.raises(Forbidden):
            await ada.perform(name, **given)
    with pytest.raises(Forbidden):
        await vera.perform("audit.list_of_app", app_id="shop")
    for cursor in ("x", "99999999999999999999-0"):  # Redis takes no larger number than 2^64 - 1
        with pytest.raises(Unprocessable, match="cursor"):
            await ada.perform("audit.list_of_app", app_id="shop", cursor=cursor)


async def test_the_export_is_the_log(stores: Stores, operator: Caller) -> None:
    await operator.perform("apps.create", app_id="books")
    exported = await operator.perform("audit.export")
    whole = b"".join([chunk async for chunk in exported.chunks])
    lines = [json.loads(line) for line in whole.splitlines()]
    assert lines == json.loads(json.dumps(await rows(stores)))
    facts = (lines[0]["way"], lines[0]["username"], lines[0]["operation"])
    assert facts == ("command line", "operator", "apps.create")
    assert (await rows(stores))[-1]["operation"] == "audit.export"
    assert (await operator.perform("audit.verify")).rows == 2


async def test_me_tells_what_a_token_allows(admin: Admin, operator: Caller) -> None:
    made = await operator.perform("tokens.create", name="a", username="vera", role="analyst")
    content = (await (await call_with_token(admin, made.record)).perform("me.get")).to_dict()
    assert content["roles"] == {"news": "analyst", "shop": "viewer"}
    assert (content["administrator"], content["ceiling"]) == (False, "analyst")


async def test_passwords_are_set_and_end_sessions(admin: Admin, operator: Caller) -> None:
    await operator.perform("people.set_password", username="ada", password="a long password")
    account = await load_account(admin, "ada")
    assert account.epoch == 1
    assert check_password("a long password", account.password)


async def test_reads_of_people_leave_a_row_without_their_ids(
    admin: Admin, stores: Stores, ada: Caller
) -> None:
    given = {"app_id": "shop", "user_id": "canary-user"}
    reads: tuple[tuple[str, dict[str, Any]], ...] = (
        ("users.search", {"app_id": "shop", "text": "canary"}), ("users.get", given), ("users.export", given),
        ("questions.list", {"app_id": "shop"}),
    )  # fmt: skip
    for name, arguments in reads:
        try:
            await ada.perform(name, **arguments)
        except (NotFound, AssertionError):
            # nothing was shown; exports read artifacts, of which there are none
            continue
        row = (await rows(stores))[-1]
        facts = (row["operation"], row["username"], row["outcome"], row["after"])
        assert facts == (name, "ada", "done", None)
        assert "canary" not in json.dumps(row)
    recorded = {name for name, operation in admin.operations.items() if operation.recorded}
    assert recorded == {
        "users.search", "users.get", "users.export", "imports.refused", "questions.list", "audit.export",
    }  # fmt: skip
    assert [row["operation"] for row in await rows(stores)][-1] == "questions.list"


async def test_what_can_not_be_recorded_is_not_shown(admin: Admin, ada: Caller) -> None:
    class Away:
        async def append(self, row: object, **_: object) -> object:
            raise Unavailable("the store is away")

    blind = Administration(
        admin.services, admin.operations, Away(), ManualClock(), type(admin.services).for_principal  # type: ignore[arg-type]
    )  # fmt: skip
    with pytest.raises(Unavailable):
        await blind.perform(ada.principal, "questions.list", {"app_id": "shop"})


async def test_the_role_is_checked_before_the_arguments(admin: Admin, stores: Stores, vera: Caller) -> None:
    for name, operation in admin.operations.items():
        if operation.scope == "person" or operation.role == "viewer":
            continue
        with pytest.raises(Forbidden):
            await vera.perform(name, app_id="shop", nonsense=[1])
    row = (await rows(stores))[-1]
    assert row["outcome"] == "refused"


async def test_a_token_of_one_app_sees_no_other_tokens(admin: Admin, stores: Stores, ada: Caller) -> None:
    await add_person(stores, "ida", shop="owner", news="owner")
    ida = await sign_in(admin, "ida")
    for name, apps in (("all", []), ("shop", ["shop"]), ("news", ["news"]), ("both", ["shop", "news"])):
        await ida.perform("tokens.create", name=name, apps=apps)
    limited = Principal("ida", "usr-ida", "token", roles=ida.principal.roles, apps=("shop",))
    listed = (await Caller(admin, limited).perform("tokens.list")).to_dict()["tokens"]
    assert [token["name"] for token in listed] == ["shop"]
    assert len((await ida.perform("tokens.list")).to_dict()["tokens"]) == 4
    assert (await ada.perform("tokens.list")).to_dict()["tokens"] == []


async def test_an_owner_can_not_distinguish_accounts(ada: Caller) -> None:
    for operation in ("people.grant_role", "people.revoke_role"):
        answers = []
        for username in ("root", "nobody"):
            given = {"app_id": "shop", "username": username}
            given |= {"role": "viewer"} if operation == "people.grant_role" else {}
            with pytest.raises(NotFound) as refused:
                await ada.perform(operation, **given)
            answers.append(refused.value.message.replace(username, "X"))
        assert answers[0] == answers[1]


async def test_an_empty_log_of_an_installation_with_accounts_is_no_whole_log(operator: Caller) -> None:
    verdict = await operator.perform("audit.verify")
    assert (verdict.is_whole, verdict.reason) == (False, "there are accounts, but the log has no row")
