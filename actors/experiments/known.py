"""The experiments of every app, kept for a moment and asked for again by their version."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.records.experiment import Experiment
from cluster.store.ports import ExperimentBook, ExperimentStore

KEEP_S = 0.5
"""How old what is known may be. A schedule needs none of this: whether an experiment runs is worked out from the
clock at every request."""


@dataclass(slots=True)
class _Known:
    book: ExperimentBook
    until_s: float
    serving: tuple[Experiment, ...]


class KnownExperiments:
    """Follows the books of apps that are asked for."""

    def __init__(self, store: ExperimentStore, clock: Clock, keep_s: float = KEEP_S) -> None:
        self._store = store
        self._clock = clock
        self._keep_s = keep_s
        self._known: dict[str, _Known] = {}

    async def find(self, app_id: str, named: str) -> Experiment | None:
        """Find an experiment by id or slug; one that is not known yet is looked for at once.

        Errors:
            Unavailable: the store is away and nothing was known before
        """
        found = (await self._current(app_id)).book.find(named)
        if found is None:
            found = (await self._read(app_id, self._known[app_id])).book.find(named)
        return found

    async def serving(self, app_id: str) -> tuple[Experiment, ...]:
        """Give the experiments whose variants change what is served, oldest first.

        Errors:
            Unavailable: the store is away and nothing was known before
        Cost:
            a dictionary look-up; twice a second per app one read of a counter
        """
        return (await self._current(app_id)).serving

    async def _current(self, app_id: str) -> _Known:
        known, now_s = self._known.get(app_id), self._clock.monotonic_s()
        if known is None:
            return await self._read(app_id, None)
        if now_s < known.until_s:
            return known
        # the next one to come need not ask too
        known.until_s = now_s + self._keep_s
        return await self._read(app_id, known)

    async def _read(self, app_id: str, known: _Known | None) -> _Known:
        try:
            if known is not None and await self._store.version(app_id) == known.book.version:
                return known
            book = await self._store.book(app_id)
        except Unavailable:
            if known is None:
                raise
            return known
        serving = tuple(experiment for experiment in book.experiments if experiment.serves)
        found = self._known[app_id] = _Known(book, self._clock.monotonic_s() + self._keep_s, serving)
        return found
