"""Rows by value: which products stand under a category path or carry an attribute value."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

import numpy as np

from actors.vectors.types import Floats, Mask, Rows, Scores, room_for

V = TypeVar("V", bound=Hashable)

_PAIR = np.dtype([("row", np.int32), ("code", np.int32)])


class Groups(Generic[V]):
    """Values with codes, and for each value its rows.

    Pairs (row, code) are only ever appended and crossed out; a view sorted by code is made when somebody asks and
    something changed since.
    """

    def __init__(self) -> None:
        self.values: list[V] = []
        self._codes: dict[V, int] = {}
        self._of_row: dict[int, tuple[int, int, tuple[int, ...]]] = {}
        self._pairs = np.zeros(0, _PAIR)
        self._count = 0
        self._crossed_out = 0
        self._rows_below = 0
        self._sorted: tuple[Rows, Rows, Rows] | None = None

    def __len__(self) -> int:
        """Count values, those no product carries any more included."""
        return len(self.values)

    def code_of(self, value: V) -> int | None:
        """Find a value's code."""
        return self._codes.get(value)

    def codes_of(self, row: int) -> tuple[int, ...]:
        """Give the codes of one row."""
        entry = self._of_row.get(row)
        return entry[2] if entry else ()

    def put(self, row: int, values: Iterable[V]) -> None:
        """Say which values a row carries, instead of what it carried before."""
        codes = tuple(sorted({self._code(value) for value in values}))
        if codes == self.codes_of(row):
            return
        self.remove(row)
        if codes:
            start, end = self._count, self._count + len(codes)
            self._pairs = room_for(self._pairs, end)
            self._pairs["row"][start:end] = row
            self._pairs["code"][start:end] = codes
            self._of_row[row] = (start, end, codes)
            self._count = end
            self._rows_below = max(self._rows_below, row + 1)
            self._sorted = None

    def remove(self, row: int) -> None:
        """Let a row carry nothing."""
        entry = self._of_row.pop(row, None)
        if entry:
            self._pairs["row"][entry[0] : entry[1]] = -1
            self._crossed_out += entry[1] - entry[0]
            self._sorted = None
            if self._crossed_out > self._count // 2 + 1_000:
                self._tidy()

    def totals(self, allowed: Mask) -> Rows:
        """Count allowed rows of every value.

        Shapes:
            allowed: bool [n]; rows it does not reach are not allowed
            returns: int64 [values]
        """
        return self.sums(allowed.astype(np.float64)).astype(np.int64)

    def sums(self, weights: Floats) -> Floats:
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

    def best_of(self, code: int, scores: Scores, count: int) -> Rows:
        """Give the best scored rows of a value, best first; rows scored -inf never appear."""
        rows = self.rows_of(code)
        rows = rows[rows < len(scores)]
        found = scores[rows]
        keep = found > -np.inf
        rows, found = rows[keep], found[keep]
        if len(rows) > count:
            top = np.argpartition(-found, count - 1)[:count] if count else np.zeros(0, np.int64)
            rows, found = rows[top], found[top]
        return rows[np.argsort(-found, kind="stable")]

    def _code(self, value: V) -> int:
        code = self._codes.setdefault(value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        return code

    def _by_code(self) -> tuple[Rows, Rows, Rows]:
        """Sort the pairs by value: rows, and where each value's rows start and end."""
        if self._sorted is None or len(self._sorted[1]) != len(self.values):
            pairs = self._pairs[: self._count]
            pairs = pairs[pairs["row"] >= 0]
            order = np.argsort(pairs["code"], kind="stable")
            codes = pairs["code"][order]
            every = np.arange(len(self.values))
            starts, ends = np.searchsorted(codes, every), np.searchsorted(codes, every, side="right")
            self._sorted = pairs["row"][order].astype(np.int64), starts, ends
        return self._sorted

    def _tidy(self) -> None:
        """Write the pairs anew without what was crossed out."""
        carried = [(row, entry[2]) for row, entry in self._of_row.items()]
        self._of_row.clear()
        self._pairs = np.zeros(0, _PAIR)
        self._count = self._crossed_out = 0
        for row, codes in carried:
            self.put(row, [self.values[code] for code in codes])


def _sums(values: Floats, starts: Rows, ends: Rows) -> Floats:
    summed = np.concatenate((np.zeros(1), np.cumsum(values)))
    sums: Floats = summed[ends] - summed[starts]
    return sums
