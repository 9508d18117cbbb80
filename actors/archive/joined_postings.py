"""Joined postings of segments with several accesses that users often read together: one costs less than several.

Another thread joins them, and questions use the segments meanwhile. Both give the same passages and scores: postings
keep the passages that were removed, and documents and vectors stay with the segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from actors.archive.segment import PassageSegment
from actors.retrieval.lexical.joined_parts import CombinationUsage
from actors.retrieval.lexical.passage_postings import PassagePostings, merge_postings

Accesses = frozenset[str]
"Accesses of the passages that a question reads."

FREQUENT: Final = 8
"Questions to the same accesses after which their postings are joined."
MOST_PASSAGES: Final = 100_000
"""Passages in all joined postings of an app together, about 60 MB.

In a larger archive the segments cost little beside their postings.
"""
_LEAST_SHARE: Final = 0.05
"Share of the passages that a segment needs to be joined: it merges with later ones only when these are half as many."


@dataclass(frozen=True, slots=True)
class SegmentRun:
    """Postings of one segment, or the joined ones of several, in their order."""

    segments: tuple[PassageSegment, ...]
    postings: PassagePostings

    @classmethod
    def of(cls, segment: PassageSegment) -> SegmentRun:
        return cls((segment,), segment.postings)

    def begins(self, segments: Sequence[PassageSegment]) -> bool:
        """Return whether these are the first of some segments."""
        # By identity: a merge makes new segments, and this run numbers the rows of the old ones.
        return len(self.segments) <= len(segments) and all(
            mine is other for mine, other in zip(self.segments, segments, strict=False)
        )


def select_lasting(fixed: Sequence[PassageSegment], later: Sequence[PassageSegment]) -> list[PassageSegment]:
    """Return the segments that are never merged, and those of the later ones that merge seldom."""
    least = _LEAST_SHARE * sum(map(len, (*fixed, *later)))
    return [*fixed, *(segment for segment in later if len(segment) >= least)]


class JoinedPostings:
    """The joined postings of one library. One thread joins, any number of threads count and find."""

    def __init__(self) -> None:
        self._searches = CombinationUsage[Accesses](FREQUENT)
        self._runs: Mapping[Accesses, SegmentRun] = {}

    @property
    def nbytes(self) -> int:
        return sum(run.postings.nbytes for run in self._runs.values())

    def count(self, accesses: Accesses) -> None:
        """Count a question that read several segments which could be joined."""
        self._searches.count(accesses)

    def find(self, accesses: Accesses, segments: Sequence[PassageSegment]) -> SegmentRun | None:
        """Return the joined postings of the first of some segments; None while there are none."""
        run = self._runs.get(accesses)
        return run if run is not None and run.begins(segments) else None

    def list_frequent(self) -> list[Accesses]:
        """Return the accesses that are read often together."""
        return self._searches.list_frequent()

    def has_stale(self, segments: Iterable[PassageSegment]) -> bool:
        """Return whether segments of joined postings are no longer among those of the library."""
        return len(self._select_valid(segments)) < len(self._runs)

    def has_room(self, accesses: Accesses, segments: Sequence[PassageSegment]) -> bool:
        """Return whether joining some segments saves work and fits."""
        # A run of the same accesses is replaced, so it takes no room beside the new one.
        others = sum(len(run.postings) for key, run in self._runs.items() if key != accesses)
        return len(segments) > 1 and others + sum(map(len, segments)) <= MOST_PASSAGES

    def drop_stale(self, segments: Iterable[PassageSegment]) -> None:
        """Drop the postings of segments that were merged since."""
        self._runs = self._select_valid(segments)

    def join(self, accesses: Accesses, segments: Sequence[PassageSegment]) -> None:
        """Join the postings of segments.

        Cost:
            20 ms for 30,000 passages
        """
        # First: a join that fails is then tried again only after `FREQUENT` more questions.
        self._searches.forget(accesses)
        run = SegmentRun(tuple(segments), merge_postings([segment.postings for segment in segments]))
        # A new dict: questions in other threads read the old one without a lock.
        self._runs = {**self._runs, accesses: run}

    def _select_valid(self, segments: Iterable[PassageSegment]) -> Mapping[Accesses, SegmentRun]:
        # By identity: two segments with equal arrays are different ones.
        present = {id(segment) for segment in segments}
        return {
            accesses: run
            for accesses, run in self._runs.items()
            if all(id(segment) in present for segment in run.segments)
        }
