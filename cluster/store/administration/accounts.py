"""The accounts of an installation, in one hash, and the marks of their browser sessions."""

from __future__ import annotations

from collections.abc import Callable

from cluster.errors import Unavailable
from cluster.records.account import Account
from cluster.store import keys
from cluster.store.client.multiplexer import name_of
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.script import Script
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.record_seal import SealedRecords, seal_record, with_unknown_fields

_TRIES = 10

_SWAP = Script.load("swap_account")


class AccountStore:
    """The accounts of an installation."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)

    async def get(self, username: str) -> Account | None:
        sealed = await self._server.execute_slow("HGET", keys.account(), username)
        key = keys.account()
        return None if sealed is None else await self._records.get(Account, "", key, username, sealed)

    async def all(self) -> list[Account]:
        """Return all accounts, sorted by name."""
        flat = await self._server.execute_slow("HGETALL", keys.account())
        named = sorted(zip(flat[::2], flat[1::2], strict=True))
        key = keys.account()
        accounts = [
            await self._records.open(Account, "", key, name_of(name), sealed) for name, sealed in named
        ]
        return [account for account in accounts if account is not None]

    async def add(self, account: Account) -> bool:
        """Create an account; return False when the name is taken."""
        sealed = seal_record(account, keys.account(), account.username)
        return bool(await self._server.execute_slow("HSETNX", keys.account(), account.username, sealed))

    async def put(self, account: Account) -> None:
        """Replace an account."""
        key, username = keys.account(), account.username
        stored: bytes | None = await self._server.execute_slow("HGET", key, username)
        account = await self._records.replacing(account, "", key, username, stored)
        await self._server.execute_slow("HSET", key, username, seal_record(account, key, username))

    async def update(self, username: str, change: Callable[[Account], Account]) -> Account | None:
        """Replace an account by what `change` makes of it, and return it; None: there is no such account.

        Of concurrent changes none is lost: `change` is called again with what the other one wrote.

        Errors:
            Unavailable: too many concurrent changes of the account
            HouseError: what `change` raises; nothing is written
        """
        key = keys.account()
        for _ in range(_TRIES):
            stored: bytes | None = await self._server.execute_slow("HGET", key, username)
            before = None if stored is None else await self._records.get(Account, "", key, username, stored)
            if stored is None or before is None:
                return None
            after = with_unknown_fields(change(before), before)
            if await self._server.run(_SWAP, [key], [username, stored, seal_record(after, key, username)]):
                return after
        raise Unavailable("this account is being changed by many at once", retry_after_s=1)

    async def session_mark(self, user_id: str) -> str:
        """Return the mark in an account's browser sessions; empty until the first sign-out."""
        mark = await self._server.execute_slow("HGET", keys.account_sessions(), user_id)
        return "" if mark is None else mark.decode("ascii", "replace")

    async def end_sessions(self, user_id: str, mark: str) -> None:
        """End all browser sessions of an account: from now on its sessions carry this mark, which must be new."""
        await self._server.execute_slow("HSET", keys.account_sessions(), user_id, mark)

    async def remove(self, account: Account) -> bool:
        """Remove an account, the mark of its sessions, and quarantined accounts of that name.

        Returns False when there was none."""
        gone = bool(await self._server.execute_slow("HDEL", keys.account(), account.username))
        await self._server.execute_slow("HDEL", keys.account_sessions(), account.user_id)
        for entry_id, flat in await self._server.execute_slow("XRANGE", keys.account_quarantine(), "-", "+"):
            fields = dict(zip(flat[::2], flat[1::2], strict=True))
            if name_of(fields.get(b"id", b"")) == account.username:
                await self._server.execute_slow("XDEL", keys.account_quarantine(), entry_id)
        return gone
