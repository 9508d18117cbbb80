"""Token buckets that all API replicas share."""

from __future__ import annotations

from cluster.store import keys
from cluster.store.ports.limits import TokenGrant
from cluster.store.redis.client import RedisClient
from cluster.store.redis.script import Script

LIFE_MS = 3600 * 1000

_TAKE = Script.load("take_tokens")


class RedisLimits:
    """`LimitStore` over Redis."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def take(
        self, app_id: str, key_id: str, bucket: str, *, rate: float, burst: int, want: int, now_ms: int
    ) -> TokenGrant:
        name = keys.limit(app_id, key_id, bucket)
        args: list[str | int | float | bytes] = [float(rate), burst, want, now_ms, LIFE_MS]
        granted, retry_after_ms = await self._server.run(_TAKE, [name], args, hot=True)
        return TokenGrant(granted, retry_after_ms)
