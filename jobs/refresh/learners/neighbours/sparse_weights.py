"""Conversion of trained weights to the sparse matrix of `actors.models.neighbours`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from actors.vectors.types import Rows

_INT32_MOST = 2**31 - 1


def normalize_matrix(weights: Any) -> Any:
    """Return a matrix in stored form: columns ascending, float32, both index arrays of one type.

    Shapes:
        weights: CSR [b, n]
        returns: CSR float32 [b, n]
    """
    weights = weights.tocsr()
    weights.sum_duplicates()
    weights.eliminate_zeros()
    # Serving needs both index arrays of one type (`add_rows`), and 32 bits halve their size.
    kind = np.int32 if max(weights.nnz, *weights.shape) <= _INT32_MOST else np.int64
    kept = sp.csr_matrix(weights.shape, dtype=np.float32)
    kept.data = weights.data.astype(np.float32)
    kept.indices = weights.indices.astype(kind)
    kept.indptr = weights.indptr.astype(kind)
    return kept


def prune_rows(weights: Any, keep: int) -> Any:
    """Return the largest weights of each row; ties are broken by the smaller column.

    Shapes:
        weights: CSR [b, n], weights above 0
        returns: CSR [b, n]
    """
    weights = weights.tocsr()
    weights.sum_duplicates()
    lengths = np.diff(weights.indptr)
    crowded = np.flatnonzero(lengths > keep)
    if not len(crowded):
        return weights
    kept = np.ones(weights.nnz, np.bool_)
    for row in crowded.tolist():
        first = weights.indptr[row]
        last = weights.indptr[row + 1]
        values = weights.data[first:last]
        # A partition decides by value; ties at the border go to the smaller columns, so equal data stay
        # equal.
        cut = np.partition(values, len(values) - keep)[len(values) - keep]
        kept[first:last] = values > cut
        ties = np.flatnonzero(values == cut)
        kept[first + ties[: keep - int(np.count_nonzero(kept[first:last]))]] = True
    starts = np.concatenate(([0], np.cumsum(np.minimum(lengths, keep))))
    return sp.csr_matrix((weights.data[kept], weights.indices[kept], starts), shape=weights.shape)


def select_strongest(block: npt.NDArray[np.float32], keep: int, columns: Rows, width: int) -> Any:
    """Return the weights of largest absolute value of each row of a dense block.

    Shapes:
        block: float32 [b, c], is modified
        columns: int64 [c], ascending, position of each column in the full matrix
        returns: CSR float32 [b, width]
    """
    count = block.shape[1]
    if keep < count:
        size = np.abs(block)
        cut = np.partition(size, count - keep, axis=1)[:, count - keep, None]
        # Ties at the border all stay, so that a row may have a few more than `keep`.
        block[size < cut] = 0.0
    kept = sp.csr_matrix(block)
    return sp.csr_matrix((kept.data, columns[kept.indices], kept.indptr), shape=(len(block), width))


def expand_to_catalog(weights: Any, rows: Rows, n_items: int) -> Any:
    """Return a matrix whose rows are at their positions in the catalog.

    Shapes:
        weights: CSR [b, n]; rows: int64 [b], ascending
        returns: CSR float32 [n, n]
    """
    lengths = np.zeros(n_items, np.int64)
    lengths[rows] = np.diff(weights.indptr)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    return normalize_matrix(sp.csr_matrix((weights.data, weights.indices, starts), shape=(n_items, n_items)))
