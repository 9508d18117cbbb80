"""What an app uses, over Redis: one integer for each app."""

from __future__ import annotations

from cluster.store import keys
from cluster.store.redis.client import RedisClient


class RedisUsage:
    """`UsageStore` over Redis."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def set_stored_bytes(self, app_id: str, size: int) -> None:
        await self._server.execute_slow("SET", keys.stored_bytes(app_id), size)

    async def stored_bytes(self, app_id: str) -> int:
        return int(await self._server.execute_slow("GET", keys.stored_bytes(app_id)) or 0)
