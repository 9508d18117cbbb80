"""Token buckets that all API replicas share."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.script import Script


@dataclass(frozen=True, slots=True)
class RateLimitGrant:
    """Tokens granted by a shared token bucket."""

    granted: int
    retry_after_ms: int


LIFE_MS = 3600 * 1000

_TAKE = Script.load("take_tokens")


class LimitStore:
    """Token buckets that all API replicas share."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def take(
        self, app_id: str, key_id: str, bucket: str, *, rate: float, burst: int, want: int, now_ms: int
    ) -> RateLimitGrant:
        """Take up to `want` tokens from a shared bucket that refills at `rate` per second, and return the grant.

        `retry_after_ms` is 0 unless nothing was granted."""
        name = keys.limit(app_id, key_id, bucket)
        args: list[str | int | float | bytes] = [float(rate), burst, want, now_ms, LIFE_MS]
        granted, retry_after_ms = await self._server.run(_TAKE, [name], args, hot=True)
        return RateLimitGrant(granted, retry_after_ms)
