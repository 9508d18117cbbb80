"""GF-CF: a low-pass filter on the graph of users and items, for catalogs that are too large for EASE.

    R~ = D_U^-1/2 R D_I^-1/2,   W = R~'R~ + alpha D_I^-1/2 V V' D_I^1/2,   V the first right singular vectors of R~

The second term is computed only where the first one is not zero, because its full matrix is dense. So the model is
a sparse item-to-item matrix for any catalog size.

Source:
    Y. Shen et al., How Powerful is Graph Convolution for Recommendation?, CIKM 2021
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from pydantic import Field

from actors.models.neighbours import NeighbourModel
from actors.models.user_histories import TimeDecay
from actors.vectors.types import Floats, Matrix
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.interaction_matrix import build_user_item_matrix, split_item_blocks
from jobs.refresh.learners.neighbours.sparse_weights import normalize_matrix, prune_rows
from jobs.refresh.learners.protocol import BuiltInLearner, PartRecipe

# Additional random directions; without them the last singular vectors are inexact (Halko et al.).
_OVERSAMPLING = 8
# Products of vectors computed at once: bounds of the memory for gathered rows.
_VALUES_AT_ONCE = 1 << 22
_SMALLEST = 1e-9


class GraphFilterRecipe(PartRecipe):
    """Parameters of the graph filter."""

    learner: Literal["graph_filter"] = "graph_filter"
    factors: int = Field(default=128, ge=1, le=1_024)
    "Number of singular vectors of the ideal low-pass filter."
    alpha: float = Field(default=0.3, ge=0, le=10)
    "Weight of the ideal low-pass filter; 0 disables it."
    rounds: int = Field(default=2, ge=0, le=20)
    "Number of power iterations of the randomised decomposition."
    keep: int = Field(default=300, ge=1)
    "Weights kept per item."
    half_life_days: float | None = Field(default=None, gt=0)
    "Half-life in days of an event's weight in training."
    fading: TimeDecay = TimeDecay(half_life_items=None)
    "Time decay of the history when scoring."


class GraphFilterLearner(BuiltInLearner[GraphFilterRecipe]):
    """Learner of the graph filter."""

    def train(self, data: Interactions, rng: np.random.Generator) -> NeighbourModel:
        """Train item-to-item weights and return the model.

        Cost:
            400,000 events, 40,000 items: 10 s on one core; memory is bounded by blocks of items and the factors
        """
        matrix = build_user_item_matrix(data, self.recipe.half_life_days)
        of_users, of_items = (np.asarray(matrix.sum(axis=axis)).ravel() for axis in (1, 0))
        scaled = normalize_matrix(
            sp.diags_array(_inverse_root(of_users)) @ matrix @ sp.diags_array(_inverse_root(of_items))
        )
        vectors = self._vectors(scaled, rng)
        roots = np.sqrt(of_items).astype(np.float32)
        by_item = scaled.T.tocsr()
        blocks = [
            self._block(by_item[first:last], scaled, vectors, roots, first)
            for first, last in split_item_blocks(by_item, scaled)
        ]
        whole = sp.vstack(blocks, format="csr") if blocks else sp.csr_matrix((data.n_items, data.n_items))
        return NeighbourModel(normalize_matrix(whole), self.recipe.fading)

    def _vectors(self, scaled: Any, rng: np.random.Generator) -> Matrix:
        factors = min(self.recipe.factors, *scaled.shape)
        if not self.recipe.alpha or not scaled.nnz:
            return np.zeros((scaled.shape[1], 0), np.float32)
        return compute_right_singular_vectors(scaled, factors, self.recipe.rounds, rng)

    def _block(self, some: Any, scaled: Any, vectors: Matrix, roots: Matrix, first: int) -> Any:
        """Return the filtered weights of some items.

        Shapes:
            some: CSR [b, users]; scaled: CSR [users, n]; vectors: float32 [n, f]; roots: float32 [n]
            returns: CSR float32 [b, n]
        """
        # Four times as many as are kept: the second term may still change the order of near equals.
        pairs = prune_rows((some @ scaled).tocsr(), 4 * self.recipe.keep)
        rows = np.repeat(np.arange(first, first + pairs.shape[0]), np.diff(pairs.indptr))
        if vectors.shape[1]:
            step = max(1, _VALUES_AT_ONCE // vectors.shape[1])
            for at in range(0, pairs.nnz, step):
                place = slice(at, at + step)
                left = rows[place]
                right = pairs.indices[place]
                # alpha (D^-1/2 V V' D^1/2)(i, p), only for pairs of the first term (equation 19)
                low = np.einsum("mf,mf->m", vectors[left], vectors[right]) * roots[right] / roots[left]
                pairs.data[place] += np.float32(self.recipe.alpha) * low
        # The second term may make a sum negative; pruning needs values above 0.
        np.maximum(pairs.data, _SMALLEST, out=pairs.data)
        return prune_rows(pairs, self.recipe.keep)


def compute_right_singular_vectors(
    matrix: Any, factors: int, rounds: int, rng: np.random.Generator
) -> Matrix:
    """Return the first right singular vectors of a sparse matrix, computed by random projection.

    Shapes:
        matrix: CSR float32 [m, n]
        returns: float32 [n, factors], columns of length 1
    Source:
        N. Halko, P. Martinsson, J. Tropp, Finding Structure with Randomness, SIAM Review 2011
    """
    width = min(factors + _OVERSAMPLING, *matrix.shape)
    start = rng.standard_normal((matrix.shape[0], width), np.float32)
    flipped = matrix.T.tocsr()
    basis = flipped @ start
    del start
    # Orthogonal columns, renewed in each round: powers would collapse on the first vector.
    basis = np.linalg.qr(basis)[0]
    for _ in range(rounds):
        # Under one name, so that the former basis is freed before the decomposition, which needs the most memory.
        basis = flipped @ (matrix @ basis)
        basis = np.linalg.qr(basis)[0]
    # the small problem within the basis is solved exactly
    image = (matrix @ basis).astype(np.float64)
    values, turns = np.linalg.eigh(image.T @ image)
    largest = np.argsort(-values, kind="stable")[:factors]
    vectors: Matrix = (basis @ turns[:, largest]).astype(np.float32)
    return vectors


_ARRAYS_OF_ITEMS = 8
"Arrays of a number for each item and direction in the orthogonal decomposition, which computes in double precision."
_PAIRS_A_USER = 5
"Pairs of items of a user, as a multiple of the squared mean length of histories."


def estimate_memory_bytes(items: int, users: int, events: int, recipe: GraphFilterRecipe) -> int:
    """Return the estimated peak memory of the training in bytes.

    Measured with 20,000 to 200,000 items and 100,000 to 1,000,000 events: 1 to 2.6 times the peak.
    """
    each = 4 * (recipe.factors + _OVERSAMPLING)
    # The orthogonal decomposition, or the projection of the users in double precision.
    vectors = each * max(_ARRAYS_OF_ITEMS * items + users, 2 * items + 4 * users)
    # No item has more weights than products that its users also took.
    weights = min(float(items) * recipe.keep, _PAIRS_A_USER * float(events) ** 2 / max(users, 1))
    kept = each * items + 16 * round(weights) + (260 << 20)
    return max(vectors, kept) + 40 * events + (40 << 20)


def estimate_seconds(items: int, users: int, events: int, recipe: GraphFilterRecipe) -> float:
    """Return the estimated training time on one core in seconds."""
    width = recipe.factors + _OVERSAMPLING
    each = 4e-9 * events * width + 1e-10 * items * width * width
    return 2 * (recipe.rounds + 1) * each + 2e-7 * events * max(events / max(users, 1), 1.0)


def _inverse_root(sums: Floats) -> Floats:
    return np.divide(1.0, np.sqrt(sums), out=np.zeros(len(sums)), where=sums > 0)
