"""Personal tokens and invitations of the administration, under the hashes of their secrets."""

from __future__ import annotations

from typing import Generic, TypeVar

from cluster.records.administration import AdminToken, Invitation
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.sealed_hash import SealedHash

Secret = TypeVar("Secret", AdminToken, Invitation)


class _HashedSecrets(Generic[Secret]):
    """Sealed records in one hash, under the SHA-256 of a secret that is not stored."""

    def __init__(self, server: RedisClient, quarantine: Quarantine, kind: type[Secret], key: str) -> None:
        self._secrets: SealedHash[Secret] = SealedHash(server, quarantine, kind, lambda _: key)

    async def find(self, sha256: str) -> Secret | None:
        """Return the record with a hash, expired or not."""
        record = await self._secrets.get("", sha256)
        # The hash inside the record counts: a record that was copied to another hash is none.
        return record if record is not None and record.sha256 == sha256 else None

    async def _put(self, record: Secret, *, now_ms: int) -> None:
        expired = [other.sha256 for other in await self._read_all() if other.expires_at <= now_ms]
        await self._secrets.put("", record.sha256, record)
        await self._delete(expired)

    async def _read_all(self) -> list[Secret]:
        return list((await self._secrets.all("")).values())

    async def _delete(self, hashes: list[str]) -> int:
        return await self._secrets.remove("", hashes)


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
        return bool(
            await self._delete([token.sha256 for token in await self.all() if token.token_id == token_id])
        )

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
        return sorted(
            await self._read_all(), key=lambda invitation: (invitation.created_at, invitation.invitation_id)
        )

    async def remove(self, sha256: str) -> bool:
        """Remove an invitation; of concurrent callers one gets True."""
        return bool(await self._delete([sha256]))
