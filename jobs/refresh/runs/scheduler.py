"""Fire schedules, find runs without a worker, and start workers. A lease lets one scheduler work at a time.

The scheduler finds new runs, and runs whose worker lost its lease. When the pool reports a dead worker, the scheduler
frees the run at once. The pool only gives hints: the record of a run decides who may write.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from cluster.clock import Clock
from cluster.errors import KioskError
from cluster.ids import new_request_id
from cluster.records.run import Run, Schedule, due_slot, fail_exhausted_run, is_free, release_run, run_id_of
from cluster.store.stores import Stores
from jobs.refresh.runs.run_commands import create_run, update_run

SCHEDULER_LEASE = "trainer"
# Six rounds: a scheduler that dies is replaced within seconds, one slow round loses nothing.
LEASE_MS = 6_000


@dataclass(frozen=True, slots=True)
class RunAssignment:
    """One worker and the run it was started for."""

    app_id: str
    run_id: str
    owner: str
    code: str = ""
    "Digest of the code that was shipped with the run."


class WorkerPool(Protocol):
    """Starts workers, as processes or as Ray tasks."""

    @property
    def capacity(self) -> int:
        """The number of workers that may work at once."""
        ...

    def start(self, assignment: RunAssignment) -> None:
        """Start a worker; the worker claims the run for the owner of the assignment."""
        ...

    def collect_finished(self) -> list[RunAssignment]:
        """Return the workers that have ended since the last call, with or without success."""
        ...


class RunScheduler:
    """Fires the schedules and starts the workers of all apps."""

    def __init__(self, stores: Stores, pool: WorkerPool, clock: Clock, *, owner: str) -> None:
        self._stores = stores
        self._pool = pool
        self._clock = clock
        self._owner = owner
        self._sent: dict[tuple[str, str], RunAssignment] = {}
        self._log = structlog.get_logger()

    async def run_once(self) -> int:
        """Fire due schedules and start workers; return the number of started workers, 0 without the lease."""
        # Also without the lease: runs of workers of this process that died become free.
        await self._collect_finished()
        if not await self._stores.leases.hold(SCHEDULER_LEASE, self._owner, LEASE_MS):
            return 0
        book = await self._stores.access.read_all()
        for app_id in sorted(book.apps):
            await self._fire_schedules(app_id)
        sent = 0
        for run in await self._find_waiting_runs(sorted(book.apps)):
            if len(self._sent) >= self._pool.capacity:
                break
            self._start_worker(run)
            sent += 1
        return sent

    async def release(self) -> None:
        """Release the lease, so that another scheduler can begin at once."""
        await self._stores.leases.release(SCHEDULER_LEASE, self._owner)

    async def _find_waiting_runs(self, app_ids: list[str]) -> list[Run]:
        """Return runs without a worker, oldest first; fail those whose workers die every time."""
        waiting = []
        for app_id in app_ids:
            for run in await self._stores.runs.list_open(app_id):
                now_ms = self._clock.now_ms()
                if (app_id, run.run_id) in self._sent or not is_free(run, now_ms):
                    continue
                given_up = fail_exhausted_run(run, now_ms)
                if given_up is None:
                    waiting.append(run)
                # Compare and set: a worker that was only slow may have written meanwhile, and keeps its run.
                elif await self._stores.runs.compare_and_set(given_up) is not None:
                    self._log.error("run_given_up", app=app_id, run=run.run_id, reason=given_up.error)
        return sorted(waiting, key=lambda run: (run.created_at, run.run_id))

    async def _fire_schedules(self, app_id: str) -> None:
        for schedule in await self._stores.schedules.all(app_id):
            now_ms = self._clock.now_ms()
            # Known in the handler: a refusal before the slot was computed can't skip it.
            slot = None
            try:
                slot = due_slot(schedule, now_ms)
                if slot is not None:
                    await self._fire_schedule(schedule, slot, now_ms)
            except KioskError as error:
                if slot is not None and "bound" in error.facts:
                    await self._skip_slot(schedule, slot, error)
                    continue
                self._log.error("schedule_failed", app=app_id, schedule=schedule.name, reason=error.message)

    async def _fire_schedule(self, schedule: Schedule, slot: int, now_ms: int) -> None:
        # create the run before the mark: its id makes a second firing harmless
        run = await create_run(
            self._stores,
            schedule.app_id,
            schedule.engine_id,
            schedule.recipe,
            now_ms=now_ms,
            by=f"schedule {schedule.name}",
            promote=schedule.promote,
            run_id=run_id_of(schedule, slot),
        )
        await self._mark_slot(schedule, slot)
        self._log.info("schedule_fired", app=schedule.app_id, schedule=schedule.name, run=run.run_id)

    async def _skip_slot(self, schedule: Schedule, slot: int, error: KioskError) -> None:
        """Skip a slot that a bound of the app refuses, so that the next slot is the next attempt."""
        await self._mark_slot(schedule, slot)
        self._log.warning(
            "schedule_skipped", app=schedule.app_id, schedule=schedule.name, reason=error.message
        )

    async def _mark_slot(self, schedule: Schedule, slot: int) -> None:
        # The schedule may have been changed or removed since it was read: only its newest slot is written.
        await self._stores.schedules.update(
            schedule.app_id,
            schedule.name,
            lambda stored: stored.model_copy(update={"last_slot": max(stored.last_slot, slot)}),
        )

    def _start_worker(self, run: Run) -> None:
        assignment = RunAssignment(run.app_id, run.run_id, f"{self._owner} {new_request_id()}", run.code)
        # After the start: a run whose worker could not be started stays free for the next round.
        self._pool.start(assignment)
        self._sent[run.app_id, run.run_id] = assignment
        self._log.info("worker_sent", app=run.app_id, run=run.run_id, attempt=run.attempt + 1)

    async def _collect_finished(self) -> None:
        gone = self._pool.collect_finished()
        # free the places of finished workers first, so that they are free even if the store does not answer
        for assignment in gone:
            if self._sent.get((assignment.app_id, assignment.run_id)) == assignment:
                del self._sent[assignment.app_id, assignment.run_id]
        for assignment in gone:
            run = await self._stores.runs.get(assignment.app_id, assignment.run_id)
            if run is None:
                continue
            # Only while the run belongs to this worker: another one may have taken it over since.
            released = await update_run(self._stores, run, partial(release_run, owner=assignment.owner))
            if released:
                self._log.warning(
                    "worker_died", app=assignment.app_id, run=assignment.run_id, attempt=run.attempt
                )
