"""The foreman: fires schedules, finds runs nobody works on, and sends workers. One is at work at a time (a lease).

A run is found when it is new, and when its worker's lease ran out. A worker that the crew knows to be gone is not
waited for: its run is freed at once. What the crew says is a hint; the run's record decides who may write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import structlog

from cluster.clock import Clock
from cluster.errors import HouseError
from cluster.ids import new_request_id
from cluster.records.run import Run, freed, is_free, worn_out
from cluster.records.schedule import Schedule, due_slot, run_id_of
from cluster.store.ports.stores import Stores
from jobs.refresh.runs.run_commands import order, step

LEASE = "trainer"
LEASE_MS = 6_000


@dataclass(frozen=True, slots=True)
class Errand:
    """A worker that was sent."""

    app_id: str
    run_id: str
    owner: str
    code: str = ""
    "Digest of the code that was shipped with the run."


class Crew(Protocol):
    """Whoever starts workers."""

    @property
    def places(self) -> int:
        """How many may work at once."""
        ...

    def send(self, errand: Errand) -> None:
        """Start a worker; it claims the run under the errand's owner."""
        ...

    def gone(self) -> list[Errand]:
        """Say which workers have ended since the last time, well or badly."""
        ...


class Foreman:
    """Looks after the runs and schedules of all apps."""

    def __init__(self, stores: Stores, crew: Crew, clock: Clock, *, owner: str) -> None:
        self._stores = stores
        self._crew = crew
        self._clock = clock
        self._owner = owner
        self._sent: dict[tuple[str, str], Errand] = {}
        self._log = structlog.get_logger()

    @property
    def at_work(self) -> int:
        """Workers that were sent and have not come back."""
        return len(self._sent)

    async def round(self) -> int:
        """Look once; return how many workers were sent. Nothing is done while another foreman holds the lease.

        Errors:
            Unavailable: the store is away
        """
        await self._welcome_back()
        if not await self._stores.leases.hold(LEASE, self._owner, LEASE_MS):
            return 0
        book = await self._stores.access.book()
        for app_id in sorted(book.apps):
            await self._fire_schedules(app_id)
        sent = 0
        for run in await self._waiting(sorted(book.apps)):
            if len(self._sent) >= self._crew.places:
                break
            self._send(run)
            sent += 1
        return sent

    async def end(self) -> None:
        """Let another foreman begin at once."""
        await self._stores.leases.release(LEASE, self._owner)

    async def _waiting(self, app_ids: list[str]) -> list[Run]:
        """Find runs that nobody works on, oldest first, and end those whose workers die every time."""
        found = []
        for app_id in app_ids:
            for run in await self._stores.runs.open(app_id):
                now_ms = self._clock.now_ms()
                if (app_id, run.run_id) in self._sent or not is_free(run, now_ms):
                    continue
                given_up = worn_out(run, now_ms)
                if given_up is None:
                    found.append(run)
                elif await self._stores.runs.swap(given_up) is not None:
                    self._log.error("run_given_up", app=app_id, run=run.run_id, reason=given_up.error)
        return sorted(found, key=lambda run: (run.created_at, run.run_id))

    async def _fire_schedules(self, app_id: str) -> None:
        for schedule in await self._stores.schedules.all(app_id):
            now_ms = self._clock.now_ms()
            try:
                slot = due_slot(schedule, now_ms)
                if slot is not None:
                    await self._fire(schedule, slot, now_ms)
            except HouseError as error:
                self._log.error("schedule_failed", app=app_id, schedule=schedule.name, reason=error.message)

    async def _fire(self, schedule: Schedule, slot: int, now_ms: int) -> None:
        # first the run, whose name makes a second firing harmless, then the mark
        run = await order(
            self._stores,
            schedule.app_id,
            schedule.engine_id,
            schedule.recipe,
            now_ms=now_ms,
            by=f"schedule {schedule.name}",
            promote=schedule.promote,
            run_id=run_id_of(schedule, slot),
        )
        await self._stores.schedules.put(schedule.model_copy(update={"last_slot": slot}))
        self._log.info("schedule_fired", app=schedule.app_id, schedule=schedule.name, run=run.run_id)

    def _send(self, run: Run) -> None:
        errand = Errand(run.app_id, run.run_id, f"{self._owner} {new_request_id()}", run.code)
        self._sent[run.app_id, run.run_id] = errand
        self._crew.send(errand)
        self._log.info("worker_sent", app=run.app_id, run=run.run_id, attempt=run.attempt + 1)

    async def _welcome_back(self) -> None:
        gone = self._crew.gone()
        # forgotten before anything is asked of the store: when it is away, their places must not stay taken for ever
        for errand in gone:
            if self._sent.get((errand.app_id, errand.run_id)) == errand:
                del self._sent[errand.app_id, errand.run_id]
        for errand in gone:
            run = await self._stores.runs.get(errand.app_id, errand.run_id)
            if run is not None and await step(self._stores, run, lambda now: freed(now, errand.owner)):  # noqa: B023
                self._log.warning("worker_died", app=errand.app_id, run=errand.run_id, attempt=run.attempt)
