"""Postings: which texts have a term, as flat arrays that can be memory-mapped. Products and passages share them.

    terms    uint64 [t]      sorted
    starts   int64 [t + 1]   where the postings of a term begin
    rows     uint32 [p]      ascending within a term: the text of each posting

A kind of index adds arrays of the same length as `rows`: counts and fields of products, levels of passages.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.vectors.types import Mask, Rows


@dataclass(frozen=True, slots=True)
class Postings:
    """The arrays drawn above."""

    terms: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all arrays by name, as a snapshot stores them."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.init}


def locate(values: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> tuple[Rows, Mask]:
    """Find wanted values in a sorted array that is not empty.

    Shapes:
        values: [n], ascending, n > 0; wanted: [m]
        returns: int64 [m], positions, 0 where a value is beyond the end; bool [m], True where the value is there
    """
    places = np.searchsorted(values, wanted)
    places[places == len(values)] = 0
    return places, np.equal(values[places], wanted)


def group_by_term(codes: Any) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Cut sorted postings by term.

    Shapes:
        codes: uint64 [p], ascending; returns: uint64 [t], the different terms, and int64 [t + 1], where each begins
    """
    first = np.ones(len(codes), np.bool_)
    first[1:] = codes[1:] != codes[:-1]
    places = np.flatnonzero(first)
    return codes[places], np.append(places, len(codes)).astype(np.int64)


def find_pairs(codes: Any, owners: Any) -> Rows:
    """Find where a new pair of term and text begins in occurrences that are sorted by term, then by text.

    Shapes:
        codes: uint64 [o]; owners: uint32 [o]; returns: int64 [p]
    """
    fresh = np.ones(len(codes), np.bool_)
    fresh[1:] = (codes[1:] != codes[:-1]) | (owners[1:] != owners[:-1])
    found: Rows = np.flatnonzero(fresh)
    return found


def starts_of_kept(starts: npt.NDArray[np.int64], kept: Mask) -> npt.NDArray[np.int64]:
    """Return where the postings of each term begin once only some postings are kept.

    Shapes:
        starts: int64 [t + 1]; kept: bool [p]; returns: int64 [t + 1], equal neighbours where a term lost all
    """
    found: npt.NDArray[np.int64] = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[starts]
    return found
