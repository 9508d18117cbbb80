"""Which installation a Redis belongs to: a random id and the fingerprint of its master key."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import text_of


@dataclass(frozen=True, slots=True)
class StoredIdentity:
    """The identity in a Redis; empty in one that no release with identities has started on."""

    installation_id: str = ""
    fingerprint: str = ""
    "Of the current master key (`cluster.admin.master_keys.master_key_fingerprints`)."
    previous: tuple[str, ...] = ()
    "Of previous master keys that something may still be sealed with."


class IdentityStore:
    """Reads and writes the identity."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def read(self) -> StoredIdentity:
        """Return the stored identity."""
        fields = await self._server.execute_slow(
            "HMGET", keys.installation(), "id", "fingerprint", "previous"
        )
        installation_id, fingerprint, previous = ("" if field is None else text_of(field) for field in fields)
        return StoredIdentity(installation_id, fingerprint, tuple(previous.split()))

    async def claim(self, identity: StoredIdentity) -> StoredIdentity:
        """Write missing values and return the stored ones; of two concurrent first starts one wins."""
        for name, value in (("id", identity.installation_id), ("fingerprint", identity.fingerprint)):
            await self._server.execute_slow("HSETNX", keys.installation(), name, value)
        return await self.read()

    async def replace(self, identity: StoredIdentity) -> None:
        """Replace the identity, by order of an operator."""
        await self._server.execute_slow(
            "HSET",
            keys.installation(),
            "id",
            identity.installation_id,
            "fingerprint",
            identity.fingerprint,
            "previous",
            " ".join(identity.previous),
        )
