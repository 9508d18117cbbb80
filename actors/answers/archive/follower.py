"""One app's archive, kept alive: snapshot, what settled since, then the change log, followed.

    load      the newest snapshot is mapped, settled records behind it are read      in the writer's thread
    follow    blocking reads; changes applied in steps                               in the writer's thread
    gap       the log was trimmed past us: load beside the old one, swap             readers never wait
    newer     a snapshot was written: map, verify and catch up beside the old one    in a thread of its own
              then swap; thoughts that began with the old one end with it

Short thoughts are thought on the event loop, long ones in the readers' thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import orjson
import structlog

from actors.answers.archive.library import PassageLibrary
from actors.answers.archive.passages import Document, read_product
from actors.answers.archive.retrieve import is_fast
from actors.hosting.log_follower import LogFollower
from cluster.artifacts.segments import SegmentStore, position_from_offset
from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.meter import Meter
from cluster.store.ports.changes import ChangeLogEntry
from cluster.store.ports.stores import Stores

T = TypeVar("T")
LibraryAtOffset = tuple[PassageLibrary, str]
"A library and the product offset it stands at."

_READ = 64
_BLOCK_MS = 2_000
_BATCH = 200
SNAPSHOT_POLL_S = 0.75
"How often the shelf is looked at for a newer snapshot."


class ArchiveFollower:
    """Holds one app's library and brings every change into it."""

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
        "Of the newest snapshot that was looked at, whether it was any good or not."
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=f"archive-writes-{app_id}")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix=f"archive-reads-{app_id}")
        self._library: PassageLibrary | None = None
        self._offset = "0"
        self._tasks: list[asyncio.Task[None]] = []
        self._log = structlog.get_logger().bind(app=app_id)

    async def start(self) -> None:
        """Load, catch up with the log, and go on following it.

        Errors:
            Unavailable: the store is away
            Fault: the manifest of the segments is damaged
        """
        await self._load()
        loop = asyncio.get_running_loop()
        following = LogFollower(
            self._report_offset,
            self._apply_changes,
            self._clock,
            on_miss=self._count_miss,
            on_failure=self._count_failure,
        ).run()
        self._tasks = [loop.create_task(following), loop.create_task(self._watch_snapshots())]

    async def close(self) -> None:
        """Stop following and let go of the memory."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._writer.shutdown(wait=False, cancel_futures=True)
        self._reader.shutdown(wait=False, cancel_futures=True)
        self._library = None

    @property
    def nbytes(self) -> int:
        """Memory held or mapped, estimated."""
        return 0 if self._library is None else self._library.nbytes

    async def query(self, thought: Callable[[PassageLibrary], T]) -> T:
        """Think about what is held now: here when it is short, else in the readers' thread.

        Errors:
            Unavailable: nothing is held
        """
        library = self._library
        if library is None:
            raise Unavailable("the archive is not loaded", retry_after_s=1)
        if is_fast(library):
            return thought(library)
        return await asyncio.get_running_loop().run_in_executor(self._reader, thought, library)

    # --- loading --------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        started_s = self._clock.monotonic_s()
        self._sequence = self._newest(self._app_id)
        await self._open_and_swap(self._writer, started_s)

    async def _open_and_swap(self, thread: ThreadPoolExecutor, started_s: float) -> None:
        """Open and catch up in a thread, then let it be what is held; what was held goes with its last reader."""
        loop = asyncio.get_running_loop()
        library, offset = await loop.run_in_executor(thread, self._open_library_state)
        while changes := await self._read(offset, block_ms=0):
            for change in changes:
                await loop.run_in_executor(thread, self._apply_change, library, change)
            offset = changes[-1].offset
        self._library, self._offset = library, offset
        took_ms = round((self._clock.monotonic_s() - started_s) * 1000)
        self._log.info("archive_loaded", articles=library.documents, took_ms=took_ms, snapshot=self._sequence)
        self._meter.time("kiosk_archive_load_ms", took_ms)

    async def _watch_snapshots(self) -> None:
        """Take up newer snapshots for ever."""
        while True:
            await asyncio.sleep(SNAPSHOT_POLL_S)
            try:
                await self._load_newer_snapshot()
            except Unavailable:
                self._sequence = 0  # again at the next look: the log could not be read to its end
                self._count_miss()
            except Exception:  # noqa: BLE001  what is held goes on answering, whatever is wrong with a newer one
                self._count_failure()

    async def _load_newer_snapshot(self) -> None:
        newest = self._newest(self._app_id)
        if newest <= self._sequence:
            return
        self._sequence = newest
        thread = ThreadPoolExecutor(1, thread_name_prefix=f"archive-opens-{self._app_id}")
        try:
            await self._open_and_swap(thread, self._clock.monotonic_s())
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    def _open_library_state(self) -> LibraryAtOffset:
        """Open the snapshot and bring in what settled behind it."""
        library, offset = self._open_library(self._app_id)
        if self._segments is None:
            return library, offset
        settled = self._segments.offsets(self._app_id).get("product", "0")
        if position_from_offset(settled) <= position_from_offset(offset):
            return library, offset
        since = self._segments.load_records_since(self._app_id, "product", offset, salvage=True)
        library.remove([one for one in library.product_ids() if one not in since.living])
        for start in range(0, len(since.puts), _BATCH):
            apply_records(library, [orjson.loads(record) for record in since.puts[start : start + _BATCH]])
        return library, since.offset

    # --- following ------------------------------------------------------------------------------------------

    async def _apply_changes(self) -> bool:
        library, offset = self._library, self._offset
        changes = await self._read(offset, block_ms=_BLOCK_MS)
        if changes and library is not None:
            offset = await self._apply(library, changes)
            if self._library is library:
                # else a newer snapshot took its place meanwhile, which stands at an offset of its own
                self._offset = offset
        return len(changes) >= _READ

    def _count_miss(self) -> None:
        self._meter.count("kiosk_archive_follow_misses_total")

    def _count_failure(self) -> None:
        self._log.exception("archive_follow_failed")
        self._meter.count("kiosk_archive_follow_failures_total")

    async def _report_offset(self) -> None:
        """Say how far we are, and load anew when the log does not reach back to us."""
        if position_from_offset(
            await self._stores.changes.first(self._app_id, "product")
        ) > position_from_offset(self._offset):
            self._log.warning("log_gap_found", noun="product", offset=self._offset)
            await self._load()
        now_ms = self._clock.now_ms()
        await self._stores.changes.record_follower(
            self._app_id, self._name, {"product": self._offset}, now_ms
        )

    async def _read(self, offset: str, *, block_ms: int) -> list[ChangeLogEntry]:
        return await self._stores.changes.read(
            self._app_id, {"product": offset}, count=_READ, block_ms=block_ms
        )

    async def _apply(self, library: PassageLibrary, changes: list[ChangeLogEntry]) -> str:
        """Apply changes; one that fails is told of and passed, the next reload brings it in whole."""
        for change in changes:
            await self._run_in_writer(partial(self._apply_change, library, change))
        lag_ms = self._clock.now_ms() - position_from_offset(changes[-1].offset)[0]
        self._meter.time("kiosk_archive_follow_lag_ms", lag_ms)
        return changes[-1].offset

    def _apply_change(self, library: PassageLibrary, change: ChangeLogEntry) -> None:
        try:
            items = orjson.loads(change.payload)
            if change.op == "put":
                for start in range(0, len(items), _BATCH):
                    apply_records(library, items[start : start + _BATCH])
            elif change.op == "remove":
                library.remove(items)
        except Exception:  # noqa: BLE001  one poisonous change must not stop the others
            self._log.exception("archive_change_failed", offset=change.offset)
            self._meter.count("kiosk_archive_change_failures_total")

    async def _run_in_writer(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)


def apply_records(library: PassageLibrary, records: list[dict[str, Any]]) -> None:
    """Put records in; one that has no text any more goes."""
    documents = dict(_read_products(records))
    library.remove([product_id for product_id, document in documents.items() if document is None])
    library.put([document for document in documents.values() if document is not None])


def _read_products(records: list[dict[str, Any]]) -> Iterator[tuple[str, Document | None]]:
    for record in records:
        yield str(record["product_id"]), read_product(record)
