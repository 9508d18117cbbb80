"""Results of heavy reads, kept for some seconds and computed once for all who wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from cluster.clock import Clock, SystemClock

KEEP_S = 30.0
MOST_RESULTS = 64


class ResultCache:
    """Keeps results by key; used from one event loop."""

    def __init__(self, clock: Clock | None = None, *, keep_s: float = KEEP_S) -> None:
        self._clock = clock or SystemClock()
        self._keep_s = keep_s
        self._results: dict[Hashable, tuple[float, asyncio.Future[Any]]] = {}
        "Key -> when its result ends, in seconds, and the result."

    async def get(
        self, key: Hashable, compute: Callable[[], Awaitable[Any]], *, keep_s: float | None = None
    ) -> Any:
        """Return the result of a key; compute it if there is none younger than `keep_s`. An error is not kept."""
        now_s = self._clock.monotonic_s()
        entry = self._results.get(key)
        if entry is None or now_s > entry[0] or entry[1].cancelled():
            self._evict(now_s)
            task = asyncio.ensure_future(_awaited(compute))
            entry = self._results[key] = (now_s + (self._keep_s if keep_s is None else keep_s), task)
            task.add_done_callback(lambda done: self._drop_failed(key, done))
        # one caller that goes away must not end the computation of the others
        return await asyncio.shield(entry[1])

    def drop(self, key: Hashable) -> None:
        """Forget the result of a key."""
        self._results.pop(key, None)

    def _drop_failed(self, key: Hashable, done: asyncio.Future[Any]) -> None:
        entry = self._results.get(key)
        if entry is not None and entry[1] is done and (done.cancelled() or done.exception() is not None):
            del self._results[key]

    def _evict(self, now_s: float) -> None:
        for key, (ends_s, _) in list(self._results.items()):
            if now_s > ends_s:
                del self._results[key]
        while len(self._results) >= MOST_RESULTS:
            del self._results[next(iter(self._results))]


async def _awaited(compute: Callable[[], Awaitable[Any]]) -> Any:
    return await compute()
