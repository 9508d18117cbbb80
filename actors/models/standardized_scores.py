"""Scores of one part, scaled to deviation 1: dense, sparse or common to all users, with one interface.

A blend orders the items of one user, so only the deviation of a part matters, not its mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from actors.models.model import Batch, Model, SharedScoresModel, SparseModel
from actors.models.user_histories import UserHistories
from actors.vectors.types import Floats, Mask, Rows


@dataclass(frozen=True, slots=True)
class StandardizedScores:
    """Scores and a factor for each row.

    Shapes:
        values: CSR float32 [q, n], or float32 [q, n], or [1, n] when all rows are alike
        scale: float32 [q] or [1]; 0 where all scores of a row are equal
    """

    values: Any
    scale: npt.NDArray[np.float32]
    rows: int
    order: Rows | None = None
    "Items by score, if all rows are equal."

    @classmethod
    def of(cls, model: Model, histories: UserHistories) -> StandardizedScores:
        """Score histories in the cheapest form that the model supports."""
        if isinstance(model, SharedScoresModel):
            row = model.common()[None]
            # One row for the whole batch: a popularity of 100,000 items is neither copied nor sorted q
            # times.
            return cls(row, _dense_scale(row), len(histories), _sort_items(row[0]))
        if isinstance(model, SparseModel):
            sparse = model.sparse(histories)
            return cls(sparse, _sparse_scale(sparse), len(histories))
        dense = model.score(histories)
        return cls(dense, _dense_scale(dense), len(histories))

    def add_to(self, total: Batch, weights: npt.NDArray[np.float32]) -> None:
        """Add the scaled scores to `total`, with a weight for each row.

        Shapes:
            total: float32 [q, n], changed in place; weights: float32 [q]
        """
        factors = weights * self.scale
        if sp.issparse(self.values):
            owner = np.repeat(np.arange(self.rows), np.diff(self.values.indptr))
            # `sparse` has no duplicates, so `+=` with indexes loses no addend.
            total[owner, self.values.indices] += self.values.data * factors[owner]
        else:
            total += self.values * factors[:, None]

    def get_scores(self, rows: Rows, items: Rows) -> npt.NDArray[np.float32]:
        """Return the scaled scores of some entries.

        Shapes:
            rows, items: int64 [m], by row, items ascending
            returns: float32 [m]
        """
        if sp.issparse(self.values):
            scores = _read_entries(self.values, rows, items)
        else:
            # Shared scores have a single row, which stands for every row of the batch.
            scores = self.values[np.minimum(rows, len(self.values) - 1), items]
        scaled: npt.NDArray[np.float32] = scores * self.scale[np.minimum(rows, len(self.scale) - 1)]
        return scaled

    def select_best(self, row: int, depth: int, seen: Mask) -> Rows:
        """Return the unseen items with the highest scores of one row, in no order.

        Items with the lowest score of the row are left out: they have no evidence.

        Shapes:
            seen: bool [n]
            returns: int64 [m], m <= depth
        """
        if self.order is not None:
            unseen: Rows = self.order[~seen[self.order]][:depth]
            return unseen
        if sp.issparse(self.values):
            part = slice(self.values.indptr[row], self.values.indptr[row + 1])
            items = self.values.indices[part]
            values = self.values.data[part]
            # Absent entries are 0, so stored values at or below 0 say no more than absent ones.
            lowest = 0.0
        else:
            values = self.values[row]
            items = np.arange(len(values))
            # `initial`: numpy raises for the minimum of an empty catalog.
            lowest = float(values.min(initial=np.inf))
        kept = np.flatnonzero((values > lowest) & ~seen[items])
        if len(kept) > depth:
            # A partition and not a sort: callers need no order within the depth.
            kept = kept[np.argpartition(values[kept], len(kept) - depth)[len(kept) - depth :]]
        best: Rows = items[kept].astype(np.int64)
        return best


def _sort_items(values: npt.NDArray[np.float32]) -> Rows:
    """Return items by a common score, best first, without those at the lowest score."""
    order = np.argsort(-values, kind="stable")
    ordered: Rows = order[values[order] > values.min(initial=np.inf)].astype(np.int64)
    return ordered


def _dense_scale(scores: Batch) -> npt.NDArray[np.float32]:
    # float64: a deviation that is small beside the mean loses its digits in float32.
    return _invert(scores.std(axis=1, dtype=np.float64) if scores.size else np.zeros(len(scores)))


def _sparse_scale(scores: Any) -> npt.NDArray[np.float32]:
    """Return 1 / deviation of sparse rows, whose absent entries are 0."""
    count = max(scores.shape[1], 1)
    owner = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    # float64: the difference of two nearly equal means cancels most digits of float32.
    values = scores.data.astype(np.float64)
    mean = np.bincount(owner, values, scores.shape[0]) / count
    square = np.bincount(owner, values * values, scores.shape[0]) / count
    # E[y^2] - E[y]^2 may round below 0
    return _invert(np.sqrt(np.maximum(square - mean * mean, 0.0)))


def _invert(spread: Floats) -> npt.NDArray[np.float32]:
    # Scores that differ by rounding alone count as equal: 1 / deviation would blow up the noise.
    usable = np.isfinite(spread) & (spread > 1e-12)
    return np.divide(1.0, spread, out=np.zeros_like(spread), where=usable).astype(np.float32)


def _read_entries(matrix: Any, rows: Rows, items: Rows) -> npt.NDArray[np.float32]:
    """Return entries of a CSR matrix; absent entries are 0."""
    width = matrix.shape[1]
    # int64: row x width overflows int32 when a batch has more than 2^31 entries.
    owner = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    if not matrix.has_sorted_indices:
        matrix.sort_indices()
    # Row and column as one ascending number, so one search finds all entries.
    keys = owner * width + matrix.indices
    entries = rows * width + items
    places = np.minimum(np.searchsorted(keys, entries), max(len(keys) - 1, 0))
    if not len(keys):
        return np.zeros(len(rows), np.float32)
    values: npt.NDArray[np.float32] = np.where(keys[places] == entries, matrix.data[places], np.float32(0))
    return values
