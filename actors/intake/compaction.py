"""Move change-log entries into Parquet segments, so that training and restarts never read Redis in bulk.

The manifest in the artifact store records how far an app is compacted. The compactor then writes the offset to Redis,
so that the log can be trimmed. After a crash between the two, the next round writes the offset again. Changes wait in
memory for at most half a minute, and not at all when they erase a person.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from actors.intake.batch_preparation import prepare_batch
from actors.intake.segment_rows import CompactionBatch, build_compaction_batch, find_erased_users
from actors.language.hashing_embedder import Embedder
from cluster.artifacts.replaced_products import ReplacedProducts
from cluster.artifacts.segment_format import NOUNS
from cluster.artifacts.segments import SegmentStore, position_from_offset
from cluster.clock import Clock
from cluster.errors import Conflict, Fault, KioskError, Unavailable
from cluster.meter import Meter
from cluster.records.intake import Noun
from cluster.store.data.change_log import ChangeLog, ChangeLogEntry
from cluster.store.stores import Stores

# Write segments of users and products again from the store of records, when they are lost or damaged.
#
# Interactions can't be recovered this way: after the log was trimmed, only segments hold them.


_BATCH = 200


class SegmentRebuilder:
    """Writes the segments of one kind of record again."""

    def __init__(self, stores: Stores, segments: SegmentStore, embedder: Embedder, clock: Clock) -> None:
        self._stores = stores
        self._segments = segments
        self._embedder = embedder
        self._clock = clock
        self._log = structlog.get_logger()

    async def rebuild(self, app_id: str, noun: Noun) -> str:
        """Read every record, embed products and replace the segments; return the offset that they cover now.

        Later changes are in the log behind that offset and are compacted as usual.

        Errors:
            Conflict: another writer committed meanwhile
        """
        # Before the records: a change in between is then compacted twice, and never missed.
        last = await self._stores.changes.last(app_id, noun)
        record_ids = await self._stores.records.ids(app_id, noun)
        tables: list[Any] = []
        for start in range(0, len(record_ids), _BATCH):
            records = await self._stores.records.get_many(app_id, noun, record_ids[start : start + _BATCH])
            payload = b"[" + b",".join(record for record in records if record is not None) + b"]"
            tables.append(await asyncio.to_thread(self._build_table, noun, payload, last))
        # The artifact store first: an offset in Redis without its segment would lose changes with the next
        # trim.
        await asyncio.to_thread(self._segments.rebuild, app_id, noun, tables, last=last)
        await self._stores.changes.compact(app_id, noun, last, self._clock.now_ms())
        self._log.warning("segments_rebuilt", app=app_id, noun=noun, records=len(record_ids))
        return last

    def _build_table(self, noun: Noun, payload: bytes, last: str) -> Any:
        prepared = prepare_batch(noun, payload, self._embedder)
        return build_compaction_batch(
            noun,
            [ChangeLogEntry(noun, last, "put", prepared.change_payload, prepared.vectors, prepared.embedder)],
        ).table


DeleteLogRows = Callable[[str, Sequence[str]], Awaitable[None]]
"Deletes the rows of users of an app from the logs in the artifact store."

OnErased = Callable[[], Awaitable[None]]
"Called after an erasure was compacted."

_REBUILDABLE: tuple[Noun, ...] = ("user", "product")
"Kinds of records that can be written again from the store of records."


@dataclass(frozen=True, slots=True)
class CompactionConfig:
    """Limits that decide when changes become a segment."""

    every_s: float = 30.0
    "The longest a change waits."
    entries: int = 5_000
    "This many waiting entries are compacted at once, if their bytes reach:"
    entry_bytes: int = 4 << 20
    full_bytes: int = 32 << 20
    "This many waiting bytes are compacted at once in any case."
    page: int = 1_000
    "Maximal number of entries in one read."
    page_bytes: int = 8 << 20
    "Approximate bytes in one read: entries are between a hundred bytes and megabytes."
    rest_s: float = 30.0
    "Pause of an app whose segments are damaged."
    tidy_every_s: float = 600.0
    "Pause between two looks for former versions of products that are old enough to go."


@dataclass(slots=True)
class _PendingChanges:
    """Changes of one kind of record that were read and not compacted yet."""

    cursor: str
    changes: list[ChangeLogEntry] = field(default_factory=list)
    size: int = 0
    since_s: float = 0.0
    urgent: bool = False

    def add(self, change: ChangeLogEntry, now_s: float) -> None:
        if not self.changes:
            self.since_s = now_s
        self.changes.append(change)
        self.cursor = change.offset
        self.size += len(change.payload) + len(change.vectors)
        # An erasure must not wait half a minute beside other changes.
        self.urgent = self.urgent or change.op == "erase" or (change.noun == "user" and change.op == "remove")

    def has_pending_until(self, offset: str) -> bool:
        """Return whether changes up to an offset are pending."""
        return bool(self.changes) and position_from_offset(self.changes[0].offset) <= position_from_offset(
            offset
        )

    def clear(self) -> None:
        self.changes = []
        self.size = 0
        self.urgent = False


class ChangeLogCompactor:
    """Compacts the change logs of all apps; only one may run at a time."""

    def __init__(
        self,
        changes: ChangeLog,
        segments: SegmentStore,
        rebuilder: SegmentRebuilder,
        clock: Clock,
        meter: Meter,
        rules: CompactionConfig | None = None,
        delete_log_rows: DeleteLogRows | None = None,
        erased: OnErased | None = None,
    ) -> None:
        self._delete_log_rows = delete_log_rows
        self._erased = erased
        self._changes = changes
        self._segments = segments
        self._rebuilder = rebuilder
        self._clock = clock
        self._meter = meter
        self._rules = CompactionConfig() if rules is None else rules
        self._waiting: dict[str, dict[Noun, _PendingChanges]] = {}
        self._resting: dict[str, float] = {}
        self._tidied: dict[str, float] = {}
        self._entry_bytes = float(1 << 20)
        "Mean size of recent entries; large at first, to be careful."
        self._lock = asyncio.Lock()
        self._log = structlog.get_logger()

    async def run_once(self, app_ids: Iterable[str], *, at_once: bool = False) -> int:
        """Read new changes and compact those that are due (`at_once`: all); return the number of rows written.

        A failure of one app does not delay the others.
        """
        async with self._lock:
            return await self._run_once(app_ids, at_once)

    async def _run_once(self, app_ids: Iterable[str], at_once: bool) -> int:
        rows = 0
        for app_id in app_ids:
            if self._resting.get(app_id, 0.0) > self._clock.monotonic_s():
                continue
            try:
                rows += await self._compact_app(app_id, at_once)
                await self._drop_replaced(app_id)
            except Conflict:  # another process wrote; read the manifest again
                self._waiting.pop(app_id, None)
            except Unavailable:
                raise
            except KioskError as error:
                self._waiting.pop(app_id, None)
                self._resting[app_id] = self._clock.monotonic_s() + self._rules.rest_s
                self._meter.count("kiosk_settle_refusals", app=app_id)
                self._log.error("settling_refused", app=app_id, reason=error.message)
        return rows

    async def erase(self, app_id: str, user_id: str, user_keys: Sequence[str]) -> None:
        """Compact an app now and delete a person from its segments, whatever the log contains. Repeating it
        is safe.

        Errors:
            Unavailable: the store or the artifact store is unreachable, or another writer committed
            Fault: a segment is damaged and may still hold the person
        """
        async with self._lock:
            # Changes that wait in memory would bring the person back after the erasure.
            await self._run_once([app_id], True)
            try:
                await asyncio.to_thread(self._erase, app_id, user_id, user_keys)
            except Conflict as error:
                self._waiting.pop(app_id, None)
                raise Unavailable(
                    "the segments were written by somebody else meanwhile", retry_after_s=1
                ) from error

    def _erase(self, app_id: str, user_id: str, user_keys: Sequence[str]) -> None:
        if user_id:
            self._segments.erase(app_id, "user", [user_id])
        self._segments.erase(app_id, "interaction", user_keys)
        # At once: replaced files still hold the person, and readers get no time to finish here.
        self._segments.tidy(app_id, at_once=True)

    def clear(self) -> None:
        """Drop the changes in memory: another process compacts now."""
        self._waiting.clear()

    def list_failing(self) -> list[str]:
        """Return the apps whose compaction fails at the moment."""
        now_s = self._clock.monotonic_s()
        return sorted(app_id for app_id, until_s in self._resting.items() if until_s > now_s)

    async def _compact_app(self, app_id: str, at_once: bool) -> int:
        waiting = self._waiting.get(app_id)
        if waiting is None:
            waiting = self._waiting[app_id] = await self._resume(app_id)
        rows = 0
        requested_offsets = await self._changes.requested_compactions(app_id)
        while True:
            got = await self._read_changes(app_id, waiting)
            wrote = False
            for noun, part in waiting.items():
                # Only with nothing left to read, else each page of a long log would become a small segment.
                now = not got and (at_once or part.has_pending_until(requested_offsets.get(noun, "0")))
                if part.changes and (now or self._is_due(part)):
                    rows += await self._write(app_id, noun, part)
                    wrote = True
            if not got and not wrote:
                return rows

    async def _resume(self, app_id: str) -> dict[Noun, _PendingChanges]:
        """Resume after the manifest of the artifact store, repair damaged segments, and write the offset to Redis.

        A crash may have prevented the write of the offset, and the artifact store may have been damaged meanwhile.
        """
        await asyncio.to_thread(self._segments.tidy, app_id)
        offsets = await asyncio.to_thread(self._segments.offsets, app_id)
        damaged = await asyncio.to_thread(self._segments.verify, app_id, _REBUILDABLE)
        stored_offsets = await self._changes.compacted_offsets(app_id)
        for noun in NOUNS:
            covered = offsets.get(noun, "0")
            stored_offset = stored_offsets.get(noun, "0")
            # Redis was trimmed further than the artifact store covers: that store lost a commit.
            gap = position_from_offset(stored_offset) > position_from_offset(covered)
            if gap:
                self._log.error("settled_gap", app=app_id, noun=noun, segments=covered, store=stored_offset)
                self._meter.count("kiosk_settle_gaps", app=app_id, noun=noun)
            if noun in _REBUILDABLE and (gap or any(damage.noun == noun for damage in damaged)):
                offsets[noun] = await self._rebuilder.rebuild(app_id, noun)
            elif position_from_offset(covered) > position_from_offset(stored_offset):
                await self._changes.compact(app_id, noun, covered, self._clock.now_ms())
        return {noun: _PendingChanges(cursor=offsets.get(noun, "0")) for noun in NOUNS}

    async def _read_changes(self, app_id: str, waiting: dict[Noun, _PendingChanges]) -> int:
        full = self._rules.full_bytes  # changes that can't be written now must not pile up in memory
        after: dict[Noun, str] = {noun: part.cursor for noun, part in waiting.items() if part.size < full}
        count = max(1, min(self._rules.page, int(self._rules.page_bytes / self._entry_bytes)))
        try:
            entries = await self._changes.read(app_id, after, count=count, block_ms=0)
        except Unavailable:  # the page may have been too large for the time limit
            self._entry_bytes = min(self._entry_bytes * 4, float(self._rules.page_bytes))
            raise
        if entries:
            mean = sum(len(change.payload) + len(change.vectors) for change in entries) / len(entries)
            # It falls slowly, so that one page of small entries does not make the next page too large.
            self._entry_bytes = max(1.0, mean, self._entry_bytes / 4)
        now_s = self._clock.monotonic_s()
        for change in entries:
            waiting[change.noun].add(change, now_s)
        return len(entries)

    def _is_due(self, part: _PendingChanges) -> bool:
        rules = self._rules
        many = len(part.changes) >= rules.entries and part.size >= rules.entry_bytes
        old = self._clock.monotonic_s() - part.since_s >= rules.every_s
        return part.urgent or many or old or part.size >= rules.full_bytes

    async def _write(self, app_id: str, noun: Noun, part: _PendingChanges) -> int:
        started_s = self._clock.monotonic_s()
        if noun == "user" and any(change.is_lost for change in part.changes):
            # a damaged segment hides its erased users, but the store still lists the users that exist
            part.clear()
            part.cursor = await self._rebuilder.rebuild(app_id, noun)
            return 0
        user_keys = find_erased_users(noun, part.changes)
        if self._delete_log_rows is not None and user_keys:
            # before the offset moves: after a crash in between, it is repeated
            await self._delete_log_rows(app_id, user_keys)
        settled = await asyncio.to_thread(self._write_segments, app_id, noun, part.changes)
        # After the segment: a crash in between repeats the write, which covers the same offsets.
        await self._changes.compact(app_id, noun, settled.last, self._clock.now_ms())
        part.clear()
        if user_keys and self._erased is not None:
            await self._erased()
        rows = int(settled.table.num_rows)
        took_ms = (self._clock.monotonic_s() - started_s) * 1000
        self._meter.count("kiosk_settled_rows", rows, noun=noun)
        self._meter.time("kiosk_settle_ms", took_ms, noun=noun)
        self._log.info("changes_settled", app=app_id, noun=noun, rows=rows, took_ms=round(took_ms))
        if settled.refused:
            self._meter.count("kiosk_settle_refused_rows", len(settled.refused), noun=noun)
            count = len(settled.refused)
            self._log.error("changes_refused", app=app_id, noun=noun, count=count, first=settled.refused[0])
        # Last: a merge that fails has lost nothing.
        await self._merge_segments(app_id, noun)
        return rows

    async def _drop_replaced(self, app_id: str) -> None:
        """Drop former versions of products in time, also of an app without changes: a merge may never come again."""
        now_s = self._clock.monotonic_s()
        if now_s - self._tidied.get(app_id, float("-inf")) >= self._rules.tidy_every_s:
            replaced = ReplacedProducts(self._segments.artifacts, self._clock)
            await asyncio.to_thread(replaced.drop_old, app_id)
            await asyncio.to_thread(replaced.tidy, app_id)
            self._tidied[app_id] = now_s

    async def _merge_segments(self, app_id: str, noun: Noun) -> None:
        """Merge segments if that pays off; a damaged segment does not stop compaction."""
        try:
            await asyncio.to_thread(self._segments.compact, app_id, noun)
        except Fault as error:
            self._meter.count("kiosk_merge_refusals", app=app_id, noun=noun)
            self._log.error("merging_refused", app=app_id, noun=noun, reason=error.message)

    def _write_segments(self, app_id: str, noun: Noun, changes: list[ChangeLogEntry]) -> CompactionBatch:
        settled = build_compaction_batch(noun, changes)
        if settled.erased:  # before the append: interactions after the person's return must stay
            rows = self._segments.erase(app_id, noun, settled.erased)
            self._log.info("rows_erased", app=app_id, noun=noun, rows=rows)
        self._segments.append(
            app_id,
            noun,
            settled.table,
            first=settled.first,
            last=settled.last,
            has_erased_rows=settled.has_erased_rows,
        )
        return settled
