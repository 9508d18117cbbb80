"""Assign the variants of queries that the API replica answers itself: recommendations and completions.

A user who takes part and requests recommendations meets the variant with that request. The assigner records this
exposure, so the client sends no event. Users without any id take no part: nothing identifies them at the next request.
The experiments of every app are cached for a short time and refreshed by their version.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from actors.experiments.assignment import VariantChoice, choose_variant
from actors.experiments.messages import ExperimentTreatment
from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.meter import Meter, SilentMeter
from cluster.records.experiment import LATENCY_MS, Experiment
from cluster.records.exposure import Exposure
from cluster.store.ports.experiments import ExperimentBook, ExperimentStore
from cluster.store.ports.interactions import BrowserWriter
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


_OVER: Final = "over"


def _no_writer() -> BrowserWriter | None:
    return None


class TreatmentAssigner:
    """Chooses, records and counts the variants of served requests."""

    def __init__(
        self, store: ExperimentStore, known: ExperimentCache, clock: Clock, meter: Meter | None = None
    ) -> None:
        self._store = store
        self._cache = known
        self._clock = clock
        self._meter = meter or SilentMeter()
        self._counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)

    async def assign(
        self,
        app_id: str,
        engine_id: str,
        readers: Sequence[str],
        *,
        through: str,
        device: str = "",
        writer: Callable[[], BrowserWriter | None] = _no_writer,
    ) -> tuple[ExperimentTreatment, ...]:
        """Return the variants of a user of an engine, oldest experiment first, and record the exposure.

        When there is a new exposure to record, `writer` returns how many new users the caller may add. Without the
        store, the user gets the variant of the hash, which nearly all users have, and nothing is recorded.

        Cost:
            a dictionary look-up when no experiment of the app serves; else one trip to the store an experiment
        """
        if not readers:
            return ()
        try:
            serving = await self._cache.list_serving(app_id)
        except Unavailable:
            return ()
        if not serving:
            return ()
        now_ms, found = self._clock.now_ms(), []
        for experiment in serving:
            if engine_id in experiment.engines and experiment.is_running_at(now_ms):
                met = Exposure("", now_ms, through=through, device=device)
                choice = await self._choose(experiment, tuple(readers), met, writer())
                if choice.in_experiment:
                    found.append(ExperimentTreatment(app_id, experiment.experiment_id, choice.variant))
        return tuple(found)

    def record(self, treatments: Sequence[ExperimentTreatment], took_ms: float, *, failed: bool) -> None:
        """Count a treated request, its result and its latency."""
        at = bisect_left(LATENCY_MS, took_ms)
        bucket = str(LATENCY_MS[at]) if at < len(LATENCY_MS) else _OVER
        for treatment in treatments:
            counts = self._counts[treatment.app_id, treatment.experiment_id]
            counts[f"{treatment.variant.variant_id}:{'failed' if failed else bucket}"] += 1

    async def flush(self) -> None:
        """Write the counts to the store; keep those that the store refuses for the next time."""
        for name, counts in list(self._counts.items()):
            del self._counts[name]
            try:
                await self._store.record_served(*name, counts)
            except Unavailable:
                self._counts[name].update(counts)
                return

    async def _choose(
        self, experiment: Experiment, readers: tuple[str, ...], met: Exposure, writer: BrowserWriter | None
    ) -> VariantChoice:
        now_ms = met.at_ms
        fresh = choose_variant(experiment, readers, {}, now_ms=now_ms)
        proposed = replace(met, variant_id=fresh.variant.variant_id) if fresh.remember else None
        try:
            held = await self._store.assign(experiment, readers, proposed, "take", writer)
        except Unavailable:
            self._meter.count("kiosk_exposure_misses_total")
            return fresh
        if held is None:
            return fresh
        return choose_variant(experiment, readers, {readers[0]: held.variant_id}, now_ms=now_ms)
