"""Columns with their sources: how each kind is built from records and updated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cluster.query.columnar.column import FieldColumn
from cluster.query.columnar.point_column import PointColumn
from cluster.query.columnar.record_reader import Record
from cluster.query.language.field_values import build_field_reader, collect_locations, is_moment, is_text

Key = tuple[str, str]
"The kind of a column and the canonical name of its field."

_RUN = 64
_RUN_OF_TEXTS = 32


class StoredColumn(Protocol):
    """The common part of every kind of column."""

    @property
    def nbytes(self) -> int:
        """Return the estimated memory in bytes."""
        ...

    @property
    def allocated_slots(self) -> int:
        """Return the number of slots ever allocated; unused ones stay until the column is rebuilt."""
        ...

    def grow(self, size: int) -> None:
        """Extend the column to `size` rows."""
        ...


class ColumnSource(Protocol):
    """A column of one field, and how records are written into it: only that field of them matters.

    A builder beside a changing store writes every row once by `write_new_rows`, then the rows that changed meanwhile by
    `write_row`: the former values of a row do not matter.
    """

    seen: int
    "The column's position in the journal of changed rows."
    renew_at: int
    "The number of allocated slots beyond which the column is rebuilt."
    run: int
    "Number of records that are written in well under a millisecond."

    @property
    def column(self) -> StoredColumn:
        """Return the column."""
        ...

    def write_new_rows(self, start: int, records: Sequence[Record]) -> None:
        """Write consecutive rows that are empty so far."""
        ...

    def sort_pairs(self) -> None:
        """Sort for the first query in advance, after all rows are written."""
        ...

    def write_row(self, row: int, record: Record) -> None:
        """Rewrite a row."""
        ...


ColumnSourceFactory = Callable[[str], ColumnSource]


class FieldSource:
    """Values of a field."""

    def __init__(self, name: str) -> None:
        self.column = FieldColumn(words=is_text(name))
        self.seen = self.renew_at = 0
        self.run = _RUN_OF_TEXTS if is_text(name) else _RUN
        self._read = build_field_reader(name)
        self._moments = is_moment(name)

    def write_new_rows(self, start: int, records: Sequence[Record]) -> None:
        """Write consecutive rows that are empty so far."""
        read = self._read
        self.column.write_new_rows(start, [read(record) for record in records])
        self.column.read_texts(moments=self._moments)

    def sort_pairs(self) -> None:
        """Sort the further values of rows."""
        self.column.sort_pairs()

    def write_row(self, row: int, record: Record) -> None:
        """Rewrite a row."""
        self.column.set(row, *self._read(record))


class PointSource:
    """Points under a field."""

    def __init__(self, name: str) -> None:
        self.column = PointColumn()
        self.seen = self.renew_at = 0
        self.run = _RUN
        self._name = name

    def write_new_rows(self, start: int, records: Sequence[Record]) -> None:
        """Write consecutive rows that are empty so far."""
        self.column.write_new_rows(start, [collect_locations(record, self._name) for record in records])

    def sort_pairs(self) -> None:
        self.column.sort_pairs()

    def write_row(self, row: int, record: Record) -> None:
        """Rewrite a row."""
        self.column.set(row, collect_locations(record, self._name))
