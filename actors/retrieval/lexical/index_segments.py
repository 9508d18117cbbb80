"""The segments of the product index: put, remove, seal, merge, as log-structured merge trees do.

fresh      terms of the newest products; a query makes a small segment of them
segments   sealed, never changed; a thread merges several small ones into a larger one
owner      by row: the segment that has the newest record of the product; older postings of the row are skipped
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from actors.retrieval.lexical.postings import starts_of_kept
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
# Products of the fresh segment: building it takes 2 ms, which one of 128 changes pays.
_SEAL: Final = 128
_ALIKE: Final = 6
"Number of segments of similar size that are merged."
_STALE: Final = 0.2
"Share of the products of a segment that may be stale."
_STALE_MAPPED: Final = 0.5
"The same for a segment out of a snapshot, whose memory processes share."


@dataclass(frozen=True, slots=True)
class RowMapping:
    """The rows of the catalog at which the products of a snapshot's segment stand.

    Shapes:
        rows: int64 [h], by product of the segment, -1 for none; codes: int64 [r], by row, -1 for none
    """

    rows: Rows
    codes: Rows

    @classmethod
    def of(cls, rows: Rows) -> RowMapping:
        """Build both directions from one.

        Shapes:
            rows: int64 [h]
        """
        codes = np.full(int(rows.max(initial=-1)) + 1, -1, np.int64)
        mapped = np.flatnonzero(rows >= 0)
        codes[rows[mapped]] = mapped
        return cls(rows, codes)

    def codes_of(self, rows: Rows) -> Rows:
        """Find the products of rows, ascending.

        Shapes:
            rows: int64 [r]
            returns: int64 [m], m at most as many as rows
        """
        codes = self.codes[rows[rows < len(self.codes)]]
        mapped: Rows = np.sort(codes[codes >= 0])
        return mapped


@dataclass(frozen=True, slots=True)
class ActiveSegment:
    """A segment that queries read."""

    number: int
    segment: IndexSegment
    is_whole: bool
    "No product of it is stale."
    owner: npt.NDArray[np.int32]
    "By row: the number of the segment that has its newest record."
    row_mapping: RowMapping | None = None

    def owned(self, rows: Rows) -> Mask:
        """Mark rows whose newest record is in this segment.

        Shapes:
            rows: int64 [m], negative for none; returns: bool [m]
        """
        # `clip` makes negative rows valid indexes; the next line takes them out again.
        owned: Mask = np.equal(self.owner.take(rows, mode="clip"), self.number)
        owned &= (rows >= 0) & (rows < len(self.owner))
        return owned


@dataclass(frozen=True, slots=True)
class MergedSegment:
    """A segment that can replace others."""

    segment: IndexSegment
    replaces: tuple[int, ...]


class IndexSegments:
    """The postings of all products of an app. Rows are those of the catalog."""

    def __init__(self, seal: int = _SEAL) -> None:
        self.products = 0
        self._seal = seal
        self._segments: dict[int, IndexSegment] = {}
        self._mappings: dict[int, RowMapping] = {}
        self._stale_counts: dict[int, int] = {}
        "By segment: how many of its products are stale."
        self._next = FRESH + 1
        self._owner = np.zeros(0, np.int32)
        self._rows = 0
        self._fresh: dict[int, TermVector] = {}
        self._fresh_segment: IndexSegment | None = None

    @classmethod
    def join(
        cls, parts: Sequence[IndexSegments], seal: int = _SEAL
    ) -> tuple[IndexSegments, Callable[[], MergedSegment]]:
        """Return the segments of the products of several parts, and a function that merges them in another thread.

        The segments take changes at once. They have their postings when they have adopted the result.
        """
        joined = cls(seal)
        active = [segment for part in parts for segment in part.active_segments()]
        owner = np.full(max((part.rows for part in parts), default=0), _GONE, np.int32)
        for number, segment in enumerate(active):
            owner[np.flatnonzero(segment.owner[: len(owner)] == segment.number)] = number
        rows = np.flatnonzero(owner != _GONE)
        joined._owner = np.full(len(owner), _GONE, np.int32)
        joined._rows = len(owner)
        joined.products = len(rows)
        placeholder = joined._add(empty_segment(), rows)
        segments = {number: (each.segment, each.row_mapping) for number, each in enumerate(active)}
        return joined, lambda: MergedSegment(
            merge_segments({number: _map_rows(*each) for number, each in segments.items()}, owner),
            (placeholder,),
        )

    def __len__(self) -> int:
        return len(self._segments) + bool(self._fresh)

    @property
    def rows(self) -> int:
        """Count rows, those without a product included."""
        return self._rows

    @property
    def nbytes(self) -> int:
        return sum(segment.nbytes for segment in self._segments.values()) + self._owner.nbytes

    def has(self, row: int) -> bool:
        return row < self._rows and int(self._owner[row]) != _GONE

    def put(self, text: TermVector) -> None:
        """Set a product, old or new."""
        self.remove(text.row)
        self._owner = ensure_capacity(self._owner, text.row + 1, _GONE)
        self._rows = max(self._rows, text.row + 1)
        self._owner[text.row] = FRESH
        self._fresh[text.row] = text
        self._fresh_segment = None
        self.products += 1
        if len(self._fresh) >= self._seal:
            self._add(build_segment(list(self._fresh.values())))
            self._fresh = {}

    def remove(self, row: int) -> None:
        """Remove a product."""
        if not self.has(row):
            return
        owner = int(self._owner[row])
        if owner == FRESH:
            del self._fresh[row]
            self._fresh_segment = None
        else:
            self._stale_counts[owner] += 1
        self._owner[row] = _GONE
        self.products -= 1

    def bind_rows(self, segment: IndexSegment, rows: Rows) -> None:
        """Add the segment of a snapshot as the owner of some rows; earlier segments of these rows become
        stale.

        Shapes:
            rows: int64 [h], by product of the segment, -1 for a product that changed since
        """
        taken = rows[rows >= 0]
        self._owner = ensure_capacity(self._owner, int(taken.max(initial=-1)) + 1, _GONE)
        self._rows = max(self._rows, int(taken.max(initial=-1)) + 1)
        before = self._owner[taken]
        self.products += int(np.count_nonzero(before == _GONE))
        for row in taken[before == FRESH].tolist():
            del self._fresh[row]
            self._fresh_segment = None
        for number, count in zip(*np.unique(before[before > FRESH], return_counts=True), strict=True):
            self._stale_counts[int(number)] += int(count)
        number = self._next
        self._next = self._next + 1
        self._segments[number] = segment
        self._mappings[number] = RowMapping.of(rows)
        self._stale_counts[number] = len(segment) - len(taken)
        self._owner[taken] = number
        for old in [old for old, each in self._segments.items() if self._stale_counts[old] >= len(each)]:
            self._drop(old)

    def active_segments(self) -> Iterator[ActiveSegment]:
        """Yield every segment with the rows it owns."""
        for number, segment in self._segments.items():
            is_whole = not self._stale_counts[number]
            yield ActiveSegment(number, segment, is_whole, self._owner, self._mappings.get(number))
        if self._fresh:
            if self._fresh_segment is None:
                self._fresh_segment = build_segment(list(self._fresh.values()))
            yield ActiveSegment(FRESH, self._fresh_segment, True, self._owner)

    @property
    def needs_merge(self) -> bool:
        """Return whether there are many segments of similar size, or one is mostly stale."""
        return bool(self._select_for_merge())

    def plan_merge(self, *, every: bool = False) -> Callable[[], MergedSegment]:
        """Return a function that merges segments in another thread; later changes are kept.

        With `every`, no merge is needed afterwards: what a query counts then does not depend on when one ends.
        """
        numbers = (
            tuple(
                number
                for number, segment in self._segments.items()
                if number not in self._mappings or self._is_mostly_stale(number, segment)
            )
            if every
            else self._select_for_merge()
        )
        segments = {
            number: _map_rows(self._segments[number], self._mappings.get(number)) for number in numbers
        }
        # A copy: the merge runs in another thread, and changes go on here.
        owner = self._owner[: self._rows].copy()
        return lambda: MergedSegment(
            merge_segments(segments, owner) if segments else empty_segment(), numbers
        )

    def adopt(self, merged: MergedSegment) -> None:
        """Replace segments by the one they were merged into."""
        # A snapshot that was bound meanwhile may have dropped one: the merge is out of date then.
        if not merged.replaces or any(number not in self._segments for number in merged.replaces):
            return
        for number in merged.replaces:
            self._drop(number)
        rows = merged.segment.owned.astype(np.int64)
        # Products that changed during the merge have another owner by now.
        still = np.isin(self._owner[rows], merged.replaces)
        number = self._add(merged.segment, rows[still])
        self._stale_counts[number] = len(rows) - int(np.count_nonzero(still))

    def _drop(self, number: int) -> None:
        del self._segments[number], self._stale_counts[number]
        self._mappings.pop(number, None)

    def _add(self, segment: IndexSegment, rows: Rows | None = None) -> int:
        number = self._next
        self._next = self._next + 1
        self._segments[number] = segment
        self._stale_counts[number] = 0
        self._owner[segment.owned if rows is None else rows] = number
        return number

    def _is_mostly_stale(self, number: int, segment: IndexSegment) -> bool:
        if number in self._mappings:
            # processes share its memory pages, a merged copy would not be shared
            return self._stale_counts[number] > _STALE_MAPPED * len(segment)
        return self._stale_counts[number] > _STALE * max(len(segment), self._seal)

    def _select_for_merge(self) -> tuple[int, ...]:
        sizes: dict[int, list[int]] = {}
        for number, segment in self._segments.items():
            if self._is_mostly_stale(number, segment):
                return (number,)
            if number not in self._mappings:
                sizes.setdefault(_size_class(segment, self._seal), []).append(number)
        alike: Sequence[int] = next(
            (same_size for same_size in sizes.values() if len(same_size) >= _ALIKE), ()
        )
        return tuple(alike)


def _map_rows(segment: IndexSegment, mapping: RowMapping | None) -> IndexSegment:
    """Copy the segment of a snapshot with rows of the catalog; terms may lose all their postings."""
    if mapping is None:
        return segment
    rows = mapping.rows[segment.rows]
    kept = rows >= 0
    owned = mapping.rows[mapping.rows >= 0]
    return IndexSegment(
        segment.terms,
        starts_of_kept(segment.starts, kept),
        rows[kept].astype(np.uint32),
        segment.counts[kept],
        segment.fields[kept],
        np.sort(owned).astype(np.uint32),
    )


def _size_class(segment: IndexSegment, seal: int) -> int:
    """Compute the size class of a segment: each is four times as large as the one before."""
    # Two bits a class, so a class spans a factor of four.
    return max(len(segment) // seal, 1).bit_length() // 2
