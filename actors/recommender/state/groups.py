"""Groups of rows by value: the products in a category, or with an attribute value."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from actors.vectors.types import Codes, Floats, Mask, Rows, Scores, ensure_capacity
from cluster.query.columnar.postings import sort_order
from cluster.query.language.field_values import collect_scalars

V = TypeVar("V", bound=Hashable)

_RUN = 64
"Records that the column store writes in one call."
_PAIR = np.dtype([("row", np.int32), ("code", np.int32)])


class Groups(Generic[V]):
    """Values with codes, and for each value its rows.

    Pairs (row, code) are appended and marked as removed. The first read after a change sorts them by code.
    """

    def __init__(self) -> None:
        self.values: list[V] = []
        self._codes: dict[V, int] = {}
        self._starts = np.zeros(0, np.int32)
        self._lengths = np.zeros(0, np.int32)
        "Start and number of the pairs of each row."
        self._pairs = np.zeros(0, _PAIR)
        self._count = 0
        self._removed_count = 0
        self._rows_below = 0
        self._sorted: tuple[Rows, Rows, Rows] | None = None
        self._of_rows: tuple[Rows, Rows] | None = None

    @property
    def nbytes(self) -> int:
        arrays = self._pairs.nbytes + self._starts.nbytes + self._lengths.nbytes
        return arrays + 16 * self._count + 8 * self._rows_below + 200 * len(self.values)

    @property
    def allocated_slots(self) -> int:
        """Return 0: groups need no rebuild to free memory."""
        return 0

    def grow(self, size: int) -> None:
        """Do nothing: rows after the last one have no values."""

    def __len__(self) -> int:
        """Return the number of values, including those that no product has any more."""
        return len(self.values)

    def code_of(self, value: V) -> int | None:
        """Return the code of a value; None when it is unknown."""
        return self._codes.get(value)

    def codes_of(self, row: int) -> tuple[int, ...]:
        """Return the codes of one row."""
        length = int(self._lengths[row]) if row < len(self._lengths) else 0
        if not length:
            return ()
        start = int(self._starts[row])
        return tuple(self._pairs["code"][start : start + length].tolist())

    def put(self, row: int, values: Iterable[V]) -> None:
        """Replace the values of a row."""
        codes = tuple(sorted({self._code(value) for value in values}))
        if codes == self.codes_of(row):
            return
        self.remove(row)
        if codes:
            self._append(row, np.array([len(codes)], np.int32), np.array(codes, np.int32))

    def write_new_rows(self, start: int, cells: Sequence[Sequence[V]]) -> None:
        """Set the values of consecutive rows that have none, from row `start`.

        Cost:
            0.3 microseconds a row with one value
        """
        codes: list[int] = []
        lengths: list[int] = []
        for values in cells:
            if len(values) == 1:
                codes.append(self._code(values[0]))
                lengths.append(1)
            else:
                # A product may name a value twice.
                several = sorted({self._code(value) for value in values})
                codes += several
                lengths.append(len(several))
        self._append(start, np.array(lengths, np.int32), np.array(codes, np.int32))

    def sort_pairs(self) -> None:
        """Sort the pairs before the first read."""
        self._by_code()
        self._by_row()

    def remove(self, row: int) -> None:
        """Remove all values of a row."""
        length = int(self._lengths[row]) if row < len(self._lengths) else 0
        if length:
            start = int(self._starts[row])
            # Only marked: moving the pairs behind it would cost the length of the catalog for one change.
            self._pairs["row"][start : start + length] = -1
            self._lengths[row] = 0
            self._removed_count += length
            self._sorted = self._of_rows = None
            # At half removed pairs, so the cost of a rewrite is spread over as many removals.
            if self._removed_count > self._count // 2 + 1_000:
                self._compact()

    def count_rows(self, allowed: Mask) -> Rows:
        """Return the number of allowed rows of every value.

        Shapes:
            allowed: bool [n]; rows from n on are not allowed
            returns: int64 [values]
        """
        # Exact: float64 holds all whole numbers up to 2^53.
        return self.sum_weights(allowed.astype(np.float64)).astype(np.int64)

    def sum_weights(self, weights: Floats) -> Floats:
        """Return the sum of the row weights of every value.

        Shapes:
            weights: float64 [n]; rows from n on weigh 0
            returns: float64 [values]
        """
        rows, starts, ends = self._by_code()
        if self._rows_below > len(weights):
            weights = np.concatenate((weights, np.zeros(self._rows_below - len(weights))))
        return _sums(weights[rows], starts, ends)

    def rows_of(self, code: int) -> Rows:
        """Return the rows that have a value.

        Shapes:
            returns: int64 [m]
        """
        rows, starts, ends = self._by_code()
        return rows[starts[code] : ends[code]]

    def codes_of_rows(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the codes of many rows.

        Shapes:
            rows: int64 [m]
            returns: int64 [k] and int64 [k], positions in `rows` and their codes
        """
        starts, codes = self._by_row()
        # Rows behind the last one with a value have no start.
        existing = np.flatnonzero(rows < len(starts) - 1)
        first = starts[rows[existing]]
        lengths = starts[rows[existing] + 1] - first
        ends = np.cumsum(lengths)
        # Runs of different lengths without a loop: a counter, shifted to the start of each run.
        places = np.arange(int(lengths.sum())) + np.repeat(first - (ends - lengths), lengths)
        return np.repeat(existing, lengths), codes[places]

    def select_best(self, code: int, scores: Scores, count: int) -> Rows:
        """Return the rows of a value with the best scores, best first, without rows at -inf.

        Shapes:
            scores: float32 [n]
            returns: int64 [m], m <= count
        """
        rows = self.rows_of(code)
        return select_best_rows(rows[rows < len(scores)], scores, count)

    def _code(self, value: V) -> int:
        code = self._codes.setdefault(value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        return code

    def _append(self, row: int, lengths: Codes, codes: Codes) -> None:
        """Append the pairs of consecutive rows."""
        first = self._count
        end = self._count + len(codes)
        rows_below = row + len(lengths)
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
        """Return rows sorted by value, and start and end of the rows of each value."""
        # A value that is new since the sort has no bounds yet.
        if self._sorted is None or len(self._sorted[1]) != len(self.values):
            pairs = self._pairs[: self._count]
            pairs = pairs[pairs["row"] >= 0]
            # Rows of one value stay in the order of their pairs, so lists of equals do not change.
            order = sort_order(pairs["code"])
            bounds = np.zeros(len(self.values) + 1, np.int64)
            np.cumsum(np.bincount(pairs["code"], minlength=len(self.values)), out=bounds[1:])
            self._sorted = pairs["row"][order].astype(np.int64), bounds[:-1], bounds[1:]
        return self._sorted

    def _by_row(self) -> tuple[Rows, Rows]:
        """Return the start of the codes of each row, and codes sorted by row."""
        if self._of_rows is None:
            pairs = self._pairs[: self._count]
            pairs = pairs[pairs["row"] >= 0]
            order = np.argsort(pairs["row"], kind="stable")
            starts = np.searchsorted(pairs["row"][order], np.arange(self._rows_below + 1))
            self._of_rows = starts, pairs["code"][order].astype(np.int64)
        return self._of_rows

    def _compact(self) -> None:
        """Rewrite the pairs without removed ones."""
        pairs = self._pairs[: self._count]
        kept = pairs["row"] >= 0
        # New place of a pair = number of kept pairs before it. The last rows may have no values: they start at the end.
        before = np.append(0, np.cumsum(kept))
        self._starts[: self._rows_below] = before[self._starts[: self._rows_below]]
        self._pairs = pairs[kept]
        self._count = len(self._pairs)
        self._removed_count = 0


def select_best_rows(rows: Rows, scores: Scores, count: int) -> Rows:
    """Return the rows with the best scores, best first, without rows at -inf.

    Shapes:
        rows: int64 [m], below n; scores: float32 [n]
        returns: int64 [k], k <= count
    """
    values = scores[rows]
    if len(rows) > count:
        # Not for `count` 0: position -1 would mean the last value.
        top = np.argpartition(-values, count - 1)[:count] if count else np.zeros(0, np.int64)
        rows = rows[top]
        values = values[top]
    # The sort puts rows at -inf last, so a cut by their number drops exactly those.
    order = np.argsort(-values, kind="stable")
    best: Rows = rows[order[: int(np.count_nonzero(values > -np.inf))]]
    return best


def _sums(values: Floats, starts: Rows, ends: Rows) -> Floats:
    # One pass for all groups: a sum is the difference of two prefix sums.
    # In float32, the difference of two long prefix sums would lose small groups.
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

    def write_new_rows(self, start: int, records: Sequence[Mapping[str, Any]]) -> None:
        """Write consecutive rows that have no values yet."""
        field = self._field
        self.column.write_new_rows(start, [read_texts(record, field) for record in records])

    def sort_pairs(self) -> None:
        self.column.sort_pairs()

    def write_row(self, row: int, record: Mapping[str, Any]) -> None:
        self.column.put(row, read_texts(record, self._field))


def read_texts(record: Mapping[str, Any], field: str) -> Sequence[str]:
    """Return the values of a field, by its canonical name, as texts."""
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
