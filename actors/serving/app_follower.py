"""One app's recommender, kept alive: loaded from the shelf, following the change log, loaded anew after a gap.

    load      settled segments, then the log after their offsets           in a thread of its own
    follow    blocking reads; changes applied in steps of a millisecond    answers go in between
    gap       the log was trimmed past us: load beside the old one, swap   readers never wait

What takes about a millisecond is thought on the event loop, because a thread would cost as much again; what may take
longer is thought in a thread. One thought at a time: answers, steps of changes and swaps of snapshots take turns.

An answer that needs columns nobody built yet is given up at once, the columns are built beside, and it is asked again:
only who asks for them waits for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

import structlog

from actors.hosting.log_follower import follow_for_ever
from actors.language.embedder import Embedder
from actors.recommender.messages import ReaderQuery, RecommendationResult
from actors.recommender.recommender import Recommender, columns_of
from actors.recommender.state.events import written_ms
from actors.recommender.state.serving_model import Champion
from actors.recommender.state.user_attributes import MOST_USERS
from actors.retrieval.logged_queries import QueryLogFollower
from actors.retrieval.popular_queries import WINDOW_MS
from actors.serving.model_registry import Champions, Models
from actors.serving.startup import OFTEN_ASKED, boot
from cluster.artifacts.compacted_state import SettledState
from cluster.artifacts.query_log import QueryShelf
from cluster.artifacts.segments import SegmentShelf, position
from cluster.clock import Clock
from cluster.errors import Unavailable, Unready
from cluster.ids import DEFAULT_ENGINE
from cluster.meter import Meter
from cluster.query.columnar.column_source import Key
from cluster.store.ports.stores import Change, Noun, Stores

T = TypeVar("T")

NOUNS: tuple[Noun, ...] = ("user", "product", "interaction")
REFRESH_MS = 200
"How old trend scores may be while changes stream in."
RECORDS_AT_ONCE = 1_000
"An answer may read so many to have its columns up to date, about a millisecond."

_READ = 128
_BLOCK_MS = 2_000
_STEP_S = 0.0015
_BESIDE_S = 0.0012
_LOOSE_ROWS = 50_000
_TRIES = 8
# a moment of sleep hands the interpreter to the event loop, which answers for others meanwhile
_PAUSE = partial(time.sleep, 0.0002)


class Follower:
    """Holds one app's recommender and brings every change into it."""

    def __init__(
        self,
        app_id: str,
        name: str,
        stores: Stores,
        segments: SegmentShelf | None,
        clock: Clock,
        meter: Meter,
        make_embedder: Callable[[], Embedder],
        models: Models | None = None,
    ) -> None:
        self._app_id = app_id
        self._name = name
        self._stores = stores
        self._segments = segments
        self._clock = clock
        self._meter = meter
        self._make_embedder = make_embedder
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"recommender-{app_id}")
        self._lock = threading.Lock()
        self._recommender: Recommender | None = None
        self._champions = Champions(
            app_id,
            stores.engines,
            models,
            self._product_ids,
            self.serving,
            self._silenced,
            self._adopt,
            clock,
            meter,
        )
        shelf = None if segments is None else QueryShelf(segments.shelf, clock)
        self._query_log = QueryLogFollower(app_id, stores.queries, shelf, clock, self._step)
        self._preparing = asyncio.Lock()
        self._suggesting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._indexing: asyncio.Task[None] | None = None
        self._log = structlog.get_logger().bind(app=app_id)

    async def start(self) -> None:
        """Load, catch up with the log, and go on following it.

        Errors:
            Unavailable: the store is away
            Fault: the manifest of the segments is damaged
        """
        await self._query_log.start()
        self._recommender = await self._load()
        # the snapshot nearly everybody asks for knows most texts as they are: they need not be read again
        await self._champions.know(DEFAULT_ENGINE)
        await self._settle(self._recommender)
        self._following = asyncio.get_running_loop().create_task(
            follow_for_ever(self._note, self._bring_in, self._clock, missed=self._missed, failed=self._failed)
        )
        self._watching = asyncio.get_running_loop().create_task(self._champions.watch())
        self._suggesting = asyncio.get_running_loop().create_task(self._query_log.follow())

    async def close(self) -> None:
        """Stop following and let go of the memory."""
        for task in (self._watching, self._following, self._indexing, self._suggesting):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self._thread.shutdown(wait=False)
        self._recommender = None

    @property
    def products(self) -> int:
        """Products held."""
        return self._held.overlay.catalog.products

    @property
    def nbytes(self) -> int:
        """Memory held, estimated."""
        return self._held.overlay.nbytes

    async def answer(
        self, query: ReaderQuery, recent: Sequence[bytes], shown: Sequence[str]
    ) -> RecommendationResult:
        """Answer from what is held now."""
        if not self._champions.knows(query.engine_id):
            await self._champions.know(query.engine_id)
        if query.snapshot:
            engine_id = await self._champions.pin(query.engine_id, query.snapshot)
            query = replace(query, engine_id=engine_id)
        recommender = self._held
        for _ in range(_TRIES):
            thought = partial(recommender.answer, query, recent, shown, self._clock.now_ms())
            try:
                return await self._think(thought, here=recommender.is_light(query))
            except Unready as unready:
                await self._prepare(recommender, [*unready.facts["keys"], *columns_of(query)])
        # more columns than memory holds at a time, or changes quicker than they can be caught up with
        return await self._think(partial(recommender.at_any_cost, thought), here=False)

    def serving(self, engine_id: str) -> str:
        """Name the snapshot that serves an engine; empty for the live parts alone."""
        return self._held.of(engine_id).serving

    async def is_pinned(self, engine_id: str, version: str) -> bool:
        """Load a version of an engine, and tell whether it can answer."""
        return await self._champions.pin(engine_id, version) != engine_id

    async def _prepare(self, recommender: Recommender, keys: Sequence[Key]) -> None:
        """Build columns beside what goes on; who needs the same ones waits for the same building."""
        async with self._preparing:
            steps = recommender.overlay.catalog.columns.preparing(keys)
            await asyncio.get_running_loop().run_in_executor(None, self._walk, steps)

    def _walk(self, steps: Iterator[None]) -> None:
        """Take all steps, and let others have the interpreter every so often."""
        monotonic_s = self._clock.monotonic_s
        until_s = monotonic_s() + _BESIDE_S
        for _ in steps:
            if monotonic_s() >= until_s:
                _PAUSE()
                until_s = monotonic_s() + _BESIDE_S

    @property
    def _held(self) -> Recommender:
        if self._recommender is None:
            raise Unavailable("the recommender is not loaded", retry_after_s=1)
        return self._recommender

    async def _think(self, thought: Callable[[], T], *, here: bool) -> T:
        """Run here when it is short and nobody else thinks, else in the thread; one thought at a time."""
        if here and self._lock.acquire(blocking=False):
            try:
                return thought()
            finally:
                self._lock.release()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._alone, thought)

    async def _step(self, step: Callable[[], None]) -> None:
        await self._think(step, here=True)

    def _alone(self, thought: Callable[[], T]) -> T:
        with self._lock:
            return thought()

    def _silenced(self, engine_id: str) -> dict[str, str]:
        champion = self._held.of(engine_id).champion
        return {} if champion is None else champion.silenced

    def _product_ids(self) -> list[str]:
        return list(self._held.overlay.catalog.product_ids)

    async def _adopt(self, engine_id: str, champion: Champion | None) -> None:
        adopt = partial(self._held.adopt, engine_id, champion, self._clock.now_ms())
        await self._think(adopt, here=False)

    # --- loading --------------------------------------------------------------------------------------------

    async def _load(self) -> Recommender:
        started_s = self._clock.monotonic_s()
        recommender = await asyncio.get_running_loop().run_in_executor(None, self._booted)
        while changes := await self._read(recommender, block_ms=0):
            await self._apply(recommender, changes)
        ids = list(recommender.overlay.catalog.product_ids)
        run = asyncio.get_running_loop().run_in_executor
        for engine_id, champion in await run(None, self._champions.over, ids):
            recommender.adopt(engine_id, champion, self._clock.now_ms())
        took_ms = round((self._clock.monotonic_s() - started_s) * 1000)
        catalog = recommender.overlay.catalog
        self._log.info("recommender_loaded", products=catalog.products, took_ms=took_ms)
        self._meter.time("kiosk_recommender_load_ms", took_ms)
        return recommender

    async def _load_anew(self) -> None:
        recommender = await self._load()
        await self._settle(recommender)
        # what was asked for before will be asked for again
        await self._prepare(recommender, self._held.overlay.catalog.columns.kept)
        self._recommender = recommender

    async def _settle(self, recommender: Recommender) -> None:
        """Index the texts no snapshot knows, before anybody asks for them."""
        await asyncio.get_running_loop().run_in_executor(None, recommender.overlay.texts.settle, _PAUSE)

    def _booted(self) -> Recommender:
        embedder = self._make_embedder()
        recommender = Recommender(embedder, refresh_ms=REFRESH_MS)
        recommender.overlay.logged = self._query_log.queries
        recommender.overlay.catalog.columns.limit(RECORDS_AT_ONCE)
        if self._segments is not None:
            state: SettledState = self._segments.load(self._app_id, salvage=True)
            if state.damaged:
                # whatever is still whole serves until the segments are repaired
                self._log.error("segments_damaged", segments=list(state.damaged))
                self._meter.count("kiosk_segments_damaged_total", len(state.damaged))
            users = self._segments.records(self._app_id, "user", salvage=True, newest=MOST_USERS)
            boot(recommender, state, embedder, pause=_PAUSE, users=users)
            since_ms = self._clock.now_ms() - WINDOW_MS
            recommender.overlay.learn_searches(self._segments.searches(self._app_id, since_ms))
        return recommender

    # --- following ------------------------------------------------------------------------------------------

    async def _bring_in(self) -> bool:
        changes = await self._read(self._held, block_ms=_BLOCK_MS)
        await self._apply(self._held, changes)
        self._index()
        return len(changes) >= _READ

    def _missed(self) -> None:
        self._meter.count("kiosk_follow_misses_total")

    def _failed(self) -> None:
        self._log.exception("follow_failed")
        self._meter.count("kiosk_follow_failures_total")

    async def _note(self) -> None:
        """Say how far we are, and load anew when the log does not reach back to us or memory went to waste."""
        offsets = self._offsets(self._held)
        for noun in NOUNS:
            if position(await self._stores.changes.first(self._app_id, noun)) > position(offsets[noun]):
                self._log.warning("log_gap_found", noun=noun, offset=offsets[noun])
                await self._load_anew()
                break
        else:
            catalog = self._held.overlay.catalog
            if self._segments is not None and catalog.unused > _LOOSE_ROWS + catalog.products:
                await self._load_anew()
        now_ms = self._clock.now_ms()
        await self._stores.changes.note_follower(self._app_id, self._name, self._offsets(self._held), now_ms)

    async def _read(self, recommender: Recommender, *, block_ms: int) -> list[Change]:
        return await self._stores.changes.read(
            self._app_id, self._offsets(recommender), count=_READ, block_ms=block_ms
        )

    async def _apply(self, recommender: Recommender, changes: Sequence[Change]) -> None:
        steps, done = recommender.steps(changes), not changes
        while not done:
            done = await self._think(partial(self._advance, steps), here=True)
            await asyncio.sleep(0)
        now_ms = self._clock.now_ms()
        for change in {change.noun: change for change in changes}.values():
            lag_ms = now_ms - written_ms(change.offset)
            self._meter.time("kiosk_follow_lag_ms", lag_ms, noun=change.noun)

    def _index(self) -> None:
        """Have indexes of texts built again when much has changed; following goes on meanwhile."""
        if self._indexing is None or self._indexing.done():
            self._indexing = asyncio.get_running_loop().create_task(self._build_again(self._held))

    async def _build_again(self, recommender: Recommender) -> None:
        try:
            work = await self._think(partial(recommender.rebuilding, self._clock.now_ms()), here=True)
            if work is not None:
                field, build = work
                built = await asyncio.get_running_loop().run_in_executor(None, build)
                await self._think(partial(field.adopt, built), here=True)
            merging = await self._think(recommender.overlay.texts.rebuilding, here=True)
            if merging is not None:
                texts, merge = merging
                merged = await asyncio.get_running_loop().run_in_executor(None, merge)
                await self._think(partial(texts.adopt, merged), here=True)
            columns = recommender.overlay.catalog.columns
            if missing := columns.missing([*OFTEN_ASKED, *columns.kept]):
                await self._prepare(recommender, missing)
        except Exception:  # noqa: BLE001
            # the old index serves on, and what changed stays fresh
            self._log.exception("indexes_not_built")
            self._meter.count("kiosk_follow_failures_total")

    def _advance(self, steps: Iterator[None]) -> bool:
        """Take steps for a moment; say whether that was all."""
        until_s = self._clock.monotonic_s() + _STEP_S
        return all(self._clock.monotonic_s() < until_s for _ in steps)

    def _offsets(self, recommender: Recommender) -> dict[Noun, str]:
        return {noun: recommender.overlay.offsets.get(noun, "0") for noun in NOUNS}
