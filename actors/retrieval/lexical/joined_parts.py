"""Joined copies of parts of the index, for users who often search the same ones: one part costs less than several.

Another thread joins the postings. Searches use the parts meanwhile, and both give the same hits and scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from actors.retrieval.lexical.index_segments import IndexSegments, MergedSegment
from actors.retrieval.lexical.product_access import IndexPart
from actors.retrieval.lexical.product_postings import TermVector

PartCodes = tuple[int, ...]
"Codes of the accesses whose products a query searches."

Combination = TypeVar("Combination", bound=Hashable)

FREQUENT: Final = 32
"Searches of the same parts after which they are joined."
MOST_PRODUCTS: Final = 100_000
"""Products in all joined copies together, about 40 MB. The first ones stay until the next snapshot.

In a larger index the parts cost little beside their postings.
"""
_MOST_COUNTED: Final = 256
"Sets of parts whose searches are counted."


class CombinationUsage(Generic[Combination]):
    """How often combinations of parts were searched that are not joined."""

    def __init__(self, frequent: int = FREQUENT) -> None:
        self._frequent = frequent
        self._searches: Counter[Combination] = Counter()

    def count(self, combination: Combination) -> None:
        # Clients choose the tiers of a query, so the number of combinations must be bounded.
        if len(self._searches) >= _MOST_COUNTED:
            self._searches.clear()
        self._searches[combination] += 1

    def list_frequent(self) -> list[Combination]:
        """Return the combinations that are worth a copy."""
        # A copy, since another thread may count meanwhile.
        return [combination for combination, count in list(self._searches.items()) if count >= self._frequent]

    def forget(self, combination: Combination) -> None:
        """Count a combination from 0 again."""
        self._searches.pop(combination, None)

    def clear(self) -> None:
        self._searches.clear()


@dataclass(slots=True)
class JoinedPart:
    """The postings of several parts, and whether they are complete."""

    segments: IndexSegments
    is_ready: bool = False


JoinedMerge = tuple[JoinedPart, Callable[[], MergedSegment]]
"A joined copy, and a function that merges its postings in another thread."


class JoinedParts:
    """The joined copies of one index. Every change of a part is made in its copies, too."""

    def __init__(self, seal: int, parts: Mapping[int, IndexPart]) -> None:
        self._seal = seal
        self._parts = parts
        self._searches = CombinationUsage[PartCodes]()
        self._joined: dict[PartCodes, JoinedPart] = {}

    @property
    def nbytes(self) -> int:
        return sum(joined.segments.nbytes for joined in self._joined.values())

    def list_ready(self) -> list[IndexSegments]:
        """Return the copies that are complete."""
        return [joined.segments for joined in self._joined.values() if joined.is_ready]

    def find(self, codes: PartCodes) -> IndexSegments | None:
        """Return the joined postings of some parts; None while there are none. It counts the searches."""
        joined = self._joined.get(codes)
        if joined is not None:
            return joined.segments if joined.is_ready else None
        self._searches.count(codes)
        return None

    def put(self, code: int, text: TermVector) -> None:
        """Set a product of a part."""
        for codes, joined in self._joined.items():
            if code in codes:
                # Also in a copy that is not ready: `adopt` keeps what changed while a thread merged.
                joined.segments.put(text)

    def remove(self, code: int, row: int) -> None:
        """Remove a product of a part."""
        for codes, joined in self._joined.items():
            if code in codes:
                joined.segments.remove(row)

    def clear(self) -> None:
        self._joined.clear()
        self._searches.clear()

    @property
    def needs_rebuild(self) -> bool:
        """Return whether parts should be joined, or segments of a copy be merged."""
        return bool(self._list_frequent()) or any(
            joined.is_ready and joined.segments.needs_merge for joined in self._joined.values()
        )

    def plan_rebuild(self, *, every: bool = False) -> list[JoinedMerge]:
        """Return the work of joining and merging for another thread; later changes are kept."""
        # One rebuild runs at a time: that of a copy that is not ready has failed.
        self._joined = {codes: joined for codes, joined in self._joined.items() if joined.is_ready}
        merges: list[JoinedMerge] = [
            (joined, joined.segments.plan_merge(every=every))
            for joined in self._joined.values()
            if joined.is_ready and (every or joined.segments.needs_merge)
        ]
        for codes in self._list_frequent()[:1]:
            segments, merge = IndexSegments.join(self._segments_of(codes), self._seal)
            self._searches.forget(codes)
            joined = self._joined[codes] = JoinedPart(segments)
            merges.append((joined, merge))
        return merges

    @staticmethod
    def adopt(joined: JoinedPart, merged: MergedSegment) -> None:
        """Serve what another thread merged."""
        joined.segments.adopt(merged)
        joined.is_ready = True

    def _list_frequent(self) -> list[PartCodes]:
        """Return the sets of parts that are worth a copy and fit."""
        left = MOST_PRODUCTS - sum(joined.segments.products for joined in self._joined.values())
        return [
            codes
            for codes in self._searches.list_frequent()
            if sum(part.products for part in self._segments_of(codes)) <= left
        ]

    def _segments_of(self, codes: PartCodes) -> Sequence[IndexSegments]:
        return [self._parts[code].segments for code in codes]
