"""Results of heavy reads, kept for some seconds and computed once for all who wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
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


class ResultCache:
    """Keeps results by key; used from one event loop."""

    def __init__(self, clock: Clock | None = None, *, keep_s: float = KEEP_S) -> None:
        self._clock = clock or SystemClock()
        self._keep_s = keep_s
        self._results: dict[Hashable, tuple[float, asyncio.Future[Any]]] = {}
        "Key -> when its result ends, in seconds, and the result."
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
        if entry is None or now_s > entry[0] or entry[1].cancelled():
            self._evict(now_s)
            self._refuse_more(key)
            task = asyncio.ensure_future(self._compute(compute))
            entry = self._results[key] = (now_s + (self._keep_s if keep_s is None else keep_s), task)
            task.add_done_callback(lambda done: self._drop_failed(key, done))
        # one caller that goes away must not end the computation of the others
        return await asyncio.shield(entry[1])

    def _refuse_more(self, key: Hashable) -> None:
        waiting = [
            _app_of(waiting_key) for waiting_key, (_, task) in self._results.items() if not task.done()
        ]
        if len(waiting) >= MOST_WAITING or waiting.count(_app_of(key)) >= MOST_OF_APP:
            raise TooMany("too many reports are being computed; try again", retry_after_s=2)

    async def _compute(self, compute: Callable[[], Awaitable[Any]]) -> Any:
        async with self._turns:
            return await compute()

    def drop(self, key: Hashable) -> None:
        """Forget the result of a key."""
        self._results.pop(key, None)

    def _drop_failed(self, key: Hashable, done: asyncio.Future[Any]) -> None:
        entry = self._results.get(key)
        # Another computation may have taken the key meanwhile.
        if entry is not None and entry[1] is done and (done.cancelled() or done.exception() is not None):
            del self._results[key]

    def _evict(self, now_s: float) -> None:
        for key, (ends_s, _) in list(self._results.items()):
            if now_s > ends_s:
                del self._results[key]
        # Whoever waits for a dropped result still gets it.
        while len(self._results) >= MOST_RESULTS:
            del self._results[next(iter(self._results))]


def _app_of(key: Hashable) -> Hashable:
    return key[1] if isinstance(key, tuple) else key
