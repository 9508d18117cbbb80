"""Counting values over columns, as the facets of a search show them.

What is counted are units: rows, or the groups of rows that stand as one product in the list. A unit counts once for
every different value any of its rows holds, so a count is what a filter on the value would find.

`facets.aggregate` counts the same over records, slow and obvious; a property test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable
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


def count_values(
    pairs: Pairs,
    units: Units | None,
    size: int,
    include: Automaton | None = None,
    exclude: Automaton | None = None,
) -> Counted:
    """Count the values of rows, the most frequent first, equal counts by their texts.

    `units` is None when every row is one of its own.

    Cost:
        100,000 rows with two values each: 15 ms
    """
    if size <= 0:
        return []
    rows, codes = pairs.texts
    found: list[tuple[int, str, Scalar]] = []
    found += _counted(rows, codes, units, lambda code: pairs.vocabulary.text(int(code)))
    rows, numbers = pairs.numbers
    values, places = np.unique(numbers, return_inverse=True)
    found += _counted(rows, places.astype(np.int64), units, lambda place: plain(float(values[place])))
    for flag, those in ((True, pairs.true), (False, pairs.false)):
        if len(those):
            found.append((count_units(those, units), "true" if flag else "false", flag))
    found.sort(key=lambda entry: (-entry[0], entry[1]))
    counted: Counted = []
    for count, text, value in found:
        if len(counted) == size:
            break
        if (include is None or include.accepts(text)) and (exclude is None or not exclude.accepts(text)):
            counted.append((value, count))
    return counted


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
    rows: NDArray[np.int64],
    codes: NDArray[np.int64],
    units: Units | None,
    value_of: Callable[[int], Scalar],
) -> list[tuple[int, str, Scalar]]:
    """Count each code once per unit: count, text, value."""
    if not len(rows):
        return []
    those = rows if units is None else units[rows]
    width = int(those.max()) + 1
    keys = np.sort(codes.astype(np.int64) * width + those)
    once = keys[np.append(True, keys[1:] != keys[:-1])]
    counts = np.bincount(once // width)
    found = []
    for code in np.flatnonzero(counts).tolist():
        value = value_of(code)
        found.append((int(counts[code]), str(value), value))
    return found
