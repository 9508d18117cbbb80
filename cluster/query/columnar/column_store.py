"""Records as columns: rows are added, replaced and removed; columns are built for the fields that filters name.

The owner defines the meaning of rows: a row is a position, counted from 0, that keeps its record until the owner
replaces or removes it. Removed rows are in no mask and are not reused, so arrays beside the store stay aligned.

    append, replace, remove ──▶ records, journal of changed rows                     O(fields of the record)
    column(field) ──▶ built on first use, then brought up to date from the journal   O(rows changed)
    mask(filter) ──▶ cached until the next change

A field that no record ever had costs nothing, in any number of filters.

A column may be built beside the store, during queries and changes (`column_cache`). After
`limit_reads`, a query that would read more records than allowed is refused (`ColumnsNotReady`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any as Anything

import numpy as np
import orjson
from numpy.typing import NDArray

from cluster.query.columnar.arrays import GrowingArray
from cluster.query.columnar.column import FieldColumn, Mask, RowValuePairs
from cluster.query.columnar.column_cache import ColumnCache
from cluster.query.columnar.column_source import ColumnSourceFactory, FieldSource, Key, PointSource
from cluster.query.columnar.filter_evaluation import evaluate_filter
from cluster.query.columnar.point_column import PointColumn
from cluster.query.columnar.record_reader import Record, load_record
from cluster.query.language.field_names import FieldNames, fields_of
from cluster.query.language.field_values import DEFAULTED, canonical_field, is_moment, list_paths
from cluster.query.language.tree import Node

_FIELD = "field"
_POINTS = "points"


class ColumnStore:
    """Rows of JSON records that can be filtered; one thread may query while another changes, and others build.

    `column_bytes` and `mask_bytes` bound the caches: beyond them the least recently used columns and masks are
    dropped, and rebuilt on demand. `kinds` are further kinds of columns that the owner defines.

    Cost:
        per record 5 to 10 microseconds to add; the first filter on a field reads all records once
    """

    def __init__(
        self,
        *,
        column_bytes: int = 1 << 29,
        mask_bytes: int = 1 << 25,
        kinds: Mapping[str, ColumnSourceFactory] | None = None,
    ) -> None:
        self._records: list[Record | bytes | None] = []
        self._live = GrowingArray(np.bool_, False)
        self._names: set[str] = set(DEFAULTED)
        self.fields = FieldNames(self._names)
        self._masks: OrderedDict[Node, Mask] = OrderedDict()
        self._mask_bytes = mask_bytes
        # Reentrant, because the cache of columns takes it again below a query.
        self._lock = RLock()
        self._version = 0
        makers: dict[str, ColumnSourceFactory] = {_FIELD: FieldSource, _POINTS: PointSource, **(kinds or {})}
        self._columns = ColumnCache(self._records, self._lock, makers, column_bytes)

    def __len__(self) -> int:
        return len(self._records)

    @property
    def version(self) -> int:
        """Return the number of changes so far; equal versions give equal masks."""
        return self._version

    @property
    def nbytes(self) -> int:
        """Return the estimated memory of columns and masks in bytes, without the records."""
        with self._lock:
            return self._columns.nbytes + sum(mask.nbytes for mask in self._masks.values())

    def append(self, record: Record | bytes | None = None) -> int:
        """Add a record, as an object or as its JSON, or an empty row; return its row."""
        with self._lock:
            row = len(self._records)
            self._records.append(None)
            self._live.extend_to(row + 1)
            if record is None:
                self._record_change(row)
            else:
                self._put(row, record)
            return row

    def replace(self, row: int, record: Record | bytes) -> None:
        """Replace the record of a row; a removed row comes back."""
        with self._lock:
            self._put(row, record)

    def remove(self, row: int) -> None:
        """Remove the record of a row."""
        with self._lock:
            if self._records[row] is not None:
                self._records[row] = None
                self._live.set(row, False)
                self._record_change(row)

    def record(self, row: int) -> Record | None:
        """Return the record of a row; None when it was removed."""
        kept = self._records[row]
        if isinstance(kept, bytes):
            whole: Record = orjson.loads(kept)
            return whole
        return kept

    def list_records(self, rows: Iterable[int]) -> list[Record]:
        """Return the records of some rows; empty where one was removed."""
        records: list[Record] = []
        for row in rows:
            kept = self._records[row]
            records.append(orjson.loads(kept) if isinstance(kept, bytes) else kept or {})
        return records

    def record_json(self, row: int) -> str:
        """Return the record of a row as JSON; empty when it was removed."""
        kept = self._records[row]
        if kept is None:
            return ""
        return (kept if isinstance(kept, bytes) else orjson.dumps(kept)).decode()

    def live_rows(self) -> Mask:
        """Return a fresh mask of the rows that have a record.

        Shapes:
            Mask [rows]
        """
        with self._lock:
            return self._live.filled.copy()

    def column(self, field: str) -> FieldColumn | None:
        """Return the column of a field, up to date; None when no record ever had it.

        It is a live object: query it before the next change, or use `mask`, which holds the lock.
        """
        with self._lock:
            key = (_FIELD, canonical_field(field))
            if key[1] not in self._names:
                return None
            column: FieldColumn = self._columns.get(key)
            return column

    def of_kind(self, kind: str, field: str) -> Anything:
        """Return a column of one of the owner's kinds, up to date, whether or not a record has the field."""
        with self._lock:
            key = (kind, canonical_field(field))
            column = self._columns.get(key)
            self._columns.trim()
            return column

    def within(self, lat: float, lon: float, radius_km: float, field: str = "location") -> Mask:
        """Return the rows with a point within a radius of a position.

        Shapes:
            Mask [rows]

        Units:
            latitude and longitude in degrees
        """
        with self._lock:
            name = canonical_field(field)
            if name not in self._names:
                return np.zeros(len(self._records), dtype=np.bool_)
            mask = self._points(name).within(lat, lon, radius_km)
            self._columns.trim()
            return mask

    def distances(self, lat: float, lon: float, field: str = "location") -> NDArray[np.float64]:
        """Return the distance of each row's nearest point in kilometres; NaN for rows without one.

        Shapes:
            float64 [rows]
        """
        with self._lock:
            name = canonical_field(field)
            if name not in self._names:
                return np.full(len(self._records), np.nan)
            distances_km = self._points(name).nearest_km(lat, lon)
            self._columns.trim()
            return distances_km

    def numbers(self, field: str) -> NDArray[np.float64]:
        """Return one number for each row: the first, 1 or 0 for booleans, milliseconds for date fields, else NaN.

        Shapes:
            float64 [rows]
        """
        with self._lock:
            column = self.column(field)
            if column is None:
                return np.full(len(self._records), np.nan)
            row_numbers = column.first_numbers(moments=is_moment(canonical_field(field)))
            self._columns.trim()
            return row_numbers

    def pairs(self, field: str, rows: Mask) -> RowValuePairs:
        """Return the values of marked rows under a field that is no text field.

        Shapes:
            rows: Mask [rows]
        """
        with self._lock:
            column = self.column(field)
            row_pairs = RowValuePairs.none() if column is None else column.pairs(rows)
            self._columns.trim()
            return row_pairs

    def mask(self, node: Node) -> Mask:
        """Evaluate a filter for all rows. The mask is shared and read-only.

        Shapes:
            Mask [rows]

        Cost:
            three clauses over 100,000 rows 0.2 ms; known filters 3 microseconds
        """
        with self._lock:
            mask = self._masks.get(node)
            if mask is not None:
                self._masks.move_to_end(node)
                return mask
            # All columns of the filter in one pass over the records, and a refusal before any work.
            self._columns.ensure_built(self._existing_keys(column_keys_of_filter(node)))
            mask = evaluate_filter(node, self)
            # Shared by all queries of this filter: a caller that writes into it fails instead of changing
            # their answers.
            mask.flags.writeable = False
            self._masks[node] = mask
            # A boolean of NumPy is one byte.
            while len(self._masks) > 1 and len(self._masks) * len(mask) > self._mask_bytes:
                self._masks.popitem(last=False)
            self._columns.trim()
            return mask

    def has_columns(self, keys: Iterable[Key]) -> bool:
        """Return whether columns are built and nearly up to date, so that a query reads few records."""
        with self._lock:
            return self._columns.has_columns(self._existing_keys(keys))

    def build_columns(self, fields: Iterable[str]) -> None:
        """Build the columns of these fields in one pass over the records, before the first query."""
        with self._lock:
            self._columns.ensure_built(self._existing_keys((_FIELD, field) for field in fields))

    def build_in_steps(self, keys: Iterable[Key]) -> Iterator[None]:
        """Build and update columns in small steps, during queries and changes: see `ColumnCache`."""
        return self._columns.build_in_steps(self._existing_keys(keys))

    def find_missing(self, keys: Iterable[Key]) -> list[Key]:
        """Return the keys of columns that do not exist; outdated ones exist."""
        with self._lock:
            return self._columns.find_missing(self._existing_keys(keys))

    @property
    def column_keys(self) -> list[Key]:
        """Return the keys of the built columns."""
        with self._lock:
            return self._columns.keys

    def limit_reads(self, most_at_once: int) -> None:
        """Refuse further queries that would have to read more records than this (`ColumnsNotReady`)."""
        self._columns.most_at_once = most_at_once

    @contextmanager
    def build_missing_columns(self) -> Iterator[None]:
        """Allow queries in this context to read any number of records."""
        with self._lock:
            most = self._columns.most_at_once
            self._columns.most_at_once = None
            try:
                yield
            finally:
                self._columns.most_at_once = most

    def _put(self, row: int, record: Record | bytes) -> None:
        self._names.update(list_paths(load_record(record)))
        self._records[row] = record
        self._live.set(row, True)
        self._record_change(row)

    def _record_change(self, row: int) -> None:
        self._version += 1
        # A mask may depend on any row; only those of the present version are kept.
        self._masks.clear()
        self._columns.record_change(row)

    def _existing_keys(self, keys: Iterable[Key]) -> list[Key]:
        """Return the keys of columns that have values; the owner's kinds always count."""
        named = dict.fromkeys((kind, canonical_field(field)) for kind, field in keys)
        return [key for key in named if key[1] in self._names or key[0] not in (_FIELD, _POINTS)]

    def _points(self, name: str) -> PointColumn:
        points: PointColumn = self._columns.get((_POINTS, name))
        return points


def column_keys_of_filter(node: Node) -> list[Key]:
    """Return the keys of the columns that a filter needs."""
    return [(_FIELD, name) for name in fields_of(node)]
