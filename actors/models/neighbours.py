"""Item-to-item models: one sparse matrix of weighted pairs, and the time decay of a history.

Most models have this form. The scores of a user are the weighted sum of the matrix rows of the items in the history.

The sum is one pass over the weights in compiled code, without copies. It uses the product of a CSC matrix and a vector
of scipy, with the selected rows as columns. The routine reads all weights between two bounds, so there are bounds for
each row and for the gap after it. Rows go from last to first: a gap then ends before it begins, and adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from actors.models.model import Batch
from actors.models.user_histories import TimeDecay, UserHistories, apply_time_decay
from actors.models.user_history import UserHistory
from actors.vectors.row_selection import expand_runs
from actors.vectors.snapshot_arrays import Array, ModelState
from actors.vectors.types import Rows, Scores

try:
    from scipy.sparse import _sparsetools
except ImportError:  # private in scipy: without it, numpy computes the same
    _sparsetools = None
csc_matvec: Any = getattr(_sparsetools, "csc_matvec", None)


def add_rows(matrix: Any, rows: Rows, weights: Scores, total: Scores) -> int:
    """Add weighted rows of a CSR matrix to `total`; return the number of matrix entries used.

    Shapes:
        matrix: CSR float32 [r, n], its two indexes of one type; rows: int64 [m], may repeat; weights: float32 [m];
        total: float32 [n or more], changed in place
    Cost:
        8,000 weights: 10 us, with numpy alone 60 us
    """
    if not len(rows):
        return 0
    starts = matrix.indptr
    if csc_matvec is None or starts.dtype != matrix.indices.dtype:
        return _add_gathered(matrix, rows, weights, total)
    # From the last row to the first, so that each gap between two rows ends before it begins.
    order = np.argsort(-rows)
    rows = rows[order]
    bounds = np.empty(2 * len(rows), starts.dtype)
    # bounds = [begin, end, begin, end, ...]: even columns are rows, odd ones the gaps, which get weight 0.
    np.take(starts, rows, out=bounds[0::2])
    np.take(starts, rows + 1, out=bounds[1::2])
    shares = np.zeros(2 * len(rows), np.float32)
    shares[0::2] = weights[order]
    # 2m bounds enclose 2m - 1 columns: m rows and the gaps between them.
    csc_matvec(len(total), 2 * len(rows) - 1, bounds, matrix.indices, matrix.data, shares, total)
    return int(bounds[1::2].sum() - bounds[0::2].sum())


def _add_gathered(matrix: Any, rows: Rows, weights: Scores, total: Scores) -> int:
    first = matrix.indptr[rows].astype(np.int64)
    lengths = matrix.indptr[rows + 1] - first
    taken = expand_runs(first, lengths)
    # `+=` would keep one addend of an item that stands in several rows; `add.at` keeps all.
    np.add.at(total, matrix.indices[taken], matrix.data[taken] * np.repeat(weights, lengths))
    return len(taken)


@dataclass(frozen=True, slots=True)
class NeighbourModel:
    """A model of weighted pairs.

    Shapes:
        weights: scipy CSR float32 [n, n]; row = item of the history, column = item to recommend
    """

    weights: Any
    fading: TimeDecay

    def sparse(self, histories: UserHistories) -> Any:
        """Return the scores of all histories as a sparse matrix.

        Shapes:
            returns: CSR float32 [q, n]
        """
        return apply_time_decay(histories, self.fading) @ self.weights

    def score(self, histories: UserHistories) -> Batch:
        """Return the scores of all histories.

        Shapes:
            returns: float32 [q, n]
        """
        scores: Batch = self.sparse(histories).toarray()
        return scores

    def quick(self, past: UserHistory) -> tuple[npt.NDArray[np.integer], Scores]:
        """Return the weighted pairs of one history, read directly from the mapped arrays.

        Shapes:
            returns: int [m], items, and float32 [m], their scores; scores of repeated items add up
        """
        items, weights = past.apply_time_decay(self.fading)
        starts = self.weights.indptr
        first = starts[items]
        last = starts[items + 1]
        # Plain integers: a slice with numpy scalars takes several times as long.
        bounds = list(zip(first.tolist(), last.tolist(), strict=True))
        if not bounds:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        neighbours = np.concatenate([self.weights.indices[a:b] for a, b in bounds])
        values = np.concatenate([self.weights.data[a:b] for a, b in bounds])
        # y(p) = sum over i of f(i) W(i, p); repeated items add up later (equation 19)
        return neighbours, values * np.repeat(weights, last - first)

    def add_to(self, total: Scores, past: UserHistory) -> int:
        """Add the scores of one history to `total`; return the number of pairs used.

        Shapes:
            total: float32 [n or more], changed in place
        Cost:
            8,000 pairs: 25 us
        """
        return add_rows(self.weights, *past.apply_time_decay(self.fading), total)

    def save(self) -> ModelState:
        """Return the matrix as three arrays and the time decay as facts."""
        weights = self.weights
        return ModelState(
            arrays={"starts": weights.indptr, "items": weights.indices, "weights": weights.data},
            facts={"fading": self.fading.model_dump(), "items": int(weights.shape[0])},
        )

    @classmethod
    def load(cls, parts: ModelState) -> NeighbourModel:
        """Return the model of a saved state, without copying its arrays."""
        count = int(parts.facts["items"])
        starts, items, values = (parts.array(name) for name in ("starts", "items", "weights"))
        return cls(csr_from_arrays(starts, items, values, (count, count)), TimeDecay(**parts.facts["fading"]))


def csr_from_arrays(starts: Array, columns: Array, values: Array, shape: tuple[int, int]) -> Any:
    """Return a sparse matrix over its three arrays, without reading them.

    Shapes:
        starts: int [rows + 1]; columns: int [m]; values: float32 [m]
        returns: CSR float32 [rows, columns]
    """
    matrix = sp.csr_matrix(shape, dtype=np.float32)
    # set one by one: the constructor would check, and so read, every page of a memory-mapped array.
    # plain arrays over the same memory: every slice of a memmap object costs a microsecond more
    matrix.data = np.asarray(values)
    matrix.indices = np.asarray(columns)
    matrix.indptr = np.asarray(starts)
    return matrix
