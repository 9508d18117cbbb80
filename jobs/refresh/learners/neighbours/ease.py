"""EASE: a linear model that predicts each item of a user from the user's other items, in closed form.

    B = I - P / diag(P),  P = (X'X + lambda I)^-1

Source:
    H. Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pydantic import Field
from scipy.linalg import lapack

from actors.models.neighbours import NeighbourModel
from actors.models.user_histories import TimeDecay
from actors.vectors.types import Rows
from cluster.errors import Invalid
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.interaction_matrix import build_user_item_matrix, select_frequent_items
from jobs.refresh.learners.neighbours.sparse_weights import (
    expand_to_catalog,
    normalize_matrix,
    select_strongest,
)
from jobs.refresh.learners.protocol import BuiltInLearner, PartRecipe

_BLOCK = 512
_FLOPS_PER_S = 1.1e11
"Throughput of one core in a small machine."
_WEIGHT_S = 1.7e-8
"Time for the selection of the strongest weights, for each weight."


class EaseRecipe(PartRecipe):
    """Parameters of EASE."""

    learner: Literal["ease"] = "ease"
    regularisation: float = Field(default=300.0, gt=0)
    "Lambda, the L2 penalty: 100 to 500 is usual; sparse or noisy data need more."
    keep: int = Field(default=300, ge=1)
    "Weights kept per item."
    items: int = Field(default=12_000, ge=1)
    "Maximum number of items, the most frequent first; time grows with its cube, memory with its square."
    half_life_days: float | None = Field(default=None, gt=0)
    "Half-life in days of an event's weight in training."
    fading: TimeDecay = TimeDecay()
    "Time decay of the history when scoring."


class EaseLearner(BuiltInLearner[EaseRecipe]):
    """Learner of EASE."""

    def train(self, data: Interactions, rng: np.random.Generator) -> NeighbourModel:
        """Train item-to-item weights and return the model.

        Errors:
            Invalid: the Gram matrix can't be inverted; the message names the parameter to change
        Cost:
            n = 12,000: 25 s on one core and 1.2 GB; n = 4,000: 1.2 s
        """
        matrix = build_user_item_matrix(data, self.recipe.half_life_days)
        chosen = select_frequent_items(matrix, self.recipe.items)
        if not len(chosen):
            nothing = normalize_matrix(sp.csr_matrix((data.n_items, data.n_items)))
            return NeighbourModel(nothing, self.recipe.fading)
        inverse = _gram_inverse(matrix[:, chosen], self.recipe.regularisation)
        weights = _prune_weights(inverse, chosen, data.n_items, self.recipe.keep)
        return NeighbourModel(weights, self.recipe.fading)


def estimate_memory_bytes(items: int, keep: int) -> int:
    """Return the estimated peak memory of the training in bytes."""
    # 4.3 bytes an entry: the float32 matrix, inverted in place, and blocks of it; 8 bytes a kept weight.
    return 43 * items * items // 10 + 8 * items * keep


def estimate_seconds(items: int) -> float:
    """Return the estimated training time on one core in seconds."""
    return items**3 / _FLOPS_PER_S + items**2 * _WEIGHT_S


def _gram_inverse(matrix: Any, regularisation: float) -> npt.NDArray[np.float32]:
    """Invert the regularised Gram matrix in place.

    Shapes:
        returns: float32 [n, n], only the lower triangle is valid
    """
    # Column order, which LAPACK works on in place: at 12,000 items a copy costs 0.6 GB.
    gram = np.asfortranarray((matrix.T @ matrix).astype(np.float32).toarray(order="F"))
    gram[np.diag_indices_from(gram)] += np.float32(regularisation)
    # Cholesky, then the inverse from the factor: less work than a general inverse, all in one array.
    factor, failed = lapack.spotrf(gram, lower=1, overwrite_a=1, clean=0)
    if not failed:
        factor, failed = lapack.spotri(factor, lower=1, overwrite_c=1)
    # LAPACK may report success for a nearly singular matrix; its inverse then has such a diagonal.
    if failed or not (np.isfinite(np.diag(factor)) & (np.diag(factor) > 0)).all():
        raise Invalid(f"EASE can't be solved with regularisation {regularisation:g}; make it larger")
    inverse: npt.NDArray[np.float32] = factor
    return inverse


def _prune_weights(lower: npt.NDArray[np.float32], chosen: Rows, n_items: int, keep: int) -> Any:
    """Compute weights from the inverse, keep the strongest of each row, and map rows and columns to the catalog."""
    count = len(chosen)
    diagonal = np.diag(lower).copy()
    blocks = []
    for first in range(0, count, _BLOCK):
        last = min(first + _BLOCK, count)
        block = np.empty((last - first, count), np.float32)
        block[:, :last] = lower[first:last, :last]
        for row in range(first, last):
            # the upper triangle is not filled; read its mirror image
            block[row - first, row:] = lower[row:, row]
        with np.errstate(over="ignore", invalid="ignore"):  # a nearly singular matrix overflows
            # W(i, p) = -P(i, p) / P(p, p), 0 on the diagonal (equation 19)
            block /= -diagonal
        block[np.arange(last - first), np.arange(first, last)] = 0.0
        blocks.append(select_strongest(block, keep, chosen, n_items))
    return expand_to_catalog(sp.vstack(blocks, format="csr"), chosen, n_items)
