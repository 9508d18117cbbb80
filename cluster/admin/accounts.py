"""Accounts as an administrator handles them: make, list, lock, give a new password, end connections. No Ray."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import ValidationError

from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.account import Account, Role, new_user_id
from cluster.records.password import hash_password, new_password
from cluster.store.ports.accounts import AccountStore, ActiveGrant, GrantStore

USERNAME = "admin"
"User name of the administrator that the first start makes."


class AccountAdmin:
    """What an administrator may do with people."""

    def __init__(self, accounts: AccountStore, grants: GrantStore) -> None:
        self._accounts = accounts
        self._grants = grants

    async def create(self, username: str, role: Role, password: str, now_ms: int) -> tuple[Account, str]:
        """Make an account; an empty password is made up. Returns it with its password.

        Errors:
            Invalid: the name or the password can't be one
            Conflict: the name is taken
        """
        password = password or new_password()
        kept = await asyncio.to_thread(hash_password, password)
        try:
            account = Account(
                username=username.lower(), user_id=new_user_id(), password=kept, role=role, created_at=now_ms
            )
        except ValidationError as error:
            raise Invalid(
                f"{username!r} can't be a user name: up to 64 letters, digits and . _ @ + -, the first a letter "
                "or a digit"
            ) from error
        if not await self._accounts.add(account):
            raise Conflict(f"there is already somebody named {account.username}")
        return account, password

    async def all(self) -> list[Account]:
        """List accounts by name."""
        return await self._accounts.all()

    async def lock(self, username: str, now_ms: int) -> int:
        """Lock an account: nobody signs in, browsers are signed out, clients are cut off within a second.

        Returns how many clients were connected.

        Errors:
            NotFound: no such account
        """
        account = await self.find(username)
        await self._accounts.put(account.model_copy(update={"disabled": True, "epoch": account.epoch + 1}))
        return await self._grants.revoke_user(account.user_id, now_ms=now_ms)

    async def delete(self, username: str, now_ms: int) -> int:
        """Delete an account for good: browsers are signed out, clients are cut off within a second.

        Returns how many clients were connected.

        Errors:
            NotFound: no such account
            Conflict: nobody else may administrate
        """
        account = await self.find(username)
        others = [one for one in await self.all() if one.username != account.username and not one.disabled]
        if account.role == "administrator" and not any(one.role == "administrator" for one in others):
            raise Conflict(
                f"{account.username} is the only administrator; make another one first: "
                "`kiosk users create NAME --role administrator`"
            )
        await self._accounts.remove(account)
        # last: an account that is gone can't sign in and connect anew meanwhile
        return await self._grants.revoke_user(account.user_id, now_ms=now_ms)

    async def unlock(self, username: str) -> None:
        """Unlock an account; clients connect anew.

        Errors:
            NotFound: no such account
        """
        account = await self.find(username)
        await self._accounts.put(account.model_copy(update={"disabled": False}))

    async def set_password(self, username: str, password: str, now_ms: int) -> str:
        """Give a new password, made up if none is given; browsers are signed out and clients cut off.

        Errors:
            NotFound: no such account
            Invalid: the password can't be one
        """
        account = await self.find(username)
        password = password or new_password()
        kept = await asyncio.to_thread(hash_password, password)
        await self._accounts.put(account.model_copy(update={"password": kept, "epoch": account.epoch + 1}))
        await self._grants.revoke_user(account.user_id, now_ms=now_ms)
        return password

    async def clients(self, username: str) -> list[ActiveGrant]:
        """List the clients a person allowed, the last used first.

        Errors:
            NotFound: no such account
        """
        return await self._grants.of_user((await self.find(username)).user_id)

    async def disconnect(self, username: str, grant_id: str, now_ms: int) -> int:
        """End one connection of a person, or all of them when none is named; returns how many.

        Errors:
            NotFound: no such account, or no such connection of theirs
        """
        account = await self.find(username)
        if not grant_id:
            return await self._grants.revoke_user(account.user_id, now_ms=now_ms)
        grant = await self._grants.grant(grant_id)
        if grant is None or grant.user_id != account.user_id:
            raise NotFound(f"{account.username} has no such connection; see `kiosk users clients`")
        return int(await self._grants.revoke(grant_id, now_ms=now_ms))

    async def find(self, username: str) -> Account:
        """Find an account by its name.

        Errors:
            NotFound: no such account
        """
        account = await self._accounts.get(username.lower())
        if account is None:
            raise NotFound(f"there is nobody named {username}; see `kiosk users list`")
        return account


def account_to_dict(account: Account) -> dict[str, Any]:
    """Return an account as a dictionary for JSON, without its password."""
    return {
        "username": account.username,
        "user_id": account.user_id,
        "role": account.role,
        "disabled": account.disabled,
        "created_at": account.created_at,
    }


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
