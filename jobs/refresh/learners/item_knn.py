"""Item-to-item cosine with shrinkage, block by block: the model for catalogs that EASE can't hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from pydantic import Field

from actors.learned.histories import Fading
from actors.learned.model import Parts
from actors.learned.neighbours import Neighbours
from jobs.refresh.events.dataset import Interactions
from jobs.refresh.learner import PartRecipe
from jobs.refresh.learners.matrix import reader_item
from jobs.refresh.learners.neighbours import pruned, tidy

_BLOCK_PAIRS = 5_000_000


class ItemKnnRecipe(PartRecipe):
    """Parameters of item-kNN."""

    learner: Literal["item_knn"] = "item_knn"
    neighbours: int = Field(default=100, ge=1)
    "Neighbours kept per item."
    shrinkage: float = Field(default=10.0, ge=0)
    "Readers in common that stand for doubt: more for sparse data."
    half_life_days: float | None = Field(default=None, gt=0)
    "Halves what an event of training is worth for every so many days of age."
    fading: Fading = Fading()
    "How the history fades when scoring."


@dataclass(frozen=True, slots=True)
class ItemKnn:
    """The learner."""

    recipe: ItemKnnRecipe = field(default_factory=ItemKnnRecipe)

    def train(self, data: Interactions, rng: np.random.Generator) -> Neighbours:
        """Compare all items with each other.

        Cost:
            grows with the sum of squared history lengths; memory is bounded by blocks
        """
        matrix = reader_item(data, self.recipe.half_life_days)
        lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=0)).ravel())
        by_item = matrix.T.tocsr()
        blocks = [
            _block(by_item[first:last], matrix, lengths[first:last], lengths, first, self.recipe)
            for first, last in _blocks(by_item, matrix)
        ]
        whole = sp.vstack(blocks, format="csr") if blocks else sp.csr_matrix((data.n_items, data.n_items))
        return Neighbours(tidy(whole), self.recipe.fading)

    def load(self, parts: Parts) -> Neighbours:
        """Bring back what was learned."""
        return Neighbours.load(parts)


def _block(by_item: Any, matrix: Any, own: Any, lengths: Any, first: int, recipe: ItemKnnRecipe) -> Any:
    """Compare some items with all.

    Shapes:
        by_item: CSR [b, readers]; matrix: CSR [readers, n]; own: float [b]; lengths: float [n]
        returns: CSR float32 [b, n]
    """
    products = (by_item @ matrix).tocsr()
    rows = np.repeat(np.arange(products.shape[0]), np.diff(products.indptr))
    norms = own[rows] * lengths[products.indices]
    values = products.data / (norms + recipe.shrinkage)
    values[products.indices == rows + first] = 0.0
    products.data = values
    products.eliminate_zeros()
    return pruned(products, recipe.neighbours)


def _blocks(by_item: Any, matrix: Any) -> list[tuple[int, int]]:
    """Cut the items so that no block makes more than some million products."""
    work = by_item.astype(np.bool_).astype(np.float64) @ np.diff(matrix.indptr).astype(np.float64)
    number = (np.cumsum(work) / _BLOCK_PAIRS).astype(np.int64)
    cuts = np.flatnonzero(np.diff(number)) + 1
    bounds = [0, *cuts.tolist(), len(work)]
    return [(first, last) for first, last in pairwise(bounds) if last > first]
