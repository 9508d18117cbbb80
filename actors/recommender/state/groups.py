"""Rows by value: which products stand under a category path or carry an attribute value."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from actors.vectors.types import Codes, Floats, Mask, Rows, Scores, ensure_capacity
from cluster.query.columnar.postings import sort_order
from cluster.query.language.field_values import collect_scalars

V = TypeVar("V", bound=Hashable)

_RUN = 64
"Records that the column store writes in one run."
_PAIR = np.dtype([("row", np.int32), ("code", np.int32)])


class Groups(Generic[V]):
    """Values with codes, and for each value its rows.

    Pairs (row, code) are only ever appended and crossed out; a view sorted by code is made when somebody asks and
    something changed since.
    """

    def __init__(self) -> None:
        self.values: list[V] = []
        self._codes: dict[V, int] = {}
        self._starts = np.zeros(0, np.int32)
        self._lengths = np.zeros(0, np.int32)
        "Where the pairs of each row are, and how many."
        self._pairs = np.zeros(0, _PAIR)
        self._count = 0
        self._removed_count = 0
        self._rows_below = 0
        self._sorted: tuple[Rows, Rows, Rows] | None = None
        self._of_rows: tuple[Rows, Rows] | None = None

    @property
    def nbytes(self) -> int:
        """Estimate the memory held, what was sorted included."""
        arrays = self._pairs.nbytes + self._starts.nbytes + self._lengths.nbytes
        return arrays + 16 * self._count + 8 * self._rows_below + 200 * len(self.values)

    @property
    def allocated_slots(self) -> int:
        """Count what stays until groups are made anew: nothing that would not be used again."""
        return 0

    def grow(self, size: int) -> None:
        """Make room for rows, which nothing needs: rows beyond the last carry nothing."""

    def __len__(self) -> int:
        """Count values, those no product carries any more included."""
        return len(self.values)

    def code_of(self, value: V) -> int | None:
        """Find a value's code."""
        return self._codes.get(value)

    def codes_of(self, row: int) -> tuple[int, ...]:
        """Give the codes of one row."""
        length = int(self._lengths[row]) if row < len(self._lengths) else 0
        if not length:
            return ()
        start = int(self._starts[row])
        return tuple(self._pairs["code"][start : start + length].tolist())

    def put(self, row: int, values: Iterable[V]) -> None:
        """Say which values a row carries, instead of what it carried before."""
        codes = tuple(sorted({self._code(value) for value in values}))
        if codes == self.codes_of(row):
            return
        self.remove(row)
        if codes:
            self._append(row, np.array([len(codes)], np.int32), np.array(codes, np.int32))

    def bind_rows(self, start: int, held: Sequence[Sequence[V]]) -> None:
        """Say which values a run of rows carry that carried nothing.

        Cost:
            0.3 microseconds a row with one value
        """
        codes: list[int] = []
        lengths: list[int] = []
        for values in held:
            if len(values) == 1:
                codes.append(self._code(values[0]))
                lengths.append(1)
            else:
                several = sorted({self._code(value) for value in values})
                codes += several
                lengths.append(len(several))
        self._append(start, np.array(lengths, np.int32), np.array(codes, np.int32))

    def sort_rows(self) -> None:
        """Sort what was laid, before anybody asks."""
        self._by_code()
        self._by_row()

    def remove(self, row: int) -> None:
        """Let a row carry nothing."""
        length = int(self._lengths[row]) if row < len(self._lengths) else 0
        if length:
            start = int(self._starts[row])
            self._pairs["row"][start : start + length] = -1
            self._lengths[row] = 0
            self._removed_count += length
            self._sorted = self._of_rows = None
            if self._removed_count > self._count // 2 + 1_000:
                self._compact()

    def count_rows(self, allowed: Mask) -> Rows:
        """Count allowed rows of every value.

        Shapes:
            allowed: bool [n]; rows it does not reach are not allowed
            returns: int64 [values]
        """
        return self.sum_weights(allowed.astype(np.float64)).astype(np.int64)

    def sum_weights(self, weights: Floats) -> Floats:
        """Add up a weight per row for every value.

        Shapes:
            weights: float64 [n]; rows it does not reach weigh nothing
            returns: float64 [values]
        """
        rows, starts, ends = self._by_code()
        if self._rows_below > len(weights):
            weights = np.concatenate((weights, np.zeros(self._rows_below - len(weights))))
        return _sums(weights[rows], starts, ends)

    def rows_of(self, code: int) -> Rows:
        """Give the rows that carry a value."""
        rows, starts, ends = self._by_code()
        return rows[starts[code] : ends[code]]

    def codes_of_rows(self, rows: Rows) -> tuple[Rows, Rows]:
        """List the codes of many rows.

        Shapes:
            rows: int64 [m]
            returns: int64 [k] and int64 [k], positions in `rows` and the codes found there
        """
        starts, codes = self._by_row()
        known = np.flatnonzero(rows < len(starts) - 1)
        first = starts[rows[known]]
        lengths = starts[rows[known] + 1] - first
        ends = np.cumsum(lengths)
        places = np.arange(int(lengths.sum())) + np.repeat(first - (ends - lengths), lengths)
        return np.repeat(known, lengths), codes[places]

    def select_best(self, code: int, scores: Scores, count: int) -> Rows:
        """Give the best scored rows of a value, best first; rows scored -inf never appear."""
        rows = self.rows_of(code)
        return select_best_rows(rows[rows < len(scores)], scores, count)

    def _code(self, value: V) -> int:
        code = self._codes.setdefault(value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        return code

    def _append(self, row: int, lengths: Codes, codes: Codes) -> None:
        """Write the pairs of a run of rows at the end."""
        first, end, rows_below = self._count, self._count + len(codes), row + len(lengths)
        self._pairs = ensure_capacity(self._pairs, end)
        self._pairs["row"][first:end] = np.repeat(np.arange(row, rows_below, dtype=np.int32), lengths)
        self._pairs["code"][first:end] = codes
        self._starts = ensure_capacity(self._starts, rows_below)
        self._lengths = ensure_capacity(self._lengths, rows_below)
        self._starts[row:rows_below] = first + np.cumsum(lengths) - lengths
        self._lengths[row:rows_below] = lengths
        self._count = end
        self._rows_below = max(self._rows_below, rows_below)
        self._sorted = self._of_rows = None

    def _by_code(self) -> tuple[Rows, Rows, Rows]:
        """Sort the pairs by value: rows, and where each value's rows start and end."""
        if self._sorted is None or len(self._sorted[1]) != len(self.values):
            pairs = self._pairs[: self._count]
            pairs = pairs[pairs["row"] >= 0]
            order = sort_order(pairs["code"])
            bounds = np.zeros(len(self.values) + 1, np.int64)
            np.cumsum(np.bincount(pairs["code"], minlength=len(self.values)), out=bounds[1:])
            self._sorted = pairs["row"][order].astype(np.int64), bounds[:-1], bounds[1:]
        return self._sorted

    def _by_row(self) -> tuple[Rows, Rows]:
        """Sort the pairs by row: where each row's codes start, and the codes."""
        if self._of_rows is None:
            pairs = self._pairs[: self._count]
            pairs = pairs[pairs["row"] >= 0]
            order = np.argsort(pairs["row"], kind="stable")
            starts = np.searchsorted(pairs["row"][order], np.arange(self._rows_below + 1))
            self._of_rows = starts, pairs["code"][order].astype(np.int64)
        return self._of_rows

    def _compact(self) -> None:
        """Write the pairs anew without what was crossed out."""
        pairs = self._pairs[: self._count]
        kept = pairs["row"] >= 0
        self._starts[: self._rows_below] = (np.cumsum(kept) - kept)[self._starts[: self._rows_below]]
        self._pairs = pairs[kept]
        self._count, self._removed_count = len(self._pairs), 0


def select_best_rows(rows: Rows, scores: Scores, count: int) -> Rows:
    """Give the best scored of some rows, best first; rows scored -inf never appear.

    Shapes:
        rows: int64 [m], below n; scores: float32 [n]
    """
    found = scores[rows]
    if len(rows) > count:
        top = np.argpartition(-found, count - 1)[:count] if count else np.zeros(0, np.int64)
        rows, found = rows[top], found[top]
    order = np.argsort(-found, kind="stable")
    best: Rows = rows[order[: int(np.count_nonzero(found > -np.inf))]]
    return best


def _sums(values: Floats, starts: Rows, ends: Rows) -> Floats:
    summed = np.concatenate((np.zeros(1), np.cumsum(values)))
    sums: Floats = summed[ends] - summed[starts]
    return sums


class AttributeColumnSource:
    """Builds the groups of one field for the column store (`cluster.query.columnar.column_source`)."""

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
