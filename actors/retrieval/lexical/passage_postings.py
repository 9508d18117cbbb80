"""Postings of passages: the score of a term in a passage in 255 levels, and the exact best passages of a query.

    levels   uint8 [p]   score of the term in the passage without its idf: 255 is k1 + 1
    peaks    uint8 [t]   the highest level of each term
    lengths  int32 [n]   terms in every passage

Frequency, length and mean length of a segment do not change, so the level is computed once. The idf changes with every
upload; `find_best` gets it in the weights.

Source:
    H. Turtle, J. Flood, Query evaluation: strategies and optimizations (1995), for the bounds of long lists
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from actors.retrieval.lexical.bm25 import K1, compute_length_norms, saturate_counts
from actors.retrieval.lexical.postings import (
    PassageTermCounts,
    Postings,
    find_positions,
    merge_lists,
    starts_of_kept,
)
from actors.vectors.row_selection import best_rows
from actors.vectors.types import Mask, Rows, Scores

_LEVELS = 255
_UNIT = (K1 + 1) / _LEVELS
_LONG_LIST = 8_192
"Number of postings from which it pays to check whether they can still change the best."
_LEADERS = 1_024
"Passages of a long list that are tried before all of it is added."
_ENTERED = 0.05
"Looking up more than this share of a list takes longer than an array with a place for every passage."
_REMEMBERED = 30_000
"Terms whose postings are remembered."
_NOWHERE = (-1, 0, 0)
_ZERO = np.zeros(1, np.int64)
_LAST_ROW = (1 << 32) - 1
_LEVEL_SCORES = np.arange(_LEVELS + 1, dtype=np.float32) * np.float32(_UNIT)

_List: TypeAlias = tuple[float, Scores, int, int]
"Bound, score by level, first and last posting."


@dataclass(frozen=True, slots=True)
class PassagePostings(Postings):
    """Postings of the passages of a segment. The arrays are drawn above."""

    levels: npt.NDArray[np.uint8]
    peaks: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.int32]
    _spans: dict[int, tuple[int, int, int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _leaders: dict[int, tuple[npt.NDArray[np.uint32], int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __len__(self) -> int:
        return len(self.lengths)

    def find_spans(self, codes: Sequence[int]) -> list[tuple[int, int, int]]:
        """Find terms: number, first and last posting of each; (-1, 0, 0) for an unknown one."""
        spans = self._spans
        fresh = [code for code in codes if code not in spans]
        if fresh:
            if len(spans) > _REMEMBERED:
                spans.clear()
                # The spans of this query that were known are cleared with the others.
                fresh = list(codes)
            places = np.searchsorted(self.terms, np.array(fresh, np.uint64)).tolist()
            for code, place in zip(fresh, places, strict=True):
                if place < len(self.terms) and int(self.terms[place]) == code:
                    spans[code] = (place, int(self.starts[place]), int(self.starts[place + 1]))
        return [spans.get(code, _NOWHERE) for code in codes]

    def find_best(
        self,
        weights: Mapping[int, float],
        k: int,
        allowed: Mask | None = None,
        *,
        step: float = 0.0,
    ) -> tuple[Rows, Scores]:
        """Find the exact best passages of weighted terms.

        Short lists are added up. If long lists can't lift a new passage among the best, only the candidates are looked
        up in them. Else the leaders of the long lists become candidates too. Whole long lists are added only if a
        passage behind the leaders could still be among the best.

        Shapes:
            weights: term -> idf times the weight of the term in the query
            allowed: bool [n]; None for all
            step: `find_step` of the weights, so that other postings of the same passages give the same result; 0
                for the plain scores, of which any of equal ones are returned
            returns: int64 [m] and float32 [m], best first, m <= k
        Cost:
            300,000 passages: see tests/benchmarks/retrieval.py
        """
        lists = self._bound_terms(weights, step)
        long = [postings for postings in lists if postings[3] - postings[2] > _LONG_LIST]
        short = [postings for postings in lists if postings[3] - postings[2] <= _LONG_LIST]
        if not short and long:
            short = long[:1]
            long = long[1:]
        rows, sums = _sum_by_row(
            [(self.rows[start:end], lut[self.levels[start:end]]) for _, lut, start, end in short]
        )
        if allowed is not None:
            inside = allowed[rows]
            rows = rows[inside]
            sums = sums[inside]
        left = sum(bound for bound, *_ in long)
        if left:
            floor = _kth_best(sums, k)
            # No passage outside the candidates can reach the k-th best, so long lists are only looked up.
            if floor > left:
                # A candidate below this can't reach the floor even with the bounds of all long lists.
                near = sums >= floor - left
                rows = rows[near]
                return _select_best(rows, self._add_list_scores(rows, sums[near], long), k, step)
            best = self._add_leaders(rows, sums, long, k, step) if allowed is None else None
            if best is not None:
                return best
            rows, sums = self._add_all_lists(rows, sums, long, allowed)
        return _select_best(rows, sums, k, step)

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

    def _bound_terms(self, weights: Mapping[int, float], step: float = 0.0) -> list[_List]:
        """Return bound, score by level, first and last posting of every term that occurs; the weightiest first.

        Scores are whole numbers of steps, if there is one.
        """
        lists = []
        codes = list(weights)
        for code, (term, start, end) in zip(codes, self.find_spans(codes), strict=True):
            if end > start:
                # A table of 256 scores for each term replaces a product for each posting.
                if step:
                    # Rounded up: a score of 0 would look like a passage without the term.
                    lut = np.ceil(_LEVEL_SCORES * np.float32(weights[code] / step))
                else:
                    lut = _LEVEL_SCORES * np.float32(weights[code])
                lists.append((float(lut[self.peaks[term]]), lut, start, end))
        # High bounds early, long lists late: the floor rises before the long lists are read.
        return sorted(lists, key=lambda postings: -postings[0] / math.log2(2 + postings[3] - postings[2]))

    def _add_leaders(
        self, rows: Any, sums: Scores, long: Sequence[_List], k: int, step: float
    ) -> tuple[Rows, Scores] | None:
        """Find the best among the candidates and the leaders of long lists; None if another one may be better."""
        leaders = [self._find_leaders(postings) for postings in long]
        behind = sum(float(lut[level]) for (_, lut, _, _), (_, level) in zip(long, leaders, strict=True))
        parts = [(rows, sums), *((led, np.zeros(len(led), np.float32)) for led, _ in leaders)]
        rows, sums = _sum_by_row(parts)
        floor = _kth_best(sums, k)
        near = sums + np.float32(sum(bound for bound, *_ in long)) >= floor
        rows = rows[near]
        scores = self._add_list_scores(rows, sums[near], long)
        # A passage behind all leaders has at most `behind`: it could still be better, or as good and come first.
        if _kth_best(scores, k) <= behind:
            return None
        return _select_best(rows, scores, k, step)

    def _find_leaders(self, postings: _List) -> tuple[npt.NDArray[np.uint32], int]:
        """Return the rows with the highest levels of a long list, ascending, and the highest level behind them."""
        _, _, start, end = postings
        leaders = self._leaders.get(start)
        if leaders is None:
            levels = self.levels[start:end]
            # One more than the leaders: the first of them has the highest level behind them.
            order = np.argpartition(levels, len(levels) - _LEADERS - 1)[len(levels) - _LEADERS - 1 :]
            places = np.sort(order[1:])
            leaders = self._leaders[start] = (self.rows[start:end][places], int(levels[order[0]]))
        return leaders

    def _add_all_lists(
        self, rows: Any, sums: Scores, long: Sequence[_List], allowed: Mask | None
    ) -> tuple[Any, Scores]:
        """Add whole lists."""
        totals = np.zeros(len(self), np.float32)
        totals[rows] = sums
        for _, lut, start, end in long:
            totals[self.rows[start:end]] += lut[self.levels[start:end]]
        if allowed is not None:
            totals[~allowed] = 0
        rows = np.flatnonzero(totals != 0)  # of floats it takes ten times as long
        return rows, totals[rows]

    def _add_list_scores(self, rows: Any, scores: Scores, lists: Sequence[_List]) -> Scores:
        """Look up ascending rows in lists and add the scores of the rows found."""
        for _, lut, start, end in lists:
            listed = self.rows[start:end]
            levels = self.levels[start:end]
            if len(rows) > _ENTERED * (end - start):
                row_levels = np.zeros(len(self), np.uint8)
                row_levels[listed] = levels
                scores = scores + lut[row_levels[rows]]
                continue
            places, is_listed = find_positions(listed, rows)
            scores = scores + np.where(is_listed, lut[levels[places]], np.float32(0))
        return scores


def build_postings(counted: PassageTermCounts, mean_length: float) -> PassagePostings:
    """Build postings from counts; `mean_length` is the number of terms of an average passage."""
    norms = compute_length_norms(counted.lengths, mean_length).astype(np.float32)
    scores = saturate_counts(counted.counts.astype(np.float32), norms[counted.rows], np.float32(K1 + 1))
    # At least 1: a posting of level 0 would look like a passage without the term.
    levels = np.clip(np.rint(scores / np.float32(_UNIT)), 1, _LEVELS).astype(np.uint8)
    peaks = _max_levels(levels, counted.starts)
    return PassagePostings(counted.terms, counted.starts, counted.rows, levels, peaks, counted.lengths)


def merge_postings(postings: Sequence[PassagePostings]) -> PassagePostings:
    """Merge postings; the passages of each come behind those before it, and levels stay as they are."""
    parts = [(part.terms, part.starts, part.rows, part.levels, part.lengths) for part in postings]
    terms, starts, rows, levels, lengths = merge_lists(parts)
    return PassagePostings(terms, starts, rows, levels, _max_levels(levels, starts), lengths)


def drop_passages(postings: PassagePostings, keep: Mask) -> PassagePostings:
    """Leave passages out; the others close up.

    Shapes:
        keep: bool [n]
    """
    kept = keep[postings.rows]
    places = (np.cumsum(keep) - 1).astype(np.uint32)
    counts = np.diff(starts_of_kept(postings.starts, kept))
    occurring = counts > 0
    starts = np.concatenate([_ZERO, np.cumsum(counts[occurring])])
    levels = postings.levels[kept]
    return PassagePostings(
        terms=postings.terms[occurring],
        starts=starts,
        rows=places[postings.rows[kept]],
        levels=levels,
        peaks=_max_levels(levels, starts),
        lengths=postings.lengths[keep],
    )


def _max_levels(levels: Any, starts: Any) -> npt.NDArray[np.uint8]:
    if not len(levels):
        return np.zeros(len(starts) - 1, np.uint8)
    peaks: npt.NDArray[np.uint8] = np.maximum.reduceat(levels, starts[:-1])
    return peaks


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
    rows = pairs[:, 1]
    scores = pairs[:, 0].copy().view(np.float32)
    firsts = np.flatnonzero(rows[1:] != rows[:-1])
    firsts += 1
    firsts = np.concatenate([_ZERO, firsts])
    return rows[firsts], np.add.reduceat(scores, firsts)


def find_step(weights: Mapping[int, float]) -> float:
    """Return a power of 2 for scores: float32 adds up whole numbers of it in any order without an error."""
    # No sum has more than 2^23 steps, and 1 for the rounding of each term; float32 is exact up to 2^24.
    _, exponent = math.frexp(sum(weights.values()) * (K1 + 1))
    return math.ldexp(1.0, exponent - 23)


def _select_best(rows: Any, scores: Scores, k: int, step: float) -> tuple[Rows, Scores]:
    """Return the best passages; with a step, the first ones of equal scores, which are whole numbers of steps."""
    if not step:
        top = best_rows(scores, k)
        return rows[top].astype(np.int64), scores[top]
    # Score and row in one number, the first row the highest: numbers are sorted faster than positions.
    keys = scores.astype(np.int64) << 32
    keys |= _LAST_ROW - rows.astype(np.int64)
    if len(keys) > k:
        keys = np.partition(keys, len(keys) - k)[len(keys) - k :]
    keys.sort()
    keys = keys[::-1]
    return _LAST_ROW - (keys & _LAST_ROW), (keys >> 32).astype(np.float32) * np.float32(step)


def _kth_best(scores: Scores, k: int) -> float:
    """Return the k-th best score; 0 when there are fewer."""
    return float(np.partition(scores, len(scores) - k)[len(scores) - k]) if len(scores) >= k else 0.0
