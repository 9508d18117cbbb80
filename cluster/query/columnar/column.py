"""One field of all rows in filterable form: texts as codes, numbers as they are, booleans as two bits.

Plain arrays hold each row's first text and first number, one element for each row. Postings hold further values of
the same row, so a field with one value for each row has no cost for rows with many. The words of a text field
are all postings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cluster.query.columnar.arrays import GrowingArray
from cluster.query.columnar.dictionary import TextDictionary, mark_in_range
from cluster.query.columnar.postings import RowPostings
from cluster.query.language.automaton import Automaton
from cluster.query.language.scalars import Bounds, Measure, Scalar, number_of

Mask = NDArray[np.bool_]
"One boolean per row."

_TRUE = 1
_FALSE = 2
# Values up to which comparing the whole array for each is faster than a table of all texts.
_FEW = 4


class TextCodes(Protocol):
    """Texts by their codes."""

    def text(self, code: int) -> str:
        """Return the text of a code."""
        ...

    def like(self, pattern: Automaton) -> Mask:
        """Return the codes whose whole texts match a pattern.

        Shapes:
            bool [codes or more]
        """
        ...


@dataclass(frozen=True, slots=True)
class RowValuePairs:
    """Rows with their values, one pair for each value; a row may have one value twice.

    Shapes:
        texts: int64 [a] rows and [a] codes; numbers: int64 [b] rows and float64 [b]; true, false: int64 rows
    """

    texts: tuple[NDArray[np.int64], NDArray[np.int64]]
    numbers: tuple[NDArray[np.int64], NDArray[np.float64]]
    true: NDArray[np.int64]
    false: NDArray[np.int64]
    names: TextCodes
    "The texts of the codes."

    @classmethod
    def none(cls) -> RowValuePairs:
        rows = np.zeros(0, np.int64)
        return cls((rows, rows), (rows, np.zeros(0)), rows, rows, TextDictionary())


class FieldColumn:
    """Values of one field. Rows are set one at a time; a query covers all rows.

    Cost:
        setting a row 1 to 2 microseconds; a query 10 to 200 microseconds for 100,000 rows
    """

    def __init__(self, words: bool) -> None:
        self._words = words
        self._size = 0
        self._texts = TextDictionary()
        self._present = GrowingArray(np.bool_, False)
        self._flags = GrowingArray(np.uint8, 0)
        self._codes = GrowingArray(np.int32, -1)
        self._numbers = GrowingArray(np.float64, np.nan)
        self._more_codes = RowPostings()
        self._more_numbers = _NumberPostings()

    @property
    def nbytes(self) -> int:
        """Return the estimated memory in bytes."""
        parts = (
            self._present,
            self._flags,
            self._codes,
            self._numbers,
            self._more_codes,
            self._texts,
            self._more_numbers,
        )
        return sum(part.nbytes for part in parts)

    @property
    def allocated_slots(self) -> int:
        """Return the number of texts and slots ever allocated; unused ones stay until the column is rebuilt."""
        return len(self._texts) + self._more_codes.slots + self._more_numbers.allocated_slots

    def grow(self, size: int) -> None:
        """Extend the column to `size` rows; new rows are empty."""
        self._size = max(self._size, size)

    def set(self, row: int, carried: bool, values: Iterable[Scalar]) -> None:
        """Replace the values of a row; `carried` is whether the row counts as having the field."""
        codes: list[int] = []
        numbers: list[float] = []
        flags = 0
        for value in values:
            if isinstance(value, str):
                codes.append(self._texts.add(value))
            elif isinstance(value, bool):
                # Before the numbers, because `bool` is a subclass of `int`.
                flags |= _TRUE if value else _FALSE
            elif (number := number_of(value)) is not None:
                numbers.append(number)
        self._size = max(self._size, row + 1)
        # An array grows only for rows that have something: a rare field costs nothing for the rows behind.
        if carried or row < len(self._present):
            self._present.set(row, carried)
        if flags or row < len(self._flags):
            self._flags.set(row, flags)
        if self._words:
            self._more_codes.put(row, codes)
            return
        if codes or row < len(self._codes):
            self._codes.set(row, codes[0] if codes else -1)
        if numbers or row < len(self._numbers):
            self._numbers.set(row, numbers[0] if numbers else np.nan)
        # Also with a single value once postings exist: the row may have had further values before.
        if len(codes) > 1 or len(self._more_codes):
            self._more_codes.put(row, codes[1:])
        if len(numbers) > 1 or len(self._more_numbers):
            self._more_numbers.put(row, numbers[1:])

    def write_new_rows(self, start: int, cells: Sequence[tuple[bool, Sequence[Scalar]]]) -> None:
        """Write consecutive rows that are empty so far, each as for `set`.

        Cost:
            0.3 microseconds for each row with one value
        """
        run = _Run(start, len(cells), self._texts)
        for at, (_, values) in enumerate(cells):
            if values:
                run.add(at, values) if not self._words else run.add_words(at, values)
        self._size = max(self._size, start + len(cells))
        present = [carried for carried, _ in cells]
        # An array that ends before these rows needs no entry: rows behind its end count as empty.
        if any(present) or start < len(self._present):
            self._present.write(start, np.array(present, np.bool_))
        if any(run.flags) or start < len(self._flags):
            self._flags.write(start, np.array(run.flags, np.uint8))
        if run.has_codes or start < len(self._codes):
            self._codes.write(start, np.array(run.codes, np.int32))
        if run.has_numbers or start < len(self._numbers):
            self._numbers.write(start, np.array(run.numbers, np.float64))
        self._more_codes.write_new_rows(*run.more_codes)
        for row, numbers in run.more_numbers:
            self._more_numbers.put(row, numbers)

    def read_texts(self, *, moments: bool) -> None:
        """Parse new texts as numbers, or as dates and times, before the first query."""
        if not self._words:
            self._texts.read(moments=moments)

    def sort_pairs(self) -> None:
        """Sort the written rows before the first query."""
        self._more_codes.sort_pairs()
        self._more_numbers.sort_pairs()

    def present(self) -> Mask:
        """Return the rows that have the field.

        Shapes:
            bool [rows]
        """
        mask = np.zeros(self._size, dtype=np.bool_)
        mask[: len(self._present)] = self._present.filled
        return mask

    def equal(self, texts: Collection[str]) -> Mask:
        """Return the rows with a value that equals any of these texts.

        Shapes:
            bool [rows]
        """
        codes = {code for text in texts if (code := self._texts.find(text)) is not None}
        if len(codes) == 1 and self._is_plain():
            plain: Mask = self._codes.filled == codes.pop()
            return plain
        # One element more: row -1 of unused slots marks the last one, which is cut off below.
        mask = np.zeros(self._size + 1, dtype=np.bool_)
        self._mark_texts(codes, mask)
        if len(self._numbers):
            # The text "4.0" of a filter finds the number 4 of a record.
            numbers = {number for text in texts if (number := number_of(text)) is not None}
            self._mark_numbers(sorted(numbers), mask)
        if len(self._flags):
            bits = 0
            for text in texts:
                bits |= {"true": _TRUE, "false": _FALSE}.get(text.lower(), 0)
            mask[: len(self._flags)] |= (self._flags.filled & bits) != 0
        return mask[:-1]

    def between(self, bounds: Bounds) -> Mask:
        """Return the rows with a value within the bounds.

        Shapes:
            bool [rows]
        """
        # Freed slots of postings have the row -1, which is this one more entry.
        mask = np.zeros(self._size + 1, dtype=np.bool_)
        chosen = self._texts.between(bounds)
        if chosen is not None:
            self._mark_chosen(chosen, mask)
        if bounds.measure is Measure.NUMBER:
            mask[: len(self._numbers)] |= mark_in_range(self._numbers.filled, bounds)
            self._more_numbers.mark_between(bounds, mask)
        return mask[:-1]

    def like(self, pattern: Automaton) -> Mask:
        """Return the rows with a text that matches the pattern as a whole.

        Shapes:
            bool [rows]
        """
        mask = np.zeros(self._size + 1, dtype=np.bool_)
        self._mark_chosen(self._texts.like(pattern), mask)
        return mask[:-1]

    def first_numbers(self, *, moments: bool = False) -> NDArray[np.float64]:
        """Return one number for each row: its first number, else 1 or 0 for a boolean, else NaN.

        Shapes:
            float64 [rows]
        Units:
            with `moments` a text that is a date or time counts as milliseconds since 1970
        """
        first = np.full(self._size, np.nan)
        if moments and len(self._codes):
            codes = self._codes.filled
            # Code -1, of a row without a text, reads the NaN at the end.
            first[: len(codes)] = np.append(self._texts.moments(), np.nan)[codes]
        flags = self._flags.filled
        first[np.flatnonzero(flags & _TRUE)] = 1.0
        # Equal, not "and": a row with both values is true.
        first[np.flatnonzero(flags == _FALSE)] = 0.0
        numbers = self._numbers.filled
        numeric_rows = np.flatnonzero(~np.isnan(numbers))
        first[numeric_rows] = numbers[numeric_rows]
        return first

    def pairs(self, rows: Mask) -> RowValuePairs:
        """Return the values of marked rows; nothing for a text field, which stores only words.

        Shapes:
            rows bool [n]; rows beyond n are not marked
        """
        if self._words:
            return RowValuePairs.none()
        texts = _with_more(self._codes.filled, self._codes.filled >= 0, self._more_codes.pairs, rows)
        numbers = _with_more(
            self._numbers.filled, ~np.isnan(self._numbers.filled), self._more_numbers.pairs, rows
        )
        count = min(len(rows), len(self._flags))
        flags = np.where(rows[:count], self._flags.filled[:count], 0)
        return RowValuePairs(
            texts, numbers, np.flatnonzero(flags & _TRUE), np.flatnonzero(flags & _FALSE), self._texts
        )

    def _is_plain(self) -> bool:
        """Return whether every row has at most one value, a text, up to the last row."""
        others = len(self._more_codes) + len(self._numbers) + len(self._flags)
        return others == 0 and len(self._codes) == self._size

    def _mark_texts(self, codes: Collection[int], mask: Mask) -> None:
        if len(codes) > _FEW:
            chosen = np.zeros(len(self._texts) + 1, dtype=np.bool_)
            chosen[list(codes)] = True
            self._mark_chosen(chosen, mask)
            return
        for code in codes:
            if len(self._codes):
                mask[: len(self._codes)] |= self._codes.filled == code
            if len(self._more_codes):
                self._more_codes.mark(code, mask)

    def _mark_chosen(self, chosen: NDArray[np.bool_], mask: Mask) -> None:
        if len(self._codes):
            # Code -1 reads the last element of `chosen`, which is always False.
            mask[: len(self._codes)] |= chosen[self._codes.filled]
        if len(self._more_codes):
            self._more_codes.mark_chosen(chosen, mask)

    def _mark_numbers(self, values: list[float], mask: Mask) -> None:
        numbers = self._numbers.filled
        if len(values) > _FEW:
            mask[: len(numbers)] |= np.isin(numbers, values)
        else:
            for number in values:
                mask[: len(numbers)] |= numbers == number
        self._more_numbers.mark_equal(values, mask)


class _Run:
    """Consecutive rows to be written into a column: first values as arrays, further ones beside them."""

    def __init__(self, start: int, count: int, texts: TextDictionary) -> None:
        self.flags = [0] * count
        self.codes = [-1] * count
        self.numbers = [math.nan] * count
        self.has_codes = self.has_numbers = False
        self.more_codes: tuple[list[int], list[int], list[int]] = [], [], []
        "Rows, the number of codes of each, codes."
        self.more_numbers: list[tuple[int, list[float]]] = []
        self._start = start
        self._texts = texts
        self._code = texts.add

    def add_words(self, at: int, words: Sequence[Any]) -> None:
        self._add_more(at, self._texts.add_all(words))

    def _add_more(self, at: int, codes: list[int]) -> None:
        rows, counts, more = self.more_codes
        rows.append(self._start + at)
        counts.append(len(codes))
        more += codes

    def add(self, at: int, values: Sequence[Scalar]) -> None:
        first = values[0]
        if len(values) == 1:
            # nearly every row of nearly every field
            if isinstance(first, str):
                self.codes[at] = self._code(first)
                self.has_codes = True
                return
            # Finite only, because NaN marks rows without a number.
            if type(first) is float and math.isfinite(first):
                self.numbers[at] = first
                self.has_numbers = True
                return
        codes: list[int] = []
        numbers: list[float] = []
        for value in values:
            if isinstance(value, str):
                codes.append(self._code(value))
            elif isinstance(value, bool):
                self.flags[at] |= _TRUE if value else _FALSE
            elif (number := number_of(value)) is not None:
                numbers.append(number)
        if codes:
            self.codes[at] = codes[0]
            self.has_codes = True
        if numbers:
            self.numbers[at] = numbers[0]
            self.has_numbers = True
            if len(numbers) > 1:
                self.more_numbers.append((self._start + at, numbers[1:]))
        if len(codes) > 1:
            self._add_more(at, codes[1:])


def _with_more(
    first: NDArray[Any],
    has: Mask,
    more: Callable[[Mask], tuple[NDArray[np.int64], NDArray[Any]]],
    rows: Mask,
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Merge first and further values of marked rows."""
    count = min(len(rows), len(first))
    chosen = np.flatnonzero(rows[:count] & has[:count])
    further, values = more(rows)
    if not len(further):
        return chosen, first[chosen]
    return np.concatenate((chosen, further)), np.concatenate((first[chosen], values))


class _NumberPostings:
    """Further numbers of rows that have several; every number has a code."""

    def __init__(self) -> None:
        self._postings = RowPostings()
        self._values = GrowingArray(np.float64, np.nan)
        self._codes: dict[float, int] = {}

    @property
    def nbytes(self) -> int:
        return self._postings.nbytes + self._values.nbytes + 100 * len(self._codes)

    def __len__(self) -> int:
        return len(self._postings)

    @property
    def allocated_slots(self) -> int:
        return len(self._values) + self._postings.slots

    def put(self, row: int, numbers: list[float]) -> None:
        codes = []
        for number in numbers:
            code = self._codes.setdefault(number, len(self._codes))
            self._values.set(code, number)
            codes.append(code)
        self._postings.put(row, codes)

    def sort_pairs(self) -> None:
        self._postings.sort_pairs()

    def pairs(self, rows: Mask) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        owners, codes = self._postings.pairs(rows)
        return owners, self._values.filled[codes]

    def mark_equal(self, values: list[float], mask: Mask) -> None:
        for number in values:
            code = self._codes.get(number)
            if code is not None:
                self._postings.mark(code, mask)

    def mark_between(self, bounds: Bounds, mask: Mask) -> None:
        if len(self._postings):
            self._postings.mark_chosen(mark_in_range(self._values.filled, bounds), mask)
