"""The data of an app at one moment as a stream of tables: compacted segments, then the rest of the change log.

Records and interactions are stored JSON with their offsets; rows of logs have the columns of the log. The stream
has no duplicates. Deletions and erasures in the change log are applied to earlier rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.intake.segment_rows import build_compaction_batch
from cluster.artifacts.logs.call_log import CallLogStore
from cluster.artifacts.logs.daily_log import DailyLog
from cluster.artifacts.logs.day_files import ERASURES, DayFiles
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.query_log import QueryLogStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.manifest import Manifest
from cluster.artifacts.segment_format import RECORDS
from cluster.artifacts.segment_stream import SegmentRange, SegmentStream
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Unavailable
from cluster.ids import position_from_offset
from cluster.records.intake import Noun
from cluster.store.archive.log_stream import LogBatch, LogStream
from cluster.store.data.change_log import ChangeLog, ChangeLogEntry
from cluster.store.stores import Stores
from jobs.export.columns import NOUN_OF, Subject

_PAGE = 1_000
_BATCHES = 200
"Batches of a log in one read."
_COLUMNS = {"interaction": ("reader", "at_ms", "offset", "json")}
_RECORD = ("id", "gone", "offset", "json")


@dataclass(slots=True)
class LogTail:
    """Changes of one noun after an offset, as tables in a folder."""

    noun: Noun
    folder: Path
    rows: int = 0
    _pages: int = 0
    _erased: list[frozenset[str]] = field(default_factory=list)
    "Page -> ids whose earlier rows were deleted or erased."

    @property
    def erased(self) -> frozenset[str]:
        """Return the ids whose compacted rows were deleted or erased."""
        return frozenset().union(*self._erased)

    def add(self, changes: list[ChangeLogEntry]) -> None:
        """Add a page of changes, in the order of the log."""
        settled = build_compaction_batch(self.noun, changes)
        table = settled.table.select(list(_COLUMNS.get(self.noun, _RECORD)))
        pq.write_table(table, self._path(self._pages), compression="zstd")
        self._pages += 1
        self._erased.append(frozenset(settled.erased))
        self.rows += table.num_rows

    def interactions(self) -> Iterator[Any]:
        """Yield the rows that were not erased, oldest first."""
        for page in range(self._pages):
            # Only later erasures count: a user who came back after an erasure has new rows.
            gone = frozenset[str]().union(*self._erased[page + 1 :])
            yield remove_users(pq.read_table(self._path(page)), gone)

    def records_newest_first(self) -> Iterator[Any]:
        """Yield the rows, newest page first; an erasure is a removal before later rows of the user."""
        for page in range(self._pages - 1, -1, -1):
            table = pq.read_table(self._path(page))
            gone = sorted(self._erased[page])
            # Placed before the rows of the page: rows that follow an erasure are newer than it.
            removals = pa.Table.from_pylist([{"id": name, "gone": True} for name in gone], schema=RECORDS)
            yield pa.concat_tables([removals.select(table.column_names), table])

    def _path(self, page: int) -> Path:
        return self.folder / f"{page:06d}.parquet"


def remove_users(table: Any, gone: frozenset[str]) -> Any:
    """Return a table without the rows of some users."""
    if not gone:
        return table
    return table.filter(pc.invert(pc.is_in(table["reader"], value_set=pa.array(sorted(gone), pa.string()))))


async def read_tail(
    changes: ChangeLog, app_id: str, noun: Noun, after: str, until: str, folder: Path
) -> LogTail | None:
    """Return the changes between two offsets; None if the log was trimmed during the read."""
    tail = LogTail(noun, folder)
    reached = after
    while position_from_offset(reached) < position_from_offset(until):
        page = await changes.read(app_id, {noun: reached}, count=_PAGE, block_ms=0)
        if not page:
            break
        included = [
            change for change in page if position_from_offset(change.offset) <= position_from_offset(until)
        ]
        if included:
            tail.add(included)
        reached = page[-1].offset
    # Checked after the read: what was trimmed in between may be missing from the pages.
    first = await changes.first(app_id, noun)
    return None if position_from_offset(first) > position_from_offset(after) else tail


Row = TypeVar("Row")

_TRIES = 5
_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class RecordSource:
    """The source of users, products or interactions."""

    app_id: str
    subject: Subject
    stream: SegmentStream
    settled: SegmentRange
    tail: LogTail
    since_ms: int

    @property
    def rows(self) -> int:
        """Return an upper bound of the number of rows."""
        return self.settled.rows + self.tail.rows

    def tables(self) -> Iterator[Any]:
        """Yield the rows in batches.

        Errors:
            NotFound: a file was replaced during the export
            Fault: a file is damaged
        """
        noun = NOUN_OF[self.subject]
        if noun == "interaction":
            return self._batches(self._interactions())
        return self._batches(self.stream.records(noun, self.tail.records_newest_first()))

    def is_current(self) -> bool:
        """Return true if no row was erased since the source was opened."""
        return self.stream.measure(NOUN_OF[self.subject]).erasures == self.settled.erasures

    def _interactions(self) -> Iterator[Any]:
        erased = self.tail.erased
        for table in self.stream.interactions(self.settled.offset):
            yield remove_users(table, erased)
        yield from self.tail.interactions()

    def _batches(self, tables: Iterator[Any]) -> Iterator[Any]:
        for table in tables:
            chosen = self._filter_since(table) if self.since_ms else table
            yield from split_table(chosen)

    def _filter_since(self, table: Any) -> Any:
        """Return interactions with a time, or records with a write time, from `since` on."""
        if "at_ms" in table.column_names:
            times = table["at_ms"]
        else:
            times = pc.list_element(pc.split_pattern(table["offset"], "-", max_splits=1), 0).cast(pa.int64())
        return table.filter(pc.greater_equal(times, self.since_ms))


@dataclass(frozen=True, slots=True)
class DaySource:
    """The source of rows that lie in files by day: the outcomes of answers."""

    app_id: str
    files: DayFiles
    commit: Manifest
    since_ms: int

    @property
    def rows(self) -> int:
        return sum(entry.rows for entry in self.commit.files)

    def tables(self) -> Iterator[Any]:
        for table in self.files.days(self.app_id, self.commit, self.since_ms):
            yield from split_table(table)

    def is_current(self) -> bool:
        newest = self.files.commit(self.app_id).facts
        if newest.get(ERASURES, 0) != self.commit.facts.get(ERASURES, 0):
            return False
        # An intake of an earlier release counts no erasures. With the times: a person who came back may be erased a
        # second time.
        return bool(newest.get("forgotten", {}).items() <= self.commit.facts.get("forgotten", {}).items())


@dataclass(frozen=True, slots=True)
class LogSource(Generic[Row]):
    """The source of a log, the query log or the log of answers: its files, then the rows that are not compacted."""

    compacted: DaySource
    daily_log: DailyLog[Row]
    waiting: Sequence[Row]

    @property
    def rows(self) -> int:
        return self.compacted.rows + len(self.waiting)

    def tables(self) -> Iterator[Any]:
        yield from self.compacted.tables()
        yield from split_table(self._late_rows())

    def is_current(self) -> bool:
        return self.compacted.is_current()

    def _late_rows(self) -> Any:
        """Return the rows that are not compacted yet."""
        source = self.compacted
        rows = self.daily_log.without_erased(self.daily_log.table_from_rows(self.waiting), source.commit)
        rows = self.daily_log.reconcile_rows(source.app_id, rows, source.commit)
        return rows.filter(pc.greater_equal(rows["at"], source.since_ms))


ExportSource = RecordSource | DaySource | LogSource[Any]
"The rows of one subject."


def split_table(table: Any) -> Iterator[Any]:
    """Yield the rows of a table in batches."""
    for first in range(0, table.num_rows, _BATCH):
        yield table.slice(first, _BATCH)


async def open_source(
    stores: Stores, artifacts: ArtifactStore, app_id: str, subject: Subject, since_ms: int, folder: Path
) -> ExportSource:
    """Return the source of a subject as of now; rows before compaction are written into `folder`.

    Errors:
        Unavailable: the store does not answer, or the segments are replaced again and again
    """
    if subject == "queries":
        return await _open_log(app_id, QueryLogStore(artifacts), stores.queries, since_ms)
    if subject == "served":
        return await _open_log(app_id, ServedLogStore(artifacts), stores.served, since_ms)
    if subject == "calls":
        return await _open_log(app_id, CallLogStore(artifacts), stores.archive_calls, since_ms)
    if subject == "outcomes":
        outcomes = OutcomeStore(artifacts)
        return DaySource(app_id, outcomes, await asyncio.to_thread(outcomes.commit, app_id), since_ms)
    noun = NOUN_OF[subject]
    stream = SegmentStream(artifacts, app_id)
    # The end first: changes that are compacted meanwhile come from the segments, and the tail begins behind
    # them.
    until = await stores.changes.last(app_id, noun)
    for attempt in range(_TRIES):
        settled = await asyncio.to_thread(stream.measure, noun)
        place = folder / str(attempt)
        place.mkdir()
        tail = await read_tail(stores.changes, app_id, noun, settled.offset, until, place)
        if tail is not None:
            return RecordSource(app_id, subject, stream, settled, tail, since_ms)
    raise Unavailable(f"the change log of {app_id} is trimmed faster than it can be read; try again")


async def _open_log(
    app_id: str, daily_log: DailyLog[Row], stream: LogStream[Row], since_ms: int
) -> LogSource[Row]:
    """Return the source of a log, with the rows that are not compacted yet."""
    batches: list[LogBatch[Row]] = []
    # The stream before the commit: rows that a compaction moves in between are in files of the commit, and its offset
    # tells which these are.
    while page := await stream.read(app_id, batches[-1].offset if batches else "0", count=_BATCHES):
        batches += page
    commit = await asyncio.to_thread(daily_log.commit, app_id)
    compacted = position_from_offset(str(commit.facts.get("offset", "0")))
    waiting = [
        row for batch in batches if position_from_offset(batch.offset) > compacted for row in batch.rows
    ]
    return LogSource(DaySource(app_id, daily_log, commit, since_ms), daily_log, waiting)
