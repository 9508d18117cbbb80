"""Columns over rows of records: built on demand or in the background, updated from a journal.

    in the background (`build_in_steps`): every row is written in batches as it is; then the rows that the journal
    names since the beginning are rewritten until few are left; the last few, and the installation, under the lock

Rows are written with their current values, so writing one twice or in another order gives the same column.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from threading import RLock
from typing import Any

from cluster.errors import ColumnsNotReady
from cluster.query.columnar.column_source import ColumnSource, ColumnSourceFactory, Key
from cluster.query.columnar.record_reader import Record, RecordReader, load_record

_SPARE = 1_024
_BATCH_ROWS = 64
"Records read at once: few enough objects to avoid a run of the garbage collector."
_FEW = 64
"Rows written while other threads wait."


class ColumnCache:
    """The columns of a store, with the journal of the rows that changed.

    Every change of the records and every query holds `lock`. `most_at_once` is the number of records a query may
    read to build and update its columns; None: any number.
    """

    def __init__(
        self,
        records: Sequence[Record | bytes | None],
        lock: RLock,
        makers: Mapping[str, ColumnSourceFactory],
        most_bytes: int,
    ) -> None:
        self.most_at_once: int | None = None
        self._records = records
        self._lock = lock
        self._makers = makers
        self._most_bytes = most_bytes
        self._columns: OrderedDict[Key, ColumnSource] = OrderedDict()
        self._building = 0
        self._journal: list[int] = []
        self._journal_start = 0
        self._has_grown = False

    @property
    def nbytes(self) -> int:
        """Return the estimated memory in bytes."""
        return sum(kept.column.nbytes for kept in self._columns.values())

    @property
    def keys(self) -> list[Key]:
        return list(self._columns)

    def record_change(self, row: int) -> None:
        """Record that a row was replaced or removed."""
        # Without a column nobody reads the journal, and it would only grow.
        if not self._columns and not self._building:
            return
        self._journal.append(row)
        # Longer than twice the records, following it costs more than reading all of them anew.
        if len(self._journal) > 2 * len(self._records) + _SPARE:
            start = self._journal_start + len(self._journal) // 2
            del self._journal[: start - self._journal_start]
            self._journal_start = start
            # These columns would miss changes; the next query builds them again.
            for key in [key for key, kept in self._columns.items() if kept.seen < start]:
                del self._columns[key]

    def get(self, key: Key) -> Any:
        """Return a column, up to date.

        Errors:
            ColumnsNotReady: more records would have to be read than are allowed at once
        """
        self.ensure_built([key])
        kept = self._columns[key]
        self._columns.move_to_end(key)
        # Each changed row once, with its present record, however often it changed.
        self._write(kept, dict.fromkeys(self._journal[kept.seen - self._journal_start :]))
        kept.seen = self._journal_end
        kept.column.grow(len(self._records))
        return kept.column

    def ensure_built(self, keys: Collection[Key]) -> None:
        """Build the columns that are missing or far behind.

        Errors:
            ColumnsNotReady: as `get`
        """
        if self.most_at_once is not None and self.count_stale_records(keys) > self.most_at_once:
            raise ColumnsNotReady("columns are to be built first", keys=list(keys), retry_after_s=1)
        if self.find_missing(keys):
            for _ in self.build_in_steps(keys):
                pass

    def count_stale_records(self, keys: Collection[Key]) -> int:
        """Return the number of records to read until the columns are up to date."""
        behind = sum(self._journal_end - self._columns[key].seen for key in keys if key in self._columns)
        return behind + (len(self._records) if self.find_missing(keys) else 0)

    def find_missing(self, keys: Iterable[Key]) -> list[Key]:
        """Return the columns to build: missing ones, and those with more outdated rows than current ones."""
        return [key for key in keys if (kept := self._columns.get(key)) is None or self._needs_rebuild(kept)]

    def _needs_rebuild(self, kept: ColumnSource) -> bool:
        # rebuilding many rows is faster than replacing them one by one
        behind = self._journal_end - kept.seen
        return kept.column.allocated_slots > kept.renew_at or behind > len(self._records) // 2 + _SPARE

    def has_columns(self, keys: Collection[Key]) -> bool:
        """Return whether these columns exist and are nearly up to date."""
        return not self.find_missing(keys) and self.count_stale_records(keys) <= _SPARE

    def trim(self) -> None:
        """Drop the least recently used columns beyond the memory bound."""
        if self._has_grown:
            self._has_grown = False
            # One column stays whatever its size, or the query that needs it could never run.
            while len(self._columns) > 1 and self.nbytes > self._most_bytes:
                self._columns.popitem(last=False)

    def build_in_steps(self, keys: Collection[Key]) -> Iterator[None]:
        """Build columns and update them, in steps of well under a millisecond.

        Another thread may run the steps while queries and changes continue; the last steps apply these
        changes. No thread waits for more than one step.

        Cost:
            100,000 records of 200 bytes: 0.1 s, and 0.04 to 0.1 s for each column
        """
        yield from self._apply_journal(keys)
        while True:
            with self._lock:
                missing = self.find_missing(keys)
                if not missing:
                    return
                for key in missing:
                    # a column that must be rebuilt serves no query any more
                    self._columns.pop(key, None)
                added = {key: self._makers[key[0]](key[1]) for key in missing}
                # It keeps the journal going while no column is installed yet.
                self._building += 1
                seen = self._journal_end
            try:
                yield from self._write_rows(added)
                if (yield from self._install(added, seen)):
                    return
            finally:
                with self._lock:
                    self._building -= 1

    @property
    def _journal_end(self) -> int:
        return self._journal_start + len(self._journal)

    def _write_rows(self, added: Mapping[Key, ColumnSource]) -> Iterator[None]:
        """Write every row in batches, each record read once."""
        decoder = RecordReader(name for _, name in added)
        start = 0
        while start < len(self._records):
            records = decoder.read_batch(self._records[start : start + _BATCH_ROWS])
            for kept in added.values():
                for at in range(0, len(records), kept.run):
                    kept.write_new_rows(start + at, records[at : at + kept.run])
                    yield
            start += len(records)
        for kept in added.values():
            kept.sort_pairs()
            yield

    def _install(self, added: Mapping[Key, ColumnSource], seen: int) -> Generator[None, None, bool]:
        """Rewrite the rows that changed meanwhile, then install the columns; False when the journal lost changes."""
        while True:
            with self._lock:
                # The journal was cut while the rows were written; what changed in between is unknown.
                if seen < self._journal_start:
                    return False
                changed = list(dict.fromkeys(self._journal[seen - self._journal_start :]))
                # The last few under the lock, so that no change comes between the rewriting and the
                # installation.
                if len(changed) <= _FEW:
                    for key, kept in added.items():
                        self._write(kept, changed)
                        kept.seen = self._journal_end
                        # When about half of the slots are unused, a rebuild frees them.
                        kept.renew_at = 2 * kept.column.allocated_slots + _SPARE
                        self._columns[key] = kept
                    self._has_grown = True
                    return True
                seen = self._journal_end
            for start in range(0, len(changed), _FEW):
                for kept in added.values():
                    self._write(kept, changed[start : start + _FEW])
                    yield

    def _apply_journal(self, keys: Iterable[Key]) -> Iterator[None]:
        """Update serving columns, a few rows at a time."""
        for key in keys:
            while True:
                with self._lock:
                    kept = self._columns.get(key)
                    if kept is None or self._needs_rebuild(kept) or self._journal_end - kept.seen <= _FEW:
                        break
                    start = kept.seen - self._journal_start
                    changed = self._journal[start : start + _FEW]
                    self._write(kept, dict.fromkeys(changed))
                    kept.seen += len(changed)
                yield

    def _write(self, kept: ColumnSource, rows: Iterable[int]) -> None:
        for row in rows:
            kept.write_row(row, load_record(self._records[row]))
