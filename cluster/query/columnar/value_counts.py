"""Counts of values over columns, for the facets of a search.

The counts are of units: rows, or the groups of rows that form one product in the list. A unit counts once for
every different value of its rows, so a count equals the number of hits of a filter on the value.

`count_values` counts the same over records, slow and obvious; a property test compares them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster.errors import FilterSyntax, NotFound, messages
from cluster.query.columnar.column import Mask, RowValuePairs
from cluster.query.columnar.dictionary import TextDictionary
from cluster.query.columnar.filter_evaluation import matches_filter
from cluster.query.language.automaton import Automaton
from cluster.query.language.field_values import canonical_field, collect_scalars, has_value
from cluster.query.language.patterns import compile_regex
from cluster.query.language.scalars import Scalar
from cluster.query.language.tree import Node

Units = NDArray[np.int64]
"The unit of each row, int64 [rows]"

# From here on a double skips integers, and `int` would show digits that nobody uploaded.
_EXACT = 1 << 53

CountedValues = list[tuple[Scalar, int]]
ValueIndexes = NDArray[np.int64]
"Positions among the counted values, int64 [k]"


class ValueCounts:
    """Number of units with each value of one field: texts first, then numbers, then booleans."""

    def __init__(self, pairs: RowValuePairs, units: Units | None) -> None:
        """Count the units; `units` is None when every row is a unit.

        Cost:
            100,000 rows with two values each: 10 ms
        """
        self._names = pairs.names
        self._codes, text_counts = _count_codes(*pairs.texts, units)
        rows, numbers = pairs.numbers
        values, places = np.unique(numbers, return_inverse=True)
        codes, number_counts = _count_codes(rows, places, units)
        self._others: list[Scalar] = [scalar_from_float(float(value)) for value in values[codes].tolist()]
        flags = [(flag, those) for flag, those in ((True, pairs.true), (False, pairs.false)) if len(those)]
        self._others += [flag for flag, _ in flags]
        flag_counts = [count_distinct_units(those, units) for _, those in flags]
        self._counts = np.concatenate((text_counts, number_counts, np.array(flag_counts, np.int64)))
        self._other_names: TextDictionary | None = None
        self._order: ValueIndexes | None = None
        self._is_repeated = False

    def __len__(self) -> int:
        return len(self._counts)

    def most_frequent(
        self, size: int, include: Automaton | None = None, exclude: Automaton | None = None
    ) -> CountedValues:
        """List the most frequent values, equal counts by their texts.

        Cost:
            100,000 different values: 20 ms, once 40 ms when requested again; then 2 to 4 ms for each pattern
        """
        if size <= 0:
            return []
        if self._is_repeated and self._order is None:
            # several facets may share one field: sort it only once
            self._order = np.array(sorted(range(len(self)), key=self._rank), np.int64)
        self._is_repeated = True
        kept = self._selected(include, exclude)
        if self._order is None:
            # A heap of `size` for the first question; sorting all values pays off only for the next ones.
            chosen = heapq.nsmallest(size, np.flatnonzero(kept).tolist(), key=self._rank)
        else:
            chosen = self._order[kept[self._order]][:size].tolist()
        return [(self._value(at), int(self._counts[at])) for at in chosen]

    def _value(self, at: int) -> Scalar:
        texts = len(self._codes)
        return self._names.text(int(self._codes[at])) if at < texts else self._others[at - texts]

    def _rank(self, at: int) -> tuple[int, str]:
        return -int(self._counts[at]), text_from_scalar(self._value(at))

    def _selected(self, include: Automaton | None, exclude: Automaton | None) -> Mask:
        """Return the values that pass the patterns, all evaluated at once."""
        kept = np.ones(len(self), np.bool_)
        if include is not None:
            kept &= self._like(include)
        if exclude is not None:
            kept &= ~self._like(exclude)
        return kept

    def _like(self, pattern: Automaton) -> Mask:
        if self._other_names is None:
            self._other_names = TextDictionary()
            for value in self._others:
                self._other_names.add(text_from_scalar(value))
        return np.concatenate((self._names.like(pattern)[self._codes], self._other_names.like(pattern)[:-1]))


def text_from_scalar(value: Scalar) -> str:
    """Return a value as the text that patterns match."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def count_rows(mask: Mask, units: Units | None) -> int:
    """Return the number of units with a marked row.

    Shapes:
        mask: bool [rows]
        units: int64 [rows]
    """
    return int(np.count_nonzero(mask)) if units is None else count_distinct_units(np.flatnonzero(mask), units)


def count_distinct_units(rows: NDArray[np.int64], units: Units | None) -> int:
    """Return the number of units of some distinct rows.

    Shapes:
        rows: int64 [n]
        units: int64 [all rows]
    """
    return len(rows) if units is None else count_different(units[rows])


def count_different(codes: NDArray[np.integer[Any]]) -> int:
    """Return the number of different codes, 0 or above; marking is faster than sorting.

    Shapes:
        codes: integers [n]
    """
    if not len(codes):
        return 0
    seen = np.zeros(int(codes.max()) + 1, np.bool_)
    seen[codes] = True
    return int(np.count_nonzero(seen))


def scalar_from_float(number: float) -> int | float:
    """Return an integer for a whole number that a double represents exactly, else the float."""
    return int(number) if number.is_integer() and abs(number) < _EXACT else number


def _count_codes(
    rows: NDArray[np.int64], codes: NDArray[np.integer[Any]], units: Units | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the codes that occur, and the number of units of each."""
    if not len(rows):
        return rows, rows
    those = rows if units is None else units[rows]
    width = int(those.max()) + 1
    # A pair of code and unit as one number: sorted, equal pairs are neighbours and count once.
    keys = np.sort(codes.astype(np.int64) * width + those)
    once = keys[np.append(True, keys[1:] != keys[:-1])]
    # keys // width is the code again.
    counts = np.bincount(once // width)
    present = np.flatnonzero(counts)
    return present, counts[present]


@dataclass(frozen=True, slots=True)
class FieldAggregate:
    """Values of a field with their record counts, the most frequent first."""

    total: int
    "Number of records that pass the filter and have the field."
    values: list[tuple[Scalar, int]]


def count_values(
    records: Iterable[Mapping[str, Any]],
    field: str,
    size: int = 10,
    include: str | None = None,
    exclude: str | None = None,
    fq: Node | None = None,
) -> FieldAggregate:
    """Count the values of a field over the records that pass a filter.

    A record counts once for each different value; in a category path each level is a value. `include` and
    `exclude` are regular expressions (`patterns`) over the whole value as text, booleans as `true` and `false`. They
    select among the values and do not change the total. Values with equal counts are ordered by text.

    Errors:
        NotFound: no record has the field, with or without the filter
        FilterSyntax: a bad `include` or `exclude`; fact `parameter` names it
    """
    included = _pattern("include", include)
    barred = _pattern("exclude", exclude)
    name = canonical_field(field)
    has_field = False
    total = 0
    counts: Counter[tuple[bool, Scalar]] = Counter()
    for record in records:
        if not has_value(record, name):
            continue
        has_field = True
        if fq is None or matches_filter(fq, record):
            total += 1
            # Python has `True == 1`, and one field may hold both.
            counts.update({(isinstance(leaf, bool), leaf) for leaf in collect_scalars(record, name)})
    if not has_field:
        raise NotFound(messages.FIELD_NOT_FOUND)
    texts = {key: _text(key[1]) for key in counts}
    chosen = [key for key, text in texts.items() if _is_chosen(text, included, barred)]
    chosen.sort(key=lambda key: (-counts[key], texts[key]))
    return FieldAggregate(total, [(key[1], counts[key]) for key in chosen[: max(size, 0)]])


def _pattern(parameter: str, text: str | None) -> Automaton | None:
    if text is None:
        return None
    try:
        return compile_regex(text)
    except FilterSyntax as error:
        raise FilterSyntax(error.message, **error.facts, parameter=parameter) from None


def _is_chosen(text: str, included: Automaton | None, barred: Automaton | None) -> bool:
    return (included is None or included.accepts(text)) and (barred is None or not barred.accepts(text))


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
