"""The typed way to the assigner, wherever it lives.

All the assigner knows stands in the store, where one step decides, so whoever does the thinking gives the same answer
and an event that was recorded twice was recorded once. That leaves the order free:

    here first     doors: no hop, 3 to 4 ms less at rest; the actor is asked while the store is away from here
    actor first    everybody else; the same is done here while the actor is away
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from actors.experiments.assigner import ExperimentAssigner
from actors.experiments.known import KnownExperiments
from actors.experiments.messages import Assignment, ExperimentEvent
from actors.experiments.treatments import Treatments
from cluster.clock import Clock
from cluster.errors import Refusal, Unavailable
from cluster.meter import Meter, SilentMeter
from cluster.store.ports import ExperimentStore

PATIENCE_S = 0.25
"How long the actor may take; then it is done here."
LOOK_S = 2.0
"How long an actor that was not there, or did not answer, is left alone."

Find = Callable[[], Awaitable[Any]]


class ExperimentClient(Protocol):
    """Records experiment events and treats readers; the same behaviour over every placement."""

    treatments: Treatments

    async def record(self, event: ExperimentEvent) -> Assignment:
        """Record an event and say what its reader gets.

        Errors:
            NotFound: no such experiment, or no such variant
            Unavailable: the store is away
        """
        ...


class LocalExperimentClient:
    """The assigner lives in this process."""

    def __init__(self, store: ExperimentStore, clock: Clock, meter: Meter | None = None) -> None:
        known = KnownExperiments(store, clock)
        self._assigner = ExperimentAssigner(store, clock, known)
        self.treatments = Treatments(store, known, clock, meter)

    async def record(self, event: ExperimentEvent) -> Assignment:
        return _unwrap(await self._assigner.record(event))


class ActorExperimentClient:
    """The assigner is a named actor; `find` looks for its handle, `lost` names the errors that say it is away."""

    def __init__(
        self,
        find: Find,
        here: LocalExperimentClient,
        clock: Clock,
        *,
        lost: tuple[type[Exception], ...] = (),
        meter: Meter | None = None,
        patience_s: float = PATIENCE_S,
        here_first: bool = False,
    ) -> None:
        self._find = find
        self._here = here
        self._clock = clock
        self._lost: tuple[type[Exception], ...] = (asyncio.TimeoutError, *lost)
        self._meter = meter or SilentMeter()
        self._patience_s = patience_s
        self._here_first = here_first
        self._handle: Any = None
        self._again_s = 0.0
        self._looking: asyncio.Task[None] | None = None
        self.treatments = here.treatments

    async def record(self, event: ExperimentEvent) -> Assignment:
        if not self._here_first:
            return await self._by_actor(event) or await self._here.record(event)
        try:
            return await self._here.record(event)
        except Unavailable:
            # the store may be away from here only
            found = await self._by_actor(event)
            if found is None:
                raise
            return found

    async def _by_actor(self, event: ExperimentEvent) -> Assignment | None:
        """Ask the actor; None while it is away."""
        if self._clock.monotonic_s() >= self._again_s:
            if self._handle is not None:
                try:
                    return _unwrap(await self._asked(event))
                except self._lost:
                    self._leave_alone()
                    self._handle = None
            elif self._looking is None or self._looking.done():
                self._looking = asyncio.get_running_loop().create_task(self._look())
        self._meter.count("kiosk_assigner_misses_total")
        return None

    async def close(self) -> None:
        """Stop looking."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _asked(self, event: ExperimentEvent) -> Assignment | Refusal:
        reply: Assignment | Refusal = await asyncio.wait_for(
            _awaited(self._handle.record.remote(event)), self._patience_s
        )
        return reply

    async def _look(self) -> None:
        self._handle = await self._find()
        if self._handle is None:
            self._leave_alone()

    def _leave_alone(self) -> None:
        self._again_s = self._clock.monotonic_s() + LOOK_S


async def _awaited(reference: Any) -> Any:
    return await reference


def _unwrap(reply: Assignment | Refusal) -> Assignment:
    if isinstance(reply, Refusal):
        raise reply.error()
    return reply
