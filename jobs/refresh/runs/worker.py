"""The worker: claims a run, executes its stages and publishes the snapshot. It may be killed at any moment.

Checkpoints in the artifact store (`checkpoint`) and the run record let another worker continue. While a stage runs in
a thread, the event loop renews the lease. If the run was cancelled or claimed by another worker, the stage stops at its
next progress report and writes no more. The name of a version is a hash of its content, and its manifest is written
last. So a run creates exactly one version or none.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog

from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.errors import Conflict, KioskError, Unavailable
from cluster.records.run import (
    LEASE_MS,
    Run,
    RunStatus,
    StageResult,
    add_log_line,
    claim_run,
    end_run,
    release_run,
    update_leased_run,
)
from cluster.store.stores import Stores
from cluster.tracing import PROCESS, current_trace
from jobs.refresh.evaluation.report_store import ReportStore
from jobs.refresh.runs.measurements.measurement import open_stages
from jobs.refresh.runs.mlflow_tracking import track_run
from jobs.refresh.runs.promotion import promote_version
from jobs.refresh.runs.run_attempt import (
    RunAttempt,
    RunStage,
    TrainingContext,
    TrainingDataOutdated,
    delete_ended_run_files,
)
from jobs.refresh.runs.run_commands import get_run, update_run
from jobs.refresh.runs.shipped_code import import_from_package
from jobs.refresh.runs.uncompacted_data import COMPACTION_STALL_S, wait_for_compaction

T = TypeVar("T")

# A fifteenth of the lease: many renewals may fail before another worker takes the run.
RENEW_INTERVAL_S = LEASE_MS / 15_000
"Seconds between two renewals of the lease."
STORE_ATTEMPTS = 60
"Number of attempts to reach a store at the end of a stage."
RETRY_PAUSE_S = 5.0
"Pause before the release of a run when a store does not answer, multiplied by the number of the attempt."

LEFTOVER_AGE_MS = 3_600_000
"Minimum age of leftovers of ended runs that are deleted."

MOST_RESTARTS = 5
"Maximum number of restarts because users were erased during the training."

PROMOTIONS_KEPT = 10
"Number of previous promotions whose snapshots are kept for rollbacks."

RunWatcher = Callable[[Run], None]


class RunLost(Exception):
    """The run was cancelled, or another worker claimed it."""


@dataclass(frozen=True, slots=True)
class WorkerResources:
    """The stores, folders and limits of a worker."""

    stores: Stores
    artifacts: ArtifactStore
    clock: Clock
    scratch: Path
    "Local folder in which snapshots are built."
    memory_mb: int | None = None
    "Memory limit of this machine, in addition to the limit of the recipe."
    beat_s: float = RENEW_INTERVAL_S
    patience_s: float = RETRY_PAUSE_S
    settle_s: float = COMPACTION_STALL_S
    "Maximum wait without progress for the compaction of data that was accepted before the claim of the run."
    release: str = ""
    code_dir: Path = Path()
    "Folder of the code that was shipped with runs."
    tracking_uri: str = ""
    "Server of MLflow to which ended runs are copied; empty: none."


class TrainingWorker:
    """Executes one run."""

    def __init__(self, place: WorkerResources, owner: str, watch: RunWatcher | None = None) -> None:
        self._place = place
        self._owner = owner
        self._watch = watch
        # Set on the event loop, read in the thread of the stage.
        self._lost = threading.Event()
        self._progress: tuple[str, float] = ("", 0.0)
        self._missing = ""
        "Accepted data that the training does not read, as a sentence."
        # The lease and the stages write the same record: each must start from what the other wrote.
        self._writing = asyncio.Lock()
        self._log = structlog.get_logger()

    async def work(self, app_id: str, run_id: str) -> Run | None:
        """Execute the remaining stages of a run and return its final record; None if another worker owns it.

        Errors:
            NotFound: the run does not exist
            Unavailable: the store does not answer; the run is free when its lease expires
        """
        place = self._place
        run = await update_run(
            place.stores,
            await get_run(place.stores, app_id, run_id),
            self._claim,
        )
        if run is None:
            return None
        self._log.info("run_claimed", app=app_id, run=run_id, attempt=run.attempt)
        self._notify(run)
        self._run = run
        segments = SegmentStore(place.artifacts, place.clock)
        # Only where the log of answers is read: the first call creates the salt of an app.
        reranks = any(run.recipe.get(name) is not None for name in ("reranker", "search_reranker"))
        reads_log = "logged" in run.options or reranks
        salt = await place.stores.served.salt(app_id) if reads_log else b""
        context = TrainingContext(place.artifacts, segments, place.scratch, place.release, salt)
        serving = await self._serving_facts(run)
        attempt = RunAttempt(run, context, self._report_stage, serving, place.memory_mb)
        # Before the wait for compaction: a long one would let the lease expire.
        beating = asyncio.create_task(self._renew_lease())
        try:
            await self._wait_for_compaction(app_id)
            facts = {"kiosk.app": app_id, "kiosk.run": run_id, "kiosk.engine": run.engine_id}
            with PROCESS.trace("training", run.traceparent, always=True, attributes=facts):
                return await self._track(await self._run_to_end(attempt))
        except RunLost:
            self._log.info("run_left", app=app_id, run=run_id)
            now = await get_run(place.stores, app_id, run_id)
            if now.status == "cancelled":  # otherwise another worker owns the run and its files
                await asyncio.to_thread(attempt.clean_up)
            return now
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    def _claim(self, now: Run) -> Run | None:
        """Claim a run, or continue one that was created for this worker."""
        now_ms = self._place.clock.now_ms()
        # A run that was created for this worker is its own already; any other has to be free.
        return update_leased_run(now, self._owner, now.attempt, now_ms, {}) or claim_run(
            now, self._owner, now_ms
        )

    async def _wait_for_compaction(self, app_id: str) -> None:
        """Wait for the compaction of accepted data; after the limit, continue without the rest."""

        def report(message: str) -> None:
            self._progress = (message, 0.0)
            self._notify(self._run.model_copy(update={"message": message}))

        try:
            self._missing = await wait_for_compaction(
                self._place.stores, app_id, report, stall_s=self._place.settle_s
            )
        except Unavailable as error:
            self._missing = f"it is unknown whether accepted data is compacted: {error.message}"
        if self._missing:
            self._log.warning("not_all_compacted", run=self._run.run_id, app=app_id, reason=self._missing)

    async def _run_to_end(self, attempt: RunAttempt) -> Run:
        try:
            with import_from_package(self._place.code_dir, self._run.code):
                outcome = await self._run_stages_anew(attempt)
        except Unavailable as error:
            # Not failed: the store is away, and the checkpoints let a later attempt go on.
            return await self._release_run(error)
        except KioskError as error:
            reason = f"{error.message}; {self._missing}" if self._missing else error.message
            return await self._finish_run("failed", {"error": reason}, attempt)
        except RunLost:
            raise
        except Exception as error:  # noqa: BLE001
            # any error of a library or a custom learner fails the run, not the worker
            # The end of a trace has the error; its length is that of a log line, not of a library's
            # recursion.
            trace = "".join(traceback.format_exception(error))[-3_000:]
            self._log.error("run_broke", run=self._run.run_id, stage=self._run.stage, trace=trace)
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            where = f"stage {self._run.stage} broke: {text[:500]}"
            return await self._finish_run("failed", {"error": where}, attempt)
        outcome |= {"message": self._missing}
        if self._run.promote:
            await self._retry_store(
                lambda: self._record_progress(message="promote")
            )  # only the owner may promote
            # Before the run ends: a worker that dies here leaves an open run, and the next attempt
            # promotes.
            outcome |= await self._retry_store(lambda: self._promote(str(outcome["version"])))
        run = await self._retry_store(lambda: self._finish_run("finished", outcome, attempt))
        try:
            # Read after the promotion, which changes what serves.
            in_use = {run.version, *await self._serving_versions(run)}
            await asyncio.to_thread(attempt.delete_outdated_versions, in_use)
            await self._delete_ended_run_files(run)
        except KioskError as error:
            self._log.warning("leftovers_stay", run=run.run_id, reason=error.message)
        return run

    async def _track(self, run: Run) -> Run:
        """Copy an ended run to MLflow. A failure leaves a line in the log of the run, which has ended well."""
        place = self._place
        if not place.tracking_uri or not run.has_ended:
            return run
        try:
            reports = ReportStore(place.artifacts)
            read = reports.get if run.version else reports.get_measurement
            name = run.version or run.run_id
            report = await asyncio.to_thread(read, run.app_id, run.engine_id, name)
            copy = await asyncio.to_thread(track_run, run, report, place.tracking_uri)
            line = f"copied to MLflow: {copy}"
        except KioskError as error:
            self._log.warning("run_not_tracked", run=run.run_id, reason=error.message)
            line = error.message
        now_ms = place.clock.now_ms()
        try:
            return await update_run(place.stores, run, lambda now: add_log_line(now, now_ms, line)) or run
        except KioskError:
            return run

    async def _run_stages_anew(self, attempt: RunAttempt) -> dict[str, Any]:
        """Execute the stages and return fields of the run record; restart if users were erased meanwhile.

        Errors:
            Conflict: users were erased during every attempt
        """
        for _ in range(MOST_RESTARTS + 1):
            try:
                return await self._run_stages(attempt)
            except TrainingDataOutdated:
                self._log.warning(
                    "run_begins_again", run=self._run.run_id, reason="people were erased meanwhile"
                )
                await asyncio.to_thread(attempt.clean_up)
        raise Conflict(
            f"people were erased {MOST_RESTARTS + 1} times while this trained, and no model may know of them; "
            "train again when fewer are erased"
        )

    async def _run_stages(self, attempt: RunAttempt) -> dict[str, Any]:
        # A generator, so that each result goes to the next stage while this loop writes progress and time.
        stages = open_stages(attempt)
        result: Any = None
        while True:
            try:
                stage = stages.send(result)
            except StopIteration as end:
                fields: dict[str, Any] = end.value
                return fields
            result = await self._run_stage(attempt, stage)

    async def _run_stage(self, attempt: RunAttempt, stage: RunStage[T]) -> T:
        await self._retry_store(partial(self._record_progress, stage=stage.name, message="", fraction=0.0))
        started_s = self._place.clock.monotonic_s()
        if stage.name == "publish":
            # the serving version may have changed meanwhile; its snapshot must not be deleted
            attempt.in_use = await self._retry_store(lambda: self._versions_in_use(self._run))
        trace = current_trace()
        with nullcontext() if trace is None else trace.stage(f"training.{stage.name}"):
            result, facts = await self._run_in_thread(stage)
        stages = self._append_stage(stage.name, self._place.clock.monotonic_s() - started_s, facts)
        await self._retry_store(partial(self._record_progress, stages=stages))
        self._log.info("stage_done", run=self._run.run_id, stage=stage.name, took_s=stages[-1].seconds)
        return result

    async def _promote(self, version: str) -> dict[str, Any]:
        """Promote the version if the gate allows; an earlier attempt may have promoted it already."""
        place = self._place
        run = self._run
        try:
            entry = await promote_version(
                place.stores,
                place.artifacts,
                run.app_id,
                run.engine_id,
                version,
                now_ms=place.clock.now_ms(),
                by=run.by,
            )
        except Unavailable:
            raise
        except KioskError as error:
            # An attempt may have died between the promotion and the record of the run.
            newest = await place.stores.promotions.history(run.app_id, run.engine_id, 1)
            ours = bool(newest) and (newest[0].version, newest[0].run_id) == (version, run.run_id)
            return {"promoted": ours} if ours else {"promoted": False, "verdict": error.message}
        return {"promoted": True, "verdict": entry.reason}

    def _append_stage(self, name: str, seconds: float, facts: dict[str, Any]) -> tuple[StageResult, ...]:
        """Return the stages with one appended; a stage of an earlier attempt keeps its duration."""
        before = [stage for stage in self._run.stages if stage.name == name]
        longest = max([round(seconds, 2), *(stage.seconds for stage in before)])
        others = tuple(stage for stage in self._run.stages if stage.name != name)
        return (*others, StageResult(name=name, seconds=longest, facts=facts))

    async def _retry_store(self, act: Callable[[], Awaitable[T]]) -> T:
        """Retry a store operation while the store does not answer, so that the result of the stage is not lost."""
        for _ in range(STORE_ATTEMPTS):
            try:
                return await act()
            except Unavailable as error:
                self._log.warning("store_away", run=self._run.run_id, reason=error.message)
                await asyncio.sleep(self._place.beat_s)
        return await act()

    async def _serving_facts(self, run: Run) -> dict[str, Any] | None:
        """Return the serving version and its recipe for the comparison; None if it can't be read."""
        engine = await self._place.stores.engines.get(run.app_id, run.engine_id)
        if engine is None or not engine.snapshot:
            return None
        context = TrainingContext(
            self._place.artifacts, SegmentStore(self._place.artifacts), self._place.scratch, ""
        )
        try:
            return await asyncio.to_thread(context.serving_recipe, run.app_id, run.engine_id, engine.snapshot)
        except KioskError as error:
            self._log.warning("serving_unreadable", engine=run.engine_id, reason=error.message)
            return None

    async def _versions_in_use(self, run: Run) -> set[str]:
        """Return the versions that serve, that are targets of a rollback, or that are part of an experiment."""
        history = await self._place.stores.promotions.history(run.app_id, run.engine_id, PROMOTIONS_KEPT)
        return {*await self._serving_versions(run), *(entry.version for entry in history)}

    async def _serving_versions(self, run: Run) -> set[str]:
        """Return the versions that serve the engine or are part of its experiments."""
        stores = self._place.stores
        now_ms = self._place.clock.now_ms()
        engine = await stores.engines.get(run.app_id, run.engine_id)
        experiments = (await stores.experiments.read_all(run.app_id)).experiments
        open_ones = [
            experiment
            for experiment in experiments
            if experiment.status_at(now_ms) not in ("Completed", "Archived")
        ]
        tried = (variant.snapshot for experiment in open_ones for variant in experiment.variants)
        serving = "" if engine is None else engine.snapshot
        other = "" if engine is None or engine.trial is None else engine.trial.version
        return {serving, other, *tried}

    async def _delete_ended_run_files(self, run: Run) -> None:
        """Delete the leftovers of runs that ended without their worker."""
        place = self._place
        going = {open_run.run_id for open_run in await place.stores.runs.list_open(run.app_id)}
        before_ms = place.clock.now_ms() - LEFTOVER_AGE_MS
        await asyncio.to_thread(
            delete_ended_run_files, place.artifacts, place.scratch, run.app_id, going, before_ms
        )

    async def _record_progress(self, **changes: Any) -> None:
        """Write progress and renew the lease.

        Errors:
            RunLost: the run was cancelled, or another worker claimed it
        """
        run = self._run
        now_ms = self._place.clock.now_ms()
        # The lease and the stages write in turn: two writes from one revision would refuse each other.
        async with self._writing:
            written = await update_run(
                self._place.stores,
                self._run,
                lambda now: update_leased_run(now, self._owner, run.attempt, now_ms, changes),
            )
            if written is None:
                self._lost.set()
                raise RunLost
            self._run = written
        self._notify(written)

    async def _finish_run(self, status: RunStatus, changes: dict[str, Any], attempt: RunAttempt) -> Run:
        run = self._run
        now_ms = self._place.clock.now_ms()
        async with self._writing:
            written = await update_run(
                self._place.stores,
                run,
                lambda now: end_run(now, self._owner, run.attempt, now_ms, status, changes),
            )
        if written is None:
            raise RunLost
        self._log.info("run_ended", run=run.run_id, status=status, version=written.version)
        await asyncio.to_thread(attempt.clean_up)
        return self._notify(written)

    async def _release_run(self, error: Unavailable) -> Run:
        """Release the run after a pause, so that a later attempt continues when the store answers."""
        run = self._run
        self._log.warning("run_given_back", run=run.run_id, stage=run.stage, reason=error.message)
        # Longer with each attempt: a store that stays away must not use up all attempts within seconds.
        await asyncio.sleep(self._place.patience_s * run.attempt)

        def change(now: Run) -> Run | None:
            after = release_run(now, self._owner)
            return None if after is None else after.model_copy(update={"error": error.message})

        async with self._writing:
            return await update_run(self._place.stores, run, change) or run

    async def _renew_lease(self) -> None:
        """Renew the lease and record the progress of the stage, until the run is lost."""
        while not self._lost.is_set():
            await asyncio.sleep(self._place.beat_s)
            message, fraction = self._progress
            try:
                await self._record_progress(message=message, fraction=fraction)
            except (Unavailable, Conflict):
                continue  # the lease may expire; then the next worker that claims the run owns it
            except RunLost:
                return

    async def _run_in_thread(self, stage: RunStage[T]) -> tuple[T, dict[str, Any]]:
        self._progress = ("", 0.0)

        def run() -> tuple[T, dict[str, Any]]:
            result = stage.act()
            return result, stage.describe(result)

        # A thread: a fit of minutes on the event loop would let the lease expire.
        return await asyncio.to_thread(run)

    def _report_stage(self, message: str, fraction: float) -> None:
        """Record the progress of a stage, in its thread; stop the stage if the run is lost."""
        # Stages can't be cancelled from outside their thread: they end at their next report.
        if self._lost.is_set():
            raise RunLost
        self._progress = (message, min(max(fraction, 0.0), 1.0))

    def _notify(self, run: Run) -> Run:
        if self._watch is not None:
            self._watch(run)
        return run
