"""Writing of validated chunks into the stores; a continued run after a crash writes no interaction twice.

Users and products replace earlier records, so a chunk that was accepted twice is harmless. It counts as done when its
task has ended. Interactions are written once: before each append, the run records the end of the change log, or the
earlier offset of the previous chunk. After a crash, the next run looks for the announced chunk after this offset, in
the change log and in the compacted segments. Rows of people who were erased meanwhile may be missing in either.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any, TypeVar

import orjson
import pyarrow as pa
import structlog

from actors.intake.segment_rows import build_compaction_batch
from cluster.artifacts.segments import SegmentStore, position_from_offset
from cluster.clock import Clock
from cluster.errors import Fault, TooMany, Unavailable
from cluster.ids import new_task_id
from cluster.records.apps import App
from cluster.records.erasure import RemovedRecords
from cluster.records.intake import Noun, Task
from cluster.records.validation.accepted_uploads import AcceptedInteractions, AcceptedRecords, TypeCheck
from cluster.store.app_quotas import check_new_records
from cluster.store.data.change_log import ChangeLogEntry
from cluster.store.data.intake import IntakeReceipt
from cluster.store.stores import Stores
from jobs.ingest.validation import AcceptedPart, RejectedRow, reason_from_message, row_from_message

T = TypeVar("T")

RowKey = tuple[str, str, tuple[str, ...], float, int]
"User key, type, product ids, value, and time in milliseconds of an interaction."

_POLL_S = 0.02
# Each attempt learns at least one type that another writer fixed; eight in a row means that something is
# wrong.
_TYPE_CHECK_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class SubmittedChunk:
    """A chunk in the intake."""

    task_id: str
    records: int
    rows: tuple[int, ...]


class StoreRetry:
    """Retries operations while a store does not answer or is full; the operations must be idempotent."""

    def __init__(self, within_s: float, clock: Clock, rng: random.Random) -> None:
        self._within_s = within_s
        self._clock = clock
        self._rng = rng
        self._log = structlog.get_logger()

    async def call(self, question: Callable[[], Awaitable[T]]) -> T:
        """Retry an operation until it succeeds.

        Errors:
            Unavailable, TooMany: it failed for the whole time
        """
        until_s = self._clock.monotonic_s() + self._within_s
        pause_s = 0.1
        while True:
            try:
                return await question()
            except (Unavailable, TooMany) as error:
                if self._clock.monotonic_s() > until_s:
                    raise
                self._log.info("store_waited_for", reason=error.message)
            # Spread, so that all tasks of a parallel ingest do not ask a store at the same moment after its
            # outage.
            await asyncio.sleep(pause_s * self._rng.uniform(0.5, 1.5))
            pause_s = min(pause_s * 2, 5.0)


class RecordWriter:
    """Uploads users or products to the intake."""

    def __init__(self, stores: Stores, app: App, noun: Noun, clock: Clock, patience: StoreRetry) -> None:
        self._stores = stores
        self._app = app
        self._app_id = app.app_id
        self._noun = noun
        self._clock = clock
        self._patience = patience
        self._types: dict[str, str] | None = None

    async def submit(
        self, part: AcceptedPart[AcceptedRecords]
    ) -> tuple[SubmittedChunk | None, list[RejectedRow]]:
        """Queue the records that agree with the attribute types of the data set; return the others as rejected.

        Errors:
            Fault: other writers change the attribute types faster than this writer reads them
            Forbidden: the records would pass the app's bound on records; none of them is written
        """
        if self._app.settings.max_records:
            ids = [record.record_id for record in part.accepted.records]
            await self._patience.call(
                lambda: check_new_records(self._stores.records, self._app, self._noun, ids)
            )
        types = self._types
        if types is None:
            stored_types = await self._patience.call(
                lambda: self._stores.records.attribute_types(self._app_id, self._noun)
            )
            types = dict(stored_types)
        for _ in range(_TYPE_CHECK_ATTEMPTS):
            # The types that this process knows may be old. The intake compares them once more when it
            # accepts the chunk.
            type_check = part.accepted.check_types(types)
            by_index = dict(zip((record.index for record in part.accepted.records), part.rows, strict=True))
            refused = [
                RejectedRow(row, reason_from_message(message), "")
                for message in type_check.messages
                if (row := row_from_message(message, part.rows)) is not None
            ]
            if not type_check.records:
                return None, refused
            # Outside of `_accept`: every retry sends the same id, by which the store knows a chunk that it
            # has.
            task_id = new_task_id()
            answer = await self._patience.call(partial(self._accept, task_id, type_check))
            if not answer.conflicts:
                # The accepted chunk fixed the types of its new attributes; the next one is checked against
                # them without a read.
                self._types = {**types, **type_check.attribute_types}
                rows = tuple(by_index[record.index] for record in type_check.records)
                return SubmittedChunk(task_id, len(type_check.records), rows), refused
            types = {**types, **answer.conflicts}
        raise Fault("attribute types of the data set change too fast")

    async def _accept(self, task_id: str, type_check: TypeCheck) -> IntakeReceipt:
        """Queue a chunk; a repeated task id changes nothing, so a retry after a lost answer is safe."""
        return await self._stores.intake.accept(
            self._app_id,
            self._noun,
            "put",
            type_check.payload,
            task_id=task_id,
            total=len(type_check.records),
            now_ms=self._clock.now_ms(),
            attribute_types=type_check.attribute_types,
        )

    async def wait_for_task(self, handed: SubmittedChunk) -> Task:
        """Wait until the intake has ended a chunk.

        Errors:
            Fault: the task is no longer in the store
        """
        while True:
            task = await self._patience.call(
                lambda: self._stores.tasks.get(self._app_id, self._noun, handed.task_id)
            )
            if task is None:
                raise Fault("the store forgot a task of this ingest; run it again")
            if task.status in ("finished", "failed"):
                return task
            await asyncio.sleep(_POLL_S)


class InteractionWriter:
    """Appends interactions to the log and to the recent lists."""

    def __init__(
        self,
        stores: Stores,
        app_id: str,
        segments: SegmentStore | None,
        patience: StoreRetry,
        erased: RemovedRecords | None = None,
    ) -> None:
        self._stores = stores
        self._app_id = app_id
        self._segments = segments
        self._patience = patience
        self._erased = RemovedRecords() if erased is None else erased
        "People whose rows a chunk lacks, although an earlier run may have appended them with it."
        self._log = structlog.get_logger()

    async def read_log_end(self) -> str:
        """Return the offset of the end of the log."""
        return await self._patience.call(lambda: self._stores.changes.last(self._app_id, "interaction"))

    async def append(self, accepted: AcceptedInteractions, after: str) -> str:
        """Append a chunk that is not in the log after `after`, exactly once, even if the answer is lost.

        Return its offset; an empty text if the answer was lost.
        """
        # A link with an empty event joins a visitor's list to that of the user, and adds no event.
        recents = accepted.recents
        if accepted.links:
            recents = (*recents, *((user_id, visitor_id, b"") for user_id, visitor_id in accepted.links))
        tried = False

        async def once() -> str:
            nonlocal tried
            # The store may have appended the chunk before its answer was lost. Only the first attempt needs
            # no search.
            if tried and await self._is_appended(accepted, after):
                return ""
            tried = True
            return await self._stores.interactions.append(self._app_id, accepted.payload, recents)

        return await self._patience.call(once)

    async def is_appended(self, accepted: AcceptedInteractions, after: str) -> bool:
        """Return true if the chunk is in the log after the offset `after`."""
        return await self._patience.call(lambda: self._is_appended(accepted, after))

    async def _is_appended(self, accepted: AcceptedInteractions, after: str) -> bool:
        # The log first: what a compaction takes from it meanwhile is in the segments already when it is trimmed.
        return await self._is_in_log(accepted, after) or await self._is_compacted(accepted, after)

    async def _is_in_log(self, accepted: AcceptedInteractions, after: str) -> bool:
        cursor = max(
            after, await self._stores.changes.first(self._app_id, "interaction"), key=position_from_offset
        )
        while True:
            changes = await self._stores.changes.read(
                self._app_id, {"interaction": cursor}, count=20, block_ms=0
            )
            if any(self._is_chunk(change, accepted) for change in changes):
                return True
            if not changes:
                return False
            cursor = changes[-1].offset

    def _is_chunk(self, change: ChangeLogEntry, accepted: AcceptedInteractions) -> bool:
        """Return whether a change is the chunk, or the chunk with rows of people who were erased since."""
        # Equal bytes, because a continued run cuts the same chunks and validates them with the same start time.
        if change.payload == accepted.payload:
            return True
        if change.op != "put" or not self._erased:
            return False
        items = orjson.loads(change.payload)
        left = [item for item in items if not self._erased.has_any_of(item)]
        return len(left) < len(items) and left == orjson.loads(accepted.payload)

    async def _is_compacted(self, accepted: AcceptedInteractions, after: str) -> bool:
        """Return whether the chunk is in the segments after the offset `after`; false if the log still covers it."""
        first = await self._stores.changes.first(self._app_id, "interaction")
        if position_from_offset(first) <= position_from_offset(after):
            return False
        if self._segments is None:
            self._log.warning("chunk_may_repeat", app=self._app_id, reason="its place in the log was trimmed")
            return False
        state = await asyncio.to_thread(self._segments.load, self._app_id)
        change = ChangeLogEntry("interaction", first, "put", accepted.payload)
        chunk = _row_keys(build_compaction_batch("interaction", [change]).table)
        entries: defaultdict[str, set[RowKey]] = defaultdict(set)
        offsets = state.interactions["offset"].to_pylist()
        behind = [position_from_offset(offset) > position_from_offset(after) for offset in offsets]
        for offset, key in zip(
            compress(offsets, behind),
            _row_keys(state.interactions.filter(pa.array(behind, pa.bool_()))),
            strict=True,
        ):
            entries[offset].add(key)
        erasures = await asyncio.to_thread(self._segments.erasures, self._app_id)
        # A log entry is compacted whole, so its rows are in the segments together or not at all; but for erased people.
        return any(
            _limit_times(chunk, offset) <= rows
            or (
                erasures.may_concern("interaction", offset)
                and _is_chunk_after_erasure(_limit_times(chunk, offset), rows)
            )
            for offset, rows in entries.items()
        )


def _row_keys(table: Any) -> list[RowKey]:
    columns = (table[name].to_pylist() for name in ("reader", "type", "product_ids", "value", "at_ms"))
    return [
        (user_key, kind, tuple(ids), value, at_ms)
        for user_key, kind, ids, value, at_ms in zip(*columns, strict=True)
    ]


def _is_chunk_after_erasure(chunk: set[RowKey], rows: set[RowKey]) -> bool:
    """Return whether rows are those of a chunk without some of its users: an erasure removes all rows of a user."""
    left = {user_key for user_key, *_ in rows}
    return rows == {key for key in chunk if key[0] in left}


def _limit_times(keys: Iterable[RowKey], offset: str) -> set[RowKey]:
    """Return the keys with no time after the write of the log entry at an offset, as compaction stores rows."""
    written_ms = position_from_offset(offset)[0]
    return {(*key[:-1], min(key[-1], written_ms)) for key in keys}
