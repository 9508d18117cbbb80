"""The change log after the compacted segments: read once into files, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.intake.segment_rows import build_compaction_batch
from cluster.artifacts.segment_files import position_from_offset
from cluster.artifacts.tables import RECORDS
from cluster.store.ports.changes import ChangeLog, ChangeLogEntry, Noun

_PAGE = 1_000
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
            gone = frozenset[str]().union(*self._erased[page + 1 :])
            yield remove_users(pq.read_table(self._path(page)), gone)

    def records_newest_first(self) -> Iterator[Any]:
        """Yield the rows, newest page first; an erasure is a removal before later rows of the user."""
        for page in range(self._pages - 1, -1, -1):
            table = pq.read_table(self._path(page))
            gone = sorted(self._erased[page])
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
    """Return the changes between two offsets; None if the log was trimmed during the read.

    Errors:
        Unavailable: the store does not answer
    """
    tail = LogTail(noun, folder)
    reached = after
    while position_from_offset(reached) < position_from_offset(until):
        page = await changes.read(app_id, {noun: reached}, count=_PAGE, block_ms=0)
        if not page:
            break
        wanted = [
            change for change in page if position_from_offset(change.offset) <= position_from_offset(until)
        ]
        if wanted:
            tail.add(wanted)
        reached = page[-1].offset
    first = await changes.first(app_id, noun)
    return None if position_from_offset(first) > position_from_offset(after) else tail
