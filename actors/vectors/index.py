"""A vector index by row: put, remove, score all, search within a mask.

A flat index is exact under any filter, and fast enough up to about a million rows.
"""

from __future__ import annotations

import faiss
import numpy as np

from actors.vectors.types import Mask, Matrix, Rows, Scores, Vector


class VectorIndex:
    """A flat inner-product index whose positions are a catalog's rows. Not safe for several threads at once."""

    def __init__(self, dimensions: int) -> None:
        # one thread for all of faiss: replicas share the cores, and a request must not use all of them
        faiss.omp_set_num_threads(1)
        self._flat = faiss.IndexFlatIP(dimensions)
        self._view: Matrix = np.zeros((0, dimensions), np.float32)
        self.dimensions = dimensions

    def __len__(self) -> int:
        """Return the number of rows, including rows without a vector."""
        return int(self._flat.ntotal)

    @property
    def nbytes(self) -> int:
        return int(self._view.nbytes)

    def put(self, rows: Rows, vectors: Matrix) -> None:
        """Set the vectors of rows. New rows in between get zeros.

        Shapes:
            rows: int64 [m], no row twice
            vectors: float32 [m, d]
        """
        if len(rows):
            self.reserve(int(rows.max()) + 1)
            self._view[rows] = vectors

    def remove(self, rows: Rows) -> None:
        """Delete the vectors of rows. The rows stay and score 0.

        Shapes:
            rows: int64 [m]
        """
        # Zeros, not a removal: faiss would move later rows, and rows are those of the catalog.
        self._view[rows[rows < len(self)]] = 0

    def reserve(self, count: int) -> None:
        """Grow to at least `count` rows."""
        missing = count - len(self)
        if missing > 0:
            self._flat.add(np.zeros((missing, self.dimensions), np.float32))
            # `add` can move the storage, so it needs a new view; nothing else calls `add`
            stored = faiss.rev_swig_ptr(self._flat.get_xb(), len(self) * self.dimensions)
            self._view = stored.reshape(len(self), self.dimensions)

    def take(self, rows: Rows) -> Matrix:
        """Return a copy of the vectors of some rows.

        Shapes:
            rows: int64 [m]
            returns: float32 [m, d]
        """
        return self._view[rows]

    def scores(self, query: Vector) -> Scores:
        """Return the score of every row.

        Shapes:
            query: float32 [d]
            returns: float32 [n]
        Units:
            inner product: cosine where both sides have length 1
        Cost:
            0.07 ms for 10,000 x 128, 1.8 ms for 100,000 x 128, one thread (benchmarks/recommender_inprocess.py)
        """
        scores: Scores = self._view @ query
        return scores

    def search(self, query: Vector, k: int, allowed: Mask | None = None) -> tuple[Rows, Scores]:
        """Return the k nearest rows, within a mask if given.

        Shapes:
            query: float32 [d]
            allowed: bool [n]
            returns: int64 [m] and float32 [m], best first, m <= k
        """
        # faiss fills missing results with row -1, which would read the last row.
        k = min(k, len(self) if allowed is None else int(np.count_nonzero(allowed)))
        if k == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        parameters = None
        if allowed is not None:
            bits = np.packbits(allowed, bitorder="little")
            selector = faiss.IDSelectorBitmap(len(allowed), faiss.swig_ptr(bits))
            parameters = faiss.SearchParameters()
            parameters.sel = selector
        scores, rows = self._flat.search(query[None, :], k, params=parameters)
        return rows[0], scores[0]

    def moments(self, rows: Rows) -> tuple[Vector, Matrix]:
        """Return sum and sum of outer products of the vectors of rows, for mean and deviation of scores.

        Shapes:
            returns: float32 [d] and float32 [d, d]
        """
        vectors = self._view[rows]
        return vectors.sum(axis=0), vectors.T @ vectors
