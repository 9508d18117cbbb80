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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from actors.vectors.top import best_rows
from actors.vectors.types import Mask, Rows, Scores

K1, B = 1.2, 0.75
LEVELS = 255
UNIT = (K1 + 1) / LEVELS
_LONG_LIST = 8_192
"Postings from which on it is worth asking whether they can still change the best."
_LEADERS = 1_024
"Passages of a long list that are tried before all of it is added."
_ENTERED = 0.05
"Looking up more than this share of a list takes longer than writing all of it where every passage has a place."
_REMEMBERED = 30_000
"Terms whose places are remembered."
_NOWHERE = (-1, 0, 0)
_ZERO = np.zeros(1, np.int64)
_STEPS = np.arange(LEVELS + 1, dtype=np.float32) * np.float32(UNIT)

_List: TypeAlias = tuple[float, Scores, int, int]
"Bound, worth by level, first and last posting."


@dataclass(frozen=True, slots=True)
class PassagePostings:
    """See the drawing above."""

    terms: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.uint32]
    levels: npt.NDArray[np.uint8]
    peaks: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.int32]
    "int32 [n], terms in every passage."
    _spans: dict[int, tuple[int, int, int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _leaders: dict[int, tuple[npt.NDArray[np.uint32], int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

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

    def find_spans(self, codes: Sequence[int]) -> list[tuple[int, int, int]]:
        """Find terms: number, first and last posting of each; an unknown one has none."""
        known = self._spans
        fresh = [code for code in codes if code not in known]
        if fresh:
            if len(known) > _REMEMBERED:
                known.clear()
                fresh = list(codes)
            places = np.searchsorted(self.terms, np.array(fresh, np.uint64)).tolist()
            for code, place in zip(fresh, places, strict=True):
                if place < len(self.terms) and int(self.terms[place]) == code:
                    known[code] = (place, int(self.starts[place]), int(self.starts[place + 1]))
        return [known.get(code, _NOWHERE) for code in codes]

    def find_best(
        self, weights: Mapping[int, float], k: int, allowed: Mask | None = None
    ) -> tuple[Rows, Scores]:
        """Find the best passages, exactly.

        Short lists are added up. When long ones can't lift any new passage among the best, only the candidates are
        looked up in them; when they can, the passages they say most about become candidates too, and only if even
        the next of them could still come among the best everything is added.

        Shapes:
            weights: term -> what it is worth at its highest level, rarity included
            allowed: bool [n]
            returns: int64 [m] and float32 [m], best first, m <= k
        Cost:
            300,000 passages: see tests/benchmarks/retrieval.py
        """
        lists = self._bound_terms(weights)
        long = [one for one in lists if one[3] - one[2] > _LONG_LIST]
        short = [one for one in lists if one[3] - one[2] <= _LONG_LIST]
        if not short and long:
            short, long = long[:1], long[1:]
        rows, sums = _sum_by_row(
            [(self.rows[start:end], lut[self.levels[start:end]]) for _, lut, start, end in short]
        )
        if allowed is not None:
            inside = allowed[rows]
            rows, sums = rows[inside], sums[inside]
        left = sum(bound for bound, *_ in long)
        if left:
            floor = _kth_best(sums, k)
            if floor > left:
                near = sums > floor - left
                return self._select_top(rows[near], sums[near], long, k)
            found = self._add_leaders(rows, sums, long, k) if allowed is None else None
            if found is not None:
                return found
            rows, sums = self._add_all_lists(rows, sums, long, allowed)
        top = best_rows(sums, k)
        return rows[top].astype(np.int64), sums[top]

    def score(self, weights: Mapping[int, float], rows: Rows) -> Scores:
        """Score given passages.

        Shapes:
            rows: int64 [m]
            returns: float32 [m]
        """
        order = np.argsort(rows, kind="stable")
        scores = np.zeros(len(rows), np.float32)
        scores[order] = self._add_list_scores(
            rows[order].astype(np.uint32), np.zeros(len(rows), np.float32), self._bound_terms(weights)
        )
        return scores

    def _bound_terms(self, weights: Mapping[int, float]) -> list[_List]:
        """Bound, worth by level, first and last posting of every term that occurs; the weightiest first."""
        found = []
        codes = list(weights)
        for code, (term, start, end) in zip(codes, self.find_spans(codes), strict=True):
            if end > start:
                lut = _STEPS * np.float32(weights[code])
                found.append((float(lut[self.peaks[term]]), lut, start, end))
        return sorted(found, key=lambda one: -one[0] / math.log2(2 + one[3] - one[2]))

    def _add_leaders(
        self, rows: Any, sums: Scores, long: Sequence[_List], k: int
    ) -> tuple[Rows, Scores] | None:
        """Try with the leaders of long lists as further candidates; None when a passage behind them may be better."""
        leaders = [self._find_leaders(one) for one in long]
        behind = sum(float(lut[level]) for (_, lut, _, _), (_, level) in zip(long, leaders, strict=True))
        parts = [(rows, sums), *((led, np.zeros(len(led), np.float32)) for led, _ in leaders)]
        rows, sums = _sum_by_row(parts)
        floor = _kth_best(sums, k)
        near = sums + np.float32(sum(bound for bound, *_ in long)) >= floor
        rows = rows[near]
        scores = self._add_list_scores(rows, sums[near], long)
        if _kth_best(scores, k) < behind:
            return None
        top = best_rows(scores, k)
        return rows[top].astype(np.int64), scores[top]

    def _find_leaders(self, one: _List) -> tuple[npt.NDArray[np.uint32], int]:
        """Rows a long list says most about, ascending, and the highest level behind them; remembered."""
        _, _, start, end = one
        found = self._leaders.get(start)
        if found is None:
            levels = self.levels[start:end]
            order = np.argpartition(levels, len(levels) - _LEADERS - 1)[len(levels) - _LEADERS - 1 :]
            places = np.sort(order[1:])
            found = self._leaders[start] = (self.rows[start:end][places], int(levels[order[0]]))
        return found

    def _add_all_lists(
        self, rows: Any, sums: Scores, long: Sequence[_List], allowed: Mask | None
    ) -> tuple[Any, Scores]:
        """Add whole lists."""
        every = np.zeros(len(self), np.float32)
        every[rows] = sums
        for _, lut, start, end in long:
            every[self.rows[start:end]] += lut[self.levels[start:end]]
        if allowed is not None:
            every[~allowed] = 0
        rows = np.flatnonzero(every != 0)  # of floats it takes ten times as long
        return rows, every[rows]

    def _select_top(self, rows: Any, scores: Scores, lists: Sequence[_List], k: int) -> tuple[Rows, Scores]:
        scores = self._add_list_scores(rows, scores, lists)
        top = best_rows(scores, k)
        return rows[top].astype(np.int64), scores[top]

    def _add_list_scores(self, rows: Any, scores: Scores, lists: Sequence[_List]) -> Scores:
        """Look ascending rows up in lists and add what they are worth there."""
        for _, lut, start, end in lists:
            listed, levels = self.rows[start:end], self.levels[start:end]
            if len(rows) > _ENTERED * (end - start):
                every = np.zeros(len(self), np.uint8)
                every[listed] = levels
                scores = scores + lut[every[rows]]
                continue
            places = np.searchsorted(listed, rows)
            places[places == end - start] = 0
            here = listed[places] == rows
            scores = scores + np.where(here, lut[levels[places]], np.float32(0))
        return scores


def compute_idf(count: int, passages: int) -> float:
    """Weigh a term by how many passages hold it."""
    return math.log1p((passages - count + 0.5) / (count + 0.5))


def _sum_by_row(parts: Sequence[tuple[Any, Scores]]) -> tuple[Any, Scores]:
    """Add scores by row; rows come out ascending, each once."""
    if not parts:
        return np.zeros(0, np.uint32), np.zeros(0, np.float32)
    if len(parts) == 1:
        return parts[0]
    # row and score in one number: sorting plain numbers is many times faster than np.unique
    keys = np.concatenate([rows for rows, _ in parts]).astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= np.concatenate([scores for _, scores in parts]).view(np.uint32)
    keys.sort()
    pairs = keys.view(np.uint32).reshape(-1, 2)  # little-endian: score, row
    rows, scores = pairs[:, 1], pairs[:, 0].copy().view(np.float32)
    firsts = np.flatnonzero(rows[1:] != rows[:-1])
    firsts += 1
    firsts = np.concatenate([_ZERO, firsts])
    return rows[firsts], np.add.reduceat(scores, firsts)


def _kth_best(scores: Scores, k: int) -> float:
    """The k-th best; 0 when there are fewer."""
    return float(np.partition(scores, len(scores) - k)[len(scores) - k]) if len(scores) >= k else 0.0
