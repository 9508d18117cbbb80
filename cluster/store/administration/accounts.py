"""The accounts of an installation, in one hash, and the marks of their browser sessions."""

from __future__ import annotations

from collections.abc import Callable

from cluster.records.account import Account
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.sealed_hash import SealedHash


class AccountStore:
    """The accounts of an installation."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._accounts = SealedHash(server, quarantine, Account, lambda _: keys.account())

    async def get(self, username: str) -> Account | None:
        return await self._accounts.get("", username)

    async def all(self) -> list[Account]:
        """Return all accounts, sorted by name."""
        return list((await self._accounts.all("")).values())

    async def add(self, account: Account) -> bool:
        """Create an account; return False when the name is taken."""
        return await self._accounts.add("", account.username, account)

    async def put(self, account: Account) -> None:
        await self._accounts.put("", account.username, account)

    async def update(self, username: str, change: Callable[[Account], Account]) -> Account | None:
        """Replace an account by what `change` makes of it, and return it; None: there is no such account.

        Of concurrent changes none is lost: `change` is called again with what the other one wrote.

        Errors:
            KioskError: what `change` raises; nothing is written
        """
        return await self._accounts.update("", username, change)

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
        removed = await self._accounts.remove("", [account.username])
        await self._server.execute_slow("HDEL", keys.account_sessions(), account.user_id)
        for entry_id, flat in await self._server.execute_slow("XRANGE", keys.account_quarantine(), "-", "+"):
            fields = dict(split_pairs(flat))
            if name_of(fields.get(b"id", b"")) == account.username:
                await self._server.execute_slow("XDEL", keys.account_quarantine(), entry_id)
        return bool(removed)
