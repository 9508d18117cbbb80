"""The components of a personal score, and their sum.

    SparseScores    some products, one by one            (live co-occurrence, a short history)
    DenseScores     every product that the snapshot knows (models that score many items)
    VectorScores    any product, when it is looked at    (similarity to the vector of the profile)

The values are scaled and weighted already, so a score is their sum (docs/concepts/scoring.md, equation 13).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from actors.vectors.index import VectorIndex
from actors.vectors.types import Rows, Scores, Vector


@dataclass(frozen=True, slots=True)
class SlotMap:
    """Maps rows to slots and slots to rows. Without a snapshot both are the same, and the arrays are None.

    The snapshot's components score its items in their order, all other components score rows. Slots join them: first
    one slot for each item, in the snapshot's order, then one for each row that the snapshot does not know. So the
    snapshot's arrays are read in place, and only the rows that are looked at are translated.

    Shapes:
        slot_of: int64 [rows]; row_of: int64 [count], -1 for items that have no row
    """

    count: int
    slot_of: Rows | None = None
    row_of: Rows | None = None

    def slots(self, rows: Rows) -> Rows:
        """Give the slots of rows, in any shape."""
        return rows if self.slot_of is None else self.slot_of[rows]

    def rows(self, slots: Rows) -> Rows:
        """Give the rows of slots, -1 for products that are not there any more."""
        return slots if self.row_of is None else self.row_of[slots]

    def expand_to_rows(self, values: Scores, count: int) -> Scores:
        """Lay values of slots out for the first `count` rows.

        Shapes:
            values: float32 [slots]; returns: float32 [count], a view or fresh
        """
        return values[:count] if self.slot_of is None else values.take(self.slot_of[:count])


@dataclass(frozen=True, slots=True)
class SparseScores:
    """What one part says of some slots; slots may repeat and add up, of all others it says nothing.

    Shapes:
        slots: int [m]; values: float32 [m]
    """

    name: str
    slots: npt.NDArray[np.integer]
    values: Scores

    @property
    def count(self) -> int:
        """Count what it said."""
        return len(self.values)


@dataclass(frozen=True, slots=True)
class DenseScores:
    """What one part says of every slot.

    Shapes:
        values: float32 [slots]
    """

    name: str
    values: Scores
    count: int
    "So many values were added up."


@dataclass(frozen=True, slots=True)
class VectorScores:
    """What likeness to a vector says of every row: worked out for the rows that are asked for."""

    name: str
    index: VectorIndex
    vector: Vector
    factor: float
    mean: float

    def score_rows(self, rows: Rows) -> Scores:
        """Say it of some rows."""
        like: Scores = self.index.take(rows) @ self.vector
        return (like - np.float32(self.mean)) * np.float32(self.factor)

    def score_all(self, count: int) -> Scores:
        """Say it of the first `count` rows."""
        like: Scores = self.index.scores(self.vector)[:count]
        like -= np.float32(self.mean)
        like *= np.float32(self.factor)
        return like


ScoreComponent = SparseScores | DenseScores | VectorScores


@dataclass(frozen=True, slots=True)
class PersonalScores:
    """What all parts say to one reader: what is added to what everybody's scores start from.

    Shapes:
        values: float32 [slots]; None when nothing is said
    """

    slot_map: SlotMap
    values: Scores | None = None
    vector_scores: tuple[VectorScores, ...] = ()

    def get_scores(self, rows: Rows) -> Scores:
        """Give it for some rows.

        Shapes:
            rows: int64 [m]; returns: float32 [m], fresh
        """
        found: Scores = np.zeros(len(rows), np.float32)
        if self.values is not None:
            found = self.values[self.slot_map.slots(rows)]
        for likeness in self.vector_scores:
            found += likeness.score_rows(rows)
        return found

    def add_to(self, start: Scores) -> Scores:
        """Add it to the scores of all rows.

        Shapes:
            start: float32 [n]; returns: float32 [n], fresh
        """
        scores = (
            start.copy()
            if self.values is None
            else start + self.slot_map.expand_to_rows(self.values, len(start))
        )
        for likeness in self.vector_scores:
            scores += likeness.score_all(len(scores))
        return scores

    def rows_above(self, least: float, count: int) -> tuple[Rows, Scores]:
        """Find the rows, among the first `count`, for which at least so much is said, likenesses left out.

        Shapes:
            returns: int64 [m] and float32 [m], what is said for them
        """
        if self.values is None:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        slots = np.flatnonzero(self.values >= np.float32(least))
        rows = self.slot_map.rows(slots)
        inside = (rows >= 0) & (rows < count)
        return rows[inside], self.values[slots[inside]]


def sum_components(parts: Iterable[ScoreComponent], slot_map: SlotMap) -> PersonalScores:
    """Add the parts up; the first vector among them becomes the sum, so they are not to be used again."""
    values: Scores | None = None
    likenesses: list[VectorScores] = []
    listed: list[SparseScores] = []
    for part in parts:
        if isinstance(part, VectorScores):
            likenesses.append(part)
        elif isinstance(part, SparseScores):
            listed.append(part)
        elif values is None:
            values = part.values
        else:
            values += part.values
    for said in listed:
        if said.count:
            values = np.zeros(slot_map.count, np.float32) if values is None else values
            np.add.at(values, said.slots, said.values)
    return PersonalScores(slot_map, values, tuple(likenesses))
