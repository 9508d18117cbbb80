"""Administration of accounts: create, list, lock, set a password, end connections. No Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.account import Account, Role, hash_password, is_username, new_password, new_user_id
from cluster.records.administration import AppRole
from cluster.store.administration.accounts import AccountStore
from cluster.store.administration.grants import ActiveGrant, GrantStore

USERNAME = "admin"
"User name of the administrator that the first start creates."


class AccountAdmin:
    """The administrator's operations on accounts."""

    def __init__(self, accounts: AccountStore, grants: GrantStore) -> None:
        self._accounts = accounts
        self._grants = grants

    async def create(
        self, username: str, role: Role, password: str, now_ms: int, *, is_temporary: bool = False
    ) -> tuple[Account, str]:
        """Create an account and return it with its password, which is generated if empty.

        `is_temporary`: the account chooses a new password at its first sign-in to the console.

        Errors:
            Invalid: the name or the password is not allowed
            Conflict: the name is taken
        """
        password = password or new_password()
        account = await self.prepare(username, role, password, now_ms, is_temporary=is_temporary)
        if not await self._accounts.add(account):
            raise Conflict(f"there is already somebody named {account.username}")
        return account, password

    async def prepare(
        self, username: str, role: Role, password: str, now_ms: int, *, is_temporary: bool = False
    ) -> Account:
        """Return a new account that is not stored; without a password, one is generated that nobody knows.

        Errors:
            Invalid: the name or the password is not allowed
        """
        if not is_username(username.lower()):
            raise Invalid(
                f"{username!r} can't be a user name: up to 64 letters, digits and . _ @ + -, the first a letter "
                "or a digit"
            )
        kept = await asyncio.to_thread(hash_password, password or new_password())
        return Account(
            username=username.lower(),
            user_id=new_user_id(),
            password=kept,
            role=role,
            created_at=now_ms,
            has_temporary_password=is_temporary,
        )

    async def all(self) -> list[Account]:
        return await self._accounts.all()

    async def lock(self, username: str, now_ms: int) -> int:
        """Lock an account: sign-in is refused, browsers are signed out, clients are disconnected within a second.

        Returns the number of connected clients.

        Errors:
            NotFound: no such account
        """
        account = await self.update(username, lambda account: {"disabled": True, "epoch": account.epoch + 1})
        return await self._grants.revoke_user(account.user_id, now_ms=now_ms)

    async def delete(self, username: str, now_ms: int) -> int:
        """Delete an account for good: browsers are signed out, clients are disconnected within a second.

        Returns the number of connected clients.

        Errors:
            NotFound: no such account
            Conflict: it is the only administrator
        """
        account = await self.find(username)
        others = [
            other for other in await self.all() if other.username != account.username and not other.disabled
        ]
        if account.role == "administrator" and not any(other.role == "administrator" for other in others):
            raise Conflict(
                f"{account.username} is the only administrator; make another one first: "
                "`kiosk users create NAME --role administrator`"
            )
        await self._accounts.remove(account)
        # last: a deleted account can't sign in and connect again meanwhile
        return await self._grants.revoke_user(account.user_id, now_ms=now_ms)

    async def unlock(self, username: str) -> None:
        """Unlock an account; clients must connect again.

        Errors:
            NotFound: no such account
        """
        await self.update(username, lambda _: {"disabled": False})

    async def set_password(
        self, username: str, password: str, now_ms: int, *, is_temporary: bool = False
    ) -> str:
        """Set and return a password, generated if empty; browsers are signed out and clients disconnected.

        `is_temporary`: the account chooses a new password at its next sign-in to the console.

        Errors:
            NotFound: no such account
            Invalid: the password is not allowed
        """
        await self.find(username)
        password = password or new_password()
        # Hashing takes long on purpose and would stop the event loop.
        kept = await asyncio.to_thread(hash_password, password)
        account = await self.update(
            username,
            lambda account: {
                "password": kept,
                "epoch": account.epoch + 1,
                "has_temporary_password": is_temporary,
            },
        )
        # After the new password is stored, so that nobody connects again with the old one in between.
        await self._grants.revoke_user(account.user_id, now_ms=now_ms)
        return password

    async def clients(self, username: str) -> list[ActiveGrant]:
        """Return the clients that an account has authorized, the last used first.

        Errors:
            NotFound: no such account
        """
        return await self._grants.of_user((await self.find(username)).user_id)

    async def disconnect(self, username: str, grant_id: str, now_ms: int) -> int:
        """End one connection of an account, or all of them without a grant id; return their number.

        Errors:
            NotFound: no such account, or no such connection of it
        """
        account = await self.find(username)
        if not grant_id:
            return await self._grants.revoke_user(account.user_id, now_ms=now_ms)
        grant = await self._grants.grant(grant_id)
        if grant is None or grant.user_id != account.user_id:
            raise NotFound(f"{account.username} has no such connection; see `kiosk users clients`")
        return int(await self._grants.revoke(grant_id, now_ms=now_ms))

    async def set_role(self, username: str, app_id: str, role: AppRole | None) -> Account:
        """Give an account a role in an app, or take it away with None; return the account.

        Errors:
            NotFound: no such account, or it has no role in the app that could be taken away
            Conflict: the account is an administrator, who owns every app
        """

        def change(account: Account) -> dict[str, Any]:
            if role is None and app_id not in account.roles:
                raise NotFound(f"{account.username} has no role in {app_id}")
            if role is not None and account.role == "administrator":
                raise Conflict(f"{account.username} is an administrator and owns every app")
            others = {name: app_role for name, app_role in account.roles.items() if name != app_id}
            return {"roles": others if role is None else {**others, app_id: role}}

        return await self.update(username, change)

    async def set_tiers(self, username: str, tiers: Mapping[str, int], now_ms: int) -> Account:
        """Replace the tiers of an account; its access tokens end within a second, its connections stay.

        A client then gets a new access token by its refresh token. `tiers`: see `Account.tiers`.

        Tiers that the provider claimed end too; the next refresh of a grant asks it again.

        Errors:
            NotFound: no such account
        """
        before = await self.find(username)
        if before.tiers == tiers and not before.claimed_tiers:
            # A nightly synchronization of all accounts ends no token, and fills no list of ended ones.
            return before
        return await self._replace_tiers(
            before, {"tiers": dict(tiers), "claimed_tiers": {}, "claimed_at": 0}, now_ms
        )

    async def set_claimed_tiers(
        self, account: Account, tiers: Mapping[str, int], oidc_refresh: str, now_ms: int
    ) -> Account:
        """Replace the tiers that the provider claims; access tokens end only if another set of tiers is valid then.

        `oidc_refresh`: see `Account.oidc_refresh`.

        Errors:
            NotFound: no such account
        """
        before = await self.find(account.username)
        fields = {"claimed_tiers": dict(tiers), "claimed_at": now_ms, "oidc_refresh": oidc_refresh}
        after = before.model_copy(update=fields)
        if before.tiers_at(now_ms)[0] == after.tiers_at(now_ms)[0]:
            return await self.update(account.username, lambda _: fields)
        return await self._replace_tiers(before, fields, now_ms)

    async def _replace_tiers(self, before: Account, fields: Mapping[str, Any], now_ms: int) -> Account:
        # Revoked first: after a crash in between, tokens are refused, and no subscription outlives its end.
        await self._grants.revoke_tiers(before.user_id, [before.tier_epoch], now_ms=now_ms)
        after = await self.update(
            before.username, lambda account: {**fields, "tier_epoch": account.tier_epoch + 1}
        )
        passed = range(before.tier_epoch + 1, after.tier_epoch)
        if passed:
            await self._grants.revoke_tiers(before.user_id, passed, now_ms=now_ms)
        return after

    async def reset_second_factor(self, username: str) -> Account:
        """Remove the second factor of an account, which then signs in with the password alone; return the account.

        Errors:
            NotFound: no such account
        """
        return await self.update(
            username,
            lambda account: {
                "totp": "",
                "totp_step": 0,
                "wrong_codes": 0,
                "wrong_code_at": 0,
                "epoch": account.epoch + 1,
            },
        )

    async def update(self, username: str, change: Callable[[Account], Mapping[str, Any]]) -> Account:
        """Replace fields of an account and return it; of concurrent changes none is lost.

        Errors:
            NotFound: no such account
        """
        account = await self._accounts.update(
            username.lower(), lambda account: account.model_copy(update=dict(change(account)))
        )
        if account is None:
            raise _nobody_error(username)
        return account

    async def find(self, username: str) -> Account:
        """Return an account by its name.

        Errors:
            NotFound: no such account
        """
        account = await self._accounts.get(username.lower())
        if account is None:
            raise _nobody_error(username)
        return account


def _nobody_error(username: str) -> NotFound:
    return NotFound(f"there is nobody named {username}; see `kiosk users list`")


def account_to_dict(account: Account) -> dict[str, Any]:
    """Return an account as a dictionary for JSON, without its password."""
    return {
        "username": account.username,
        "user_id": account.user_id,
        "role": account.role,
        "disabled": account.disabled,
        "created_at": account.created_at,
        "roles": account.roles,
        "second_factor": account.has_second_factor,
    }


async def ensure_administrator(accounts: AccountStore, now_ms: int) -> str:
    """Create the administrator if there is none; return the new password, else an empty text."""
    if any(account.role == "administrator" for account in await accounts.all()):
        return ""
    password = new_password()
    kept = await asyncio.to_thread(hash_password, password)
    account = Account(
        username=USERNAME, user_id=new_user_id(), password=kept, role="administrator", created_at=now_ms
    )
    # Another process made the administrator at the same moment; only its password is valid.
    return password if await accounts.add(account) else ""
