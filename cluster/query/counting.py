"""Counting values over columns, as the facets of a search show them.

What is counted are units: rows, or the groups of rows that stand as one product in the list. A unit counts once for
every different value any of its rows holds, so a count is what a filter on the value would find.

`facets.aggregate` counts the same over records, slow and obvious; a property test holds the two together.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster.query.automaton import Automaton
from cluster.query.column import Pairs
from cluster.query.compile import Mask
from cluster.query.scalars import Scalar

Units = NDArray[np.int64]
"Which unit each row belongs to, int64 [rows]"

_EXACT = 1 << 53

Counted = list[tuple[Scalar, int]]


class Tally:
    """How many units hold each value of one field."""

    def __init__(self, pairs: Pairs, units: Units | None) -> None:
        """Count; `units` is None when every row is one of its own.

        Cost:
            100,000 rows with two values each: 10 ms
        """
        self._names = pairs.names
        self._texts = _counted(*pairs.texts, units)
        rows, numbers = pairs.numbers
        values, places = np.unique(numbers, return_inverse=True)
        codes, counts = _counted(rows, places, units)
        self._numbers = [plain(float(value)) for value in values[codes].tolist()], counts
        self._flags = [
            (flag, text, count_units(those, units))
            for flag, text, those in ((True, "true", pairs.true), (False, "false", pairs.false))
            if len(those)
        ]

    def first(self, size: int, include: Automaton | None = None, exclude: Automaton | None = None) -> Counted:
        """List the most frequent values, equal counts by their texts.

        Cost:
            100,000 different values: 20 ms, with patterns 5 ms more
        """
        if size <= 0:
            return []
        found = heapq.nsmallest(size, self._chosen(include, exclude), key=lambda entry: entry[:2])
        return [(value, -count) for count, _, value in found]

    def _chosen(
        self, include: Automaton | None, exclude: Automaton | None
    ) -> Iterator[tuple[int, str, Scalar]]:
        codes, counts = self._texts
        if len(codes) and (include is not None or exclude is not None):
            kept = np.ones(len(codes), np.bool_)
            if include is not None:
                kept &= self._names.like(include)[codes]
            if exclude is not None:
                kept &= ~self._names.like(exclude)[codes]
            codes, counts = codes[kept], counts[kept]
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            text = self._names.text(code)
            yield -count, text, text
        others: list[tuple[Scalar, str, int]] = [*self._flags]
        others += [(number, str(number), count) for number, count in zip(*self._numbers, strict=True)]
        for value, text, count in others:
            if (include is None or include.accepts(text)) and (exclude is None or not exclude.accepts(text)):
                yield -int(count), text, value


def count_values(
    pairs: Pairs,
    units: Units | None,
    size: int,
    include: Automaton | None = None,
    exclude: Automaton | None = None,
) -> Counted:
    """Count the values of rows and list the most frequent first."""
    return Tally(pairs, units).first(size, include, exclude)


def count_rows(mask: Mask, units: Units | None) -> int:
    """Count the units that have a marked row."""
    return int(np.count_nonzero(mask)) if units is None else count_units(np.flatnonzero(mask), units)


def count_units(rows: NDArray[np.int64], units: Units | None) -> int:
    """Count the units of some rows, each of which comes once."""
    return len(rows) if units is None else count_different(units[rows])


def count_different(codes: NDArray[np.integer[Any]]) -> int:
    """Count different codes, 0 or above: marking them is quicker than looking for them."""
    if not len(codes):
        return 0
    seen = np.zeros(int(codes.max()) + 1, np.bool_)
    seen[codes] = True
    return int(np.count_nonzero(seen))


def plain(number: float) -> int | float:
    """Write a whole number as one, as long as a double tells it from its neighbours."""
    return int(number) if number.is_integer() and abs(number) < _EXACT else number


def _counted(
    rows: NDArray[np.int64], codes: NDArray[np.integer[Any]], units: Units | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count each code once per unit: the codes that occur, and how often."""
    if not len(rows):
        return rows, rows
    those = rows if units is None else units[rows]
    width = int(those.max()) + 1
    keys = np.sort(codes.astype(np.int64) * width + those)
    once = keys[np.append(True, keys[1:] != keys[:-1])]
    counts = np.bincount(once // width)
    found = np.flatnonzero(counts)
    return found, counts[found]
