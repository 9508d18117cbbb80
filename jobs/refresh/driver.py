"""Trainings on Ray: the scheduler as a named actor, workers as Ray tasks, parallel sweeps.

From Python, where the installation's data directory is (`KIOSK_DATA_DIR`), or with `ray job submit`:

    from jobs.refresh.driver import train
    run = train("bookshop", recipe="shop", promote=True)
    print(run.status, run.version, run.figures)

The run record is the source of truth; the task states of Ray are only hints. After another worker has claimed a run,
the first worker can't write any more. A worker that Ray lost track of still completes its run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
import structlog

from actors.models.loading.allowed_learners import ALLOWED
from cluster.admin.allowed_learners import allowed_learners
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import KioskError, Refusal, Unavailable
from cluster.external_fetcher import ExternalFetcher
from cluster.ids import DEFAULT_ENGINE, new_request_id
from cluster.log import set_up_logging
from cluster.meter import Meter, SilentMeter
from cluster.process.artifact_access import artifact_store_opener
from cluster.process.store_connections import open_actor_stores, run_blocking
from cluster.process.tracing import open_tracing
from cluster.records.run import Run
from cluster.runtime.actors.fail_fast import run_or_exit
from cluster.runtime.bootstrap import connect_installation
from cluster.runtime.handover import drop_key_variables
from cluster.settings import Settings
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from cluster.tracing import PROCESS
from jobs.refresh.runs.local_worker import run_locally, scratch_path, use_idle_priority
from jobs.refresh.runs.run_commands import check_promotable, create_run
from jobs.refresh.runs.scheduler import RunAssignment, RunScheduler
from jobs.refresh.runs.shipped_code import code_path, pack_and_store, read_package, store_package

if TYPE_CHECKING:
    from jobs.refresh.runs.measurements.sweep import SweepReport, SweepVariant

Connect = Callable[[], OpenStores]
OpenArtifacts = Callable[[], ArtifactStore]

CPUS = 0.5
"CPUs that Ray reserves for a worker; workers run at low priority, so busy API replicas go first."
POLL_S = 1.0
WATCH_INTERVAL_S = 0.5


class Trainer:
    """The scheduler as a named, restarted Ray actor: `trainer@<release>`."""

    def __init__(
        self,
        connect: Connect,
        open_artifacts: OpenArtifacts,
        scratch: str,
        *,
        round_s: float = POLL_S,
        meter: Callable[[], Meter] = SilentMeter,
    ) -> None:
        set_up_logging(process="trainer")
        ALLOWED.set_source(partial(allowed_learners, Settings()))
        self._connect = connect
        self._open_artifacts = open_artifacts
        self._open_meter = meter
        self._pool = RayWorkerPool(connect, open_artifacts, scratch)
        self._round_s = round_s
        self._rounds = 0
        self._sent = 0
        self._stopping = threading.Event()
        self._log = structlog.get_logger()
        # A thread: reads of seconds on the actor's event loop would fail its health checks. If it ends, so
        # does the actor.
        work = ("trainer", self._work(), os._exit)
        self._thread = threading.Thread(target=run_or_exit, args=work, name="trainer", daemon=True)
        self._thread.start()

    async def health(self) -> dict[str, Any]:
        """Return the state of the actor."""
        return {
            "alive": self._thread.is_alive(),
            "pid": os.getpid(),
            "rounds": self._rounds,
            "sent": self._sent,
        }

    async def stop(self) -> None:
        """Stop after the current iteration."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.join)

    async def _work(self) -> None:
        async with self._connect() as stores:
            owner = f"trainer {os.getpid()} {new_request_id()}"
            scheduler = RunScheduler(stores, self._pool, SystemClock(), owner=owner)
            # its reads take seconds, and a worker must not wait for them
            supervision = asyncio.create_task(self._supervise(stores, owner))
            polling = asyncio.create_task(self._poll_feeds(stores, owner))
            while not self._stopping.is_set():
                try:
                    self._sent += await scheduler.run_once()
                    self._rounds += 1
                except KioskError as error:
                    self._log.warning("round_failed", reason=error.message)
                await asyncio.sleep(self._round_s)
            supervision.cancel()
            polling.cancel()
            await asyncio.gather(supervision, polling, return_exceptions=True)
            try:
                await scheduler.release()
            # Released in vain: the lease then expires by itself, and the next trainer waits for that.
            except Unavailable:
                self._log.info("lease_left_to_expire")

    async def _supervise(self, stores: Stores, owner: str) -> None:
        """Look after the models of all apps, until cancelled."""
        from jobs.refresh.automation.supervisor import ModelSupervisor  # imports polars

        supervisor = ModelSupervisor(
            stores, self._open_artifacts(), SystemClock(), owner=owner, meter=self._open_meter()
        )
        try:
            while True:
                try:
                    await supervisor.run_once()
                except KioskError as error:
                    self._log.warning("supervision_failed", reason=error.message)
                await asyncio.sleep(self._round_s)
        finally:
            with contextlib.suppress(Unavailable):
                await supervisor.release()

    async def _poll_feeds(self, stores: Stores, owner: str) -> None:
        """Poll the feeds of all apps, until cancelled."""
        from jobs.feeds.polite_fetcher import RULES, PoliteFetcher
        from jobs.feeds.poller import FeedPoller  # imports lxml

        clock = SystemClock()
        fetcher = PoliteFetcher(ExternalFetcher(rules=RULES), clock)
        poller = FeedPoller(stores, fetcher, clock, random.Random(), owner=owner)  # noqa: S311 - for pauses
        try:
            while True:
                try:
                    await poller.run_once()
                except KioskError as error:
                    self._log.warning("feeds_not_polled", reason=error.message)
                except Exception:  # noqa: BLE001 - trainings go on whatever the feeds hold, and the next look too
                    self._log.exception("feeds_failed")
                await asyncio.sleep(self._round_s)
        finally:
            with contextlib.suppress(Unavailable):
                await poller.release()


class RayWorkerPool:
    """Workers as Ray tasks, each in a separate process that ends with the task."""

    def __init__(self, connect: Connect, open_artifacts: OpenArtifacts, scratch: str) -> None:
        self._given = connect, open_artifacts, scratch
        # a separate process per task returns its memory and does not pass on its low priority
        options = Settings().node_options("training")
        # No retry by Ray: the record decides who continues a run, and Ray does not know it.
        self._task = ray.remote(num_cpus=CPUS, max_retries=0, max_calls=1, **options)(_work)
        self._at_work: dict[Any, RunAssignment] = {}

    @property
    def capacity(self) -> int:
        """Return the maximum number of parallel workers: one for every two processors."""
        # Half of the processors, since requests are served on the same machines.
        return max(1, int(ray.cluster_resources().get("CPU", 1)) // 2)

    def start(self, assignment: RunAssignment) -> None:
        package = None
        if assignment.code:  # ship the package: the node of the worker may have another data directory
            with contextlib.suppress(
                KioskError, OSError
            ):  # the worker reports the missing package in the run
                package = read_package(code_path(Path(self._given[2]).parent), assignment.code)
        self._at_work[self._task.remote(assignment, *self._given, package)] = assignment

    def collect_finished(self) -> list[RunAssignment]:
        if not self._at_work:
            return []
        # Timeout 0: what has ended by now, without waiting in the round of the scheduler.
        done, _ = ray.wait(list(self._at_work), num_returns=len(self._at_work), timeout=0)
        for reference in done:
            try:
                answer = ray.get(reference)
            except ray.exceptions.RayError as error:
                structlog.get_logger().warning("worker_lost", reason=type(error).__name__)
                continue
            if isinstance(answer, Refusal):
                structlog.get_logger().warning("worker_refused", reason=answer.message)
        return [self._at_work.pop(reference) for reference in done]


def _work(
    assignment: RunAssignment,
    connect: Connect,
    open_artifacts: OpenArtifacts,
    scratch: str,
    package: bytes | None = None,
) -> str | Refusal:
    set_up_logging(process="training")
    # Before packages are imported, which takes seconds of a whole core.
    use_idle_priority()
    if package is not None:
        store_package(code_path(Path(scratch).parent), package)
    # A training runs code of recipes: it must not find keys in its environment (decision 16).
    drop_key_variables()
    settings = Settings()
    ALLOWED.set_source(partial(allowed_learners, settings))
    open_tracing(settings.trace_url, "training")

    async def work() -> str:
        async with connect() as stores:
            artifacts = open_artifacts()
            run = await run_locally(
                stores,
                artifacts,
                Path(scratch),
                assignment.app_id,
                assignment.run_id,
                owner=assignment.owner,
            )
            return "" if run is None else run.status

    try:
        return asyncio.run(work())
    except KioskError as error:
        return Refusal.of(error)
    finally:
        PROCESS.close()


def train(
    app_id: str,
    engine_id: str = DEFAULT_ENGINE,
    recipe: Any = "default",
    *,
    promote: bool = False,
    by: str = "python",
    watch: Callable[[Run], None] | None = None,
    connect: Connect = open_actor_stores,
    settings: Settings | None = None,
    working_dir: str | Path | None = None,
) -> Run:
    """Train an engine as a Ray task and return the ended run; `recipe` is a name, a file, or a `Recipe`.

    If this process is killed, the scheduler continues the training. `working_dir` is a folder whose code the training
    may import. A version trained with it can't be promoted, because serving processes can't import the code.

    Errors:
        NotFound: the app, engine or recipe does not exist
        Invalid: the recipe is invalid, or `working_dir` can't be shipped
    """
    from jobs.refresh.recipe import Recipe, load_recipe_file  # imports numpy and all learners

    chosen = recipe if isinstance(recipe, Recipe) else load_recipe_file(recipe)
    settings = Settings() if settings is None else settings
    if not ray.is_initialized():
        connect_installation(settings)
    ALLOWED.set_source(partial(allowed_learners, settings))
    facts = chosen.model_dump(mode="json")
    code = (
        ""
        if working_dir is None
        else pack_and_store(Path(working_dir), facts, settings.data_dir, promote=promote)
    )
    artifacts_of = artifact_store_opener(settings)
    pool = RayWorkerPool(connect, artifacts_of, str(scratch_path(settings.data_dir)))

    async def follow() -> Run:
        async with connect() as stores:
            owner = f"{by} {os.getpid()} {new_request_id()}"
            if promote:
                await check_promotable(stores, app_id)
            run = await create_run(
                stores,
                app_id,
                engine_id,
                facts,
                now_ms=SystemClock().now_ms(),
                by=by,
                promote=promote,
                owner=owner,
                code=code,
            )
            # The record exists first: if this process dies here, the scheduler starts its worker.
            pool.start(RunAssignment(app_id, run.run_id, owner, code))
            while not run.has_ended:
                await asyncio.sleep(WATCH_INTERVAL_S)
                run = await stores.runs.get(app_id, run.run_id) or run
                if watch is not None:
                    watch(run)
            return run

    return run_blocking(follow())


def run_sweep_on_ray(
    variants: Sequence[SweepVariant],
    open_artifacts: OpenArtifacts,
    app_id: str,
    sweep: str,
    on_variant: Callable[[SweepVariant, SweepReport], None],
) -> None:
    """Evaluate the variants of a sweep as Ray tasks; call `on_variant` with each one that ends.

    Ray restarts a failed task. Variants with a stored result are not evaluated again.
    """
    from jobs.refresh.runs.measurements.sweep import SweepReport

    options = Settings().node_options("training")
    # Retried by Ray, as nothing else continues a variant; its result is stored once.
    task = ray.remote(num_cpus=CPUS, max_retries=3, max_calls=4, **options)(_evaluate_variant)
    coming = list(variants)
    running: dict[Any, SweepVariant] = {}
    at_once = max(1, int(ray.cluster_resources().get("CPU", 1)))
    while coming or running:
        while coming and len(running) < at_once:
            variant = coming.pop(0)
            running[task.remote(variant, open_artifacts, app_id, sweep)] = variant
        (done,), _ = ray.wait(list(running), num_returns=1)
        variant = running.pop(done)
        try:
            on_variant(variant, ray.get(done))
        except ray.exceptions.RayError as error:
            on_variant(variant, SweepReport(error=f"its worker died: {type(error).__name__}"))


def _evaluate_variant(
    variant: SweepVariant, open_artifacts: OpenArtifacts, app_id: str, sweep: str
) -> SweepReport:
    from jobs.refresh.runs.checkpoint import CheckpointStore
    from jobs.refresh.runs.measurements.sweep import FOLDER, try_variant

    use_idle_priority()
    drop_key_variables()
    ALLOWED.set_source(partial(allowed_learners, Settings()))
    return try_variant(variant, CheckpointStore(open_artifacts(), app_id, sweep, folder=FOLDER))
