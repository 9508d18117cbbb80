"""Apps, keys, people, tokens and the audit log as everybody reaches them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable, Unprocessable
from cluster.records.account import check_password
from cluster.records.administration import TOKEN_PREFIX, AppRole
from cluster.secrecy import is_token, key_sha256
from cluster.store.stores import Stores
from deployments.operations.frame.operation import result_to_json
from deployments.operations.frame.operation_executor import Administration
from deployments.operations.frame.principal import COMMAND_LINE, Principal, principal_of
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


async def person(stores: Stores, username: str) -> Principal:
    account = await stores.accounts.get(username)
    assert account is not None
    return principal_of(account, "console", address="192.0.2.1")


async def rows(stores: Stores) -> list[dict[str, Any]]:
    return [row.model_dump() async for row in stores.audit.rows()]


async def test_a_person_sees_the_apps_of_their_roles(stores: Stores, admin: Admin) -> None:
    async def listed(who: Principal) -> list[str]:
        return [app.app_id for app in (await admin.perform(who, "apps.list", {})).apps]

    assert await listed(await person(stores, "ada")) == ["shop"]
    assert await listed(await person(stores, "root")) == ["news", "shop"]
    assert await listed(COMMAND_LINE) == ["news", "shop"]


async def test_a_new_app_needs_an_administrator_even_with_a_role_by_its_name(
    stores: Stores, admin: Admin
) -> None:
    await add_person(stores, "eve", books="owner")
    limited = Principal("root", "usr-root", "token", is_administrator=True, apps=("books",))
    for who in (await person(stores, "eve"), limited):
        with pytest.raises(Forbidden):
            await admin.perform(who, "apps.create", {"app_id": "books"})
    made = await admin.perform(await person(stores, "root"), "apps.create", {"app_id": "books"})
    assert set(made.keys) == {"secret_key", "publishable_key"}
    with pytest.raises(Invalid, match="no environment"):
        await admin.perform(COMMAND_LINE, "apps.create", {"app_id": "x", "environment": "moon"})


async def test_an_app_has_a_display_name_beside_its_id(stores: Stores, admin: Admin) -> None:
    given = {"app_id": "geschenke-laden", "display_name": " Geschenke Laden "}
    await admin.perform(COMMAND_LINE, "apps.create", given)
    shown = (await admin.perform(COMMAND_LINE, "apps.get", {"app_id": "geschenke-laden"})).to_dict()
    assert (shown["app_id"], shown["display_name"]) == ("geschenke-laden", "Geschenke Laden")
    ada = await person(stores, "ada")
    named = {"app_id": "shop", "display_name": "Лавка 🎁"}
    assert (await admin.perform(ada, "apps.set_display_name", named)).app.display_name == "Лавка 🎁"
    for wrong in ("two\nlines", "right\u202eto left"):
        with pytest.raises(Invalid):
            await admin.perform(ada, "apps.set_display_name", {**named, "display_name": wrong})
    with pytest.raises(Unprocessable):
        await admin.perform(ada, "apps.set_display_name", {**named, "display_name": "x" * 101})
    with pytest.raises(Forbidden):
        await admin.perform(await person(stores, "vera"), "apps.set_display_name", named)
    removed = await admin.perform(ada, "apps.set_display_name", {**named, "display_name": ""})
    assert removed.to_dict()["display_name"] == ""


async def test_limits_and_switches_take_values_of_json_and_texts(stores: Stores, admin: Admin) -> None:
    ada = await person(stores, "ada")
    await admin.perform(ada, "apps.set_limits", {"app_id": "shop", "queries_per_s": 200})
    given = {"strict_user_hash": True, "confidential_fields": ["margin", "cost"], "max_engines": 3}
    for switches in (
        given,
        {"strict_user_hash": "true", "confidential_fields": "margin,cost", "max_engines": "3"},
    ):
        changed = await admin.perform(ada, "apps.set_switches", {"app_id": "shop", "switches": switches})
        content = changed.to_dict()
        assert content["strict_user_hash"] is True
        assert content["max_engines"] == 3
        assert list(content["confidential_fields"]) == ["margin", "cost"]
    limits, first, _ = await rows(stores)
    assert (limits["before"]["queries_per_s"], limits["after"]["queries_per_s"]) == (50.0, 200.0)
    assert first["before"]["strict_user_hash"] is False
    with pytest.raises(Unprocessable, match="queries_per_s"):
        await admin.perform(ada, "apps.set_limits", {"app_id": "shop", "queries_per_s": 0})


async def test_keys_are_revealed_to_owners_and_only_over_a_row(stores: Stores, admin: Admin) -> None:
    ada, vera = await person(stores, "ada"), await person(stores, "vera")
    hidden = await admin.perform(ada, "keys.list", {"app_id": "shop"})
    assert not any(entry.text for entry in hidden.entries)
    shown = await admin.perform(ada, "keys.reveal", {"app_id": "shop"})
    assert all(entry.text.startswith(("ksk_", "kpk_")) for entry in shown.entries)
    for name in ("keys.list", "keys.reveal"):
        with pytest.raises(Forbidden):
            await admin.perform(vera, name, {"app_id": "shop"})
    assert [(row["operation"], row["outcome"]) for row in await rows(stores)] == [
        ("keys.reveal", "done"), ("keys.list", "refused"), ("keys.reveal", "refused"),
    ]  # fmt: skip


async def test_a_key_of_another_app_is_unknown(stores: Stores, admin: Admin) -> None:
    ada = await person(stores, "ada")
    other = (await admin.perform(COMMAND_LINE, "keys.list", {"app_id": "news"})).entries[0].key
    with pytest.raises(NotFound):
        await admin.perform(ada, "keys.revoke", {"app_id": "shop", "key_id": other.key_id})
    key = (await admin.perform(ada, "keys.list", {"app_id": "shop"})).entries[0].key
    await admin.perform(ada, "keys.revoke", {"app_id": "shop", "key_id": key.key_id})
    assert len((await admin.perform(ada, "keys.list", {"app_id": "shop"})).entries) == 1


async def test_no_secret_reaches_the_audit_log(stores: Stores, admin: Admin) -> None:
    root, secrets = await person(stores, "root"), []
    made = await admin.perform(root, "apps.create", {"app_id": "books"})
    secrets += made.keys.values()
    rotated = await admin.perform(root, "keys.rotate", {"app_id": "books", "kind": "both"})
    secrets += rotated.keys.values()
    shown = await admin.perform(root, "keys.reveal_all", {})
    secrets += [entry.text for entry in shown.entries]
    leaked = next(iter(rotated.keys.values()))
    await admin.perform(root, "keys.revoke_any", {"key": leaked})
    grown = await admin.perform(root, "people.create", {"username": "eve"})
    given = await admin.perform(root, "people.create", {"username": "bob", "password": "a long password"})
    fresh = await admin.perform(root, "people.set_password", {"username": "eve"})
    await admin.perform(root, "people.set_password", {"username": "bob", "password": "an even longer one"})
    secrets += [grown.password, "a long password", fresh.facts["password"], "an even longer one"]
    token = await admin.perform(root, "tokens.create", {"name": "t", "role": "owner"})
    secrets += [token.text, token.record.sha256]
    assert given.password == ""
    assert repr(token).count("kat_") == 0
    written = json.dumps(await rows(stores))
    assert len(secrets) > 12
    for secret in secrets:
        assert secret not in written
    assert "***" in written


async def test_roles_are_granted_by_owners_of_the_app(stores: Stores, admin: Admin) -> None:
    ada = await person(stores, "ada")
    await add_person(stores, "bob")
    given = {"app_id": "shop", "username": "Bob", "role": "analyst"}
    assert result_to_json(await admin.perform(ada, "people.grant_role", given))["role"] == "analyst"
    bob = await person(stores, "bob")
    assert bob.roles == {"shop": "analyst"}
    with pytest.raises(Forbidden):
        await admin.perform(bob, "people.grant_role", {**given, "role": "owner"})
    with pytest.raises(Forbidden):
        await admin.perform(ada, "people.grant_role", {**given, "app_id": "news"})
    for role, username, error in (
        ("king", "bob", Invalid),
        ("viewer", "nobody", NotFound),
        ("viewer", "root", NotFound),
    ):
        with pytest.raises(error):
            await admin.perform(
                ada, "people.grant_role", {"app_id": "shop", "username": username, "role": role}
            )
    with pytest.raises(Conflict, match="is an administrator"):
        await admin.perform(COMMAND_LINE, "people.grant_role", {**given, "username": "root"})
    with pytest.raises(NotFound, match="no app named moon"):
        await admin.perform(COMMAND_LINE, "people.grant_role", {**given, "app_id": "moon"})
    named = await admin.perform(ada, "people.list_of_app", {"app_id": "shop"})
    assert [user["username"] for user in named.to_dict()["users"]] == ["ada", "bob", "vera"]
    await admin.perform(ada, "people.revoke_role", {"app_id": "shop", "username": "bob"})
    assert (await person(stores, "bob")).roles == {}
    row = (await rows(stores))[-1]
    assert (row["before"], row["after"]["role"]) == ({"role": "analyst"}, None)


async def test_a_token_is_stored_as_a_hash_with_its_bounds(stores: Stores, admin: Admin) -> None:
    ada = await person(stores, "ada")
    made = await admin.perform(ada, "tokens.create", {"name": "report", "apps": ["shop"]})
    assert is_token(made.text, TOKEN_PREFIX)
    stored = await stores.admin_tokens.find(key_sha256(made.text))
    assert stored == made.record
    assert (stored.username, stored.role, stored.apps) == ("ada", "viewer", ("shop",))
    assert made.text not in stored.model_dump_json()
    for days in (0, 366):
        with pytest.raises(Unprocessable, match="days"):
            await admin.perform(ada, "tokens.create", {"name": "x", "days": days})
    with pytest.raises(NotFound, match="no app named moon"):
        await admin.perform(ada, "tokens.create", {"name": "x", "apps": ["moon"]})
    with pytest.raises(Forbidden, match="somebody else"):
        await admin.perform(ada, "tokens.create", {"name": "x", "username": "root"})


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
    stores: Stores, admin: Admin, role: AppRole, apps: list[str], allowed: bool
) -> None:
    account = await stores.accounts.get("ada")
    assert account is not None
    first = await admin.perform(
        await person(stores, "ada"),
        "tokens.create",
        {"name": "a", "role": "analyst", "apps": ["shop"], "days": 2},
    )
    principal = principal_of(account, "token", token=first.record)
    given = {"name": "b", "role": role, "apps": apps, "days": 300}
    if not allowed:
        with pytest.raises(Forbidden):
            await admin.perform(principal, "tokens.create", given)
        return
    second = await admin.perform(principal, "tokens.create", given)
    assert second.record.expires_at == first.record.expires_at
    strong = await admin.perform(await person(stores, "ada"), "tokens.create", {"name": "c", "role": "owner"})
    with pytest.raises(Forbidden):
        await admin.perform(principal, "tokens.revoke", {"token_id": strong.record.token_id})
    await admin.perform(principal, "tokens.revoke", {"token_id": first.record.token_id})


async def test_a_token_takes_those_that_it_created_with_it(stores: Stores, admin: Admin) -> None:
    account = await stores.accounts.get("ada")
    assert account is not None
    ada, given = await person(stores, "ada"), {"name": "a", "role": "analyst"}
    other = await admin.perform(ada, "tokens.create", given)
    stolen = await admin.perform(ada, "tokens.create", given)
    thief = principal_of(account, "token", token=stolen.record)
    child = await admin.perform(thief, "tokens.create", given)
    await admin.perform(principal_of(account, "token", token=child.record), "tokens.create", given)
    await admin.perform(ada, "tokens.revoke", {"token_id": stolen.record.token_id})
    assert await stores.admin_tokens.all() == [other.record]
    # A replica may know the thief for a second longer.
    with pytest.raises(Forbidden, match="revoked meanwhile"):
        await admin.perform(thief, "tokens.create", given)
    kept = principal_of(account, "token", token=other.record)
    await admin.perform(COMMAND_LINE, "people.set_password", {"username": "ada"})
    with pytest.raises(Forbidden, match="revoked meanwhile"):
        await admin.perform(kept, "tokens.create", given)


@pytest.mark.parametrize("name", ["people.set_password", "people.reset_second_factor"])
async def test_nobody_changes_credentials_of_their_account_without_proof(
    stores: Stores, admin: Admin, name: str
) -> None:
    root = await person(stores, "root")
    with pytest.raises(Forbidden, match="My account"):
        await admin.perform(root, name, {"username": "ROOT"})
    await admin.perform(root, name, {"username": "ada"})
    await admin.perform(COMMAND_LINE, name, {"username": "root"})


async def test_tokens_of_others_are_unknown_but_to_administrators(stores: Stores, admin: Admin) -> None:
    ada, vera, root = [await person(stores, name) for name in ("ada", "vera", "root")]
    made = await admin.perform(ada, "tokens.create", {"name": "a"})
    given = {"token_id": made.record.token_id}
    assert (await admin.perform(vera, "tokens.list", {})).tokens == []
    with pytest.raises(Forbidden):
        await admin.perform(vera, "tokens.list", {"everyone": True})
    with pytest.raises(NotFound):
        await admin.perform(vera, "tokens.revoke", given)
    assert len((await admin.perform(root, "tokens.list", {"everyone": True})).tokens) == 1
    await admin.perform(root, "tokens.revoke", given)
    assert (await admin.perform(COMMAND_LINE, "tokens.list", {})).tokens == []


async def test_the_command_line_names_whose_token_it_is(stores: Stores, admin: Admin) -> None:
    with pytest.raises(Invalid, match="name the account"):
        await admin.perform(COMMAND_LINE, "tokens.create", {"name": "a"})
    made = await admin.perform(COMMAND_LINE, "tokens.create", {"name": "a", "username": "Vera"})
    assert made.record.user_id == "usr-vera"
    await admin.perform(COMMAND_LINE, "people.lock", {"username": "vera"})
    with pytest.raises(Conflict, match="locked"):
        await admin.perform(COMMAND_LINE, "tokens.create", {"name": "a", "username": "vera"})


async def test_an_account_has_a_bounded_number_of_tokens(stores: Stores) -> None:
    clock = ManualClock()
    admin = open_memory_admin(stores, clock)
    ada = await person(stores, "ada")
    for _ in range(50):
        await admin.perform(ada, "tokens.create", {"name": "a", "days": 1})
    with pytest.raises(Conflict, match="the most"):
        await admin.perform(ada, "tokens.create", {"name": "a"})
    clock.advance(2 * DAY_MS)
    await admin.perform(ada, "tokens.create", {"name": "a"})


async def test_a_deleted_account_leaves_no_token(stores: Stores, admin: Admin) -> None:
    await admin.perform(await person(stores, "ada"), "tokens.create", {"name": "a"})
    await admin.perform(COMMAND_LINE, "people.delete", {"username": "ada"})
    assert await stores.admin_tokens.all() == []


async def test_a_second_factor_is_reset_and_sessions_end(stores: Stores, admin: Admin) -> None:
    await stores.accounts.update(
        "ada", lambda stored: stored.model_copy(update={"totp": "sealed", "totp_step": 9})
    )
    root = await person(stores, "root")
    listed = result_to_json(await admin.perform(root, "people.get", {"username": "ada"}))
    assert listed["second_factor"] is True
    assert "sealed" not in json.dumps(listed)
    await admin.perform(root, "people.reset_second_factor", {"username": "ada"})
    account = await stores.accounts.get("ada")
    assert account is not None
    assert (account.totp, account.totp_step, account.epoch) == ("", 0, 1)


@pytest.mark.parametrize("pending", ["", "x", "é", "A" * 60])
async def test_a_second_factor_needs_the_set_up_that_was_begun(
    stores: Stores, admin: Admin, pending: str
) -> None:
    ada = await person(stores, "ada")
    with pytest.raises(Invalid, match="begin again"):
        await admin.perform(ada, "me.confirm_second_factor", {"pending": pending, "code": "123456"})


async def test_pages_of_the_audit_log_keep_to_their_app(stores: Stores, admin: Admin) -> None:
    ada, vera = await person(stores, "ada"), await person(stores, "vera")
    for number in range(3):
        await admin.perform(ada, "apps.set_limits", {"app_id": "shop", "queries_per_s": 10 + number})
    await admin.perform(COMMAND_LINE, "apps.set_limits", {"app_id": "news", "queries_per_s": 10})
    page = await admin.perform(ada, "audit.list_of_app", {"app_id": "shop", "limit": 2})
    assert [row.after["queries_per_s"] for row in page.page.rows] == [12.0, 11.0]
    rest = await admin.perform(ada, "audit.list_of_app", {"app_id": "shop", "cursor": page.page.next})
    assert [row.after["queries_per_s"] for row in rest.page.rows] == [10.0]
    for name, given in (
        ("audit.list", {}),
        ("audit.verify", {}),
        ("audit.export", {}),
        ("audit.list_of_app", {"app_id": "news"}),
    ):
        with pytest.raises(Forbidden):
            await admin.perform(ada, name, given)
    with pytest.raises(Forbidden):
        await admin.perform(vera, "audit.list_of_app", {"app_id": "shop"})
    with pytest.raises(Unprocessable, match="cursor"):
        await admin.perform(ada, "audit.list_of_app", {"app_id": "shop", "cursor": "x"})


async def test_the_export_is_the_log(stores: Stores, admin: Admin) -> None:
    await admin.perform(COMMAND_LINE, "apps.create", {"app_id": "books"})
    exported = await admin.perform(COMMAND_LINE, "audit.export", {})
    whole = b"".join([chunk async for chunk in exported.chunks])
    lines = [json.loads(line) for line in whole.splitlines()]
    assert lines == json.loads(json.dumps(await rows(stores)))
    assert (lines[0]["way"], lines[0]["username"], lines[0]["operation"]) == (
        "command line",
        "operator",
        "apps.create",
    )
    assert (await rows(stores))[-1]["operation"] == "audit.export"
    assert (await admin.perform(COMMAND_LINE, "audit.verify", {})).rows == 2


async def test_me_tells_what_a_token_allows(stores: Stores, admin: Admin) -> None:
    account = await stores.accounts.get("vera")
    assert account is not None
    token = (
        await admin.perform(
            COMMAND_LINE, "tokens.create", {"name": "a", "username": "vera", "role": "analyst"}
        )
    ).record
    content = (await admin.perform(principal_of(account, "token", token=token), "me.get", {})).to_dict()
    assert content["roles"] == {"news": "analyst", "shop": "viewer"}
    assert (content["administrator"], content["ceiling"]) == (False, "analyst")


async def test_passwords_are_set_and_end_sessions(stores: Stores, admin: Admin) -> None:
    await admin.perform(
        COMMAND_LINE, "people.set_password", {"username": "ada", "password": "a long password"}
    )
    account = await stores.accounts.get("ada")
    assert account is not None
    assert account.epoch == 1
    assert check_password("a long password", account.password)


async def test_reads_of_people_leave_a_row_without_their_ids(stores: Stores, admin: Admin) -> None:
    ada = await person(stores, "ada")
    given = {"app_id": "shop", "user_id": "canary-user"}
    reads: tuple[tuple[str, dict[str, Any]], ...] = (
        ("users.search", {"app_id": "shop", "text": "canary"}), ("users.get", given), ("users.export", given),
        ("questions.list", {"app_id": "shop"}),
    )  # fmt: skip
    for name, arguments in reads:
        try:
            await admin.perform(ada, name, arguments)
        except (
            NotFound,
            AssertionError,
        ):  # nothing was shown; exports read artifacts, of which there are none
            continue
        row = (await rows(stores))[-1]
        assert (row["operation"], row["username"], row["outcome"], row["after"]) == (
            name,
            "ada",
            "done",
            None,
        )
        assert "canary" not in json.dumps(row)
    recorded = {name for name, operation in admin.operations.items() if operation.recorded}
    assert recorded == {
        "users.search", "users.get", "users.export", "imports.refused", "questions.list", "audit.export",
    }  # fmt: skip
    assert [row["operation"] for row in await rows(stores)][-1] == "questions.list"


async def test_what_can_not_be_recorded_is_not_shown(stores: Stores, admin: Admin) -> None:
    class Away:
        async def append(self, row: object, **_: object) -> object:
            raise Unavailable("the store is away")

    blind = Administration(
        admin.services, admin.operations, Away(), ManualClock(), type(admin.services).for_principal  # type: ignore[arg-type]
    )  # fmt: skip
    with pytest.raises(Unavailable):
        await blind.perform(await person(stores, "ada"), "questions.list", {"app_id": "shop"})


async def test_the_role_is_checked_before_the_arguments(stores: Stores, admin: Admin) -> None:
    vera = await person(stores, "vera")
    for name, operation in admin.operations.items():
        if operation.scope == "person" or operation.role == "viewer":
            continue
        with pytest.raises(Forbidden):
            await admin.perform(vera, name, {"app_id": "shop", "nonsense": [1]})
    row = (await rows(stores))[-1]
    assert row["outcome"] == "refused"


async def test_a_token_of_one_app_sees_no_other_tokens(stores: Stores, admin: Admin) -> None:
    ada = await person(stores, "ada")
    await add_person(stores, "ida", shop="owner", news="owner")
    ida = await person(stores, "ida")
    for name, apps in (("all", []), ("shop", ["shop"]), ("news", ["news"]), ("both", ["shop", "news"])):
        await admin.perform(ida, "tokens.create", {"name": name, "apps": apps})
    limited = Principal("ida", ida.user_id, "token", roles=ida.roles, apps=("shop",))
    listed = (await admin.perform(limited, "tokens.list", {})).to_dict()["tokens"]
    assert [token["name"] for token in listed] == ["shop"]
    assert len((await admin.perform(ida, "tokens.list", {})).to_dict()["tokens"]) == 4
    assert (await admin.perform(ada, "tokens.list", {})).to_dict()["tokens"] == []


async def test_an_owner_can_not_distinguish_accounts(stores: Stores, admin: Admin) -> None:
    ada = await person(stores, "ada")
    for operation in ("people.grant_role", "people.revoke_role"):
        answers = []
        for username in ("root", "nobody"):
            given = {"app_id": "shop", "username": username}
            given |= {"role": "viewer"} if operation == "people.grant_role" else {}
            with pytest.raises(NotFound) as refused:
                await admin.perform(ada, operation, given)
            answers.append(refused.value.message.replace(username, "X"))
        assert answers[0] == answers[1]


async def test_an_empty_log_of_an_installation_with_accounts_is_no_whole_log(
    stores: Stores, admin: Admin
) -> None:
    verdict = await admin.perform(COMMAND_LINE, "audit.verify", {})
    assert (verdict.is_whole, verdict.reason) == (False, "there are accounts, but the log has no row")
