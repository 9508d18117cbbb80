"""Products by the values of a field, as the catalog keeps them beside the columns of filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actors.recommender.state.groups import Groups
from cluster.query.language.field_values import collect_scalars

_RUN = 64


class AttributeColumnSource:
    """Groups by the values of one field, laid out and kept like a column (`cluster.query.columnar.column_source`)."""

    def __init__(self, field: str) -> None:
        self.column: Groups[str] = Groups()
        self.seen = self.renew_at = 0
        self.run = _RUN
        self._field = field

    def bind_rows(self, start: int, records: Sequence[Mapping[str, Any]]) -> None:
        """Write a run of rows that hold nothing yet."""
        field = self._field
        self.column.bind_rows(start, [read_texts(record, field) for record in records])

    def sort_rows(self) -> None:
        """Sort rows by value."""
        self.column.sort_rows()

    def write_row(self, row: int, record: Mapping[str, Any]) -> None:
        """Write a row anew."""
        self.column.put(row, read_texts(record, self._field))


def read_texts(record: Mapping[str, Any], field: str) -> Sequence[str]:
    """Read the values under a field, by its canonical name, as texts."""
    value = record.get(field)
    if type(value) is str:
        return (value,)
    return [_text(leaf) for leaf in collect_scalars(record, field)]


def _text(value: str | bool | int | float) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)
