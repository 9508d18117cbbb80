"""Which products have a word, how often and where: flat arrays that can be memory-mapped.

    terms    uint64 [t]      sorted
    starts   int64 [t + 1]   where the postings of a term begin
    rows     uint32 [p]      ascending within a term: rows of the catalog, not counted anew
    counts   uint8 [p]       how often, a title's words twice, at most 255
    fields   uint8 [p]       a bit for each field that has the word

A part is never changed. A product that changed stands in a later part; its old row is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from actors.retrieval.lexical.product_fields import WEIGHTS
from actors.vectors.types import Mask, Rows

PAIR: Final = len(WEIGHTS)
"Number of the field that neighbours in a title stand in."

_AT_ONCE: Final = 8_000_000
"Postings that are sorted at once when parts are merged."
_WORTH = np.array([*WEIGHTS, 1], np.int32)
_BITS = np.array([*(1 << field for field in range(len(WEIGHTS))), 1], np.uint8)


@dataclass(frozen=True, slots=True)
class TermVector:
    """A product cut into terms.

    Shapes:
        codes and fields are as long as each other
    """

    row: int
    codes: Sequence[int]
    fields: Sequence[int]

    @property
    def length(self) -> int:
        """Terms, those of the title counted twice, pairs not at all."""
        return sum((*WEIGHTS, 0)[field] for field in self.fields)


@dataclass(frozen=True, slots=True)
class IndexSegment:
    """See the drawing above; `owned` are the rows it was made of, ascending."""

    terms: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint8]
    fields: npt.NDArray[np.uint8]
    owned: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        """Count products."""
        return len(self.owned)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All arrays by name, for whoever writes them down."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def spans(self, codes: npt.NDArray[np.uint64]) -> list[tuple[int, int, int]]:
        """Find terms: place among those asked for, first and last posting; an unknown one is left out."""
        if not len(self.terms):
            return []
        places = np.searchsorted(self.terms, codes)
        places[places == len(self.terms)] = 0
        known = np.flatnonzero(self.terms[places] == codes)
        if not len(known):
            return []
        here = places[known]
        firsts, lasts = self.starts[here].tolist(), self.starts[here + 1].tolist()
        return list(zip(known.tolist(), firsts, lasts, strict=True))


def build_segment(texts: Sequence[TermVector]) -> IndexSegment:
    """Index products that were cut into terms; no row twice.

    Cost:
        128 products of 100 terms: 2 ms; 2,000: 35 ms
    """
    texts = sorted(texts, key=lambda text: text.row)
    codes = np.array([code for text in texts for code in text.codes], np.uint64)
    places = np.array([field for text in texts for field in text.fields], np.int64)
    owned = np.array([text.row for text in texts], np.uint32)
    owners = np.repeat(owned, [len(text.codes) for text in texts])
    order = np.argsort(codes, kind="stable")
    codes, owners, places = codes[order], owners[order], places[order]
    first = _first_of_each(codes, owners)
    if not len(first):
        return _part(codes, owners, np.zeros(0, np.uint8), np.zeros(0, np.uint8), owned)
    counts = np.minimum(np.add.reduceat(_WORTH[places], first), 255).astype(np.uint8)
    bits = np.bitwise_or.reduceat(_BITS[places], first)
    return _part(codes[first], owners[first], counts, bits, owned)


def merge_segments(
    parts: Sequence[IndexSegment], keep: Sequence[Mask], *, at_once: int = _AT_ONCE
) -> IndexSegment:
    """Make one part of several, without the rows that are not kept; so many postings are sorted at once.

    Shapes:
        keep: for each part bool [r], by row of the catalog; no row is kept in two parts
    Cost:
        100,000 products: 1.5 s; memory for the result and 40 bytes for each posting sorted at once
    """
    stretches = max(-(-sum(len(part.rows) for part in parts) // at_once), 1)
    # terms are hashes, so equal stretches of numbers hold about as many of them
    edges = [at * (1 << 64) // stretches for at in range(1, stretches)]
    cuts = [_cuts(part, edges) for part in parts]
    pieces = [_merge_terms(parts, keep, [cut[at : at + 2] for cut in cuts]) for at in range(stretches)]
    owned = [part.owned[kept[part.owned]] for part, kept in zip(parts, keep, strict=True)]
    lengths = np.concatenate([np.zeros(1, np.int64), *(piece[1] for piece in pieces)])
    return IndexSegment(
        np.concatenate([piece[0] for piece in pieces]),
        np.cumsum(lengths, dtype=np.int64),
        np.concatenate([piece[2] for piece in pieces]),
        np.concatenate([piece[3] for piece in pieces]),
        np.concatenate([piece[4] for piece in pieces]),
        np.sort(np.concatenate(owned)),
    )


def _cuts(part: IndexSegment, edges: Sequence[int]) -> list[int]:
    """Say where stretches of terms begin and end."""
    inner = np.searchsorted(part.terms, np.array(edges, np.uint64)).tolist()
    return [0, *inner, len(part.terms)]


def _merge_terms(
    parts: Sequence[IndexSegment], keep: Sequence[Mask], cuts: Sequence[Sequence[int]]
) -> tuple[Any, Any, Any, Any, Any]:
    """Merge one stretch of terms: terms, how many postings each has, and postings."""
    codes, rows, counts, bits = [], [], [], []
    for part, kept, (first, last) in zip(parts, keep, cuts, strict=True):
        here = slice(int(part.starts[first]), int(part.starts[last]))
        found = kept[part.rows[here]]
        codes.append(np.repeat(part.terms[first:last], np.diff(part.starts[first : last + 1]))[found])
        rows.append(part.rows[here][found])
        counts.append(part.counts[here][found])
        bits.append(part.fields[here][found])
    every, whose = np.concatenate(codes), np.concatenate(rows)
    order = np.lexsort((whose, every))
    terms, lengths = np.unique(every, return_counts=True)
    return terms, lengths, whose[order], np.concatenate(counts)[order], np.concatenate(bits)[order]


def empty_segment() -> IndexSegment:
    """Make a part without products."""
    return build_segment([])


def _part(codes: Any, rows: Any, counts: Any, bits: Any, owned: Any) -> IndexSegment:
    """Cut sorted postings by term."""
    first = np.ones(len(codes), np.bool_)
    first[1:] = codes[1:] != codes[:-1]
    places: Rows = np.flatnonzero(first)
    starts = np.append(places, len(codes)).astype(np.int64)
    return IndexSegment(codes[places], starts, rows, counts, bits, owned)


def _first_of_each(codes: Any, owners: Any) -> Rows:
    """Find where a new pair of term and row begins."""
    fresh = np.ones(len(codes), np.bool_)
    fresh[1:] = (codes[1:] != codes[:-1]) | (owners[1:] != owners[:-1])
    found: Rows = np.flatnonzero(fresh)
    return found
