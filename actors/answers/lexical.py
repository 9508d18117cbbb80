"""BM25 over passages: postings as flat arrays that can be memory-mapped, and the exact best of them.

    terms    uint64 [t]      sorted
    starts   int64 [t + 1]   where the postings of a term begin
    rows     uint32 [p]      ascending within a term
    levels   uint8 [p]       what the term is worth in that passage, frequency and length already in it
    peaks    uint8 [t]       the largest of them

The worth of a term in a passage needs frequency, length and mean length, none of which changes any more, so it is
computed once and kept in 255 levels. How rare a term is changes with every upload and is multiplied in when asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.vectors.top import best_rows
from actors.vectors.types import Mask, Rows, Scores

K1, B = 1.2, 0.75
LEVELS = 255
_UNIT = (K1 + 1) / LEVELS
_LONG_LIST = 2_048
"Postings from which on it is worth asking whether they can still change the best."


@dataclass(frozen=True, slots=True)
class Tally:
    """Words counted, before anything is known of the mean length."""

    terms: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint8]
    "How often, at most 255."
    lengths: npt.NDArray[np.int32]
    "Terms in every passage."


@dataclass(frozen=True, slots=True)
class Postings:
    """See the drawing above."""

    terms: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.uint32]
    levels: npt.NDArray[np.uint8]
    peaks: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.int32]
    "int32 [n], terms in every passage."

    def __len__(self) -> int:
        """Count passages."""
        return len(self.lengths)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All arrays by name, for whoever writes them down."""
        return {
            name: getattr(self, name) for name in ("terms", "starts", "rows", "levels", "peaks", "lengths")
        }

    def spans(self, codes: Sequence[int]) -> list[tuple[int, int, int]]:
        """Find terms: number, first and last posting of each; an unknown one has none."""
        asked = np.array(codes, np.uint64)
        places = np.searchsorted(self.terms, asked)
        spans = []
        for code, place in zip(codes, places.tolist(), strict=True):
            if place < len(self.terms) and int(self.terms[place]) == code:
                spans.append((place, int(self.starts[place]), int(self.starts[place + 1])))
            else:
                spans.append((-1, 0, 0))
        return spans

    def best(self, weights: Mapping[int, float], k: int, allowed: Mask | None = None) -> tuple[Rows, Scores]:
        """Find the best passages, exactly.

        Terms are added from the weightiest on. As soon as those that are left can't lift any new passage among the
        best, only the candidates are looked up in them.

        Shapes:
            weights: term -> what it is worth at its highest level, rarity included
            allowed: bool [n]
            returns: int64 [m] and float32 [m], best first, m <= k
        Cost:
            300,000 passages: see tests/benchmarks/retrieval.py
        """
        lists = self._weighed(weights)
        left = np.cumsum([bound for bound, *_ in lists][::-1])[::-1].tolist() if lists else []
        sums = np.zeros(len(self), np.float32)
        seen: list[npt.NDArray[np.uint32]] = []
        for at, (_, lut, start, end) in enumerate(lists):
            if end - start > _LONG_LIST and seen:
                rows = _distinct(seen, sums, allowed)
                seen = [rows]
                if len(rows) >= k:
                    scores = sums[rows]
                    floor = float(np.partition(scores, len(scores) - k)[len(scores) - k])
                    if floor > left[at]:
                        rows = rows[scores > floor - left[at]]
                        return self._finish(rows, sums[rows], lists[at:], k)
            rows = self.rows[start:end]
            sums[rows] += lut[self.levels[start:end]]
            seen.append(rows)
        rows = _distinct(seen, sums, allowed)
        scores = sums[rows]
        top = best_rows(scores, k)
        return rows[top].astype(np.int64), scores[top]

    def score(self, weights: Mapping[int, float], rows: Rows) -> Scores:
        """Score given passages.

        Shapes:
            rows: int64 [m]
            returns: float32 [m]
        """
        order = np.argsort(rows, kind="stable")
        scores = np.zeros(len(rows), np.float32)
        scores[order] = self._added(
            rows[order].astype(np.uint32), np.zeros(len(rows), np.float32), self._weighed(weights)
        )
        return scores

    def _weighed(self, weights: Mapping[int, float]) -> list[tuple[float, Scores, int, int]]:
        """Bound, worth by level, first and last posting of every term that occurs; the weightiest first."""
        found = []
        codes = list(weights)
        levels = np.arange(LEVELS + 1, dtype=np.float32) * np.float32(_UNIT)
        for code, (term, start, end) in zip(codes, self.spans(codes), strict=True):
            if end > start:
                lut = levels * np.float32(weights[code])
                found.append((float(lut[self.peaks[term]]), lut, start, end))
        return sorted(found, key=lambda one: -one[0] / math.log2(2 + one[3] - one[2]))

    def _finish(self, rows: Any, scores: Scores, lists: Any, k: int) -> tuple[Rows, Scores]:
        scores = self._added(rows, scores, lists)
        top = best_rows(scores, k)
        return rows[top].astype(np.int64), scores[top]

    def _added(self, rows: Any, scores: Scores, lists: Sequence[tuple[float, Scores, int, int]]) -> Scores:
        """Look ascending rows up in lists and add what they are worth there."""
        for _, lut, start, end in lists:
            listed = self.rows[start:end]
            places = np.searchsorted(listed, rows)
            places[places == end - start] = 0
            here = listed[places] == rows
            scores = scores + np.where(here, lut[self.levels[start:end][places]], np.float32(0))
        return scores


def rarity(count: int, passages: int) -> float:
    """Weigh a term by how many passages hold it."""
    return math.log1p((passages - count + 0.5) / (count + 0.5))


def tally(passages: Iterable[Sequence[int]]) -> Tally:
    """Count the terms of passages.

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
    order = np.argsort(np.array(codes, np.uint64), kind="stable")
    sorted_codes, sorted_owners = np.array(codes, np.uint64)[order], owners[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (sorted_codes[1:] != sorted_codes[:-1]) | (sorted_owners[1:] != sorted_owners[:-1])
    places = np.flatnonzero(fresh)
    counts = np.diff(np.append(places, len(order)))
    terms, first = np.unique(sorted_codes[places], return_index=True)
    starts = np.append(first, len(places)).astype(np.int64)
    return Tally(terms, starts, sorted_owners[places], np.minimum(counts, 255).astype(np.uint8), sizes)


def joined(tallies: Sequence[Tally]) -> Tally:
    """Put tallies behind each other, as if their passages had been counted together."""
    parts = [(part.terms, part.starts, part.rows, part.counts, part.lengths) for part in tallies]
    terms, starts, rows, counts, lengths = _joined(parts)
    return Tally(terms, starts, rows, counts, lengths)


def merged(postings: Sequence[Postings]) -> Postings:
    """Put postings behind each other; what a term is worth in a passage stays as it was."""
    parts = [(part.terms, part.starts, part.rows, part.levels, part.lengths) for part in postings]
    terms, starts, rows, levels, lengths = _joined(parts)
    return Postings(terms, starts, rows, levels, _peaks(levels, starts), lengths)


def without(postings: Postings, keep: Mask) -> Postings:
    """Leave passages out; the others close up.

    Shapes:
        keep: bool [n]
    """
    kept = keep[postings.rows]
    places = (np.cumsum(keep) - 1).astype(np.uint32)
    counts = np.diff(np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[postings.starts])
    occurring = counts > 0
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[occurring])])
    levels = postings.levels[kept]
    return Postings(
        terms=postings.terms[occurring],
        starts=starts,
        rows=places[postings.rows[kept]],
        levels=levels,
        peaks=_peaks(levels, starts),
        lengths=postings.lengths[keep],
    )


def weigh(counted: Tally, mean_length: float) -> Postings:
    """Turn counts into worth, given how long passages are on average."""
    norm = K1 * (1 - B + B * counted.lengths / max(mean_length, 1.0))
    counts = counted.counts.astype(np.float32)
    worth = counts * np.float32(K1 + 1) / (counts + norm.astype(np.float32)[counted.rows])
    levels = np.clip(np.rint(worth / np.float32(_UNIT)), 1, LEVELS).astype(np.uint8)
    peaks = _peaks(levels, counted.starts)
    return Postings(counted.terms, counted.starts, counted.rows, levels, peaks, counted.lengths)


def _joined(parts: Sequence[tuple[Any, Any, Any, Any, Any]]) -> tuple[Any, Any, Any, Any, Any]:
    """Merge flat lists by term; every part's rows come behind those of the parts before."""
    terms = np.unique(np.concatenate([part[0] for part in parts]))
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
        target = np.repeat(filled[place] - part[1][:-1], counts) + np.arange(len(part[2]))
        rows[target] = part[2] + np.uint32(before)
        values[target] = part[3]
        filled[place] += counts
        before += len(part[4])
    return terms, starts, rows, values, np.concatenate([part[4] for part in parts])


def _peaks(levels: Any, starts: Any) -> npt.NDArray[np.uint8]:
    if not len(levels):
        return np.zeros(len(starts) - 1, np.uint8)
    peaks: npt.NDArray[np.uint8] = np.maximum.reduceat(levels, starts[:-1])
    return peaks


def _distinct(seen: Sequence[Any], sums: Scores, allowed: Mask | None) -> Any:
    """Rows that were touched, ascending, each once."""
    if sum(map(len, seen)) * 8 < len(sums):
        every = np.sort(np.concatenate([np.zeros(0, np.uint32), *seen]))
        rows = every[
            np.append(True, every[1:] != every[:-1])[: len(every)]
        ]  # np.unique takes ten times as long
    else:
        rows = np.flatnonzero(sums).astype(np.uint32)
    return rows if allowed is None else rows[allowed[rows]]
