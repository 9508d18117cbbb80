"""The person who runs an installation: an account like any other, made on the first start and shown once."""

from __future__ import annotations

import asyncio

from cluster.records.account import Account, new_user_id
from cluster.records.password import hash_password, new_password
from cluster.store.ports.accounts import AccountStore

USERNAME = "admin"


async def ensure_administrator(accounts: AccountStore, now_ms: int) -> str:
    """Make the administrator if nobody is one; return the fresh password, or nothing."""
    if any(account.role == "administrator" for account in await accounts.all()):
        return ""
    password = new_password()
    kept = await asyncio.to_thread(hash_password, password)
    account = Account(
        username=USERNAME, user_id=new_user_id(), password=kept, role="administrator", created_at=now_ms
    )
    return password if await accounts.add(account) else ""
