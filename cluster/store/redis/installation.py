"""Which installation a Redis belongs to: a random id and the fingerprint of its master key."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.store import keys
from cluster.store.redis.client import RedisClient
from cluster.store.redis.multiplexer import text_of


@dataclass(frozen=True, slots=True)
class StoredIdentity:
    """The identity in a Redis; empty in one that no release with identities has started on."""

    installation_id: str = ""
    fingerprint: str = ""
    "Of the master key (`cluster.admin.vault.master_key_fingerprint`)."


class RedisInstallation:
    """Reads and writes the identity."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def read(self) -> StoredIdentity:
        """Return the stored identity."""
        found = await self._server.execute_slow("HMGET", keys.installation(), "id", "fingerprint")
        return StoredIdentity(*("" if field is None else text_of(field) for field in found))

    async def claim(self, identity: StoredIdentity) -> StoredIdentity:
        """Write what is missing and return what stands there then; of two first starts one wins."""
        for name, value in (("id", identity.installation_id), ("fingerprint", identity.fingerprint)):
            await self._server.execute_slow("HSETNX", keys.installation(), name, value)
        return await self.read()

    async def replace(self, identity: StoredIdentity) -> None:
        """Replace the identity, by order of an operator."""
        await self._server.execute_slow(
            "HSET", keys.installation(), "id", identity.installation_id, "fingerprint", identity.fingerprint
        )
