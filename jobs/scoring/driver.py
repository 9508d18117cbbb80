"""Batch scoring on Ray: workers at the lowest priority, each with the recommender of the app.

From Python, where the installation's data directory is (`KIOSK_DATA_DIR`):

    from jobs.scoring.driver import recommend
    frame = recommend("bookshop", ["ada", "ben"], rows=20)

One worker scores a chunk of users. If a worker dies, Ray restarts it and the chunk is scored again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import ray

from actors.models.loading.allowed_learners import ALLOWED
from cluster.admin.allowed_learners import allowed_learners
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.artifacts.table_files import Format, TableFile, choose_format
from cluster.clock import SystemClock, iso_ms
from cluster.errors import KioskError, Refusal, Unavailable
from cluster.ids import DEFAULT_ENGINE
from cluster.process.artifact_access import artifact_store_opener
from cluster.process.priority import lower_priority, use_idle_priority
from cluster.process.store_connections import open_actor_stores
from cluster.runtime.bootstrap import connect_installation
from cluster.runtime.handover import drop_key_variables
from cluster.settings import Settings
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from jobs.scoring.tables import LONG, NESTED, UserKey, UserList, count_users, read_users, table_from_lists
from jobs.scoring.user_scorer import ScoringSpec, UserScorer, check_snapshot

Connect = Callable[[], OpenStores]
OpenArtifacts = Callable[[], ArtifactStore]
Users = str | Path | pl.DataFrame | Sequence[str]
ScoringProgress = Callable[[int, int], None]
"Called with the number of scored users and the number of all users, 0 if unknown."

CPUS = 0.25
"CPUs that Ray reserves for a worker; it runs at idle priority."
_IN_FLIGHT = 2
"Maximum number of chunks in flight per worker."
_TRIES = 30
_PAUSE_S = 2.0
"Number of attempts and the pause between them when a store does not answer."
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")


@dataclass(slots=True)
class ScoringSummary:
    """Totals of a batch."""

    order: ScoringSpec
    users: int = 0
    rows: int = 0
    snapshots: set[str] = field(default_factory=set)
    "Snapshot versions that were used; several if a promotion happened during the batch."
    began_ms: int = 0
    ended_ms: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as JSON."""
        return {
            "app_id": self.order.app_id,
            "engine_id": self.order.engine_id,
            "snapshots": sorted(self.snapshots),
            "users": self.users,
            "rows": self.rows,
            "from": iso_ms(self.began_ms),
            "to": iso_ms(self.ended_ms),
        }


@dataclass(frozen=True, slots=True)
class ScoredChunk:
    """The result of a worker for one chunk."""

    lists: list[UserList]
    serving: str


class ScoringWorker:
    """A worker: an actor that loads the app once and scores many chunks."""

    def __init__(self, order: ScoringSpec, connect: Connect, open_artifacts: OpenArtifacts) -> None:
        # Before anything is loaded: a load takes seconds of a whole core.
        use_idle_priority()
        # A snapshot may contain a custom model, whose code has no business with keys.
        drop_key_variables()
        ALLOWED.set_source(partial(allowed_learners, Settings()))
        self._order = order
        self._connect = connect
        self._open_artifacts = open_artifacts
        self._scorer: UserScorer | None = None
        self._opening = asyncio.Lock()

    async def score(self, users: list[UserKey]) -> ScoredChunk | Refusal:
        """Return the results of some users, or a refusal; retry while a store does not answer."""
        for left in range(_TRIES, -1, -1):
            try:
                scorer = await self._get_scorer()
                return ScoredChunk(await scorer.score(users), scorer.serving)
            except Unavailable as error:
                if not left:
                    return Refusal.of(error)
                await asyncio.sleep(_PAUSE_S)
            except KioskError as error:
                return Refusal.of(error)
        raise AssertionError("the last try returns")

    async def _get_scorer(self) -> UserScorer:
        """Return the scorer; the first of several concurrent calls loads it."""
        async with self._opening:
            if self._scorer is None:
                use_idle_priority()  # niceness is per thread, and this thread may be new
                self._scorer = await self._open()
        return self._scorer

    async def _open(self) -> UserScorer:
        stores = self._connect()
        try:
            scorer = UserScorer(self._order, await stores, self._open_artifacts())
            await scorer.start()
        except KioskError:
            await stores.close()
            raise
        return scorer


def recommend(
    app_id: str,
    users: Users,
    *,
    engine_id: str = DEFAULT_ENGINE,
    rows: int = 10,
    snapshot: str = "",
    filters: Sequence[str] = (),
    nested: bool = False,
    workers: int = 0,
    settings: Settings | None = None,
    connect: Connect = open_actor_stores,
) -> pl.DataFrame:
    """Return the recommendations of `user_to_products` for users as a polars frame.

    `users` is a file, a frame with a column `user_id` or `anonymous_id`, or a list of user ids. `filters` are `fq`.

    Errors:
        NotFound: the app, engine or snapshot does not exist
        Invalid: the list of users or a filter is invalid
    """
    order = ScoringSpec(app_id, engine_id, rows, snapshot, tuple(filters))
    tables = [(NESTED if nested else LONG).empty_table()]
    summary = ScoringSummary(order)
    for lists in score_on_ray(order, users, summary, workers=workers, settings=settings, connect=connect):
        tables.append(table_from_lists(lists, nested=nested))
    frame = pl.from_arrow(pa.concat_tables(tables))
    assert isinstance(frame, pl.DataFrame)
    return frame


def recommend_file(
    order: ScoringSpec,
    users: Users,
    out: str,
    *,
    form: str = "",
    nested: bool = False,
    keep_formulas: bool = False,
    workers: int = 0,
    watch: ScoringProgress | None = None,
    settings: Settings | None = None,
    connect: Connect = open_actor_stores,
) -> dict[str, Any]:
    """Write recommendations atomically into a file and return the summary.

    Errors:
        as `recommend`; Invalid also: the file can't be written
    """
    summary = ScoringSummary(order)
    with _open_result_file(out, form, nested, keep_formulas) as file:
        for lists in score_on_ray(
            order, users, summary, workers=workers, watch=watch, settings=settings, connect=connect
        ):
            file.write(table_from_lists(lists, nested=nested))
    return _summary_to_dict(summary, file, out, choose_format(out, form))


async def recommend_in_process(
    order: ScoringSpec,
    users: Users,
    out: str,
    stores: Stores,
    artifacts: ArtifactStore,
    *,
    form: str = "",
    nested: bool = False,
    keep_formulas: bool = False,
    watch: ScoringProgress | None = None,
) -> dict[str, Any]:
    """Write recommendations into a file without Ray, in this process, and return the summary.

    Errors:
        as `recommend_file`
    """
    lower_priority()
    summary = ScoringSummary(order, began_ms=SystemClock().now_ms())
    chunks = read_users(users)
    total = count_users(users)
    # Before the file is opened and the app is loaded: a wrong version fails at once.
    check_snapshot(artifacts, order)
    with _open_result_file(out, form, nested, keep_formulas) as file:
        async with _open_scorer(UserScorer(order, stores, artifacts)) as scorer:
            for chunk in chunks:
                lists = await scorer.score(chunk)
                file.write(table_from_lists(lists, nested=nested))
                _record_chunk(summary, lists, scorer.serving, watch, total)
    return _summary_to_dict(summary, file, out, choose_format(out, form))


def score_on_ray(
    order: ScoringSpec,
    users: Users,
    summary: ScoringSummary,
    *,
    workers: int = 0,
    watch: ScoringProgress | None = None,
    settings: Settings | None = None,
    connect: Connect = open_actor_stores,
) -> Iterator[list[UserList]]:
    """Yield the results of users in their order, scored on the Ray cluster of this installation.

    Errors:
        as `recommend`
    """
    settings = Settings() if settings is None else settings
    # Only to check it here: its errors belong to the caller, not to a worker.
    order.build_query()
    chunks = read_users(users)
    total = count_users(users)
    if not ray.is_initialized():
        connect_installation(settings)
    open_artifacts = artifact_store_opener(settings)
    check_snapshot(open_artifacts(), order)
    summary.began_ms = SystemClock().now_ms()
    at_once = workers or max(1, int(ray.cluster_resources().get("CPU", 1)) // 2)
    with _start_workers(at_once, order, connect, open_artifacts) as crew:
        for scored in _score_in_order(crew, chunks):
            _record_chunk(summary, scored.lists, scored.serving, watch, total)
            yield scored.lists


@contextmanager
def _start_workers(count: int, *given: Any) -> Iterator[list[Any]]:
    worker = ray.remote(
        num_cpus=CPUS,
        max_restarts=3,
        max_task_retries=3,
        # One thread each, or every worker would start as many as there are cores.
        runtime_env={"env_vars": dict.fromkeys(_THREADS, "1")},
        **Settings().node_options("training"),
    )(ScoringWorker)
    crew = [worker.remote(*given) for _ in range(count)]
    try:
        yield crew
    finally:
        for actor in crew:
            ray.kill(actor)


def _score_in_order(crew: Sequence[Any], chunks: Iterator[list[UserKey]]) -> Iterator[ScoredChunk]:
    """Distribute chunks to the workers and yield their results in order, with bounded memory."""
    under_way: dict[Any, tuple[int, Any]] = {}
    ready: dict[int, ScoredChunk] = {}
    given = taken = 0
    idle = [actor for actor in crew for _ in range(_IN_FLIGHT)]
    most_ahead = len(idle) * 2
    coming: list[UserKey] | None = next(chunks, None)
    while coming is not None or under_way:
        # Results wait for earlier ones; without the bound, a slow chunk would let them fill the memory.
        while coming is not None and idle and given - taken < most_ahead:
            actor = idle.pop(0)
            under_way[actor.score.remote(coming)] = given, actor
            given = given + 1
            coming = next(chunks, None)
        done, _ = ray.wait(list(under_way), num_returns=1)
        place, actor = under_way.pop(done[0])
        ready[place] = _wait_for_result(done[0])
        idle.append(actor)
        while taken in ready:
            yield ready.pop(taken)
            taken += 1


def _wait_for_result(reference: Any) -> ScoredChunk:
    try:
        answer = ray.get(reference)
    except ray.exceptions.RayError as error:
        raise Unavailable(f"a worker died again and again: {type(error).__name__}") from error
    if isinstance(answer, Refusal):
        raise answer.error()
    scored: ScoredChunk = answer
    return scored


@asynccontextmanager
async def _open_scorer(scorer: UserScorer) -> AsyncIterator[UserScorer]:
    await scorer.start()
    try:
        yield scorer
    finally:
        await scorer.close()


def _open_result_file(out: str, form: str, nested: bool, keep_formulas: bool) -> TableFile:
    chosen: Format = choose_format(out, form)
    return TableFile(out, chosen, NESTED if nested else LONG, keep_formulas=keep_formulas)


def _record_chunk(
    summary: ScoringSummary,
    lists: Sequence[UserList],
    serving: str,
    watch: ScoringProgress | None,
    total: int,
) -> None:
    summary.users += len(lists)
    summary.snapshots |= {serving} - {""}
    if watch is not None:
        watch(summary.users, total)


def _summary_to_dict(summary: ScoringSummary, file: TableFile, out: str, form: Format) -> dict[str, Any]:
    summary.rows = file.rows
    summary.ended_ms = SystemClock().now_ms()
    return {**summary.to_dict(), "file": out, "format": form, "digest": f"sha256:{file.digest}"}
