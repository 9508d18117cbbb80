"""Postings of products: how often a product has a term, and in which fields.

    counts   uint8 [p]   how often, a title's words twice, at most 255
    fields   uint8 [p]   a bit for each field that has the term
    owned    uint32 [h]  the rows the segment was made of, ascending

Rows are those of the catalog. A segment is never changed. A changed product is in a later segment, and its
old row is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from actors.retrieval.lexical.postings import (
    Postings,
    find_pair_starts,
    find_positions,
    group_by_term,
    starts_of_kept,
)
from actors.retrieval.lexical.product_fields import WEIGHTS
from actors.vectors.types import Codes, Mask

PAIR: Final = len(WEIGHTS)
"Number of the field that contains neighbours in a title."

_MOST_SORTED: Final = 8_000_000
"Postings that are sorted at once when segments are merged."
_FIELD_COUNTS = np.array([*WEIGHTS, 1], np.int32)
"By field: how often one occurrence counts."
_FIELD_BITS = np.array([*(1 << field for field in range(len(WEIGHTS))), 1], np.uint8)


@dataclass(frozen=True, slots=True)
class TermVector:
    """The terms of a product.

    Shapes:
        codes and fields are as long as each other
    """

    row: int
    codes: Sequence[int]
    fields: Sequence[int]

    @property
    def length(self) -> int:
        """Count terms, those of the title twice, pairs not at all."""
        return sum((*WEIGHTS, 0)[field] for field in self.fields)


@dataclass(frozen=True, slots=True)
class IndexSegment(Postings):
    """Postings of some products. The arrays are drawn above."""

    counts: npt.NDArray[np.uint8]
    fields: npt.NDArray[np.uint8]
    owned: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.owned)

    def find_spans(self, codes: npt.NDArray[np.uint64]) -> list[tuple[int, int, int]]:
        """Find terms: position among `codes`, first and last posting; unknown terms are left out.

        Shapes:
            codes: uint64 [m]
        """
        if not len(self.terms):
            return []
        places, is_present = find_positions(self.terms, codes)
        at = np.flatnonzero(is_present)
        if not len(at):
            return []
        terms = places[at]
        firsts = self.starts[terms].tolist()
        lasts = self.starts[terms + 1].tolist()
        return list(zip(at.tolist(), firsts, lasts, strict=True))


def build_segment(texts: Sequence[TermVector]) -> IndexSegment:
    """Build the segment of some products; no row may occur twice.

    Cost:
        128 products of 100 terms: 2 ms; 2,000: 35 ms
    """
    texts = sorted(texts, key=lambda text: text.row)
    codes = np.array([code for text in texts for code in text.codes], np.uint64)
    fields = np.array([field for text in texts for field in text.fields], np.int64)
    owned = np.array([text.row for text in texts], np.uint32)
    owners = np.repeat(owned, [len(text.codes) for text in texts])
    # Stable over texts sorted by row, so rows ascend within each term.
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    owners = owners[order]
    fields = fields[order]
    pairs = find_pair_starts(codes, owners)
    counts = bits = np.zeros(0, np.uint8)
    if len(pairs):
        # A byte is enough: BM25 saturates long before 255 occurrences.
        counts = np.minimum(np.add.reduceat(_FIELD_COUNTS[fields], pairs), 255).astype(np.uint8)
        # `reduceat` works from each pair's beginning to the next one's.
        bits = np.bitwise_or.reduceat(_FIELD_BITS[fields], pairs)
    terms, starts = group_by_term(codes[pairs])
    return IndexSegment(terms, starts, owners[pairs], counts, bits, owned)


def merge_segments(
    segments: Mapping[int, IndexSegment], owner: Codes, *, most_sorted: int = _MOST_SORTED
) -> IndexSegment:
    """Merge numbered segments into one, without rows of other owners; at most so many postings are sorted at once.

    Shapes:
        owner: int32 [r], by row of the catalog: the number of the segment that has its newest record
    Cost:
        100,000 products: 1.5 s; memory for the result and 40 bytes for each posting sorted at once
    """
    ranges = max(-(-sum(len(segment.rows) for segment in segments.values()) // most_sorted), 1)
    # terms are hashes, so equal ranges of numbers hold about as many of them
    edges = [at * (1 << 64) // ranges for at in range(1, ranges)]
    cuts = [_find_cuts(segment, edges) for segment in segments.values()]
    pieces = [_merge_terms(segments, owner, [cut[at : at + 2] for cut in cuts]) for at in range(ranges)]
    owned = [segment.owned[owner[segment.owned] == number] for number, segment in segments.items()]
    lengths = np.concatenate([np.zeros(1, np.int64), *(piece[1] for piece in pieces)])
    return IndexSegment(
        np.concatenate([piece[0] for piece in pieces]),
        np.cumsum(lengths, dtype=np.int64),
        np.concatenate([piece[2] for piece in pieces]),
        np.concatenate([piece[3] for piece in pieces]),
        np.concatenate([piece[4] for piece in pieces]),
        np.sort(np.concatenate(owned)),
    )


def _find_cuts(segment: IndexSegment, edges: Sequence[int]) -> list[int]:
    """Find where ranges of terms begin and end."""
    inner = np.searchsorted(segment.terms, np.array(edges, np.uint64)).tolist()
    return [0, *inner, len(segment.terms)]


def _merge_terms(
    segments: Mapping[int, IndexSegment], owner: Codes, cuts: Sequence[Sequence[int]]
) -> tuple[Any, Any, Any, Any, Any]:
    """Merge one range of terms: terms, how many postings each has, and the postings."""
    codes = []
    rows = []
    counts = []
    bits = []
    for (number, segment), (first, last) in zip(segments.items(), cuts, strict=True):
        span = slice(int(segment.starts[first]), int(segment.starts[last]))
        # Postings of a product that is in a newer segment, or was removed, end here.
        chosen = owner[segment.rows[span]] == number
        codes.append(np.repeat(segment.terms[first:last], np.diff(segment.starts[first : last + 1]))[chosen])
        rows.append(segment.rows[span][chosen])
        counts.append(segment.counts[span][chosen])
        bits.append(segment.fields[span][chosen])
    all_codes = np.concatenate(codes)
    all_rows = np.concatenate(rows)
    # By term and then by row; the last key of `lexsort` is the first to sort by.
    order = np.lexsort((all_rows, all_codes))
    terms, lengths = np.unique(all_codes, return_counts=True)
    return terms, lengths, all_rows[order], np.concatenate(counts)[order], np.concatenate(bits)[order]


def select_products(segment: IndexSegment, kept: Mask) -> IndexSegment:
    """Copy the postings of some products of a segment; terms that only others have are not in the copy.

    Shapes:
        kept: bool [h], by product of the segment
    Cost:
        6 million postings: 60 ms
    """
    is_kept = kept[segment.rows]
    starts = starts_of_kept(segment.starts, is_kept)
    has_postings = np.diff(starts) > 0
    return IndexSegment(
        segment.terms[has_postings],
        np.append(starts[:-1][has_postings], starts[-1:]),
        segment.rows[is_kept],
        segment.counts[is_kept],
        segment.fields[is_kept],
        segment.owned[kept[segment.owned]],
    )


def empty_segment() -> IndexSegment:
    """Build a segment without products."""
    return build_segment([])
