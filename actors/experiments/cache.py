"""The experiments of every app, kept for a moment and asked for again by their version."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.records.experiment import Experiment
from cluster.store.ports.experiments import ExperimentBook, ExperimentStore

MAX_AGE_S = 0.5
"""How old what is known may be. A schedule needs none of this: whether an experiment runs is worked out from the
clock at every request."""


@dataclass(slots=True)
class _CachedBook:
    book: ExperimentBook
    until_s: float
    serving: tuple[Experiment, ...]


class ExperimentCache:
    """Follows the books of apps that are asked for."""

    def __init__(self, store: ExperimentStore, clock: Clock, keep_s: float = MAX_AGE_S) -> None:
        self._store = store
        self._clock = clock
        self._keep_s = keep_s
        self._books: dict[str, _CachedBook] = {}
        self._readings: dict[str, asyncio.Task[_CachedBook]] = {}

    async def find(self, app_id: str, named: str) -> Experiment | None:
        """Find an experiment by id or slug; one that is not known yet is looked for at once.

        Errors:
            Unavailable: the store is away and nothing was known before
        """
        found = (await self._get_book(app_id)).book.find(named)
        if found is None:
            found = (await self._read_book(app_id, self._books[app_id])).book.find(named)
        return found

    async def list_serving(self, app_id: str) -> tuple[Experiment, ...]:
        """Give the experiments whose variants change what is served, oldest first.

        Errors:
            Unavailable: the store is away and nothing was known before
        Cost:
            a dictionary look-up; twice a second per app one read of a counter
        """
        return (await self._get_book(app_id)).serving

    async def _get_book(self, app_id: str) -> _CachedBook:
        known = self._books.get(app_id)
        if known is not None and self._clock.monotonic_s() < known.until_s:
            return known
        # whoever comes meanwhile waits for the same read: what was known may be as old as the last request
        reading = self._readings.get(app_id)
        if reading is None or reading.done():
            reading = asyncio.get_running_loop().create_task(self._read_book(app_id, known))
            self._readings[app_id] = reading
        return await asyncio.shield(reading)

    async def _read_book(self, app_id: str, known: _CachedBook | None) -> _CachedBook:
        now_s = self._clock.monotonic_s()
        try:
            if known is not None and await self._store.version(app_id) == known.book.version:
                known.until_s = now_s + self._keep_s
                return known
            book = await self._store.read_all(app_id)
        except Unavailable:
            if known is None:
                raise
            known.until_s = now_s + self._keep_s
            return known
        serving = tuple(experiment for experiment in book.experiments if experiment.serves)
        found = self._books[app_id] = _CachedBook(book, now_s + self._keep_s, serving)
        return found
