"""Public keys of publishers, which verify their signed statements."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.records.archive.article_revision import PublisherKey
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.sealed_hash import SealedHash


class PublisherKeyStore:
    """Public keys of publishers, old ones included, so that old statements can be verified."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._keys = SealedHash(server, quarantine, PublisherKey, keys.publisher_key)

    async def all(self, app_id: str) -> Mapping[str, PublisherKey]:
        """Return all keys of an app by id."""
        return await self._keys.all(app_id)

    async def add(self, app_id: str, key: PublisherKey) -> None:
        """Write a key unless it is there."""
        await self._keys.add(app_id, key.key_id, key)

    async def remove(self, app_id: str, key_id: str) -> bool:
        """Remove a key; return False when there was none."""
        return bool(await self._keys.remove(app_id, [key_id]))
