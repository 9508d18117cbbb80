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

from actors.retrieval.lexical.product_postings import (
    IndexSegment,
    TermVector,
    build_segment,
    empty_segment,
    merge_segments,
)
from actors.vectors.types import Mask, Rows, ensure_capacity

FRESH: Final = 0
_GONE: Final = -1
_SEAL: Final = 128
_ALIKE: Final = 6
"Parts of like size that are worth merging."
_DEAD: Final = 0.2
"Share of a part that may be out of date."
_DEAD_LAID: Final = 0.5


@dataclass(frozen=True, slots=True)
class RowMapping:
    """Which rows the products of a part that was made elsewhere stand at.

    Shapes:
        rows: int64 [h], by product of the part, -1 for none; codes: int64 [r], by row, -1 for none
    """

    rows: Rows
    codes: Rows

    @classmethod
    def of(cls, rows: Rows) -> RowMapping:
        """Make both ways of one."""
        codes = np.full(int(rows.max(initial=-1)) + 1, -1, np.int64)
        here = np.flatnonzero(rows >= 0)
        codes[rows[here]] = here
        return cls(rows, codes)

    def codes_of(self, rows: Rows) -> Rows:
        """Find the products that stand at rows, ascending.

        Shapes:
            returns: int64 [m], m at most as many as rows
        """
        codes = self.codes[rows[rows < len(self.codes)]]
        found: Rows = np.sort(codes[codes >= 0])
        return found


@dataclass(frozen=True, slots=True)
class ActiveSegment:
    """A part that is asked."""

    number: int
    segment: IndexSegment
    whole: bool
    "Are all of its products as they are now?"
    row_mapping: RowMapping | None = None


@dataclass(frozen=True, slots=True)
class MergedSegment:
    """A part that can take the place of others."""

    segment: IndexSegment
    replaces: tuple[int, ...]


class IndexSegments:
    """Postings of all products, by parts. Rows are those of the catalog."""

    def __init__(self, seal: int = _SEAL) -> None:
        self.products = 0
        self._seal = seal
        self._parts: dict[int, IndexSegment] = {}
        self._lays: dict[int, RowMapping] = {}
        self._dead: dict[int, int] = {}
        "How many products of each part are out of date."
        self._next = FRESH + 1
        self._owner = np.zeros(0, np.int32)
        self._rows = 0
        self._fresh: dict[int, TermVector] = {}
        self._fresh_part: IndexSegment | None = None

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

    def put(self, text: TermVector) -> None:
        """Set a product, old or new."""
        self.remove(text.row)
        self._owner = ensure_capacity(self._owner, text.row + 1, _GONE)
        self._rows = max(self._rows, text.row + 1)
        self._owner[text.row] = FRESH
        self._fresh[text.row] = text
        self._fresh_part = None
        self.products += 1
        if len(self._fresh) >= self._seal:
            self._add(build_segment(list(self._fresh.values())))
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

    def bind_rows(self, part: IndexSegment, rows: Rows) -> None:
        """Let a part that was made elsewhere speak for rows; what they had here is out of date.

        Shapes:
            rows: int64 [h], by product of the part, -1 for those that are not as the part has them
        """
        taken = rows[rows >= 0]
        self._owner = ensure_capacity(self._owner, int(taken.max(initial=-1)) + 1, _GONE)
        self._rows = max(self._rows, int(taken.max(initial=-1)) + 1)
        before = self._owner[taken]
        self.products += int(np.count_nonzero(before == _GONE))
        for row in taken[before == FRESH].tolist():
            del self._fresh[row]
            self._fresh_part = None
        for number, count in zip(*np.unique(before[before > FRESH], return_counts=True), strict=True):
            self._dead[int(number)] += int(count)
        number, self._next = self._next, self._next + 1
        self._parts[number], self._lays[number] = part, RowMapping.of(rows)
        self._dead[number] = len(part) - len(taken)
        self._owner[taken] = number
        for old in [old for old, each in self._parts.items() if self._dead[old] >= len(each)]:
            self._drop(old)

    def active_segments(self) -> Iterator[ActiveSegment]:
        """Give every part."""
        for number, part in self._parts.items():
            yield ActiveSegment(number, part, not self._dead[number], self._lays.get(number))
        if self._fresh:
            if self._fresh_part is None:
                self._fresh_part = build_segment(list(self._fresh.values()))
            yield ActiveSegment(FRESH, self._fresh_part, True)

    def owned_by(self, number: int, rows: npt.NDArray[Any]) -> Mask:
        """Mark rows that a part speaks for."""
        owned: Mask = np.equal(self._owner[rows], number)
        return owned

    # --- merging --------------------------------------------------------------------------------------------

    @property
    def needs_merge(self) -> bool:
        """Are there many parts of like size, or is one much out of date?"""
        return bool(self._worth_merging())

    def plan_merge(self, *, every: bool = False) -> Callable[[], MergedSegment]:
        """Give the work of merging parts, for another thread; changes meanwhile are kept."""
        numbers = (
            tuple(number for number in self._parts if number not in self._lays)
            if every
            else self._worth_merging()
        )
        parts = [_plain(self._parts[number], self._lays.get(number)) for number in numbers]
        owner = self._owner[: self._rows].copy()
        return lambda: MergedSegment(
            merge_segments(parts, [np.equal(owner, number) for number in numbers])
            if parts
            else empty_segment(),
            numbers,
        )

    def adopt(self, done: MergedSegment) -> None:
        """Let a merged part serve in place of those it was made of."""
        if not done.replaces or any(number not in self._parts for number in done.replaces):
            return
        for number in done.replaces:
            self._drop(number)
        rows = done.segment.owned.astype(np.int64)
        still = np.isin(self._owner[rows], done.replaces)
        number = self._add(done.segment, rows[still])
        self._dead[number] = len(rows) - int(np.count_nonzero(still))

    def _drop(self, number: int) -> None:
        del self._parts[number], self._dead[number]
        self._lays.pop(number, None)

    def _add(self, part: IndexSegment, rows: Rows | None = None) -> int:
        number, self._next = self._next, self._next + 1
        self._parts[number], self._dead[number] = part, 0
        self._owner[part.owned if rows is None else rows] = number
        return number

    def _worth_merging(self) -> tuple[int, ...]:
        sizes: dict[int, list[int]] = {}
        for number, part in self._parts.items():
            if number in self._lays:
                # its pages are shared: worth more than a little order
                if self._dead[number] > _DEAD_LAID * len(part):
                    return (number,)
                continue
            if self._dead[number] > _DEAD * max(len(part), self._seal):
                return (number,)
            sizes.setdefault(_size_of(part, self._seal), []).append(number)
        alike: Sequence[int] = next((found for found in sizes.values() if len(found) >= _ALIKE), ())
        return tuple(alike)


def _plain(part: IndexSegment, lay: RowMapping | None) -> IndexSegment:
    """Bring a part that was made elsewhere to the rows here."""
    if lay is None:
        return part
    rows = lay.rows[part.rows]
    here = rows >= 0
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(here)])
    owned = lay.rows[lay.rows >= 0]
    return IndexSegment(
        part.terms,
        before[part.starts],
        rows[here].astype(np.uint32),
        part.counts[here],
        part.fields[here],
        np.sort(owned).astype(np.uint32),
    )


def _size_of(part: IndexSegment, seal: int) -> int:
    """Name the size of a part: each is four times the one before."""
    return max(len(part) // seal, 1).bit_length() // 2
