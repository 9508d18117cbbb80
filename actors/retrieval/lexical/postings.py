"""Postings: which texts have a term, as flat arrays that can be memory-mapped. Products and passages share them.

    terms    uint64 [t]      sorted
    starts   int64 [t + 1]   where the postings of a term begin
    rows     uint32 [p]      ascending within a term: the text of each posting

A kind of index adds arrays of the same length as `rows`: counts and fields of products, levels of passages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.vectors.row_selection import distinct_values
from actors.vectors.types import Mask, Rows


@dataclass(frozen=True, slots=True)
class Postings:
    """The arrays drawn above."""

    terms: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all arrays by name, as a snapshot stores them.

        Shapes:
            as in the fields of the class; no copies
        """
        return {each.name: getattr(self, each.name) for each in fields(self) if each.init}


def find_positions(values: npt.NDArray[Any], targets: npt.NDArray[Any]) -> tuple[Rows, Mask]:
    """Find values in a sorted array that is not empty.

    Shapes:
        values: [n], ascending, n > 0; targets: [m]
        returns: int64 [m], positions, 0 where a value is beyond the end; bool [m], True where the value is there
    """
    places = np.searchsorted(values, targets)
    # Any valid place will do: the comparison below says that the value is not there.
    places[places == len(values)] = 0
    return places, np.equal(values[places], targets)


def group_by_term(codes: Any) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Cut sorted postings by term.

    Shapes:
        codes: uint64 [p], ascending; returns: uint64 [t], the different terms, and int64 [t + 1], where each begins
    """
    # A term begins where its code differs from the one before; the first posting always does.
    first = np.ones(len(codes), np.bool_)
    first[1:] = codes[1:] != codes[:-1]
    places = np.flatnonzero(first)
    return codes[places], np.append(places, len(codes)).astype(np.int64)


def find_pair_starts(codes: Any, owners: Any) -> Rows:
    """Find where a new pair of term and text begins in occurrences that are sorted by term, then by text.

    Shapes:
        codes: uint64 [o]; owners: uint32 [o]; returns: int64 [p]
    """
    fresh = np.ones(len(codes), np.bool_)
    fresh[1:] = (codes[1:] != codes[:-1]) | (owners[1:] != owners[:-1])
    firsts: Rows = np.flatnonzero(fresh)
    return firsts


def starts_of_kept(starts: npt.NDArray[np.int64], kept: Mask) -> npt.NDArray[np.int64]:
    """Return where the postings of each term begin once only some postings are kept.

    Shapes:
        starts: int64 [t + 1]; kept: bool [p]; returns: int64 [t + 1], equal neighbours where a term lost all
    """
    new_starts: npt.NDArray[np.int64] = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[starts]
    return new_starts


@dataclass(frozen=True, slots=True)
class PassageTermCounts(Postings):
    """Counts of terms: see `Postings` for the first three arrays.

    Shapes:
        counts: uint8 [p], at most 255; lengths: int32 [n], terms in every passage
    """

    counts: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.int32]


def count_terms(passages: Iterable[Sequence[int]]) -> PassageTermCounts:
    """Count the terms of passages, each given as its terms in order.

    Cost:
        10 us a passage of 150 terms
    """
    lengths = []
    codes: list[int] = []
    for passage in passages:
        lengths.append(len(passage))
        codes += passage
    sizes = np.array(lengths, np.int32)
    owners = np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes)
    # Stable: the passages of a term stay ascending.
    order = np.argsort(np.array(codes, np.uint64), kind="stable")
    sorted_codes = np.array(codes, np.uint64)[order]
    sorted_owners = owners[order]
    pairs = find_pair_starts(sorted_codes, sorted_owners)
    # Occurrences of a pair stand together, so the distance to the next pair is its count.
    counts = np.diff(np.append(pairs, len(order)))
    terms, starts = group_by_term(sorted_codes[pairs])
    return PassageTermCounts(
        terms, starts, sorted_owners[pairs], np.minimum(counts, 255).astype(np.uint8), sizes
    )


def concatenate_counts(tallies: Sequence[PassageTermCounts]) -> PassageTermCounts:
    """Join counts as if their passages had been counted together, in that order."""
    parts = [(part.terms, part.starts, part.rows, part.counts, part.lengths) for part in tallies]
    terms, starts, rows, counts, lengths = merge_lists(parts)
    return PassageTermCounts(terms, starts, rows, counts, lengths)


def merge_lists(parts: Sequence[tuple[Any, Any, Any, Any, Any]]) -> tuple[Any, Any, Any, Any, Any]:
    """Merge lists of postings by term; the rows of each part come behind those of the parts before.

    Shapes:
        a part is terms uint64 [t], starts int64 [t + 1], rows uint32 [p], values uint8 [p], lengths int32 [n]
    Cost:
        linear in the postings, because no row of a part is below one of an earlier part
    """
    terms = distinct_values(np.concatenate([part[0] for part in parts]))
    places = [np.searchsorted(terms, part[0]) for part in parts]
    sizes = np.zeros(len(terms), np.int64)
    for part, place in zip(parts, places, strict=True):
        sizes[place] += np.diff(part[1])
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    rows = np.empty(int(starts[-1]), np.uint32)
    values = np.empty(int(starts[-1]), np.uint8)
    filled = starts[:-1].copy()
    before = 0
    for part, place in zip(parts, places, strict=True):
        counts = np.diff(part[1])
        # Place of each posting in the result: where its term is filled to, plus its place within the term.
        target = np.repeat(filled[place] - part[1][:-1], counts) + np.arange(len(part[2]))
        # Rows of a part count from 0; in the result they follow those of all parts before it.
        rows[target] = part[2] + np.uint32(before)
        values[target] = part[3]
        filled[place] += counts
        before += len(part[4])
    return terms, starts, rows, values, np.concatenate([part[4] for part in parts])
