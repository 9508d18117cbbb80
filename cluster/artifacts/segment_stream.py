"""Segments read file by file, for callers that can't hold a whole app in memory.

    records         newest file first; only the newest row of an id, without removals
    interactions    oldest file first, in the order of the change log

A compaction may replace files during the read. The stream then continues in the newest commit: records after the
returned ids, interactions after the last offset. All methods block: call them from a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from cluster.artifacts.compaction import latest_rows
from cluster.artifacts.erasure_log import ErasureLog
from cluster.artifacts.logs.day_files import DAY_MS
from cluster.artifacts.manifest import FileEntry
from cluster.artifacts.segment_commits import SegmentCommits
from cluster.artifacts.segment_format import Noun
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import Fault, NotFound
from cluster.ids import position_from_offset

T = TypeVar("T")

_READ_TRIES = 5
_RECORDS = ("id", "gone", "offset", "json")
_EVENTS = ("reader", "type", "at_ms", "product_ids", "json")
_INTERACTIONS = ("reader", "at_ms", "offset", "json")


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """The extent of a noun's segments in the newest commit."""

    offset: str
    "Offset up to which the change log is compacted."
    rows: int
    erasures: int
    "Number of erasures of the app so far."


class SegmentStream:
    """Reads the segments of one app."""

    def __init__(self, store: ArtifactStore, app_id: str) -> None:
        self._files = SegmentCommits(store, SystemClock())
        self._app_id = app_id

    def measure(self, noun: Noun) -> SegmentRange:
        """Return how far a noun is compacted."""
        manifest = self._files.manifest(self._app_id)
        return SegmentRange(
            manifest.facts.get("offsets", {}).get(noun, "0"),
            sum(entry.rows for entry in manifest.files if entry.facts["noun"] == noun),
            ErasureLog.of(manifest.facts).count,
        )

    def records(self, noun: Noun, newer: Iterable[Any]) -> Iterator[Any]:
        """Yield the records that were not removed, each once.

        Shapes:
            newer: tables with `id`, `gone`, `offset` and `json`, newest first; they override the segments
        Cost:
            memory for one segment and for all ids
        """
        seen: set[str] = set()
        # First the rows of the log, which are newer than every segment; `seen` then hides older rows of the
        # same ids.
        yield from latest_rows(newer, drop_gone=True, seen=seen)
        for entries in self._attempts(noun):
            try:
                for entry in reversed(entries):
                    table = self._files.table(self._app_id, entry, _RECORDS)
                    # `seen` outlives an attempt, so a second one continues behind the ids of the first.
                    yield from latest_rows([table], drop_gone=True, seen=seen)
                return
            except NotFound:
                continue

    def interactions(self, until: str) -> Iterator[Any]:
        """Yield the interactions up to an offset, each once, oldest first.

        Cost:
            memory for one segment
        """
        reached = "0"
        for entries in self._attempts("interaction"):
            try:
                for entry in entries:
                    # Read before the files were replaced. A merged file that begins before `reached` is cut
                    # by `_between`.
                    if position_from_offset(entry.facts["last"]) <= position_from_offset(reached):
                        continue
                    table = self._files.table(self._app_id, entry, _INTERACTIONS)
                    table = _between(table, reached, until)
                    if table.num_rows:
                        # one change is never in two files, so the next file begins after this offset
                        reached = table["offset"][-1].as_py()
                        yield table
                return
            except NotFound:
                continue

    def event_days(self, after: str) -> set[int]:
        """Return the days (since 1970, UTC) of the interactions after an offset.

        Errors:
            Fault: the manifest or a segment is damaged, or the segments keep changing
        """
        days: set[int] = set()
        for entries in self._attempts("interaction"):
            try:
                for entry in entries:
                    if position_from_offset(entry.facts["last"]) > position_from_offset(after):
                        table = self._files.table(self._app_id, entry, ("at_ms", "offset"))
                        table = _between(table, after, entry.facts["last"])
                        days.update(pc.unique(pc.divide(table["at_ms"], DAY_MS)).to_pylist())
                return days
            except NotFound:
                # A file was merged meanwhile; the days that were found stay right.
                continue
        return days

    def events(self, since_ms: int, until_ms: int, convert: Callable[[Any], T]) -> list[T]:
        """Return what `convert` makes of the interactions of each segment from a time on and before another.

        Errors:
            Fault: the manifest or a segment is damaged, or the segments keep changing
        Cost:
            memory for one segment and for the results; segments that were written before `since_ms` are not read
        """
        for entries in self._attempts("interaction"):
            # New for each attempt: results of replaced files would count twice.
            results = []
            try:
                for entry in entries:
                    if position_from_offset(entry.facts["last"])[0] < since_ms:
                        continue  # no interaction is later than its entry in the log
                    table = self._files.table(self._app_id, entry, _EVENTS)
                    times = table["at_ms"]
                    inside = pc.and_(pc.greater_equal(times, since_ms), pc.less(times, until_ms))
                    results.append(convert(table.filter(inside)))
                return results
            except NotFound:
                continue
        return []

    def _attempts(self, noun: Noun) -> Iterator[list[FileEntry]]:
        for _ in range(_READ_TRIES):
            manifest = self._files.manifest(self._app_id)
            yield [entry for entry in manifest.files if entry.facts["noun"] == noun]
        raise Fault(f"the segments of {self._app_id} keep being replaced while they are read")


def _between(table: Any, after: str, until: str) -> Any:
    """Return the rows after one offset and up to another."""
    encoded = table["offset"].combine_chunks().dictionary_encode()
    low = position_from_offset(after)
    high = position_from_offset(until)
    # Offsets do not sort as texts ("9-0" > "10-0"), and many rows share one: each distinct one is parsed
    # once.
    inside = [low < position_from_offset(offset) <= high for offset in encoded.dictionary.to_pylist()]
    if all(inside):
        return table
    return table.filter(pc.take(pa.array(inside, pa.bool_()), encoded.indices))
