"""Keep one app's archive current: snapshot, compacted records, then the change log.

    load      map the newest snapshot and read compacted records behind it in the writer's thread
    follow    blocking reads; apply changes in steps in the writer's thread
    gap       the log was trimmed past this follower: load beside the old library and swap; queries never wait
    newer     another snapshot was written: map, verify and catch up beside the old library in a separate thread, then
              swap; queries that began with the old library end with it
    join      join in that thread the postings of accesses that are often read together

Short queries run on the event loop, long ones in the thread of queries.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import orjson
import structlog

from actors.archive.passage_index import PassageIndex
from actors.archive.passages import Document, document_from_product
from actors.archive.retrieve import is_fast
from actors.archive.revisions import ArticleRevisions
from actors.hosting.log_follower import LogFollower
from cluster.artifacts.segments import SegmentStore, position_from_offset
from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.meter import Meter
from cluster.records.archive.article_revision import ArticleRevision
from cluster.store.data.change_log import ChangeLogEntry, Follower
from cluster.store.stores import Stores

T = TypeVar("T")
LibraryAtOffset = tuple[PassageIndex, str]
"A library and its offset in the product log."

_READ = 64
_BLOCK_MS = 2_000
_BATCH = 200
SNAPSHOT_POLL_S = 0.75
"Interval of the search for a newer snapshot."


class ArchiveFollower:
    """Holds one app's library and applies every change to it."""

    def __init__(
        self,
        app_id: str,
        name: str,
        stores: Stores,
        segments: SegmentStore | None,
        clock: Clock,
        meter: Meter,
        open_library: Callable[[str], LibraryAtOffset],
        newest: Callable[[str], int] = lambda app_id: 0,
    ) -> None:
        self._app_id = app_id
        self._name = name
        self._stores = stores
        self._segments = segments
        self._clock = clock
        self._meter = meter
        self._open_library = open_library
        self._newest = newest
        self._sequence = 0
        "The newest snapshot that was tried, good or damaged."
        # One thread writes, so a library never has two changes at once.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=f"archive-writes-{app_id}")
        self._read_threads = ThreadPoolExecutor(1, thread_name_prefix=f"archive-reads-{app_id}")
        self._opener = ThreadPoolExecutor(1, thread_name_prefix=f"archive-opens-{app_id}")
        self._library: PassageIndex | None = None
        self._offset = "0"
        self._revisions = ArticleRevisions()
        self._tasks: list[asyncio.Task[None]] = []
        self._log = structlog.get_logger().bind(app=app_id)

    async def start(self) -> None:
        """Load the library, catch up with the log, and continue to follow it."""
        self._revisions = ArticleRevisions(await self._stores.article_revisions.all(self._app_id))
        await self._load()
        loop = asyncio.get_running_loop()
        following = LogFollower(
            self._apply_changes,
            self._clock,
            on_miss=self._count_miss,
            on_failure=self._count_failure,
            report_offset=self._report_offset,
        ).run()
        self._tasks = [loop.create_task(following), loop.create_task(self._watch_snapshots())]

    async def close(self) -> None:
        """Stop following and release the memory."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        # Without waiting: a running merge would hold up the event loop, and with it all other apps.
        self._writer.shutdown(wait=False, cancel_futures=True)
        self._read_threads.shutdown(wait=False, cancel_futures=True)
        self._opener.shutdown(wait=False, cancel_futures=True)
        self._library = None

    @property
    def nbytes(self) -> int:
        return 0 if self._library is None else self._library.nbytes

    @property
    def revisions(self) -> Mapping[str, ArticleRevision]:
        """Return the corrections and withdrawals by product, the newest last."""
        return self._revisions.by_product

    @property
    def locked_accesses(self) -> frozenset[str] | None:
        """Return the accesses of locked articles; None while no library is loaded."""
        library = self._library
        if library is None:
            return None
        return frozenset(segment.access for segment in library.segments if segment.access)

    async def query(
        self,
        thought: Callable[[PassageIndex], T],
        tiers: frozenset[str] | None,
        *,
        in_thread: bool = False,
    ) -> T:
        """Run a query of what some tiers may read, of all if None: a short one on the event loop, else in a thread.

        Errors:
            Unavailable: no library is loaded
        """
        # Taken once: a swap meanwhile must not give one query two libraries.
        library = self._library
        if library is None:
            raise Unavailable("the archive is not loaded", retry_after_s=1)
        if not in_thread and is_fast(library, tiers):
            return thought(library)
        return await asyncio.get_running_loop().run_in_executor(self._read_threads, thought, library)

    async def _load(self) -> None:
        started_s = self._clock.monotonic_s()
        # Before the library is opened: a snapshot that comes in between is then loaded by the watch.
        self._sequence = await self._find_newest()
        await self._open_and_swap(self._writer, started_s)

    async def _find_newest(self) -> int:
        return await asyncio.get_running_loop().run_in_executor(self._opener, self._newest, self._app_id)

    async def _open_and_swap(self, thread: ThreadPoolExecutor, started_s: float) -> None:
        """Open a library and catch up in a thread, then replace the current one; its last query releases the memory."""
        loop = asyncio.get_running_loop()
        library, offset = await loop.run_in_executor(thread, self._open_library_state)
        # Caught up before the swap, or answers would fall back in time.
        while changes := await self._read(offset, block_ms=0):
            for change in changes:
                await loop.run_in_executor(thread, self._apply_change, library, change)
            offset = changes[-1].offset
        self._library = library
        self._offset = offset
        await self._write_revisions()
        took_ms = round((self._clock.monotonic_s() - started_s) * 1000)
        self._log.info("archive_loaded", articles=library.documents, took_ms=took_ms, snapshot=self._sequence)
        self._meter.time("kiosk_archive_load_ms", took_ms)

    async def _watch_snapshots(self) -> None:
        """Load newer snapshots and join postings, forever."""
        while True:
            await asyncio.sleep(SNAPSHOT_POLL_S)
            try:
                await self._load_newer_snapshot()
                await self._join_segments()
            except Unavailable as error:
                self._sequence = 0  # repeated in the next round: the log could not be read to its end
                self._count_miss(error)
            except Exception:  # noqa: BLE001  what is held goes on answering, whatever is wrong with a newer one
                self._count_failure()

    async def _load_newer_snapshot(self) -> None:
        # a separate thread, because a bucket or a network folder may answer late
        try:
            newest = await self._find_newest()
        except Unavailable as error:
            self._count_miss(error)  # the artifact store does not answer; the open archive stays in use
            return
        if newest <= self._sequence:
            return
        # Also if it turns out damaged: it is not tried again.
        self._sequence = newest
        await self._open_and_swap(self._opener, self._clock.monotonic_s())

    async def _join_segments(self) -> None:
        """Join what is often read together, beside the writer: changes must not wait for it."""
        library = self._library
        if library is not None and library.needs_join:
            await asyncio.get_running_loop().run_in_executor(self._opener, library.join_segments)

    def _open_library_state(self) -> LibraryAtOffset:
        """Open the snapshot and apply the compacted records behind it."""
        library, offset = self._open_library(self._app_id)
        if self._segments is None:
            return library, offset
        if not library.knows_access:
            # The snapshot has locked articles as open ones. What was compacted tells which these are.
            locked = self._segments.load_records_since(
                self._app_id, "product", "0", salvage=True, containing=b'"access"'
            )
            apply_records(library, [orjson.loads(record) for record in locked.puts])
        settled = self._segments.offsets(self._app_id).get("product", "0")
        # The snapshot is newer than the segments.
        if position_from_offset(settled) <= position_from_offset(offset):
            return library, offset
        since = self._segments.load_records_since(self._app_id, "product", offset, salvage=True)
        at_ms = position_from_offset(since.offset)[0]
        # A removal leaves nothing in compacted records, so absent ids show it.
        removed = [product_id for product_id in library.product_ids() if product_id not in since.living]
        self._revisions.remove(library, removed, at_ms)
        for start in range(0, len(since.puts), _BATCH):
            batch = [orjson.loads(record) for record in since.puts[start : start + _BATCH]]
            self._revisions.apply_records(library, batch, at_ms)
        return library, since.offset

    async def _apply_changes(self) -> bool:
        library = self._library
        offset = self._offset
        changes = await self._read(offset, block_ms=_BLOCK_MS)
        if changes and library is not None:
            offset = await self._apply(library, changes)
            if self._library is library:
                # else a newer snapshot with another offset replaced it meanwhile
                self._offset = offset
        return len(changes) >= _READ

    def _count_miss(self, _: Unavailable) -> None:
        self._meter.count("kiosk_archive_follow_misses_total")

    def _count_failure(self) -> None:
        self._log.exception("archive_follow_failed")
        self._meter.count("kiosk_archive_follow_failures_total")

    async def _report_offset(self) -> None:
        """Report the offset, and load again when the log was trimmed past it."""
        if position_from_offset(
            await self._stores.changes.first(self._app_id, "product")
        ) > position_from_offset(self._offset):
            self._log.warning("log_gap_found", noun="product", offset=self._offset)
            await self._load()
        now_ms = self._clock.now_ms()
        await self._stores.changes.record_follower(
            self._app_id, Follower(self._name, now_ms, {"product": self._offset})
        )

    async def _read(self, offset: str, *, block_ms: int) -> list[ChangeLogEntry]:
        return await self._stores.changes.read(
            self._app_id, {"product": offset}, count=_READ, block_ms=block_ms
        )

    async def _apply(self, library: PassageIndex, changes: list[ChangeLogEntry]) -> str:
        """Apply changes; a failing one is logged and skipped, and the next load applies it."""
        for change in changes:
            await self._run_in_writer(partial(self._apply_change, library, change))
        await self._write_revisions()
        lag_ms = self._clock.now_ms() - position_from_offset(changes[-1].offset)[0]
        self._meter.time("kiosk_archive_follow_lag_ms", lag_ms)
        return changes[-1].offset

    def _apply_change(self, library: PassageIndex, change: ChangeLogEntry) -> None:
        try:
            items = orjson.loads(change.payload)
            at_ms = position_from_offset(change.offset)[0]
            if change.op == "put":
                for start in range(0, len(items), _BATCH):
                    self._revisions.apply_records(library, items[start : start + _BATCH], at_ms)
            elif change.op == "remove":
                self._revisions.remove(library, items, at_ms)
        except Exception:  # noqa: BLE001  one poisonous change must not stop the others
            self._log.exception("archive_change_failed", offset=change.offset)
            self._meter.count("kiosk_archive_change_failures_total")

    async def _write_revisions(self) -> None:
        """Write new revisions to the store; while it is away they are kept for the next time."""
        changes = self._revisions.take_unwritten()
        if not changes:
            return
        try:
            await self._stores.article_revisions.put(self._app_id, changes)
        except Unavailable as error:
            self._revisions.put_back(changes)
            self._count_miss(error)

    async def _run_in_writer(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)


def apply_records(library: PassageIndex, records: list[dict[str, Any]]) -> None:
    """Add records; remove those that have no text any more."""
    documents = dict(_read_products(records))
    library.remove([product_id for product_id, document in documents.items() if document is None])
    library.put([document for document in documents.values() if document is not None])


def _read_products(records: list[dict[str, Any]]) -> Iterator[tuple[str, Document | None]]:
    for record in records:
        yield str(record["product_id"]), document_from_product(record)
