"""Accounts, codes and grants in dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from cluster.records.account import Account, Code, Grant
from cluster.records.archive.archive_client import Registration, revocation_id, tier_revocation_id
from cluster.store.administration import grants, registrations
from cluster.store.administration.accounts import AccountStore
from cluster.store.administration.grants import (
    ActiveGrant,
    GrantStore,
    RedeemOutcome,
    Revocations,
    RotateOutcome,
)
from cluster.store.administration.registrations import RegistrationStore


class MemoryAccounts(AccountStore):
    """`AccountStore` in a dictionary."""

    def __init__(self) -> None:
        self._accounts_by_name: dict[str, Account] = {}
        self._marks: dict[str, str] = {}

    async def get(self, username: str) -> Account | None:
        return self._accounts_by_name.get(username)

    async def all(self) -> list[Account]:
        return [account for _, account in sorted(self._accounts_by_name.items())]

    async def add(self, account: Account) -> bool:
        return self._accounts_by_name.setdefault(account.username, account) is account

    async def put(self, account: Account) -> None:
        self._accounts_by_name[account.username] = account

    async def update(self, username: str, change: Callable[[Account], Account]) -> Account | None:
        if username not in self._accounts_by_name:
            return None
        self._accounts_by_name[username] = change(self._accounts_by_name[username])
        return self._accounts_by_name[username]

    async def session_mark(self, user_id: str) -> str:
        return self._marks.get(user_id, "")

    async def end_sessions(self, user_id: str, mark: str) -> None:
        self._marks[user_id] = mark

    async def remove(self, account: Account) -> bool:
        self._marks.pop(account.user_id, None)
        return self._accounts_by_name.pop(account.username, None) is not None


@dataclass(slots=True)
class _Code:
    code: Code
    used: bool = False


@dataclass(slots=True)
class _Family:
    grant: Grant
    current: set[str]
    used_at: int
    previous: set[str] = field(default_factory=set)
    until: int = 0


class MemoryGrants(GrantStore):
    """`GrantStore` in dictionaries."""

    def __init__(self) -> None:
        self._codes: dict[str, _Code] = {}
        self._families: dict[str, _Family] = {}
        self._revoked: dict[str, int] = {}
        self._assertions: set[str] = set()
        self._version = 0

    async def take_assertion(self, sha256: str, *, life_ms: int) -> bool:
        is_new = sha256 not in self._assertions
        self._assertions.add(sha256)
        return is_new

    async def put_code(self, sha256: str, code: Code) -> None:
        old = code.created_at - grants.CODE_LIFE_MS
        self._codes = {name: stored for name, stored in self._codes.items() if stored.code.created_at > old}
        self._codes[sha256] = _Code(code)

    async def code(self, sha256: str) -> Code | None:
        stored = self._codes.get(sha256)
        return None if stored is None else stored.code

    async def redeem(self, sha256: str, grant: Grant, refresh_sha256: str, *, now_ms: int) -> RedeemOutcome:
        stored = self._codes.get(sha256)
        if stored is None:
            return "gone"
        if stored.used:
            await self.revoke(stored.code.grant_id, now_ms=now_ms)
            return "used"
        stored.used = True
        if self._revoked.get(f"user:{grant.user_id}", -1) >= stored.code.created_at:
            return "gone"
        self._families[grant.grant_id] = _Family(grant, {refresh_sha256}, now_ms)
        mine = [active.grant.grant_id for active in await self.of_user(grant.user_id)]
        for grant_id in mine[grants.MOST_GRANTS :]:
            await self.revoke(grant_id, now_ms=now_ms)
        return "begun"

    async def burn(self, sha256: str, *, now_ms: int) -> None:
        stored = self._codes.get(sha256)
        if stored is None:
            return
        if stored.used:
            await self.revoke(stored.code.grant_id, now_ms=now_ms)
        stored.used = True

    async def grant(self, grant_id: str) -> Grant | None:
        family = self._families.get(grant_id)
        return None if family is None else family.grant

    async def rotate(
        self, grant_id: str, presented_sha256: str, next_sha256: str, *, now_ms: int, grace_ms: int
    ) -> RotateOutcome:
        family = self._families.get(grant_id)
        if family is None or now_ms - family.used_at >= grants.GRANT_LIFE_MS:
            return "gone"
        if presented_sha256 in family.current:
            family.previous, family.current = family.current, {next_sha256}
            family.until = now_ms + grace_ms
        elif presented_sha256 in family.previous and now_ms <= family.until:
            if len(family.current) >= grants.MOST_SIBLINGS:
                return "crowded"
            family.current.add(next_sha256)
        else:
            await self.revoke(grant_id, now_ms=now_ms)
            return "stolen"
        family.used_at = now_ms
        return "rotated"

    async def revoke(self, grant_id: str, *, now_ms: int) -> bool:
        if self._families.pop(grant_id, None) is None:
            return False
        self._forget(now_ms)
        self._revoked[grant_id] = now_ms
        self._version += 1
        return True

    async def revoke_user(self, user_id: str, *, now_ms: int) -> int:
        self._revoked[f"user:{user_id}"] = now_ms
        mine = [active.grant.grant_id for active in await self.of_user(user_id)]
        return sum([await self.revoke(grant_id, now_ms=now_ms) for grant_id in mine])

    async def revoke_tiers(self, user_id: str, tier_epochs: Iterable[int], *, now_ms: int) -> None:
        self._revoked.update({tier_revocation_id(user_id, epoch): now_ms for epoch in tier_epochs})
        self._version += 1

    async def revoke_client(self, client_id: str, *, now_ms: int) -> int:
        self._revoked[revocation_id(client_id)] = now_ms
        self._version += 1
        theirs = [name for name, family in self._families.items() if family.grant.client_id == client_id]
        return sum([await self.revoke(name, now_ms=now_ms) for name in theirs])

    async def of_user(self, user_id: str) -> list[ActiveGrant]:
        mine = [family for family in self._families.values() if family.grant.user_id == user_id]
        return [
            ActiveGrant(family.grant, family.used_at)
            for family in sorted(mine, key=lambda family: -family.used_at)
        ]

    async def version(self) -> int:
        return self._version

    async def revocations(self) -> Revocations:
        return Revocations(self._version, frozenset(self._revoked))

    def _forget(self, now_ms: int) -> None:
        old = now_ms - grants.REVOKED_LIFE_MS
        self._revoked = {name: at for name, at in self._revoked.items() if at > old}


class MemoryRegistrations(RegistrationStore):
    """`RegistrationStore` in a dictionary, the one used longest ago first."""

    def __init__(self, most: int = registrations.MOST_REGISTRATIONS) -> None:
        self._kept: dict[str, Registration] = {}
        self._most = most

    async def get(self, client_id: str) -> Registration | None:
        return self._kept.get(client_id)

    async def put(self, registration: Registration, *, now_ms: int) -> bool:
        stored = self._kept.pop(registration.client_id, None)
        is_removed = stored is not None and stored.removed
        self._kept[registration.client_id] = stored if stored is not None and is_removed else registration
        while len(self._kept) > self._most:
            self._kept.pop(next(iter(self._kept)))
        return not is_removed

    async def touch(self, client_id: str, *, now_ms: int) -> None:
        stored = self._kept.pop(client_id, None)
        if stored is not None:
            self._kept[client_id] = stored
