"""Leases over Redis."""

from __future__ import annotations

from cluster.store import keys
from cluster.store.redis.client import RedisClient
from cluster.store.redis.script import Script

_HOLD = Script.load("hold")
_RELEASE = Script.load("release")


class RedisLeases:
    """`LeaseStore` over Redis."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def hold(self, name: str, owner: str, ttl_ms: int) -> bool:
        return bool(await self._server.run(_HOLD, [keys.lease(name)], [owner, ttl_ms]))

    async def release(self, name: str, owner: str) -> None:
        await self._server.run(_RELEASE, [keys.lease(name)], [owner])
