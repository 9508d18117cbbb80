"""Columns as a store keeps them: how each kind is made from records and brought up to date."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cluster.query.columnar.column import FieldColumn
from cluster.query.columnar.geo import PointColumn
from cluster.query.columnar.record_reader import Record
from cluster.query.language.field_values import build_field_reader, collect_locations, is_moment, is_text

Key = tuple[str, str]
"The kind of a column and the canonical name of its field."

_RUN, _RUN_OF_TEXTS = 64, 32


class StoredColumn(Protocol):
    """What every kind of column has."""

    @property
    def nbytes(self) -> int:
        """Estimate the memory held."""
        ...

    @property
    def allocated_slots(self) -> int:
        """Count places ever given out; those out of use stay until the column is made anew."""
        ...

    def grow(self, size: int) -> None:
        """Make room for rows up to `size`."""
        ...


class ColumnSource(Protocol):
    """A column of one field, and how records are written into it: nothing but that field of them counts.

    Whoever lays it out beside a store that goes on changing writes every row once by `lay`, then those that changed
    meanwhile by `write`: what a row held before does not matter.
    """

    seen: int
    "How far in the journal of changed rows the column is."
    renew_at: int
    "The wear beyond which it is made anew."
    run: int
    "How many records are laid out in well under a millisecond."

    @property
    def column(self) -> StoredColumn:
        """The column itself."""
        ...

    def bind_rows(self, start: int, records: Sequence[Record]) -> None:
        """Write a run of rows that hold nothing yet."""
        ...

    def sort_rows(self) -> None:
        """Do what the first question would have to do, when all rows are laid out."""
        ...

    def write_row(self, row: int, record: Record) -> None:
        """Write a row anew."""
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

    def bind_rows(self, start: int, records: Sequence[Record]) -> None:
        """Write a run of rows that hold nothing yet."""
        read = self._read
        self.column.bind_rows(start, [read(record) for record in records])
        self.column.read_texts(moments=self._moments)

    def sort_rows(self) -> None:
        """Sort what rows hold beside their first values."""
        self.column.sort_rows()

    def write_row(self, row: int, record: Record) -> None:
        """Write a row anew."""
        self.column.set(row, *self._read(record))


class PointSource:
    """Points under a field."""

    def __init__(self, name: str) -> None:
        self.column = PointColumn()
        self.seen = self.renew_at = 0
        self.run = _RUN
        self._name = name

    def bind_rows(self, start: int, records: Sequence[Record]) -> None:
        """Write a run of rows that hold nothing yet."""
        self.column.bind_rows(start, [collect_locations(record, self._name) for record in records])

    def sort_rows(self) -> None:
        """Sort the points."""
        self.column.sort_rows()

    def write_row(self, row: int, record: Record) -> None:
        """Write a row anew."""
        self.column.set(row, collect_locations(record, self._name))
