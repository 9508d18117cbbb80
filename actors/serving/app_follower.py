"""The recommender of one app in a process: loads it, follows the change log, loads it again after a gap.

    load      compacted segments, then the log after their offsets         in another thread
    follow    blocking reads; changes applied in steps of a millisecond    answers run in between
    gap       the log was trimmed past us: load beside the old one, swap   queries never wait
    renewal   after writes: load beside the old one, swap                  all replicas then hold the same state

Work of about a millisecond runs on the event loop, because a thread would cost as much again. Longer work runs in a
thread. Answers, steps of changes and swaps of snapshots take turns. An answer that needs missing columns stops at once;
another thread builds the columns, and the answer runs again.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

import structlog

from actors.hosting.log_follower import LogFollower
from actors.language.hashing_embedder import Embedder
from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.recommender.ranking.pipeline_inputs import Draw
from actors.recommender.recommender import ENGINE_ROW_BYTES, Recommender
from actors.recommender.state.events import offset_time_ms
from actors.recommender.state.serving_model import ServingModel
from actors.recommender.state.user_attributes import MOST_USERS
from actors.retrieval.logged_queries import QueryLogFollower
from actors.retrieval.popular_queries import WINDOW_MS
from actors.serving import dispatch
from actors.serving.completion_builds import CompletionBuilds, build_completions
from actors.serving.model_registry import ModelRegistry, SnapshotLoader
from actors.serving.renewal import RenewalSchedule, has_caught_up_with, has_reached
from actors.serving.replica_comparison import ReplicaComparison
from actors.serving.startup import PREBUILT_COLUMNS, load_compacted_state
from actors.serving.thread_pace import make_pause, run_with_pauses
from cluster.artifacts.compacted_state import CompactedState
from cluster.artifacts.logs.query_log import QueryLogStore
from cluster.artifacts.segments import SegmentStore, position_from_offset
from cluster.clock import Clock
from cluster.errors import ColumnsNotReady, Unavailable
from cluster.ids import DEFAULT_ENGINE
from cluster.meter import Meter
from cluster.query.columnar.column_source import Key
from cluster.records.intake import Noun
from cluster.store.data.change_log import ChangeLogEntry, Follower
from cluster.store.refreshing_cache import EngineRecordsCache
from cluster.store.stores import Stores

T = TypeVar("T")

NOUNS: tuple[Noun, ...] = ("user", "product", "interaction")
REFRESH_MS = 200
"How old trend scores may be while changes stream in."
RECORDS_AT_ONCE = 1_000
"An answer may read so many to have its columns up to date, about a millisecond."

# Changes of one read; after a full one the follower reads again at once.
_READ = 128
_REPLACE_TRIES = 20
_BLOCK_MS = 2_000
# Changes hold the lock for so long, then a waiting answer may take it.
_STEP_S = 0.0015
# Removed products keep their rows until a reload, which is not worth it for fewer.
_LOOSE_ROWS = 50_000
# Each try builds the columns that the one before lacked.
_TRIES = 8


class AppFollower:
    """Owns the recommender of one app and applies every change to it."""

    def __init__(
        self,
        app_id: str,
        name: str,
        stores: Stores,
        segments: SegmentStore | None,
        clock: Clock,
        meter: Meter,
        make_embedder: Callable[[], Embedder],
        models: SnapshotLoader | None = None,
        engine_records: EngineRecordsCache | None = None,
        *,
        indexes_texts: bool = True,
        renewing: asyncio.Lock | None = None,
        index_bytes: int = 0,
        has_room: Callable[[int], bool] = lambda nbytes: True,
    ) -> None:
        """Open nothing yet. Without `indexes_texts` the first search builds the index. `index_bytes` is the largest
        size of an index of completions; 0: unbounded. `has_room` returns whether so many bytes more are in the memory
        budget. Apps share `renewing`: one at a time has two states in memory; None: no renewal.
        """
        self._renewing = renewing
        self._index_bytes = index_bytes
        self._indexes_texts = indexes_texts
        self._app_id = app_id
        self._name = name
        self._stores = stores
        self._segments = segments
        self._clock = clock
        self._meter = meter
        self._make_embedder = make_embedder
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"recommender-{app_id}")
        # For the event loop and the thread: changes are applied to the serving state in place.
        self._lock = threading.Lock()
        self._recommender: Recommender | None = None
        self.model_registry = ModelRegistry(
            app_id,
            engine_records or EngineRecordsCache(stores.engines, clock),
            models,
            self.serving_version,
            self._disabled_parts,
            self._adopt_snapshot,
            clock,
            meter,
            lambda: has_room(self.products * ENGINE_ROW_BYTES),
        )
        query_log = None if segments is None else QueryLogStore(segments.artifacts, clock)
        run_short = partial(self._run_exclusive, is_short=True)
        self._query_log = QueryLogFollower(app_id, stores.queries, query_log, clock, run_short)
        self._preparing = asyncio.Lock()
        self._completion_builds = CompletionBuilds(run_short, self._run_in_turns, clock)
        self._suggesting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._indexing: asyncio.Task[None] | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._schedule = RenewalSchedule(clock)
        self._retained: Mapping[Noun, str] = {}
        "Offsets from which a running renewal still reads the log."
        run = partial(self._run_exclusive, is_short=False)
        self._comparison = ReplicaComparison(app_id, name, stores.changes, clock, meter, run)
        self._is_rebound = False
        "Whether a snapshot was adopted after the load by the default engine, or by that of the text index."
        self._log = structlog.get_logger().bind(app=app_id)

    async def start(self) -> None:
        """Load, catch up with the log, and go on following it."""
        await self._query_log.start()
        self._recommender = await self._load()
        # texts that the snapshot has unchanged need not be read again
        await self.model_registry.load_first()
        await self._index_new(self._recommender)
        self._is_rebound = False
        self._following = asyncio.get_running_loop().create_task(
            LogFollower(
                self._apply_next,
                self._clock,
                on_miss=self._record_miss,
                on_failure=self._record_failure,
                report_offset=self._report_offset,
            ).run()
        )
        self._watching = asyncio.get_running_loop().create_task(self.model_registry.run())
        self._suggesting = asyncio.get_running_loop().create_task(self._query_log.follow())

    async def close(self) -> None:
        """Stop following and release the memory."""
        for task in (self._watching, self._following, self._indexing, self._suggesting, self._renewal):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self._completion_builds.close()
        self._comparison.close()
        self._thread.shutdown(wait=False)
        self.model_registry.close()
        self._recommender = None

    @property
    def products(self) -> int:
        return self.recommender.overlay.catalog.products

    def find_unknown_products(self, product_ids: Iterable[str]) -> list[str]:
        """Return the ids that no product has; none while the catalog is empty or not loaded."""
        if self._recommender is None or not self._recommender.overlay.catalog.products:
            return []
        catalog = self._recommender.overlay.catalog
        return [product_id for product_id in product_ids if catalog.row_of(product_id) < 0]

    @property
    def nbytes(self) -> int:
        return self.recommender.nbytes

    async def answer(
        self, query: UserQuery, recent: Sequence[bytes], shown: Sequence[str], draw: Draw = None
    ) -> RecommendationResult:
        """Return the result of a query from the current state."""
        if query.engine_id not in self.model_registry.engine_ids:
            await self.model_registry.ensure_loaded(query.engine_id)
        if query.snapshot:
            return await self._answer_from_version(query, recent, shown, draw)
        recommender = self.recommender
        if query.completion_fields:
            await self._completion_builds.ensure_built(recommender, query)
        for _ in range(_TRIES):
            now_ms = self._clock.now_ms()
            work = partial(dispatch.answer, recommender, query, recent, shown, now_ms, draw)
            try:
                return await self._run_exclusive(work, is_short=dispatch.is_light(recommender, query))
            except ColumnsNotReady as missing:
                keys = [*missing.facts["keys"], *dispatch.list_columns(query)]
                await self._build_columns(recommender, keys)
        # more columns than memory holds at a time, or changes faster than the follower can apply them
        work = partial(dispatch.answer_and_build_columns, recommender, query, recent, shown, now_ms, draw)
        return await self._run_exclusive(work, is_short=False)

    async def _answer_from_version(
        self, query: UserQuery, recent: Sequence[bytes], shown: Sequence[str], draw: Draw
    ) -> RecommendationResult:
        """Answer from the version that a query names; from the serving one if it is refused, explanations say which."""
        engine_id = await self.model_registry.hold_version(query.engine_id, query.snapshot)
        pinned = replace(query, engine_id=engine_id, snapshot="")
        result = await self.answer(pinned, recent, shown, draw)
        if result.explanation is None:
            return result
        explanation = {**result.explanation, "snapshot": self.serving_version(engine_id)}
        return replace(result, explanation=explanation)

    def serving_version(self, engine_id: str) -> str:
        """Return the snapshot version that serves an engine; empty for the live components alone."""
        return self.recommender.get_engine_state(engine_id).serving_version

    async def _build_columns(self, recommender: Recommender, keys: Sequence[Key]) -> None:
        """Build columns in another thread. Queries that need the same columns wait for the same build."""
        async with self._preparing:
            steps = recommender.overlay.catalog.columns.build_in_steps(keys)
            await asyncio.get_running_loop().run_in_executor(None, run_with_pauses, steps, self._clock)

    @property
    def recommender(self) -> Recommender:
        """Return the state that serves.

        Errors:
            Unavailable: it is not loaded
        """
        if self._recommender is None:
            raise Unavailable("the recommender is not loaded", retry_after_s=1)
        return self._recommender

    async def _run_exclusive(self, work: Callable[[], T], *, is_short: bool) -> T:
        """Run short work in the caller if the lock is free, all other work in the thread; one call at a time."""
        # A hop to the thread costs more than short work, and a blocking acquire would stop the event loop.
        if is_short and self._lock.acquire(blocking=False):
            try:
                return work()
            finally:
                self._lock.release()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run_locked, work)

    async def _run_in_turns(self, steps: Iterator[None]) -> None:
        """Run steps for a moment each time, in turns with answers."""
        done = False
        while not done:
            done = await self._run_exclusive(partial(self._advance, steps), is_short=True)
            # Lets other tasks take the lock between two steps.
            await asyncio.sleep(0)

    def _run_locked(self, work: Callable[[], T]) -> T:
        with self._lock:
            return work()

    def _disabled_parts(self, engine_id: str) -> dict[str, str]:
        model = self.recommender.get_engine_state(engine_id).serving_model
        return {} if model is None else model.disabled_parts

    async def _adopt_snapshot(self, engine_id: str, learned: LoadedSnapshot | None) -> None:
        """Bind a snapshot to the rows of the state that serves, and let it serve an engine.

        A renewal may replace the state meanwhile. The new state has other rows, so the snapshot is bound again.
        """
        adopted: Recommender | None = None
        brought_texts = self.recommender.text_engine
        # The binding runs in a thread, and the state may be loaded again meanwhile; then it is bound anew.
        while adopted is not self.recommender:
            adopted = self.recommender
            model: ServingModel | None = None
            if learned is not None:
                ids = list(adopted.overlay.catalog.product_ids)
                model = await asyncio.to_thread(ServingModel, learned, ids)
            if adopted is self.recommender:
                adopt = partial(adopted.set_serving_model, engine_id, model, self._clock.now_ms())
                await self._run_exclusive(adopt, is_short=False)
        self._schedule.record_change()
        self._is_rebound |= engine_id in (DEFAULT_ENGINE, brought_texts, self.recommender.text_engine)

    async def _load(self) -> Recommender:
        started_s = self._clock.monotonic_s()
        recommender = await asyncio.get_running_loop().run_in_executor(None, self._build_recommender)
        while changes := await self._read(recommender, block_ms=0):
            await self._apply(recommender, changes)
        ids = list(recommender.overlay.catalog.product_ids)
        run = asyncio.get_running_loop().run_in_executor  # priors of the whole catalog take long
        for engine_id, model in await run(None, self.model_registry.bind_to_catalog, ids):
            await run(None, recommender.set_serving_model, engine_id, model, self._clock.now_ms())
        took_ms = round((self._clock.monotonic_s() - started_s) * 1000)
        self._log.info("recommender_loaded", products=recommender.overlay.catalog.products, took_ms=took_ms)
        self._meter.time("kiosk_recommender_load_ms", took_ms)
        return recommender

    async def _reload(self) -> None:
        recommender = await self._load()
        await self._build_indexes(recommender)
        self._replace(recommender)

    async def _build_indexes(self, recommender: Recommender) -> None:
        """Build the indexes that queries used: they will be used again."""
        await self._index_new(recommender)
        await self._build_columns(recommender, self.recommender.overlay.catalog.columns.column_keys)
        keys = self.recommender.completions.field_keys
        await asyncio.to_thread(build_completions, recommender, keys, self._clock.now_ms())

    def _replace(self, recommender: Recommender) -> None:
        self._recommender = recommender
        self._is_rebound = False

    @property
    def is_as_loaded(self) -> bool:
        """Return whether the state is that of a load: the artifact store alone determines it."""
        overlay = self.recommender.overlay
        return not self._is_rebound and has_reached(overlay.loaded_offsets, overlay.offsets)

    async def _start_renewal(self) -> None:
        """Start to load the state again, if it is not as loaded and the schedule allows it."""
        renewing = self._renewing
        if self._segments is None or renewing is None or renewing.locked() or self.is_as_loaded:
            return
        if self._renewal is not None and not self._renewal.done():
            return
        if not (self._schedule.is_quiet or self._schedule.is_overdue):
            return
        # Asked last: the only check that costs a trip to Redis.
        compacted = await self._stores.changes.compacted_offsets(self._app_id)
        is_settled = self._schedule.is_quiet and has_reached(compacted, self.recommender.overlay.offsets)
        if is_settled or self._schedule.is_overdue:
            # Set before the task starts: the report below must not let the log be trimmed past what it reads.
            self._retained = {noun: compacted.get(noun, "0") for noun in NOUNS}
            self._renewal = asyncio.get_running_loop().create_task(self._renew(renewing))

    async def _renew(self, renewing: asyncio.Lock) -> None:
        """Load the state again and replace the old one, unless that changed otherwise meanwhile."""
        async with renewing:
            active = self.recommender
            started_s = self._clock.monotonic_s()
            try:
                recommender = await self._load()
                await self._build_indexes(recommender)
                for _ in range(_REPLACE_TRIES):
                    while changes := await self._read(recommender, block_ms=0):
                        await self._apply(recommender, changes)
                    first = {noun: await self._stores.changes.first(self._app_id, noun) for noun in NOUNS}
                    is_whole = has_reached(recommender.overlay.loaded_offsets, first)
                    # the active state may have read on; no await from here to the replacement
                    is_newest = has_caught_up_with(recommender, active, self.model_registry.engine_ids)
                    if is_whole and is_newest and active is self._recommender:
                        self._replace(recommender)
                        self._log.info("recommender_renewed", offsets=self._read_offsets(recommender))
                        self._meter.count("kiosk_recommender_renewals_total")
                        break
            except Unavailable as error:
                self._record_miss(error)
            except Exception:  # noqa: BLE001
                # the old state stays, and a later renewal tries again
                self._record_failure()
            finally:
                # Also after a failure: a kept offset would stop the trimming of the log for good.
                self._retained = {}
                self._schedule.record_load(self._clock.monotonic_s() - started_s)

    async def _index_new(self, recommender: Recommender) -> None:
        """Index the texts and cold-start products that no snapshot has, before the first query needs them."""
        run = asyncio.get_running_loop().run_in_executor
        steps = recommender.default_engine_state.complete_priors(self._clock.now_ms())
        await run(None, run_with_pauses, steps, self._clock)
        if self._indexes_texts:
            await run(None, recommender.overlay.texts.index_all, make_pause(self._clock))

    def _build_recommender(self) -> Recommender:
        embedder = self._make_embedder()
        recommender = Recommender(embedder, refresh_ms=REFRESH_MS)
        recommender.completions.most_bytes = self._index_bytes
        recommender.overlay.logged_queries = self._query_log.queries
        recommender.overlay.catalog.columns.limit_reads(RECORDS_AT_ONCE)
        if self._segments is not None:
            state: CompactedState = self._segments.load(self._app_id, salvage=True)
            if state.damaged:
                # the intact segments serve until the others are repaired
                self._log.error("segments_damaged", segments=list(state.damaged))
                self._meter.count("kiosk_segments_damaged_total", len(state.damaged))
            users = self._segments.records(self._app_id, "user", salvage=True, newest=MOST_USERS)
            load_compacted_state(recommender, state, embedder, pause=make_pause(self._clock), users=users)
            since_ms = self._clock.now_ms() - WINDOW_MS
            recommender.overlay.add_searches(self._segments.load_searches(self._app_id, since_ms))
        return recommender

    async def _apply_next(self) -> bool:
        recommender = self.recommender
        changes = await self._read(recommender, block_ms=_BLOCK_MS)
        if changes:
            self._schedule.record_change()
        await self._apply(recommender, changes)
        self._start_indexing()
        return len(changes) >= _READ

    def _record_miss(self, _: Unavailable) -> None:
        self._meter.count("kiosk_follow_misses_total")

    def _record_failure(self) -> None:
        self._log.exception("follow_failed")
        self._meter.count("kiosk_follow_failures_total")

    async def _report_offset(self) -> None:
        """Report the offset, after a reload where one is needed."""
        if await self._needs_reload():
            await self._reload()
        await self._start_renewal()
        offsets = self._read_offsets(self.recommender)
        digest: dict[str, str] = {}
        if self._retained and has_reached(offsets, self._retained):
            offsets = {**offsets, **self._retained}
        else:
            digest = await self._comparison.digest(self.recommender, is_as_loaded=self.is_as_loaded)
        now_ms = self._clock.now_ms()
        await self._stores.changes.record_follower(
            self._app_id, Follower(self._name, now_ms, offsets, digest)
        )
        await self._comparison.compare(now_ms)

    async def _needs_reload(self) -> bool:
        """Return whether the log was trimmed past the offset, or too many rows are unused."""
        offsets = self._read_offsets(self.recommender)
        for noun in NOUNS:
            oldest = await self._stores.changes.first(self._app_id, noun)
            if position_from_offset(oldest) > position_from_offset(offsets[noun]):
                self._log.warning("log_gap_found", noun=noun, offset=offsets[noun])
                return True
        catalog = self.recommender.overlay.catalog
        return self._segments is not None and catalog.unused > _LOOSE_ROWS + catalog.products

    async def _read(self, recommender: Recommender, *, block_ms: int) -> list[ChangeLogEntry]:
        return await self._stores.changes.read(
            self._app_id, self._read_offsets(recommender), count=_READ, block_ms=block_ms
        )

    async def _apply(self, recommender: Recommender, changes: Sequence[ChangeLogEntry]) -> None:
        if changes:
            await self._run_in_turns(recommender.apply_in_steps(changes))
        now_ms = self._clock.now_ms()
        for change in {change.noun: change for change in changes}.values():
            lag_ms = now_ms - offset_time_ms(change.offset)
            self._meter.time("kiosk_follow_lag_ms", lag_ms, noun=change.noun)

    def _start_indexing(self) -> None:
        """Start the rebuild of text indexes that have changed much; the follower continues meanwhile."""
        if self._indexing is None or self._indexing.done():
            self._indexing = asyncio.get_running_loop().create_task(self._rebuild_indexes(self.recommender))

    async def _rebuild_indexes(self, recommender: Recommender) -> None:
        try:
            work = await self._run_exclusive(
                partial(recommender.plan_completion_rebuild, self._clock.now_ms()), is_short=True
            )
            if work is not None:
                field, build = work
                built = await asyncio.get_running_loop().run_in_executor(None, build)
                # Built beside the answers, adopted under the lock: only the swap delays an answer.
                await self._run_exclusive(partial(field.adopt, built), is_short=True)
            merging = await self._run_exclusive(recommender.overlay.texts.plan_rebuild, is_short=True)
            if merging is not None:
                texts, merge = merging
                merged = await asyncio.get_running_loop().run_in_executor(None, merge)
                await self._run_exclusive(partial(texts.adopt, merged), is_short=True)
            columns = recommender.overlay.catalog.columns
            if missing := columns.find_missing([*PREBUILT_COLUMNS, *columns.column_keys]):
                await self._build_columns(recommender, missing)
        except Exception:  # noqa: BLE001
            # the old index stays in use; changed texts stay in the live index
            self._log.exception("indexes_not_built")
            self._meter.count("kiosk_follow_failures_total")

    def _advance(self, steps: Iterator[None]) -> bool:
        """Run steps for a moment, and return whether all are done."""
        until_s = self._clock.monotonic_s() + _STEP_S
        return all(self._clock.monotonic_s() < until_s for _ in steps)

    def _read_offsets(self, recommender: Recommender) -> dict[Noun, str]:
        return {noun: recommender.overlay.offsets.get(noun, "0") for noun in NOUNS}
