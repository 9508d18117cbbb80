"""The components of a personal score, and their sum.

    SparseScores    some products, one by one            (live co-occurrence, a short history)
    DenseScores     every product that the snapshot knows (models that score many items)
    VectorScores    any product, computed on request     (similarity to the vector of the profile)

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
    one slot for each item, in the snapshot's order, then one for each row without an item. So components of the
    snapshot are read in place, and only requested rows are translated.

    Shapes:
        slot_of: int64 [rows]; row_of: int64 [count], -1 for items that have no row
    """

    count: int
    slot_of: Rows | None = None
    row_of: Rows | None = None

    def slots_from_rows(self, rows: Rows) -> Rows:
        """Return the slots of rows.

        Shapes:
            rows: int64, any shape; returns: int64, the same shape
        """
        return rows if self.slot_of is None else self.slot_of[rows]

    def rows_from_slots(self, slots: Rows) -> Rows:
        """Return the rows of slots.

        Shapes:
            slots: int64 [m]; returns: int64 [m], -1 for items without a product in the catalog
        """
        return slots if self.row_of is None else self.row_of[slots]

    def expand_to_rows(self, values: Scores, count: int) -> Scores:
        """Return the values of slots for the first `count` rows.

        Shapes:
            values: float32 [slots]; returns: float32 [count], a view or a new array
        """
        return values[:count] if self.slot_of is None else values.take(self.slot_of[:count])


@dataclass(frozen=True, slots=True)
class SparseScores:
    """Scores of some slots by one component. Scores of repeated slots add up; all other slots have score 0.

    Shapes:
        slots: int [m]; values: float32 [m]
    """

    name: str
    slots: npt.NDArray[np.integer]
    values: Scores

    @property
    def count(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class DenseScores:
    """Scores of every slot by one component.

    Shapes:
        values: float32 [slots]
    """

    name: str
    values: Scores
    count: int
    "Number of model entries in the sum."


@dataclass(frozen=True, slots=True)
class VectorScores:
    """Similarity of rows to a vector, computed for the requested rows."""

    name: str
    index: VectorIndex
    vector: Vector
    factor: float
    mean: float

    def score_rows(self, rows: Rows) -> Scores:
        """Return the scores of some rows.

        Shapes:
            rows: int64 [m]; returns: float32 [m]
        """
        like: Scores = self.index.take(rows) @ self.vector
        return (like - np.float32(self.mean)) * np.float32(self.factor)

    def score_all(self, count: int) -> Scores:
        """Return the scores of the first `count` rows.

        Shapes:
            returns: float32 [count]
        """
        like: Scores = self.index.scores(self.vector)[:count]
        like -= np.float32(self.mean)
        like *= np.float32(self.factor)
        return like


ScoreComponent = SparseScores | DenseScores | VectorScores


@dataclass(frozen=True, slots=True)
class PersonalScores:
    """The sum of all components of one user, to be added to the prior.

    Shapes:
        values: float32 [slots]; None when no component has scores
    """

    slot_map: SlotMap
    values: Scores | None = None
    vector_scores: tuple[VectorScores, ...] = ()

    def get_scores(self, rows: Rows) -> Scores:
        """Return the personal scores of some rows.

        Shapes:
            rows: int64 [m]; returns: float32 [m], a new array
        """
        scores: Scores = np.zeros(len(rows), np.float32)
        if self.values is not None:
            # Fancy indexing copies, so the addition below changes no shared array.
            scores = self.values[self.slot_map.slots_from_rows(rows)]
        for similarity in self.vector_scores:
            scores += similarity.score_rows(rows)
        return scores

    def add_to(self, start: Scores) -> Scores:
        """Return the prior of all rows plus the personal scores.

        Shapes:
            start: float32 [n]; returns: float32 [n], a new array
        """
        scores = (
            start.copy()
            if self.values is None
            else start + self.slot_map.expand_to_rows(self.values, len(start))
        )
        for similarity in self.vector_scores:
            scores += similarity.score_all(len(scores))
        return scores

    def rows_above(self, least: float, count: int) -> tuple[Rows, Scores]:
        """Return the rows below `count` with a personal score of at least `least`, without vector scores.

        Shapes:
            returns: int64 [m] and float32 [m], their scores
        """
        if self.values is None:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        slots = np.flatnonzero(self.values >= np.float32(least))
        rows = self.slot_map.rows_from_slots(slots)
        # The snapshot may know items without a product here, and the catalog rows without a prior.
        inside = (rows >= 0) & (rows < count)
        return rows[inside], self.values[slots[inside]]


def sum_components(parts: Iterable[ScoreComponent], slot_map: SlotMap) -> PersonalScores:
    """Return the sum of components. They stay as they are: the array of the sum belongs to the result alone."""
    values: Scores | None = None
    is_shared = False
    vector_scores: list[VectorScores] = []
    listed: list[SparseScores] = []
    for part in parts:
        if isinstance(part, VectorScores):
            vector_scores.append(part)
        elif isinstance(part, SparseScores):
            listed.append(part)
        elif values is None:
            values = part.values
            is_shared = True
        elif is_shared:
            # The first addition makes the array of the sum, so most queries need no copy of the first component.
            values = values + part.values
            is_shared = False
        else:
            values += part.values
    if is_shared and values is not None:
        values = values.copy()
    for sparse in listed:
        if len(sparse.values):
            values = np.zeros(slot_map.count, np.float32) if values is None else values
            # `values[slots] += ...` would drop all but one addend of a repeated slot.
            np.add.at(values, sparse.slots, sparse.values)
    return PersonalScores(slot_map, values, tuple(vector_scores))
