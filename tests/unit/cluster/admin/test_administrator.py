"""The administrator is an account made once, whose password is shown once and kept as a slow hash."""

from __future__ import annotations

from cluster.admin.accounts import USERNAME, ensure_administrator
from cluster.records.account import Account, check_password, hash_password
from cluster.store.stores import Stores


async def test_a_password_is_made_on_the_first_start_only(memory_stores: Stores) -> None:
    password = await ensure_administrator(memory_stores.accounts, 7)
    assert len(password) >= 16
    assert await ensure_administrator(memory_stores.accounts, 8) == ""
    account = await memory_stores.accounts.get(USERNAME)
    assert account is not None
    assert (account.role, account.disabled, account.created_at) == ("administrator", False, 7)
    assert check_password(password, account.password)
    assert password not in account.model_dump_json()


async def test_nobody_is_made_where_an_administrator_has_another_name(memory_stores: Stores) -> None:
    kept = hash_password("something long")
    root = Account(username="root", user_id="usr-1", password=kept, role="administrator", created_at=1)
    await memory_stores.accounts.add(root)
    assert await ensure_administrator(memory_stores.accounts, 7) == ""
    assert await memory_stores.accounts.all() == [root]


async def test_a_reader_with_the_name_keeps_account_and_password(memory_stores: Stores) -> None:
    account = Account(
        username=USERNAME, user_id="usr-1", password=hash_password("something long"), created_at=1
    )
    await memory_stores.accounts.add(account)
    assert await ensure_administrator(memory_stores.accounts, 7) == ""
    assert await memory_stores.accounts.all() == [account]
