"""Item-to-item cosine similarity with shrinkage, computed in blocks, for catalogs that are too large for EASE."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from pydantic import Field

from actors.models.neighbours import NeighbourModel
from actors.models.user_histories import TimeDecay
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.interaction_matrix import build_user_item_matrix, split_item_blocks
from jobs.refresh.learners.neighbours.sparse_weights import normalize_matrix, prune_rows
from jobs.refresh.learners.protocol import BuiltInLearner, PartRecipe


class ItemKnnRecipe(PartRecipe):
    """Parameters of item-kNN."""

    learner: Literal["item_knn"] = "item_knn"
    neighbours: int = Field(default=100, ge=1)
    "Neighbours kept per item."
    shrinkage: float = Field(default=10.0, ge=0)
    "Shrinkage of similarities with few common users; sparse data need more."
    half_life_days: float | None = Field(default=None, gt=0)
    "Half-life in days of an event's weight in training."
    fading: TimeDecay = TimeDecay()
    "Time decay of the history when scoring."


class ItemKnnLearner(BuiltInLearner[ItemKnnRecipe]):
    """Learner of item-kNN."""

    def train(self, data: Interactions, rng: np.random.Generator) -> NeighbourModel:
        """Compute the nearest neighbours of each item and return the model.

        Cost:
            grows with the sum of squared history lengths; memory is bounded by blocks
        """
        matrix = build_user_item_matrix(data, self.recipe.half_life_days)
        lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=0)).ravel())
        by_item = matrix.T.tocsr()
        blocks = [
            _block(by_item[first:last], matrix, lengths[first:last], lengths, first, self.recipe)
            for first, last in split_item_blocks(by_item, matrix)
        ]
        whole = sp.vstack(blocks, format="csr") if blocks else sp.csr_matrix((data.n_items, data.n_items))
        return NeighbourModel(normalize_matrix(whole), self.recipe.fading)


def _block(
    by_item: Any, matrix: Any, row_lengths: Any, lengths: Any, first: int, recipe: ItemKnnRecipe
) -> Any:
    """Return the similarity of some items to all items.

    Shapes:
        by_item: CSR [b, users]; matrix: CSR [users, n]; row_lengths: float [b]; lengths: float [n]
        returns: CSR float32 [b, n]
    """
    products = (by_item @ matrix).tocsr()
    rows = np.repeat(np.arange(products.shape[0]), np.diff(products.indptr))
    norms = row_lengths[rows] * lengths[products.indices]
    # R_i . R_p / (|R_i| |R_p| + shrinkage) (equation 19)
    values = products.data / (norms + recipe.shrinkage)
    # An item is most similar to itself, and would take the first place among its neighbours.
    values[products.indices == rows + first] = 0.0
    products.data = values
    products.eliminate_zeros()
    return prune_rows(products, recipe.neighbours)
