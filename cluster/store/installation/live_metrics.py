"""Counts of what all API replicas answered, in windows of ten seconds that are kept for half an hour."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import split_pairs, text_of
from cluster.store.client.script import Script

WINDOW_MS = 10_000
LIFE_MS = 30 * 60_000

_ADD = Script.load("add_figures")


class LiveFigureStore:
    """Adds and reads windows; replicas add to the same ones."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def add(self, counts: Mapping[str, int], now_ms: int) -> None:
        """Add counts to the window of now."""
        if counts:
            flat = [part for name, count in counts.items() for part in (name, count)]
            await self._server.run(_ADD, [keys.live_figures(now_ms // WINDOW_MS)], [LIFE_MS, *flat])

    async def read(self, now_ms: int, windows: int) -> list[dict[str, int]]:
        """Return the last windows, the oldest first; the last one is still being filled."""
        newest = now_ms // WINDOW_MS
        replies = await asyncio.gather(
            *(
                self._server.execute_slow("HGETALL", keys.live_figures(window))
                for window in range(newest - windows + 1, newest + 1)
            )
        )
        return [{text_of(name): int(value) for name, value in split_pairs(flat)} for flat in replies]
