"""The languages of the products of an index, by row, with the number of products that have each now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import nsmallest

import numpy as np

from actors.retrieval.lexical.snapshot_format import SavedIndex
from actors.vectors.types import Mask, Rows, ensure_capacity

_MOST_BITS = 63
"Later languages share the last bit."
_MOST_NUMBERS = (1 << 16) - 1


class ProductLanguages:
    """Follows puts and removals, so that a language ends with its last product."""

    def __init__(self) -> None:
        self._row_bits = np.zeros(0, np.uint64)
        "By row: a bit for every language the product has texts in."
        self._main_numbers = np.zeros(0, np.uint16)
        "By row: number of the main language; 0 for none."
        self._bits: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._names = [""]
        self._products_by_bit = [0] * (_MOST_BITS + 1)
        self._products_by_number: Counter[int] = Counter()

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._row_bits.nbytes + self._main_numbers.nbytes

    def put(self, row: int, languages: Sequence[str]) -> None:
        """Set the languages of a row that has none: the main one first."""
        self._ensure_rows(row + 1)
        bits = 0
        for bit in {self._bit(language) for language in languages}:
            bits |= 1 << bit
            self._products_by_bit[bit] += 1
        self._row_bits[row] = bits
        if languages:
            number = self._main_numbers[row] = self._number(languages[0])
            self._count_main(number, 1)

    def remove(self, row: int) -> None:
        """Remove the languages of a row."""
        if row >= len(self._row_bits):
            return
        bits = int(self._row_bits[row])
        while bits:
            self._products_by_bit[(bits & -bits).bit_length() - 1] -= 1
            bits &= bits - 1
        self._count_main(int(self._main_numbers[row]), -1)
        self._row_bits[row] = self._main_numbers[row] = 0

    def bind_rows(self, saved: SavedIndex, codes: Rows, rows: Rows) -> None:
        """Set the languages of rows, with or without languages, to those of products of a snapshot.

        Shapes:
            codes: int64 [m], products of the snapshot; rows: int64 [m], each once
        """
        self._ensure_rows(int(rows.max(initial=-1)) + 1)
        self._count(rows, -1)
        saved_bits = saved.language_bits[codes]
        bits = np.zeros(len(codes), np.uint64)
        numbers = np.zeros(256, np.uint16)
        for at, name in enumerate(saved.languages[:64]):
            bits |= ((saved_bits >> np.uint64(at)) & np.uint64(1)) << np.uint64(self._bit(name))
            numbers[at] = self._number(name)
        self._row_bits[rows] = bits
        self._main_numbers[rows] = numbers[saved.main_language[codes]]
        self._count(rows, 1)

    def list_frequent(self, most: int) -> list[str]:
        """Return the main languages of most products; equally frequent ones in the order of their names."""
        counts = [(-count, self._names[number]) for number, count in self._products_by_number.items()]
        return [name for _, name in nsmallest(most, counts)]

    def summarize(self, marked: Mask, most: int) -> tuple[list[str], int]:
        """Return the main languages of most of the marked products, and the bits of all their languages.

        Shapes:
            marked: bool [n], by row
        """
        rows = np.flatnonzero(marked)
        numbers = np.bincount(self._main_numbers[rows])
        counts = [(-count, self._names[number]) for number, count in enumerate(numbers.tolist()) if count]
        frequent = [name for _, name in nsmallest(most, [entry for entry in counts if entry[1]])]
        return frequent, int(np.bitwise_or.reduce(self._row_bits[rows], initial=np.uint64(0)))

    def is_among(self, language: str, bits: int) -> bool:
        """Return whether a language is one of those of some bits."""
        bit = self._bits.get(language[:2].lower())
        return bit is not None and bool(bits >> bit & 1)

    def has_products(self, language: str) -> bool:
        """Return whether a product has texts in a language."""
        bit = self._bits.get(language[:2].lower())
        return bit is not None and bool(self._products_by_bit[bit])

    def select(self, language: str, rows: Rows) -> Mask:
        """Return which rows have texts in a language.

        Shapes:
            returns: bool [m]
        """
        bit = self._bits.get(language[:2].lower())
        if bit is None:
            return np.zeros(len(rows), np.bool_)
        flags: Mask = (self._row_bits[rows] >> np.uint64(bit)) & np.uint64(1) == 1
        return flags

    def _count(self, rows: Rows, by: int) -> None:
        bits = self._row_bits[rows]
        for bit in set(self._bits.values()):
            self._products_by_bit[bit] += by * int(np.count_nonzero((bits >> np.uint64(bit)) & np.uint64(1)))
        numbers, counts = np.unique(self._main_numbers[rows], return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self._count_main(number, by * count)

    def _count_main(self, number: int, by: int) -> None:
        if number:
            self._products_by_number[number] += by
            if not self._products_by_number[number]:
                del self._products_by_number[number]

    def _ensure_rows(self, count: int) -> None:
        self._row_bits = ensure_capacity(self._row_bits, count)
        self._main_numbers = ensure_capacity(self._main_numbers, count)

    def _bit(self, language: str) -> int:
        return self._bits.setdefault(language, min(len(self._bits) + 1, _MOST_BITS))

    def _number(self, language: str) -> int:
        number = self._numbers.get(language)
        if number is None:
            number = self._numbers[language] = min(len(self._numbers) + 1, _MOST_NUMBERS)
            if number == len(self._names):
                self._names.append(language)
        return number
