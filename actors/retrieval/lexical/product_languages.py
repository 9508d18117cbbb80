"""The languages of the products of an index, by row, with the number of products of each access that have one now.

An access is the number of a part of the index, 0 for open products.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from heapq import nsmallest

import numpy as np
import numpy.typing as npt

from actors.retrieval.lexical.snapshot_format import SavedIndex
from actors.vectors.types import Mask, Rows, ensure_capacity

AccessCodes = npt.NDArray[np.uint8]

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
        self._by_bit: defaultdict[int, list[int]] = defaultdict(lambda: [0] * (_MOST_BITS + 1))
        "By access: how many products have texts in the language of a bit."
        self._by_number: defaultdict[int, Counter[int]] = defaultdict(Counter)
        "By access: how many products have a main language."

    @property
    def nbytes(self) -> int:
        return self._row_bits.nbytes + self._main_numbers.nbytes

    def put(self, row: int, languages: Sequence[str], access: int = 0) -> None:
        """Set the languages of a row that has none: the main one first."""
        self._ensure_rows(row + 1)
        bits = 0
        # A set, because languages beyond the last bit share it, and the product counts once there.
        for bit in {self._bit(language) for language in languages}:
            bits |= 1 << bit
            self._by_bit[access][bit] += 1
        self._row_bits[row] = bits
        if languages:
            number = self._main_numbers[row] = self._number(languages[0])
            self._count_main(access, number, 1)

    def remove(self, row: int, access: int = 0) -> None:
        """Remove the languages of a row, of a product with an access."""
        if row >= len(self._row_bits):
            return
        bits = int(self._row_bits[row])
        while bits:
            # `bits & -bits` is the lowest bit, and `bits & bits - 1` clears it.
            self._by_bit[access][(bits & -bits).bit_length() - 1] -= 1
            bits &= bits - 1
        self._count_main(access, int(self._main_numbers[row]), -1)
        self._row_bits[row] = self._main_numbers[row] = 0

    def bind_rows(
        self, saved: SavedIndex, codes: Rows, rows: Rows, before: AccessCodes, after: AccessCodes
    ) -> None:
        """Set the languages of rows, with or without languages, to those of products of a snapshot.

        Shapes:
            codes: int64 [m], products of the snapshot; rows: int64 [m], each once; before, after: uint8 [m], accesses
        """
        self._ensure_rows(int(rows.max(initial=-1)) + 1)
        self._count(rows, before, -1)
        saved_bits = saved.language_bits[codes]
        bits = np.zeros(len(codes), np.uint64)
        # 256 places, because 255 means no language in a snapshot: its place stays 0.
        numbers = np.zeros(256, np.uint16)
        for at, name in enumerate(saved.languages[:64]):
            # All operands uint64: numpy has no shift for uint64 with a signed integer array.
            bits |= ((saved_bits >> np.uint64(at)) & np.uint64(1)) << np.uint64(self._bit(name))
            numbers[at] = self._number(name)
        self._row_bits[rows] = bits
        self._main_numbers[rows] = numbers[saved.main_language[codes]]
        self._count(rows, after, 1)

    def list_frequent(self, most: int, accesses: Iterable[int] = (0,)) -> list[str]:
        """Return the main languages of most products of some accesses; equally frequent ones in the order of names."""
        total: Counter[int] = Counter()
        for access in accesses:
            total.update(self._by_number[access])
        counts = [(-count, self._names[number]) for number, count in total.items()]
        return [name for _, name in nsmallest(most, counts)]

    def has_products(self, language: str, accesses: Iterable[int] = (0,)) -> bool:
        """Return whether a product of some accesses has texts in a language."""
        bit = self._bits.get(language[:2].lower())
        return bit is not None and any(self._by_bit[access][bit] for access in accesses)

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

    def _count(self, rows: Rows, accesses: AccessCodes, by: int) -> None:
        for access in np.unique(accesses).tolist():
            of_access = rows[accesses == access]
            bits = self._row_bits[of_access]
            for bit in set(self._bits.values()):
                count = int(np.count_nonzero((bits >> np.uint64(bit)) & np.uint64(1)))
                self._by_bit[access][bit] += by * count
            numbers, counts = np.unique(self._main_numbers[of_access], return_counts=True)
            for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
                self._count_main(access, number, by * count)

    def _count_main(self, access: int, number: int, by: int) -> None:
        if number:
            counts = self._by_number[access]
            counts[number] += by
            if not counts[number]:
                del counts[number]

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
