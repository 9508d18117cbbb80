"""Accounts as an administrator handles them."""

from __future__ import annotations

import pytest

from cluster.admin.accounts import AccountAdmin, account_to_dict
from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.account import Code, Grant, check_password
from cluster.store.stores import Stores

NOW = 1_700_000_000_000


@pytest.fixture
def people(memory_stores: Stores) -> AccountAdmin:
    return AccountAdmin(memory_stores.accounts, memory_stores.grants)


async def connect(stores: Stores, user_id: str, number: int) -> str:
    """Let a client have a grant."""
    same = {
        "grant_id": f"g{number}",
        "client_id": "c",
        "client_name": "C",
        "resource": "r",
        "user_id": user_id,
    }
    grant = Grant(**same, username="ada", created_at=NOW)
    code = Code(
        **same,
        username="ada",
        redirect_uri="u",
        challenge="x",
        created_at=NOW + number,
        expires_at=NOW + 60_000,
    )
    await stores.grants.put_code(f"code{number}", code)
    assert (
        await stores.grants.redeem(f"code{number}", grant, f"refresh{number}", now_ms=NOW + number) == "begun"
    )
    return grant.grant_id


async def test_an_account_is_created_with_a_chosen_password(people: AccountAdmin) -> None:
    account, password = await people.create("Ada", "reader", "", NOW)
    assert (account.username, account.role) == ("ada", "reader")
    assert len(password) >= 16
    assert check_password(password, (await people.find("ADA")).password)
    given, same = await people.create("grace", "administrator", "chosen by herself", NOW)
    assert (same, check_password("chosen by herself", given.password)) == ("chosen by herself", True)
    assert given.user_id != account.user_id
    assert [listed.username for listed in await people.all()] == ["ada", "grace"]
    assert "password" not in account_to_dict(account)


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "x" * 65, "a\n", "ä", "<b>"])
async def test_names_that_can_not_be_one_are_refused(people: AccountAdmin, name: str) -> None:
    with pytest.raises(Invalid):
        await people.create(name, "reader", "long enough to be", NOW)


async def test_taken_names_and_short_passwords_are_refused(people: AccountAdmin) -> None:
    await people.create("ada", "reader", "", NOW)
    with pytest.raises(Conflict):
        await people.create("ADA", "reader", "", NOW)
    with pytest.raises(Invalid):
        await people.create("grace", "reader", "short", NOW)
    with pytest.raises(NotFound):
        await people.find("grace")


async def test_a_lock_ends_sign_ins_and_connections(people: AccountAdmin, memory_stores: Stores) -> None:
    account, _ = await people.create("ada", "reader", "", NOW)
    ids = {await connect(memory_stores, account.user_id, number) for number in range(3)}
    assert await people.lock("Ada", NOW + 10) == 3
    locked = await people.find("ada")
    assert locked.disabled
    assert locked.epoch > account.epoch
    assert ids <= (await memory_stores.grants.revocations()).grant_ids
    assert await people.clients("ada") == []
    await people.unlock("ada")
    assert not (await people.find("ada")).disabled


async def test_a_new_password_ends_the_old_one_and_connections(
    people: AccountAdmin, memory_stores: Stores
) -> None:
    account, old = await people.create("ada", "reader", "", NOW)
    await connect(memory_stores, account.user_id, 1)
    fresh = await people.set_password("ada", "", NOW + 10)
    kept = await people.find("ada")
    assert check_password(fresh, kept.password)
    assert not check_password(old, kept.password)
    assert kept.epoch > account.epoch
    assert await people.clients("ada") == []


async def test_connections_are_listed_and_ended_one_by_one_or_all(
    people: AccountAdmin, memory_stores: Stores
) -> None:
    account, _ = await people.create("ada", "reader", "", NOW)
    await people.create("eve", "reader", "", NOW)
    ids = [await connect(memory_stores, account.user_id, number) for number in range(3)]
    assert [connection.grant.grant_id for connection in await people.clients("ada")] == ids[::-1]
    with pytest.raises(NotFound):
        await people.disconnect("eve", ids[0], NOW)
    assert await people.disconnect("ada", ids[0], NOW) == 1
    with pytest.raises(NotFound):
        await people.disconnect("ada", ids[0], NOW)
    assert await people.disconnect("ada", "", NOW) == 2
