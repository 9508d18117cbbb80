"""Item neighbours by content similarity; they include items without events."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pydantic import Field

from actors.models.neighbours import NeighbourModel
from actors.models.user_histories import TimeDecay
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.neighbours.sparse_weights import normalize_matrix, select_strongest
from jobs.refresh.learners.protocol import BuiltInLearner, PartRecipe

_BLOCK_BYTES = 64 << 20


class ContentKnnRecipe(PartRecipe):
    """Parameters of content neighbours."""

    learner: Literal["content_knn"] = "content_knn"
    neighbours: int = Field(default=200, ge=1)
    "Neighbours kept per item."
    power: float = Field(default=3.0, gt=0, le=10)
    "Exponent of the similarity; a value above 1 favours very similar items."
    fading: TimeDecay = TimeDecay(half_life_items=2.0)
    "Time decay of the history when scoring."


class ContentKnnLearner(BuiltInLearner[ContentKnnRecipe]):
    """Learner of content neighbours; without content, its model scores all items 0."""

    def train(self, data: Interactions, rng: np.random.Generator) -> NeighbourModel:
        """Find the most similar items of each item and return the model.

        Cost:
            n = 10,000, d = 128: 1.5 s on one core; grows with the square of n
        """
        nothing = sp.csr_matrix((data.n_items, data.n_items), dtype=np.float32)
        if data.content is None or not data.n_items:
            return NeighbourModel(normalize_matrix(nothing), self.recipe.fading)
        step = max(1, _BLOCK_BYTES // (4 * data.n_items))
        columns = np.arange(data.n_items)
        blocks = []
        for first in range(0, data.n_items, step):
            alike = self._similarities(data.content[first : first + step], data.content)
            # The diagonal: an item is no neighbour of itself.
            alike[np.arange(len(alike)), np.arange(first, first + len(alike))] = 0.0
            blocks.append(select_strongest(alike, self.recipe.neighbours, columns, data.n_items))
        return NeighbourModel(normalize_matrix(sp.vstack(blocks, format="csr")), self.recipe.fading)

    def _similarities(self, some: Any, content: Any) -> npt.NDArray[np.float32]:
        """Compute the similarity of some items to all items.

        Shapes:
            some: [b, d]; content: [n, d]
            returns: float32 [b, n], 0 or more, fresh
        """
        products = some @ content.T
        alike = products.toarray() if sp.issparse(products) else products
        raised: npt.NDArray[np.float32] = np.maximum(alike, 0.0) ** self.recipe.power
        return raised.astype(np.float32, copy=False)
