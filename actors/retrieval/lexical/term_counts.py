"""Words counted, and made into postings: by passage, joined behind each other, merged, thinned out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.retrieval.lexical.passage_postings import K1, LEVELS, UNIT, B, PassagePostings
from actors.vectors.types import Mask


@dataclass(frozen=True, slots=True)
class PassageTermCounts:
    """Words counted, before anything is known of the mean length."""

    terms: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint8]
    "How often, at most 255."
    lengths: npt.NDArray[np.int32]
    "Terms in every passage."


def count_terms(passages: Iterable[Sequence[int]]) -> PassageTermCounts:
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
    return PassageTermCounts(
        terms, starts, sorted_owners[places], np.minimum(counts, 255).astype(np.uint8), sizes
    )


def concatenate_counts(tallies: Sequence[PassageTermCounts]) -> PassageTermCounts:
    """Put tallies behind each other, as if their passages had been counted together."""
    parts = [(part.terms, part.starts, part.rows, part.counts, part.lengths) for part in tallies]
    terms, starts, rows, counts, lengths = _merge_lists(parts)
    return PassageTermCounts(terms, starts, rows, counts, lengths)


def merge_postings(postings: Sequence[PassagePostings]) -> PassagePostings:
    """Put postings behind each other; what a term is worth in a passage stays as it was."""
    parts = [(part.terms, part.starts, part.rows, part.levels, part.lengths) for part in postings]
    terms, starts, rows, levels, lengths = _merge_lists(parts)
    return PassagePostings(terms, starts, rows, levels, _max_levels(levels, starts), lengths)


def drop_passages(postings: PassagePostings, keep: Mask) -> PassagePostings:
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
    return PassagePostings(
        terms=postings.terms[occurring],
        starts=starts,
        rows=places[postings.rows[kept]],
        levels=levels,
        peaks=_max_levels(levels, starts),
        lengths=postings.lengths[keep],
    )


def build_postings(counted: PassageTermCounts, mean_length: float) -> PassagePostings:
    """Turn counts into worth, given how long passages are on average."""
    norm = K1 * (1 - B + B * counted.lengths / max(mean_length, 1.0))
    counts = counted.counts.astype(np.float32)
    worth = counts * np.float32(K1 + 1) / (counts + norm.astype(np.float32)[counted.rows])
    levels = np.clip(np.rint(worth / np.float32(UNIT)), 1, LEVELS).astype(np.uint8)
    peaks = _max_levels(levels, counted.starts)
    return PassagePostings(counted.terms, counted.starts, counted.rows, levels, peaks, counted.lengths)


def _merge_lists(parts: Sequence[tuple[Any, Any, Any, Any, Any]]) -> tuple[Any, Any, Any, Any, Any]:
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


def _max_levels(levels: Any, starts: Any) -> npt.NDArray[np.uint8]:
    if not len(levels):
        return np.zeros(len(starts) - 1, np.uint8)
    peaks: npt.NDArray[np.uint8] = np.maximum.reduceat(levels, starts[:-1])
    return peaks
