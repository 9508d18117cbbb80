"""Checks of files before the ingest: missing columns and suspicious values."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.ingest.mapping import FieldMap, RowReader
from jobs.ingest.row import Row, UnreadableRow
from jobs.ingest.sources import SourceFile, read_column_names

_SAMPLED_ROWS = 200


def check_source_columns(mapping: FieldMap, found: Sequence[SourceFile]) -> None:
    """Check that files have the columns that a mapping names.

    Errors:
        Invalid: a file lacks a column
    """
    if not mapping.rules:
        return
    for source in found:
        names = read_column_names(source)
        if names is not None:
            mapping.check_columns(names)


def find_warnings(rows: Sequence[Row], read: RowReader, mapping: FieldMap) -> list[str]:
    """Return warnings about suspicious values in the first rows of an ingest."""
    records = [read(row) for row in rows[:_SAMPLED_ROWS] if not isinstance(row, UnreadableRow)]
    name = mapping.find_float_ids(records)
    if not name:
        return []
    return [f"every {name} ends in '.0': whole numbers that a table wrote as decimals; map it with :integer"]
