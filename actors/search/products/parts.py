"""The parts of an index and which part speaks for a product: put, remove, seal, merge.

fresh    products that came last, as terms; made a small part when somebody asks
parts    sealed, never changed; many small ones are merged to a large one, in another thread
owner    by row: the part that has the product as it is now; older postings of it are skipped
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from actors.search.products.postings import Part, Text, merged, none, sealed
from actors.vectors.types import Mask, Rows, room_for

FRESH: Final = 0
_GONE: Final = -1
_SEAL: Final = 128
_ALIKE: Final = 6
"Parts of like size that are worth merging."
_DEAD: Final = 0.2
"Share of a part that may be out of date."


@dataclass(frozen=True, slots=True)
class Merged:
    """A part that can take the place of others."""

    part: Part
    of: tuple[int, ...]


class Parts:
    """Postings of all products, by parts. Rows are those of the catalog."""

    def __init__(self, seal: int = _SEAL) -> None:
        self.products = 0
        self._seal = seal
        self._parts: dict[int, Part] = {}
        self._dead: dict[int, int] = {}
        "How many products of each part are out of date."
        self._next = FRESH + 1
        self._owner = np.zeros(0, np.int32)
        self._rows = 0
        self._fresh: dict[int, Text] = {}
        self._fresh_part: Part | None = None

    def __len__(self) -> int:
        """Count parts."""
        return len(self._parts) + bool(self._fresh)

    @property
    def rows(self) -> int:
        """Count rows, those without a product included."""
        return self._rows

    @property
    def nbytes(self) -> int:
        """Memory held by postings."""
        return sum(part.nbytes for part in self._parts.values()) + self._owner.nbytes

    @property
    def alive(self) -> Mask:
        """Mark rows that have a product."""
        alive: Mask = np.not_equal(self._owner[: self._rows], _GONE)
        return alive

    def has(self, row: int) -> bool:
        """Is there a product at a row?"""
        return row < self._rows and int(self._owner[row]) != _GONE

    def put(self, text: Text) -> None:
        """Set a product, old or new."""
        self.remove(text.row)
        self._owner = room_for(self._owner, text.row + 1, _GONE)
        self._rows = max(self._rows, text.row + 1)
        self._owner[text.row] = FRESH
        self._fresh[text.row] = text
        self._fresh_part = None
        self.products += 1
        if len(self._fresh) >= self._seal:
            self._add(sealed(list(self._fresh.values())))
            self._fresh = {}

    def remove(self, row: int) -> None:
        """Take a product out."""
        if not self.has(row):
            return
        owner = int(self._owner[row])
        if owner == FRESH:
            del self._fresh[row]
            self._fresh_part = None
        else:
            self._dead[owner] += 1
        self._owner[row] = _GONE
        self.products -= 1

    def serving(self) -> Iterator[tuple[int, Part, bool]]:
        """Give every part: number, postings, and whether all of its products are as they are now."""
        for number, part in self._parts.items():
            yield number, part, not self._dead[number]
        if self._fresh:
            if self._fresh_part is None:
                self._fresh_part = sealed(list(self._fresh.values()))
            yield FRESH, self._fresh_part, True

    def owned_by(self, number: int, rows: npt.NDArray[Any]) -> Mask:
        """Mark rows that a part speaks for."""
        owned: Mask = np.equal(self._owner[rows], number)
        return owned

    # --- merging --------------------------------------------------------------------------------------------

    @property
    def wants_merging(self) -> bool:
        """Are there many parts of like size, or is one much out of date?"""
        return bool(self._worth_merging())

    def merging(self, *, every: bool = False) -> Callable[[], Merged]:
        """Give the work of merging parts, for another thread; changes meanwhile are kept."""
        numbers = tuple(self._parts) if every else self._worth_merging()
        parts = [self._parts[number] for number in numbers]
        owner = self._owner[: self._rows].copy()
        return lambda: Merged(
            merged(parts, [np.equal(owner, number) for number in numbers]) if parts else none(), numbers
        )

    def adopt(self, done: Merged) -> None:
        """Let a merged part serve in place of those it was made of."""
        if not done.of or any(number not in self._parts for number in done.of):
            return
        for number in done.of:
            del self._parts[number], self._dead[number]
        rows = done.part.owned.astype(np.int64)
        still = np.isin(self._owner[rows], done.of)
        number = self._add(done.part, rows[still])
        self._dead[number] = len(rows) - int(np.count_nonzero(still))

    def _add(self, part: Part, rows: Rows | None = None) -> int:
        number, self._next = self._next, self._next + 1
        self._parts[number], self._dead[number] = part, 0
        self._owner[part.owned if rows is None else rows] = number
        return number

    def _worth_merging(self) -> tuple[int, ...]:
        sizes: dict[int, list[int]] = {}
        for number, part in self._parts.items():
            if self._dead[number] > _DEAD * max(len(part), self._seal):
                return (number,)
            sizes.setdefault(_size_of(part, self._seal), []).append(number)
        alike: Sequence[int] = next((found for found in sizes.values() if len(found) >= _ALIKE), ())
        return tuple(alike)


def _size_of(part: Part, seal: int) -> int:
    """Name the size of a part: each is four times the one before."""
    return max(len(part) // seal, 1).bit_length() // 2
