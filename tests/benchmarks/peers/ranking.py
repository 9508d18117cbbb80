"""What a ranking team would build first, written plainly and apart from our own code.

Every peer learns from the same events, is scored by the same examination, and where it has a parameter that matters
a few values are tried on the same validation: beating a badly set up peer proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import lapack

from actors.models.user_histories import UserHistories
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.evaluation.evaluate import Scorer

Train = Callable[[Interactions], Scorer]


@dataclass(frozen=True)
class Peer:
    """A name and the settings that are tried."""

    name: str
    settings: tuple[tuple[str, Train], ...]


def peers(n_items: int) -> list[Peer]:
    """List the peers that can be run on a catalog of this size."""
    lambdas = (100.0, 300.0, 1000.0) if n_items <= 5_000 else (300.0,)
    return [
        Peer("popularity", (("", Popular),)),
        Peer("item-kNN (cosine)", tuple((f"k {k}", _item_knn(k)) for k in (20, 100))),
        Peer("EASE", tuple((f"lambda {value:g}", _ease(value)) for value in lambdas)),
        Peer("sequential rules", (("window 5", Follows),)),
    ]


class Popular:
    """How many users have each item."""

    def __init__(self, data: Interactions) -> None:
        self._counts = np.asarray(_matrix(data).sum(axis=0)).ravel().astype(np.float32)

    def score(self, histories: UserHistories) -> npt.NDArray[np.float32]:
        return np.tile(self._counts, (len(histories), 1))


class Similar:
    """Sum of item-to-item weights over a history, independent of its order."""

    def __init__(self, weights: Any) -> None:
        self._weights = weights

    def score(self, histories: UserHistories) -> npt.NDArray[np.float32]:
        scores = histories.seen().astype(np.float32) @ self._weights
        return np.asarray(scores.toarray() if sp.issparse(scores) else scores, np.float32)


class Follows:
    """Pairs within a window of 5, one over the distance, damped by frequency; the last items count, halved each."""

    def __init__(self, data: Interactions, window: int = 5) -> None:
        shape = (data.n_items, data.n_items)
        pairs = sp.csr_matrix(shape, dtype=np.float32)
        for distance in range(1, window + 1):
            same = data.reader[distance:] == data.reader[:-distance]
            places = (data.item[:-distance][same], data.item[distance:][same])
            pairs = pairs + sp.csr_matrix(
                (np.full(len(places[0]), 1 / distance, np.float32), places), shape=shape
            )
        frequency = np.maximum(np.bincount(data.item, minlength=data.n_items), 1.0)
        self._weights = (pairs @ sp.diags_array(frequency**-0.1)).tocsr().astype(np.float32)

    def score(self, histories: UserHistories) -> npt.NDArray[np.float32]:
        from_end = histories.starts[1:][histories.owners()] - 1 - np.arange(len(histories.items))
        kept = (histories.items >= 0) & (from_end < 30)
        places = (histories.owners()[kept], histories.items[kept])
        shape = (len(histories), histories.n_items)
        last = sp.csr_matrix((0.5 ** from_end[kept], places), shape=shape).astype(np.float32)
        return np.asarray((last @ self._weights).toarray(), np.float32)


def _matrix(data: Interactions) -> Any:
    shape = (data.n_readers, data.n_items)
    matrix = sp.csr_matrix((np.ones(len(data), np.float32), (data.reader, data.item)), shape=shape)
    matrix.data[:] = 1
    return matrix


def _item_knn(k: int) -> Train:
    def train(data: Interactions) -> Scorer:
        matrix = _matrix(data).tocsc()
        lengths = np.sqrt(np.maximum(np.asarray(matrix.sum(axis=0)).ravel(), 1))
        unit = (matrix @ sp.diags_array(1 / lengths)).tocsc()
        rows = []
        for first in range(0, data.n_items, 1_000):
            block = (unit[:, first : first + 1_000].T @ unit).toarray()
            block[np.arange(len(block)), np.arange(first, first + len(block))] = 0
            cut = np.partition(block, -k, axis=1)[:, -k, None]
            block[block < cut] = 0
            rows.append(sp.csr_matrix(block.astype(np.float32)))
        return Similar(sp.vstack(rows, format="csr"))

    return train


def _ease(regularisation: float) -> Train:
    def train(data: Interactions) -> Scorer:
        matrix = _matrix(data)
        gram = (matrix.T @ matrix).toarray().astype(np.float32)
        gram[np.diag_indices_from(gram)] += regularisation
        factor, _ = lapack.spotrf(np.asfortranarray(gram), lower=1, overwrite_a=1)
        half, _ = lapack.spotri(factor, lower=1, overwrite_c=1)  # the same as inv(), three times as fast
        inverse = np.tril(half) + np.tril(half, -1).T
        weights = inverse / -np.diag(inverse)
        weights[np.diag_indices_from(weights)] = 0
        return Similar(weights)

    return train
