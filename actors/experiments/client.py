"""Typed clients of the assigner, in any placement, and of experiment administration.

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
from actors.experiments.lifecycle import ExperimentLifecycle, experiment_to_dict, parse_drafts
from actors.experiments.messages import (
    EXPERIMENT_MESSAGES,
    Assignment,
    ExperimentEvent,
    LifecycleStep,
)
from actors.experiments.report_data import load_report, validate_snapshots
from actors.experiments.team_draft import seed_draft as seed_draft
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.deadline import run_within
from cluster.errors import Invalid, NewerRelease, NotFound, Refusal, Unavailable, messages
from cluster.meter import Meter, SilentMeter
from cluster.records.experiment import Experiment, ExperimentUpdate
from cluster.store.engines.experiments import ExperimentStore
from cluster.store.stores import Stores

ACTOR_TIMEOUT_S = 0.25
"Time limit of the actor; after it, this process records the event."
ACTOR_RETRY_S = 2.0
"Pause before the next call of an actor that was missing or did not answer."

MAX_DRAFTS = 100
"Maximal number of experiments in one `create`."

FindActor = Callable[[], Awaitable[Any]]
ExperimentDict = dict[str, Any]
"An experiment as JSON."


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


class LocalExperimentAdmin:
    """Administers experiments for programs, like `kiosk experiments`; API replicas see changes within a second.

    Every call but `create` and `list` may raise NotFound for an unknown name.
    """

    def __init__(self, stores: Stores, artifacts: ArtifactStore | None, clock: Clock) -> None:
        self._stores = stores
        self._artifacts = artifacts
        self._clock = clock
        self._lifecycle = ExperimentLifecycle(stores, clock)

    async def create(self, app_id: str, written: Any) -> list[ExperimentDict]:
        """Create drafts from one experiment, an array, or an object with `experiments`; all or none.

        Errors:
            Invalid: a draft makes no sense; Conflict: a slug is taken
        """
        drafts = parse_drafts(written)
        if drafts is None:
            raise Invalid('one experiment, an array of them, or {"experiments": [...]} is expected')
        if len(drafts) > MAX_DRAFTS:
            raise Invalid(f"at most {MAX_DRAFTS} experiments are made at once")
        return [self._to_dict(experiment) for experiment in await self._lifecycle.create(app_id, drafts)]

    async def list(self, app_id: str) -> list[ExperimentDict]:
        """List the experiments of an app, oldest first."""
        return [self._to_dict(experiment) for experiment in await self._lifecycle.list_experiments(app_id)]

    async def show(self, app_id: str, named: str) -> ExperimentDict:
        return self._to_dict(await self._get(app_id, named))

    async def edit(self, app_id: str, named: str, edit: ExperimentUpdate) -> ExperimentDict:
        """Change an experiment in its current status.

        Errors:
            Invalid: the status does not allow the change, or it makes no sense; NotFound: no such variant
        """
        experiment = await self._get(app_id, named)
        return self._to_dict(await self._lifecycle.edit(app_id, experiment.experiment_id, edit))

    async def step(self, app_id: str, named: str, step: LifecycleStep) -> ExperimentDict:
        """Apply a step of the life cycle.

        Errors:
            Invalid, NotFound, Conflict: as `ExperimentLifecycle` raises them
        """
        experiment = await self._get(app_id, named)
        if step == "start":
            validate_snapshots(experiment, self._artifacts)
        take = {
            "start": self._lifecycle.start,
            "pause": self._lifecycle.pause,
            "complete": self._lifecycle.complete,
            "archive": self._lifecycle.archive,
        }[step]
        return self._to_dict(await take(app_id, experiment.experiment_id))

    async def schedule(self, app_id: str, named: str, starts_at: int, ends_at: int | None) -> ExperimentDict:
        """Schedule the start of an experiment, and perhaps its end.

        Errors:
            Invalid, NotFound, Conflict: as `ExperimentLifecycle` raises them
        """
        experiment = await self._get(app_id, named)
        validate_snapshots(experiment, self._artifacts)
        return self._to_dict(
            await self._lifecycle.schedule(app_id, experiment.experiment_id, starts_at, ends_at)
        )

    async def report(self, app_id: str, named: str) -> ExperimentDict:
        return (await load_report(self._stores, self._artifacts, await self._get(app_id, named))).to_dict()

    async def _get(self, app_id: str, named: str) -> Experiment:
        experiment = (await self._stores.experiments.read_all(app_id)).find(named)
        if experiment is None:
            raise NotFound(messages.EXPERIMENT_NOT_FOUND)
        return experiment

    def _to_dict(self, experiment: Experiment) -> ExperimentDict:
        return experiment_to_dict(experiment, self._clock.now_ms())


async def _awaited(reference: Any) -> Any:
    return await reference
