"""Columns of Parquet to rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import pyarrow as pa
import pyarrow.compute as pc

from jobs.ingest.files.unreadable_row import Row, UnreadableRow

_YEAR_1_MS = -62_135_596_800_000
_YEAR_10000_MS = 253_402_300_800_000
_ZULU = pa.scalar("Z")
_NOTHING = pa.scalar("")


class ColumnRows(Sequence[Row]):
    """Rows in columnar form; the rows are created on first access."""

    def __init__(self, table: Any) -> None:
        self.table = table
        "pyarrow.Table of one chunk; no two columns have the same name."
        self._rows: list[Row] | None = None

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._build_rows())

    @overload
    def __getitem__(self, at: int) -> Row: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...

    def __getitem__(self, at: int | slice) -> Row | Sequence[Row]:
        return self._build_rows()[at]

    def _build_rows(self) -> list[Row]:
        if self._rows is None:
            names = self.table.schema.names
            self._rows = [
                row if isinstance(row, dict) else UnreadableRow(row, "")
                for batch in self.table.to_batches()
                for row in read_batch_rows(names, batch)
            ]
        return self._rows


def read_batch_rows(names: Sequence[str], batch: Any) -> Iterator[dict[str, Any] | str]:
    """Yield the rows of a batch, or the reason if a row can't be converted (invalid UTF-8, the year 300,000)."""
    try:
        columns = [_column_values(column) for column in batch.columns]
    except (ValueError, OverflowError) as error:
        # Arrow names no row in its error, so the batch is read again row by row to refuse only the bad
        # ones.
        if batch.num_rows > 1:
            for at in range(batch.num_rows):
                yield from read_batch_rows(names, batch.slice(at, 1))
        else:
            yield f"can't be read: {error}"
        return
    # A missing value is a missing field, as in CSV and JSON. Batches without any skip the check of each
    # value.
    if any(column.null_count for column in batch.columns):
        for row in zip(*columns, strict=True):
            yield {name: value for name, value in zip(names, row, strict=True) if value is not None}
    else:
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))


def format_timestamps(column: Any) -> Any | None:
    """Return a timestamp column as text in UTC with milliseconds; None if a year does not have four digits."""
    # Not safe: microseconds are cut, as the stored form has milliseconds only.
    at = column.cast(pa.timestamp("ms", "UTC"), safe=False)
    # Years outside 1 to 9999 have no four digits, and the fixed positions below would cut them wrongly.
    bounds = pc.min_max(at.cast(pa.int64())).as_py()
    if bounds["min"] is None or (bounds["min"] >= _YEAR_1_MS and bounds["max"] < _YEAR_10000_MS):
        # the text form has a space in place of the T; strftime takes thirty times as long
        spaced = at.cast(pa.timestamp("ms")).cast(pa.string())
        return pc.binary_join_element_wise(pc.binary_replace_slice(spaced, 10, 11, "T"), _ZULU, _NOTHING)
    return None


def _column_values(column: Any) -> list[Any]:
    """Return the values of a column, with timestamps as text in UTC."""
    if pa.types.is_timestamp(column.type):
        texts = format_timestamps(column)
        if texts is not None:
            return list(texts.to_pylist())
    return list(column.to_pylist())
