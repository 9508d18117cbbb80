"""Assign users to variants permanently. All state is in the store, so any number of assigners give the same results.

choose by hash -> get or set in the store, in one step -> the user gets the stored variant
"""

from __future__ import annotations

from actors.experiments.assignment import choose_variant
from actors.experiments.messages import Assignment, ExperimentEvent
from actors.experiments.treatments import ExperimentCache
from cluster.clock import Clock
from cluster.errors import HouseError, NotFound, Refusal, messages
from cluster.records.experiment import Experiment
from cluster.records.exposure import Exposure
from cluster.store.ports.experiments import AssignMode, ExperimentStore


class ExperimentAssigner:
    """Assigns users to variants."""

    def __init__(self, store: ExperimentStore, clock: Clock, known: ExperimentCache | None = None) -> None:
        self._store = store
        self._clock = clock
        self._cache = known or ExperimentCache(store, clock)

    async def record(self, event: ExperimentEvent) -> Assignment | Refusal:
        """Record an event and return the variant of its user, or a refusal.

        Repeating the call returns the same result and changes nothing.

        Errors:
            NotFound: the experiment does not exist; returned as a refusal
        """
        try:
            experiment = await self._cache.find(event.app_id, event.named)
            if experiment is None:
                raise NotFound(messages.EXPERIMENT_NOT_FOUND)
            return await self._assign(experiment, event)
        except HouseError as error:
            return Refusal.of(error)

    async def _assign(self, experiment: Experiment, event: ExperimentEvent) -> Assignment:
        now_ms, readers, named = self._clock.now_ms(), event.readers, event.variant_name
        fresh = choose_variant(experiment, readers, {}, now_ms=now_ms, variant_name=named)
        if fresh.forced:
            if fresh.in_experiment:
                at_ms = _exposure_time(experiment, event, now_ms)
                exposure = Exposure(fresh.variant.variant_id, at_ms, forced=True, device=event.device)
                await self._store.assign(experiment, readers, exposure, "force", event.writer)
            return Assignment(fresh.in_experiment, fresh.variant)
        proposed = None
        if fresh.remember:
            proposed = Exposure(
                fresh.variant.variant_id, _exposure_time(experiment, event, now_ms), device=event.device
            )
        mode: AssignMode = "take" if experiment.is_running_at(now_ms) else "read"
        stored = await self._store.assign(experiment, readers, proposed, mode, event.writer)
        if stored is None:
            return Assignment(fresh.in_experiment, fresh.variant)
        final = choose_variant(experiment, readers, {readers[0]: stored.variant_id}, now_ms=now_ms)
        return Assignment(final.in_experiment, final.variant)


def _exposure_time(experiment: Experiment, event: ExperimentEvent, now_ms: int) -> int:
    """Return the time of the event, unless it lies in the future or before the start of the experiment."""
    at_ms = now_ms if event.at_ms is None else event.at_ms
    return at_ms if max(experiment.starts_at, 0) <= at_ms <= now_ms else now_ms
