"""Scores of one part, brought to spread 1: dense, sparse or common to all, behind one face.

Blending orders items of one reader, so only the spread of a part matters, not its mean.
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
    """Scores and what to multiply each row with.

    Shapes:
        values: CSR float32 [q, n], or float32 [q, n], or [1, n] when all rows are alike
        scale: float32 [q] or [1]; 0 where a row says nothing
    """

    values: Any
    scale: npt.NDArray[np.float32]
    rows: int
    order: Rows | None = None
    "Items by score, when that is the same for all rows."

    @classmethod
    def of(cls, model: Model, histories: UserHistories) -> StandardizedScores:
        """Score histories in the cheapest form the model knows."""
        if isinstance(model, SharedScoresModel):
            row = model.common()[None]
            return cls(row, _dense_scale(row), len(histories), _sort_items(row[0]))
        if isinstance(model, SparseModel):
            sparse = model.sparse(histories)
            return cls(sparse, _sparse_scale(sparse), len(histories))
        dense = model.score(histories)
        return cls(dense, _dense_scale(dense), len(histories))

    def add_to(self, total: Batch, weights: npt.NDArray[np.float32]) -> None:
        """Add the scaled scores, weighted per row.

        Shapes:
            total: float32 [q, n], is changed; weights: float32 [q]
        """
        factors = weights * self.scale
        if sp.issparse(self.values):
            owner = np.repeat(np.arange(self.rows), np.diff(self.values.indptr))
            total[owner, self.values.indices] += self.values.data * factors[owner]
        else:
            total += self.values * factors[:, None]

    def get_scores(self, rows: Rows, items: Rows) -> npt.NDArray[np.float32]:
        """Give the scaled scores of some places.

        Shapes:
            rows, items: int64 [m], by row, items ascending
            returns: float32 [m]
        """
        if sp.issparse(self.values):
            found = _read_entries(self.values, rows, items)
        else:
            found = self.values[np.minimum(rows, len(self.values) - 1), items]
        scaled: npt.NDArray[np.float32] = found * self.scale[np.minimum(rows, len(self.scale) - 1)]
        return scaled

    def select_best(self, row: int, depth: int, seen: Mask) -> Rows:
        """List the items with the highest scores of one row that were not seen, in no order.

        An item with the lowest score of its row is never listed: the part says nothing about it.

        Shapes:
            seen: bool [n]
            returns: int64 [m], m <= depth
        """
        if self.order is not None:
            found: Rows = self.order[~seen[self.order]][:depth]
            return found
        if sp.issparse(self.values):
            part = slice(self.values.indptr[row], self.values.indptr[row + 1])
            items, values, lowest = self.values.indices[part], self.values.data[part], 0.0
        else:
            values = self.values[row]
            items, lowest = np.arange(len(values)), float(values.min(initial=np.inf))
        kept = np.flatnonzero((values > lowest) & ~seen[items])
        if len(kept) > depth:
            kept = kept[np.argpartition(values[kept], len(kept) - depth)[len(kept) - depth :]]
        best: Rows = items[kept].astype(np.int64)
        return best


def _sort_items(values: npt.NDArray[np.float32]) -> Rows:
    """Sort items by a common score, best first, without those that have the lowest."""
    order = np.argsort(-values, kind="stable")
    ordered: Rows = order[values[order] > values.min(initial=np.inf)].astype(np.int64)
    return ordered


def _dense_scale(scores: Batch) -> npt.NDArray[np.float32]:
    return _invert(scores.std(axis=1, dtype=np.float64) if scores.size else np.zeros(len(scores)))


def _sparse_scale(scores: Any) -> npt.NDArray[np.float32]:
    """Work out the spread of rows whose other places are all 0."""
    count = max(scores.shape[1], 1)
    owner = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    values = scores.data.astype(np.float64)
    mean = np.bincount(owner, values, scores.shape[0]) / count
    square = np.bincount(owner, values * values, scores.shape[0]) / count
    return _invert(np.sqrt(np.maximum(square - mean * mean, 0.0)))


def _invert(spread: Floats) -> npt.NDArray[np.float32]:
    usable = np.isfinite(spread) & (spread > 1e-12)
    return np.divide(1.0, spread, out=np.zeros_like(spread), where=usable).astype(np.float32)


def _read_entries(matrix: Any, rows: Rows, items: Rows) -> npt.NDArray[np.float32]:
    """Read places of a CSR matrix; those that are not stored are 0."""
    width = matrix.shape[1]
    owner = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    if not matrix.has_sorted_indices:
        matrix.sort_indices()
    keys = owner * width + matrix.indices
    wanted = rows * width + items
    places = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    if not len(keys):
        return np.zeros(len(rows), np.float32)
    found: npt.NDArray[np.float32] = np.where(keys[places] == wanted, matrix.data[places], np.float32(0))
    return found
