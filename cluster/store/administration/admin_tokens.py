"""Personal tokens and invitations of the administration, under the hashes of their secrets."""

from __future__ import annotations

from typing import Generic, TypeVar

from cluster.records.administration import AdminToken, Invitation
from cluster.store import keys
from cluster.store.client.multiplexer import name_of
from cluster.store.client.redis_client import RedisClient
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.record_seal import SealedRecords, seal_record

R = TypeVar("R", AdminToken, Invitation)


class _HashedSecrets(Generic[R]):
    """Sealed records in one hash, under the SHA-256 of a secret that is not stored."""

    def __init__(self, server: RedisClient, quarantine: Quarantine, kind: type[R], key: str) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)
        self._kind: type[R] = kind
        self._key = key

    async def find(self, sha256: str) -> R | None:
        sealed = await self._server.execute_slow("HGET", self._key, sha256)
        record = (
            None if sealed is None else await self._records.get(self._kind, "", self._key, sha256, sealed)
        )
        # The hash inside the record counts: a record that was copied to another hash is none.
        return record if record is not None and record.sha256 == sha256 else None

    async def _put(self, record: R, *, now_ms: int) -> None:
        over = [one.sha256 for one in await self._read_all() if one.expires_at <= now_ms]
        sealed = seal_record(record, self._key, record.sha256)
        await self._server.execute_slow("HSET", self._key, record.sha256, sealed)
        await self._delete(over)

    async def _read_all(self) -> list[R]:
        flat = await self._server.execute_slow("HGETALL", self._key)
        records = [
            await self._records.open(self._kind, "", self._key, name_of(name), sealed)
            for name, sealed in zip(flat[::2], flat[1::2], strict=True)
        ]
        return [record for record in records if record is not None]

    async def _delete(self, hashes: list[str]) -> int:
        return int(await self._server.execute_slow("HDEL", self._key, *hashes)) if hashes else 0


class AdminTokenStore(_HashedSecrets[AdminToken]):
    """Personal tokens of the administration, under their SHA-256."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        super().__init__(server, quarantine, AdminToken, keys.admin_token())

    async def add(self, token: AdminToken, *, now_ms: int) -> None:
        """Store a token; those that have expired are removed."""
        await self._put(token, now_ms=now_ms)

    async def all(self) -> list[AdminToken]:
        """Return all tokens, the oldest first."""
        return sorted(await self._read_all(), key=lambda token: (token.created_at, token.token_id))

    async def of_user(self, user_id: str) -> list[AdminToken]:
        """Return the tokens of an account, the oldest first."""
        return [token for token in await self.all() if token.user_id == user_id]

    async def remove(self, token_id: str) -> bool:
        """Remove a token; return False when there was none."""
        return bool(await self._delete([one.sha256 for one in await self.all() if one.token_id == token_id]))

    async def remove_user(self, user_id: str) -> int:
        """Remove all tokens of an account; return their number."""
        return await self._delete([token.sha256 for token in await self.of_user(user_id)])


class InvitationStore(_HashedSecrets[Invitation]):
    """Open invitations, under the SHA-256 of the tokens of their links."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        super().__init__(server, quarantine, Invitation, keys.invitation())

    async def add(self, invitation: Invitation, *, now_ms: int) -> None:
        """Store an invitation; those that have expired are removed."""
        await self._put(invitation, now_ms=now_ms)

    async def all(self) -> list[Invitation]:
        """Return all invitations, the oldest first."""
        return sorted(await self._read_all(), key=lambda one: (one.created_at, one.invitation_id))

    async def remove(self, sha256: str) -> bool:
        """Remove an invitation; of concurrent callers one gets True."""
        return bool(await self._delete([sha256]))
