"""Typed clients of the assigner, in any placement.

The store holds all state of the assigner and decides each assignment in one step. Any process therefore returns the
same result, and a repeated event is recorded once. So a client may try either way first:

    local first    API replicas: no hop, 3 to 4 ms less at rest; the actor when this process can't reach the store
    actor first    all other processes; this process when the actor is unreachable
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

from actors.experiments.assignment import ExperimentAssigner, ExperimentCache, TreatmentAssigner
from actors.experiments.messages import (
    EXPERIMENT_MESSAGES,
    Assignment,
    ExperimentEvent,
)
from actors.experiments.team_draft import seed_draft as seed_draft
from cluster.clock import Clock
from cluster.deadline import run_within
from cluster.errors import NewerRelease, Refusal, Unavailable
from cluster.meter import Meter, SilentMeter
from cluster.store.engines.experiments import ExperimentStore

ACTOR_TIMEOUT_S = 0.25
"Time limit of the actor; after it, this process records the event."
ACTOR_RETRY_S = 2.0
"Pause before the next call of an actor that was missing or did not answer."

FindActor = Callable[[], Awaitable[Any]]


class ExperimentClient(Protocol):
    """Records experiment events and assigns treatments; the same behaviour in every placement."""

    treatments: TreatmentAssigner

    async def record(self, event: ExperimentEvent) -> Assignment:
        """Record an event and return the assignment of its user.

        Errors:
            NotFound: no such experiment, or no such variant
            Unavailable: the store is unreachable
        """
        ...


class LocalExperimentClient:
    """Runs the assigner in this process."""

    def __init__(self, store: ExperimentStore, clock: Clock, meter: Meter | None = None) -> None:
        cache = ExperimentCache(store, clock)
        self._assigner = ExperimentAssigner(store, clock, cache)
        self.treatments = TreatmentAssigner(store, cache, clock, meter)

    async def record(self, event: ExperimentEvent) -> Assignment:
        return await self._assigner.record(event)


class ActorExperimentClient:
    """Calls the assigner actor; `find` returns its handle, `lost` names the errors that mean it is unreachable."""

    def __init__(
        self,
        find: FindActor,
        local: LocalExperimentClient,
        clock: Clock,
        *,
        lost: tuple[type[Exception], ...] = (),
        meter: Meter | None = None,
        patience_s: float = ACTOR_TIMEOUT_S,
        local_first: bool = False,
    ) -> None:
        self._find = find
        self._local = local
        self._clock = clock
        # An actor of another release may not read the event: the local assigner does.
        self._lost: tuple[type[Exception], ...] = (asyncio.TimeoutError, NewerRelease, *lost)
        self._meter = meter or SilentMeter()
        self._patience_s = patience_s
        self._local_first = local_first
        self._handle: Any = None
        self._again_s = 0.0
        self._looking: asyncio.Task[None] | None = None
        self.treatments = local.treatments

    async def record(self, event: ExperimentEvent) -> Assignment:
        if not self._local_first:
            return await self._record_by_actor(event) or await self._local.record(event)
        try:
            return await self._local.record(event)
        except Unavailable:
            # only this process may have lost the store
            assignment = await self._record_by_actor(event)
            if assignment is None:
                raise
            return assignment

    async def _record_by_actor(self, event: ExperimentEvent) -> Assignment | None:
        """Call the actor; None while it is unreachable."""
        if self._clock.monotonic_s() >= self._again_s:
            if self._handle is not None:
                try:
                    return await self._call_actor(event)
                except self._lost:
                    self._delay_retry()
                    self._handle = None
            # Looked for beside the request, which is answered here meanwhile.
            elif self._looking is None or self._looking.done():
                self._looking = asyncio.get_running_loop().create_task(self._find_actor())
        self._meter.count("kiosk_assigner_misses_total")
        return None

    async def close(self) -> None:
        """Stop the search for the actor."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _call_actor(self, event: ExperimentEvent) -> Assignment:
        payload = EXPERIMENT_MESSAGES.encode(event)
        reply = EXPERIMENT_MESSAGES.decode(
            await run_within(_awaited(self._handle.record.remote(payload)), self._patience_s)
        )
        if isinstance(reply, Refusal):
            raise reply.error()
        return cast("Assignment", reply)

    async def _find_actor(self) -> None:
        self._handle = await self._find()
        if self._handle is None:
            self._delay_retry()

    def _delay_retry(self) -> None:
        self._again_s = self._clock.monotonic_s() + ACTOR_RETRY_S


async def _awaited(reference: Any) -> Any:
    return await reference
