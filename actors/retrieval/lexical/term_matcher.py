"""Products that have the terms of a query, and their BM25 scores, over all segments of the index at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from actors.retrieval.lexical.bm25 import K1, compute_idf, saturate_counts
from actors.retrieval.lexical.index_segments import ActiveSegment, IndexSegments
from actors.retrieval.lexical.postings import find_positions
from actors.retrieval.lexical.product_postings import IndexSegment
from actors.retrieval.lexical.query_terms import TermAlternatives
from actors.vectors.types import Floats, Mask, Rows

_REQUIRED_TERM: Final = float(1 << 20)
"Added once for every required group, so that one sum holds both the score and the count of groups."
# Postings of a term from which on no look at their products is needed, see `occurs`.
_MANY: Final = 256
_SPARSE: Final = 16
"Lists with less than this share of all rows are sorted instead of counted."
_RARE: Final = 8
"Lists so many times as long as the shortest are looked up instead of read."


@dataclass(frozen=True, slots=True)
class TermGroup:
    """Terms of which one is enough, and the weight of the group in the query."""

    terms: TermAlternatives
    weight: float = 1.0
    required: bool = True
    "False for a group that only adds to the score."


@dataclass(frozen=True, slots=True)
class TermHits:
    """Products that match a query.

    Shapes:
        rows: int64 [m], ascending; scores: float64 [m]; group_counts: int64 [m], required groups that match
    """

    rows: Rows
    scores: Floats
    group_counts: Rows

    def __len__(self) -> int:
        return len(self.rows)

    def filter(self, mask: Any) -> TermHits:
        """Keep some hits.

        Shapes:
            mask: bool [m]
        """
        return TermHits(self.rows[mask], self.scores[mask], self.group_counts[mask])


PostingList = tuple[Rows, npt.NDArray[np.uint8], npt.NDArray[np.uint8]]
"Rows, how often each has the term, and its fields."
PostingSpan = tuple[int, int, int]
"Number of a segment, and the first and last posting in it."


class TermMatcher:
    """Matches the terms of one query with the segments as they are now."""

    def __init__(self, parts: Sequence[IndexSegments], norms: Floats) -> None:
        """Prepare for one query of the products of some parts of the index.

        Shapes:
            norms: float64 [n], by row; see `compute_length_norms`
        """
        self._active = [active for part in parts for active in part.active_segments()]
        self._norms = norms
        self._products = max(sum(part.products for part in parts), 1)
        self._rows = max((part.rows for part in parts), default=0)
        self._spans: dict[int, list[PostingSpan]] = {}
        "Term -> its postings in each segment that has it."

    def look_up(self, groups: Iterable[TermAlternatives]) -> None:
        """Find the postings of many terms at once; other methods look up missing terms."""
        # One binary search per segment for all terms of the query, in place of one for each term.
        codes = list({code: None for group in groups for code in group if code not in self._spans})
        if not codes:
            return
        term_codes = np.array(codes, np.uint64)
        # Also for unknown terms, so that they are not looked up again.
        self._spans.update((code, []) for code in codes)
        for number, active in enumerate(self._active):
            for at, first, last in active.segment.find_spans(term_codes):
                self._spans[codes[at]].append((number, first, last))

    def find_spans(self, group: TermAlternatives) -> list[PostingSpan]:
        """Return the places of a group's postings."""
        spans = self._spans
        try:
            return spans[group[0]] if len(group) == 1 else [span for code in group for span in spans[code]]
        except KeyError:
            self.look_up([group])
            return self.find_spans(group)

    def count(self, group: TermAlternatives) -> int:
        """Count the products that have one of these terms; a product with two of them counts twice."""
        return sum(last - first for _, first, last in self.find_spans(group))

    def occurs(self, group: TermAlternatives) -> bool:
        """Return whether a product of the index has one of these terms."""
        for number, first, last in self.find_spans(group):
            active = self._active[number]
            # of a frequent word hardly every product can be removed
            if active.is_whole or last - first > _MANY or active.owned(_rows_of(active, first, last)).any():
                return True
        return False

    def idf(self, group: TermAlternatives) -> float:
        """Compute the inverse document frequency of a group."""
        # `count` counts a product with two of the terms twice, and products that were removed: hence the
        # bound.
        return compute_idf(min(self.count(group), self._products), self._products)

    def find(
        self,
        groups: Sequence[TermGroup],
        *,
        all_required: bool,
        allowed: Mask | None,
        factors: npt.NDArray[np.float64] | None = None,
    ) -> TermHits:
        """Find and score the products that match all required groups, or at least one of them.

        Shapes:
            allowed: bool [n], rows beyond its end are out; factors: float64 [256], by the fields of a posting
        Cost:
            100,000 products, three words: 0.3 ms
        """
        self.look_up(group.terms for group in groups)
        counts = {group.terms: self.count(group.terms) for group in groups}
        # The rarest required group first: its products are the candidates of all others.
        groups = sorted(groups, key=lambda group: (not group.required, counts[group.terms]))
        required = [group for group in groups if group.required]
        if (
            not required
            or not self._active
            or (all_required and not all(counts[group.terms] for group in required))
        ):
            return _no_hits()
        # Only then is a binary search in the long lists cheaper than reading them.
        has_rare = all_required and counts[required[0].terms] * _RARE < sum(counts.values())
        lists: list[PostingList] = []
        weights: list[float] = []
        candidates: dict[int, Rows] | None = None
        for group in groups:
            postings = self._read_postings(group.terms, candidates)
            lists += postings.values()
            weight = self.idf(group.terms) * group.weight * (K1 + 1)
            # The sign carries "required" through the joined arrays; `_score_postings` takes it off.
            weights += [weight if group.required else -weight] * len(postings)
            if has_rare and candidates is None:
                candidates = {number: list_rows for number, (list_rows, _, _) in postings.items()}
        if not lists:
            return _no_hits()
        rows, gains = self._score_postings(lists, weights, factors)
        hits, sums = _sum_by_row(rows, gains, self._rows)
        # Whole multiples of 2^20 count groups; scores stay far below it.
        enough = sums >= (len(required) if all_required else 1) * _REQUIRED_TERM
        if allowed is not None:
            enough &= hits < len(allowed)
            # Rows beyond `allowed` are False already and must not be looked up.
            enough[enough] = allowed[hits[enough]]
        hits = hits[enough]
        sums = sums[enough]
        group_counts = sums // _REQUIRED_TERM
        # sum = groups * 2^20 + score; exact, since float64 has 53 bits and scores need far fewer above the
        # point.
        return TermHits(hits, sums - group_counts * _REQUIRED_TERM, group_counts.astype(np.int64))

    def find_fields(self, rows: Rows, group: TermAlternatives) -> npt.NDArray[np.uint8]:
        """Return in which fields products have one of these terms, as bits; 0 for none.

        Shapes:
            rows: int64 [m]; returns: uint8 [m]
        Cost:
            1,000 rows: 20 us for each segment that has the terms
        """
        bits = np.zeros(len(rows), np.uint8)
        for number, first, last in self.find_spans(group):
            active = self._active[number]
            segment = active.segment
            owned = np.flatnonzero(active.owned(rows))
            codes = rows[owned] if active.row_mapping is None else active.row_mapping.codes[rows[owned]]
            places, is_listed = find_positions(segment.rows[first:last], codes.astype(np.uint32))
            bits[owned[is_listed]] |= segment.fields[first:last][places[is_listed]]
        return bits

    def _read_postings(
        self, terms: TermAlternatives, candidates: Mapping[int, Rows] | None
    ) -> dict[int, PostingList]:
        """Read the postings of a group by segment, each row once."""
        spans: dict[int, list[tuple[int, int]]] = {}
        for number, first, last in self.find_spans(terms):
            if candidates is None or number in candidates:
                spans.setdefault(number, []).append((first, last))
        postings = {}
        for number, places in spans.items():
            active = self._active[number]
            rows, counts, fields = _read_lists(
                active, places, None if candidates is None else candidates[number]
            )
            if not active.is_whole:
                owned = active.owned(rows)
                rows = rows[owned]
                counts = counts[owned]
                fields = fields[owned]
            postings[number] = rows, counts, fields
        return postings

    def _score_postings(
        self,
        lists: Sequence[PostingList],
        weights: Sequence[float],
        factors: npt.NDArray[np.float64] | None,
    ) -> tuple[Rows, Floats]:
        """Return row and gain of all postings; the weight of a list that only adds to a score is negative.

        Lists are joined before they are scored: numpy takes longer for a call than for a short list.
        """
        rows = np.concatenate([list_rows for list_rows, _, _ in lists])
        counts = np.concatenate([list_counts for _, list_counts, _ in lists])
        weight = np.repeat(weights, [len(list_rows) for list_rows, _, _ in lists])
        gains: Floats = saturate_counts(counts.astype(np.float64), self._norms[rows], np.abs(weight))
        if factors is not None:
            factor = factors[np.concatenate([fields for _, _, fields in lists])]
            searched = factor > 0
            rows = rows[searched]
            weight = weight[searched]
            gains = (gains * factor)[searched]
        return rows, gains + np.where(weight > 0, _REQUIRED_TERM, 0.0)


def order_best_first(scores: Floats) -> Rows:
    """Order scores above 0, the best first; those that agree in nine digits keep their order.

    The function sorts numbers instead of positions: the last bits of each score make space for its position.

    Shapes:
        scores: float64 [m]; returns: int64 [m]
    Cost:
        9,000 scores: 40 us, a tenth of a stable argsort
    """
    places = np.int64((1 << max(len(scores) - 1, 1).bit_length()) - 1)
    # Positive floats have the order of their bits as integers.
    keys = np.ascontiguousarray(scores).view(np.int64) & ~places
    keys |= places - np.arange(len(scores))
    keys.sort()
    # The position is stored as its complement: among equal scores the earlier one is greater, and so comes
    # first.
    order: Rows = places - (keys[::-1] & places)
    return order


def _no_hits() -> TermHits:
    return TermHits(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))


def _sum_by_row(rows: Rows, gains: Floats, count: int) -> tuple[Rows, Floats]:
    """Add up the gains of every row; rows ascending."""
    # An array of all rows is one pass; for few postings, sorting them is less than clearing it.
    if len(rows) * _SPARSE > count:
        sums: Floats = np.bincount(rows, gains, count).astype(np.float64, copy=False)
        kept: Rows = np.flatnonzero(sums)
        return kept, sums[kept]
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    starts = _find_starts(ordered)
    return ordered[starts], np.add.reduceat(gains[order], starts) if len(starts) else gains


def _find_starts(rows: Rows) -> Rows:
    """Find where each different value of an ascending array begins."""
    fresh = np.ones(len(rows), np.bool_)
    fresh[1:] = rows[1:] != rows[:-1]
    starts: Rows = np.flatnonzero(fresh)
    return starts


def _rows_of(active: ActiveSegment, first: int, last: int) -> Rows:
    rows = active.segment.rows[first:last]
    catalog_rows: Rows = (
        rows.astype(np.int64) if active.row_mapping is None else active.row_mapping.rows[rows]
    )
    return catalog_rows


def _read_lists(
    active: ActiveSegment, spans: Sequence[tuple[int, int]], candidates: Rows | None
) -> tuple[Rows, npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Read postings; of a product that is in several lists the highest count and all fields."""
    if candidates is not None and active.row_mapping is not None:
        candidates = active.row_mapping.codes_of(candidates)
    lists = [_read_list(active.segment, first, last, candidates) for first, last in spans]
    if active.row_mapping is not None:
        lists = [(active.row_mapping.rows[rows], counts, fields) for rows, counts, fields in lists]
    if len(lists) == 1:
        return lists[0]
    rows = np.concatenate([postings[0] for postings in lists])
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    counts = np.concatenate([postings[1] for postings in lists])[order]
    fields = np.concatenate([postings[2] for postings in lists])[order]
    starts = _find_starts(rows)
    if len(starts) < len(rows):
        counts = np.maximum.reduceat(counts, starts)
        fields = np.bitwise_or.reduceat(fields, starts)
        rows = rows[starts]
    return rows, counts, fields


def _read_list(
    segment: IndexSegment, first: int, last: int, candidates: Rows | None
) -> tuple[Rows, npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    listed = segment.rows[first:last]
    if candidates is None or len(candidates) * _RARE > last - first:
        return listed.astype(np.int64), segment.counts[first:last], segment.fields[first:last]
    places, is_listed = find_positions(listed, candidates.astype(np.uint32))
    places = places[is_listed]
    return (
        listed[places].astype(np.int64),
        segment.counts[first:last][places],
        segment.fields[first:last][places],
    )
