"""Vectors by row: put, remove, score all, search within a mask.

A flat index is exact under any filter, and up to about a million rows fast enough.
"""

from __future__ import annotations

import faiss
import numpy as np

from actors.vectors.types import Mask, Matrix, Rows, Scores, Vector


class VectorIndex:
    """A flat inner-product index whose positions are a catalog's rows. Not safe for several threads at once."""

    def __init__(self, dimensions: int) -> None:
        # one thread for all of faiss: replicas share the cores, and a request must not take them all (S4)
        faiss.omp_set_num_threads(1)
        self._flat = faiss.IndexFlatIP(dimensions)
        self._view: Matrix = np.zeros((0, dimensions), np.float32)
        self.dimensions = dimensions

    def __len__(self) -> int:
        """Count rows, those without a vector included."""
        return int(self._flat.ntotal)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return int(self._view.nbytes)

    def put(self, rows: Rows, vectors: Matrix) -> None:
        """Set the vectors of rows, old or new; rows in between get zeros.

        Shapes:
            rows: int64 [m], no row twice
            vectors: float32 [m, d]
        """
        if len(rows):
            self.reserve(int(rows.max()) + 1)
            self._view[rows] = vectors

    def remove(self, rows: Rows) -> None:
        """Forget vectors; the rows stay and score 0."""
        self._view[rows[rows < len(self)]] = 0

    def reserve(self, count: int) -> None:
        """Have at least `count` rows."""
        missing = count - len(self)
        if missing > 0:
            self._flat.add(np.zeros((missing, self.dimensions), np.float32))
            # adding may move the storage, so the view is renewed here and nowhere else
            stored = faiss.rev_swig_ptr(self._flat.get_xb(), len(self) * self.dimensions)
            self._view = stored.reshape(len(self), self.dimensions)

    def take(self, rows: Rows) -> Matrix:
        """Copy the vectors of some rows."""
        return self._view[rows]

    def scores(self, query: Vector) -> Scores:
        """Score every row.

        Shapes:
            query: float32 [d]
            returns: float32 [n]
        Units:
            inner product: cosine where both sides have length 1
        Cost:
            0.07 ms for 10,000 x 128, 1.8 ms for 100,000 x 128, one thread (benchmarks/recommender_inprocess.py)
        """
        found: Scores = self._view @ query
        return found

    def search(self, query: Vector, k: int, allowed: Mask | None = None) -> tuple[Rows, Scores]:
        """Find the k nearest rows, within a mask when one is given.

        Shapes:
            query: float32 [d]
            allowed: bool [n]
            returns: int64 [m] and float32 [m], best first, m <= k
        """
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
        """Sum and sum of outer products of some rows' vectors: what mean and spread of any score need.

        Shapes:
            returns: float32 [d] and float32 [d, d]
        """
        vectors = self._view[rows]
        return vectors.sum(axis=0), vectors.T @ vectors
