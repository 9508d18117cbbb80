"""Run the intake without Ray: find the apps, apply accepted uploads, compact applied changes.

A lease allows one loop at a time, so the batches of an app are applied in the order of their acceptance. Batches of
one app run one after the other, apps in parallel. When a batch fails, the loop applies the app's batches one at a time
until one succeeds, so that only failing batches count deliveries.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from actors.hosting.job_lease import JobLease
from actors.intake.applier import BatchApplier, LostTaskSweeper
from actors.intake.compaction import ChangeLogCompactor, CompactionConfig, SegmentRebuilder
from actors.intake.daily_log_compaction import KEEP_DAYS, DailyLogCompactionConfig, DailyLogCompactor
from actors.intake.erasure import PersonEraser
from actors.intake.outcome_attribution import OutcomeAttributor
from actors.intake.storage_meter import StorageMeter
from actors.language.hashing_embedder import Embedder
from cluster.admin.local_person_files import LocalPersonFiles
from cluster.artifacts.logs.call_log import CallLogStore
from cluster.artifacts.logs.query_log import QueryLogStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.deadline import run_within
from cluster.errors import KioskError, Unavailable
from cluster.meter import Meter
from cluster.store.data.intake import Batch
from cluster.store.stores import Stores

LEASE = "intake"
CONSUMER = "intake"
"""All incarnations share one consumer name: a restarted loop receives unfinished batches at once."""


@dataclass(frozen=True, slots=True)
class IntakeConfig:
    """Batch sizes and pauses of the loop."""

    claim: int = 32
    "Batches claimed at a time."
    block_ms: int = 400
    "The longest wait for a new batch; also the maximal delay until a new app is noticed."
    apps_every_s: float = 0.5
    compaction_pause_s: float = 1.0
    attribution_pause_s: float = 5.0
    erase_pause_s: float = 1.0
    watch_every_s: float = 5.0
    lease_ms: int = 6_000
    first_rest_s: float = 0.1
    "Pause after a failure; doubles up to:"
    longest_rest_s: float = 2.0
    compaction: CompactionConfig = field(default_factory=CompactionConfig)
    logs: DailyLogCompactionConfig = field(default_factory=DailyLogCompactionConfig)


@dataclass(slots=True)
class IntakeState:
    """The public state of a loop; counters since its start."""

    working: bool = False
    "Whether the loop holds the lease."
    apps: int = 0
    applied: int = 0
    already: int = 0
    given_up: int = 0
    failures: int = 0
    away: int = 0
    "Number of failures of the store."
    ended_tasks: int = 0
    settled_rows: int = 0
    troubled: list[str] = field(default_factory=list)
    "Apps whose compaction fails."
    progress_s: float = 0.0
    "Monotonic time of the last heartbeat of the applying loop."


class IntakeLoop:
    """Applies and compacts until it is stopped. It can be killed at any time."""

    def __init__(
        self,
        stores: Stores,
        segments: SegmentStore | None,
        embedder: Embedder,
        clock: Clock,
        meter: Meter,
        *,
        owner: str,
        rules: IntakeConfig | None = None,
        files: LocalPersonFiles | None = None,
        owns_redis: bool = True,
    ) -> None:
        self._stores = stores
        self._clock = clock
        self._meter = meter
        self._rules = IntakeConfig() if rules is None else rules
        self._lease = JobLease(stores.leases, LEASE, owner, clock, ttl_ms=self._rules.lease_ms)
        self._applier = BatchApplier(stores.intake, embedder, clock, meter)
        self._sweeper = LostTaskSweeper(stores, clock, meter)
        self._compactor: ChangeLogCompactor | None = None
        self._logs: tuple[DailyLogCompactor[Any], ...] = ()
        self._served_days: dict[str, int] = {}
        self._attributor: OutcomeAttributor | None = None
        self._eraser: PersonEraser | None = None
        self._storage: StorageMeter | None = None
        if segments is not None:
            self._storage = StorageMeter(stores.usage, segments.artifacts, clock)
            rebuilder = SegmentRebuilder(stores, segments, embedder, clock)
            self._logs = self._open_log_compactors(stores, segments.artifacts)
            self._attributor = OutcomeAttributor(stores, segments.artifacts, clock, meter)
            self._compactor = ChangeLogCompactor(
                stores.changes,
                segments,
                rebuilder,
                clock,
                meter,
                self._rules.compaction,
                self._delete_log_rows,
                self._want_new_log_file,
            )
            if files is not None:  # an ingest that applies its uploads itself does not execute orders
                self._eraser = PersonEraser(
                    stores,
                    segments.artifacts,
                    self._compactor,
                    self._delete_log_rows,
                    clock,
                    files,
                    owns_redis=owns_redis,
                )
        self._apps: dict[str, bool] = {}
        "App -> are its batches applied one at a time?"
        self._storage_bounds: dict[str, int] = {}
        "Apps with a bound on storage."
        self._pauses: dict[str, tuple[float, float]] = {}
        "App -> (end, length) of its pause after a failure."
        self._lost: dict[str, int] = {}
        "App -> claims whose reply was lost, since the first delivery of a batch."
        self._version = -1
        self._looked_s = float("-inf")
        self._stopping = asyncio.Event()
        self._state = IntakeState()
        self._log = structlog.get_logger()

    def _open_log_compactors(
        self, stores: Stores, artifacts: ArtifactStore
    ) -> tuple[DailyLogCompactor[Any], ...]:
        clock = self._clock
        meter = self._meter
        pace = self._rules.logs
        served = ServedLogStore(artifacts, clock)
        calls = CallLogStore(artifacts, clock)
        days = self._find_served_days
        return (
            DailyLogCompactor(stores.queries, QueryLogStore(artifacts, clock), clock, meter, pace),
            DailyLogCompactor(stores.served, served, clock, meter, pace, keep_days=days),
            DailyLogCompactor(stores.archive_calls, calls, clock, meter, pace, keep_days=days),
        )

    async def run(self) -> None:
        """Work until `stop`, despite failures of the store or of a batch."""
        duties = (
            self._repeat("intake", self._apply_duty, 0.0),
            self._repeat("settle", self._compaction_duty, self._rules.compaction_pause_s),
            self._repeat("attribute", self._attribution_duty, self._rules.attribution_pause_s),
            self._repeat("erase", self._erase_duty, self._rules.erase_pause_s),
            self._repeat("watch", self._sweep_duty, self._rules.watch_every_s),
            # a sixth of the life of the lease, in seconds: a few failed renewals do not lose it
            self._repeat("lease", self._lease_duty, self._rules.lease_ms / 6000),
        )
        tasks = [asyncio.create_task(duty) for duty in duties]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        # Only now: another loop may begin as soon as the lease is free.
        try:
            await self._lease.release()
        except Unavailable:
            self._log.info("lease_left_to_expire")

    def stop(self) -> None:
        """End `run` after the current batch."""
        self._stopping.set()

    def state(self) -> IntakeState:
        """Return the counters."""
        self._state.working = self._lease.is_owned
        self._state.apps = len(self._apps)
        self._state.troubled = self._compactor.list_failing() if self._compactor else []
        return self._state

    async def apply_round(self, block_ms: int = 0) -> int:
        """Claim and apply waiting batches; return how many ended."""
        await self._find_apps()
        ended = 0
        now_s = self._clock.monotonic_s()
        ready = [app_id for app_id in self._apps if self._pauses.get(app_id, (0.0, 0.0))[0] <= now_s]
        # One at a time after a failure: the count of deliveries then names the batch that fails.
        for app_id in [app_id for app_id in ready if self._apps[app_id]]:
            batches = await self._claim([app_id], 1, 0)
            # Unfinished batches are delivered first, so a first delivery shows that no failed one is left.
            self._apps[app_id] = bool(batches) and batches[0].deliveries > 1
            ended += await self._apply_all(app_id, batches)
        eager = [app_id for app_id in ready if not self._apps[app_id]]
        if not eager:
            return ended
        # A wait blocks the round, so it needs that no app rests or takes its batches one at a time.
        wait_ms = 0 if ended or len(eager) < len(self._apps) else block_ms
        claimed = await self._claim(eager, self._rules.claim, wait_ms)
        by_app: defaultdict[str, list[Batch]] = defaultdict(list)
        for batch in claimed:
            by_app[batch.app_id].append(batch)
        runs = [self._apply_all(app_id, batches) for app_id, batches in by_app.items()]
        away: BaseException | None = None
        # The failure of one app is raised after the others have ended their batches.
        for done in await asyncio.gather(*runs, return_exceptions=True):
            if isinstance(done, BaseException):
                away = done
            else:
                ended += done
        if away is not None:
            raise away
        return ended

    async def compact_round(self, *, at_once: bool = False) -> int:
        """Compact the changes that are due; return the number of rows written."""
        if self._compactor is None:
            return 0
        await self._find_apps()
        for log in self._logs:  # first: they rest while the artifact store is away, and records do not
            await log.run_once(list(self._apps), at_once=at_once)
        rows = await self._compactor.run_once(list(self._apps), at_once=at_once)
        self._state.settled_rows += rows
        if self._storage is not None and self._storage_bounds:
            await self._storage.run_once(self._storage_bounds, at_once=at_once or rows > 0)
        return rows

    async def attribute_round(self, *, at_once: bool = False) -> int:
        """Attribute interactions to answers where that is due; return the number of days that were computed."""
        if self._attributor is None:
            return 0
        await self._find_apps()
        return await self._attributor.run_once(self._served_days, at_once=at_once)

    async def sweep_round(self) -> int:
        """End tasks whose batch no longer exists; return how many."""
        await self._find_apps()
        ended = await self._sweeper.run_once(list(self._apps))
        self._state.ended_tasks += ended
        return ended

    async def _repeat(self, duty: str, act: Callable[[], Awaitable[None]], pause_s: float) -> None:
        away = False
        while not self._stopping.is_set():
            rest_s = pause_s
            try:
                await act()
                if away:
                    self._log.info("store_back", duty=duty)
                away = False
            except Unavailable as error:
                self._state.away += not away
                if not away:
                    self._log.warning("store_away", duty=duty, reason=error.message)
                away = True
                rest_s = max(pause_s, 0.5)
            except Exception:  # noqa: BLE001
                # a duty must survive any failure of one of its rounds
                self._state.failures += 1
                self._meter.count("kiosk_intake_failures", duty=duty)
                self._log.exception("duty_failed", duty=duty)
                rest_s = max(pause_s, 1.0)
            await self._pause(rest_s)

    async def _pause(self, for_s: float) -> None:
        if for_s <= 0:
            await asyncio.sleep(0)
            return
        try:
            await run_within(self._stopping.wait(), for_s)
        except asyncio.TimeoutError:
            return

    async def _lease_duty(self) -> None:
        was = self._lease.is_owned
        ours = await self._lease.renew()
        if ours != was:
            self._log.info("lease_taken" if ours else "lease_with_another")
        if not ours:
            self._sweeper.clear()
        if not ours and self._compactor is not None:
            # Its offsets and rows are those of the former owner: they would be written a second time.
            self._compactor.clear()
        for log in () if ours else self._logs:
            log.clear_offsets()

    async def _apply_duty(self) -> None:
        self._state.progress_s = self._clock.monotonic_s()
        if not self._lease.is_owned:
            await self._pause(0.1)
            return
        ended = await self.apply_round(self._rules.block_ms)
        if not ended:
            await self._pause(0.01)  # with a store that does not block, this must not become a busy loop

    async def _compaction_duty(self) -> None:
        if self._lease.is_owned:
            await self.compact_round()

    async def _attribution_duty(self) -> None:
        if self._lease.is_owned:
            await self.attribute_round()

    async def _erase_duty(self) -> None:
        if self._lease.is_owned and self._eraser is not None:
            await self._eraser.run_once()

    async def _delete_log_rows(self, app_id: str, user_keys: Sequence[str]) -> None:
        """Delete the rows of users of an app from every log."""
        for log in self._logs:
            await log.delete_users(app_id, user_keys)
        if self._attributor is not None:  # after the log of answers: its rows would bring outcomes back
            await self._attributor.delete_users(app_id, user_keys)

    def _find_served_days(self, app_id: str) -> int:
        """Return how many days an app keeps rows of answers and of archive calls."""
        return self._served_days.get(app_id, KEEP_DAYS)

    async def _want_new_log_file(self) -> None:
        await self._stores.erasures.request_log_rewrite(self._clock.now_ms())

    async def _sweep_duty(self) -> None:
        if self._lease.is_owned:
            await self.sweep_round()

    async def _find_apps(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s < self._rules.apps_every_s:
            return
        version = await self._stores.access.version()
        if version != self._version:
            book = await self._stores.access.read_all()
            # An app begins with one batch at a time: an unfinished batch may have ended the last process.
            self._apps = {app_id: self._apps.get(app_id, True) for app_id in book.apps}
            self._served_days = {app_id: app.settings.served_days for app_id, app in book.apps.items()}
            self._storage_bounds = {
                app_id: app.settings.max_storage_mb << 20
                for app_id, app in book.apps.items()
                if app.settings.max_storage_mb
            }
            # The version of what was read: apps may have changed since the question.
            self._version = book.version
        self._looked_s = now_s

    async def _claim(self, app_ids: Sequence[str], count: int, block_ms: int) -> list[Batch]:
        """Claim batches; when the reply is lost (perhaps it was too large), its batches count as not delivered."""
        try:
            batches = await self._stores.intake.claim(CONSUMER, app_ids, count=count, block_ms=block_ms)
        except Unavailable:
            for app_id in app_ids:
                self._apps[app_id] = True
                self._lost[app_id] = self._lost.get(app_id, 0) + 1
            raise
        for batch in batches:
            if batch.deliveries == 1:
                self._lost.pop(batch.app_id, None)
        return [
            replace(batch, deliveries=max(1, batch.deliveries - self._lost.get(batch.app_id, 0)))
            for batch in batches
        ]

    async def _apply_all(self, app_id: str, batches: Sequence[Batch]) -> int:
        """Apply batches of one app in order; the first failure ends the run, and the store delivers the rest again."""
        for at, batch in enumerate(batches):
            self._state.progress_s = self._clock.monotonic_s()
            try:
                outcome = await self._applier.apply(batch)
            except Unavailable:
                self._excuse_all(app_id, batches[at + 1 :])
                raise
            except Exception as error:  # noqa: BLE001
                # a failed batch is delivered again or given up, and the other apps continue
                self._record_failure(batch, error)
                self._excuse_all(app_id, batches[at + 1 :])
                return at
            self._pauses.pop(app_id, None)
            # Outcomes have the names of counters.
            setattr(self._state, outcome, getattr(self._state, outcome) + 1)
        return len(batches)

    def _excuse_all(self, app_id: str, batches: Sequence[Batch]) -> None:
        self._apps[app_id] = True
        for batch in batches:
            self._applier.discount_delivery(batch)

    def _record_failure(self, batch: Batch, error: Exception) -> None:
        # The pause doubles with each failure in a row, up to its bound.
        rest_s = self._pauses.get(batch.app_id, (0.0, self._rules.first_rest_s / 2))[1] * 2
        rest_s = min(rest_s, self._rules.longest_rest_s)
        self._pauses[batch.app_id] = (self._clock.monotonic_s() + rest_s, rest_s)
        self._state.failures += 1
        self._meter.count("kiosk_intake_failures", duty="intake")
        reason = error.message if isinstance(error, KioskError) else type(error).__name__
        self._log.warning(
            "batch_failed", app=batch.app_id, noun=batch.noun, delivery=batch.deliveries, reason=reason
        )
