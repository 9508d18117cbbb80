"""Cache the experiments of every app for a short time, and refresh them by their version."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.records.experiment import Experiment
from cluster.store.ports.experiments import ExperimentBook, ExperimentStore
from cluster.store.refreshing_cache import RefreshingCache

MAX_AGE_S = 0.5
"""Maximal age of a cached entry. Schedules do not depend on it: every request compares them with the clock."""


@dataclass(frozen=True, slots=True)
class _CachedBook:
    book: ExperimentBook
    serving: tuple[Experiment, ...]


class ExperimentCache:
    """Caches the experiments of the apps that receive requests."""

    def __init__(self, store: ExperimentStore, clock: Clock, keep_s: float = MAX_AGE_S) -> None:
        self._store = store
        self._cache = RefreshingCache(self._load, clock, keep_s=keep_s)

    async def find(self, app_id: str, named: str) -> Experiment | None:
        """Return an experiment by id or slug; read the store at once when the cache does not hold it.

        Errors:
            Unavailable: the store is unreachable and the cache is empty
        """
        cached = await self._cache.read(app_id)
        experiment = cached.book.find(named)
        if experiment is None:
            with contextlib.suppress(Unavailable):
                cached = await self._cache.refresh(app_id)
            experiment = cached.book.find(named)
        return experiment

    async def list_serving(self, app_id: str) -> tuple[Experiment, ...]:
        """Return the experiments whose variants change recommendations or completions, oldest first.

        Errors:
            Unavailable: the store is unreachable and the cache is empty
        Cost:
            a dictionary look-up; twice a second per app one read of a counter
        """
        return (await self._cache.read(app_id)).serving

    async def _load(self, app_id: str, last: _CachedBook | None) -> _CachedBook:
        if last is not None and await self._store.version(app_id) == last.book.version:
            return last
        book = await self._store.read_all(app_id)
        return _CachedBook(book, tuple(experiment for experiment in book.experiments if experiment.serves))
