"""The typed ways to experiments: to the assigner, wherever it lives, and to an administrator's desk.

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
from actors.experiments.cache import KnownExperiments
from actors.experiments.drafts import drafts_in
from actors.experiments.experiment_json import told
from actors.experiments.lifecycle import ExperimentDesk
from actors.experiments.messages import Assignment, Edit, ExperimentEvent, Step
from actors.experiments.report_data import check_snapshots, gather
from actors.experiments.treatments import Treatments
from cluster.artifacts.artifact_store import Shelf
from cluster.clock import Clock
from cluster.errors import Invalid, NotFound, Refusal, Unavailable, messages
from cluster.meter import Meter, SilentMeter
from cluster.records.experiment import Experiment
from cluster.store.ports.stores import ExperimentStore, Stores

PATIENCE_S = 0.25
"How long the actor may take; then it is done here."
LOOK_S = 2.0
"How long an actor that was not there, or did not answer, is left alone."

MOST_DRAFTS = 100
"Experiments made at once."

Find = Callable[[], Awaitable[Any]]
Told = dict[str, Any]
"An experiment as JSON."


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


class LocalExperimentAdmin:
    """What `kiosk experiments` does, by the same desk, for programs; in force at every door within a second.

    Every call but `create` and `list` may find nothing by the name given: NotFound.
    """

    def __init__(self, stores: Stores, shelf: Shelf | None, clock: Clock) -> None:
        self._stores = stores
        self._shelf = shelf
        self._clock = clock
        self._desk = ExperimentDesk(stores, clock)

    async def create(self, app_id: str, written: Any) -> list[Told]:
        """Make drafts of one experiment, an array of them, or an object with `experiments`; all or none.

        Errors:
            Invalid: a draft makes no sense; Conflict: a slug is taken
        """
        drafts = drafts_in(written)
        if drafts is None:
            raise Invalid('one experiment, an array of them, or {"experiments": [...]} is expected')
        if len(drafts) > MOST_DRAFTS:
            raise Invalid(f"at most {MOST_DRAFTS} experiments are made at once")
        return [self._told(one) for one in await self._desk.create(app_id, drafts)]

    async def list(self, app_id: str) -> list[Told]:
        """List the experiments of an app, oldest first."""
        return [self._told(one) for one in await self._desk.all(app_id)]

    async def show(self, app_id: str, named: str) -> Told:
        """Show one."""
        return self._told(await self._found(app_id, named))

    async def edit(self, app_id: str, named: str, wanted: Edit) -> Told:
        """Change one where it stands.

        Errors:
            Invalid: it stands where this can't be changed, or makes no sense; NotFound: no such variant
        """
        found = await self._found(app_id, named)
        return self._told(await self._desk.edit(app_id, found.experiment_id, wanted))

    async def step(self, app_id: str, named: str, step: Step) -> Told:
        """Take a step of its life.

        Errors:
            Invalid, NotFound, Conflict: as the desk says
        """
        found = await self._found(app_id, named)
        if step == "start":
            check_snapshots(found, self._shelf)
        take = {
            "start": self._desk.start, "pause": self._desk.pause, "complete": self._desk.complete,
            "archive": self._desk.archive,
        }[step]  # fmt: skip
        return self._told(await take(app_id, found.experiment_id))

    async def schedule(self, app_id: str, named: str, starts_at: int, ends_at: int | None) -> Told:
        """Let it run from a moment on, perhaps until another.

        Errors:
            Invalid, NotFound, Conflict: as the desk says
        """
        found = await self._found(app_id, named)
        check_snapshots(found, self._shelf)
        return self._told(await self._desk.schedule(app_id, found.experiment_id, starts_at, ends_at))

    async def report(self, app_id: str, named: str) -> Told:
        """Say what came of it."""
        return (await gather(self._stores, self._shelf, await self._found(app_id, named))).told()

    async def _found(self, app_id: str, named: str) -> Experiment:
        found = (await self._stores.experiments.book(app_id)).find(named)
        if found is None:
            raise NotFound(messages.EXPERIMENT_NOT_FOUND)
        return found

    def _told(self, experiment: Experiment) -> Told:
        return told(experiment, self._clock.now_ms())


async def _awaited(reference: Any) -> Any:
    return await reference


def _unwrap(reply: Assignment | Refusal) -> Assignment:
    if isinstance(reply, Refusal):
        raise reply.error()
    return reply
