"""Results of heavy reads, kept for some seconds and computed once for all who wait."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

from cluster.clock import Clock, SystemClock
from cluster.errors import TooMany

KEEP_S = 30.0
MOST_RESULTS = 64
AT_ONCE = 2
"Computations that run at once; others wait, so that requests of customers keep threads and processors."
MOST_WAITING = 32
MOST_OF_APP = 8
"Computations that run or wait: in all, and of one app."


@dataclass(slots=True)
class _CachedResult:
    task: asyncio.Future[Any]
    ends_s: float = math.inf
    "When the result ends; a computation that waits or runs has no end, however long it takes."


class ResultCache:
    """Keeps results by key; used from one event loop."""

    def __init__(self, clock: Clock | None = None, *, keep_s: float = KEEP_S) -> None:
        self._clock = clock or SystemClock()
        self._keep_s = keep_s
        self._results: dict[Hashable, _CachedResult] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def get(
        self, key: Hashable, compute: Callable[[], Awaitable[Any]], *, keep_s: float | None = None
    ) -> Any:
        """Return the result of a key; compute it if there is none younger than `keep_s`. An error is not kept.

        The second part of a key is the app.

        Errors:
            TooMany: too many computations run or wait; every change of the arguments makes a new one
        """
        now_s = self._clock.monotonic_s()
        entry = self._results.get(key)
        if entry is None or now_s > entry.ends_s or entry.task.cancelled():
            self._evict(now_s)
            self._refuse_more(key)
            entry = self._results[key] = _CachedResult(asyncio.ensure_future(self._compute(compute)))
            keep_s = self._keep_s if keep_s is None else keep_s
            entry.task.add_done_callback(partial(self._end, key, entry, keep_s))
        # one caller that goes away must not end the computation of the others
        return await asyncio.shield(entry.task)

    def _refuse_more(self, key: Hashable) -> None:
        waiting = [
            _app_of(waiting_key) for waiting_key, entry in self._results.items() if not entry.task.done()
        ]
        if len(waiting) >= MOST_WAITING or waiting.count(_app_of(key)) >= MOST_OF_APP:
            raise TooMany("too many reports are being computed; try again", retry_after_s=2)

    async def _compute(self, compute: Callable[[], Awaitable[Any]]) -> Any:
        async with self._turns:
            return await compute()

    def drop(self, key: Hashable) -> None:
        """Forget the result of a key."""
        self._results.pop(key, None)

    def _end(self, key: Hashable, entry: _CachedResult, keep_s: float, task: asyncio.Future[Any]) -> None:
        """Keep a result from its end on; drop a failure, and what nobody keeps."""
        entry.ends_s = self._clock.monotonic_s() + keep_s
        is_kept = keep_s and not task.cancelled() and task.exception() is None
        # Another computation may have taken the key meanwhile.
        if not is_kept and self._results.get(key) is entry:
            del self._results[key]

    def _evict(self, now_s: float) -> None:
        """Drop results that ended, and the oldest; those that wait or run stay, because they are counted."""
        for key, entry in list(self._results.items()):
            if now_s > entry.ends_s:
                del self._results[key]
        ended = [key for key, entry in self._results.items() if entry.task.done()]
        for key in ended[: max(0, len(self._results) - MOST_RESULTS + 1)]:
            del self._results[key]


def _app_of(key: Hashable) -> Hashable:
    return key[1] if isinstance(key, tuple) else key
