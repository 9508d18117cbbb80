"""Items bought together: the number of common baskets, damped by item frequency."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
import scipy.sparse as sp
from pydantic import Field

from actors.models.neighbours import NeighbourModel
from actors.models.user_histories import TimeDecay
from actors.vectors.types import Floats
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.interaction_matrix import compute_event_weights
from jobs.refresh.learners.neighbours.sparse_weights import normalize_matrix, prune_rows
from jobs.refresh.learners.protocol import BuiltInLearner, PartRecipe

_BLOCK_PAIRS = 8_000_000


class BasketsRecipe(PartRecipe):
    """Parameters of basket co-occurrence."""

    learner: Literal["baskets"] = "baskets"
    kinds: tuple[str, ...] = ("checkout",)
    "Event types that form a basket; all types if none of these occurs."
    damping: float = Field(default=0.25, ge=0, le=1)
    "Exponent of the frequency of the other item, by which counts are divided."
    longest: int = Field(default=200, ge=2)
    "Baskets with more items are ignored: a wholesale order is no evidence of related items."
    half_life_days: float | None = Field(default=None, gt=0)
    "Half-life in days of a basket's weight."
    keep: int = Field(default=200, ge=1)
    "Weights kept per item."
    fading: TimeDecay = TimeDecay(half_life_items=None)
    "Time decay of the given items."


class BasketsLearner(BuiltInLearner[BasketsRecipe]):
    """Learner of basket co-occurrence."""

    def train(self, data: Interactions, rng: np.random.Generator) -> NeighbourModel:
        """Count pairs of items in common baskets and return the model."""
        bought = data.of_kinds(self.recipe.kinds)
        bought = bought if len(bought) else data
        bought = bought.pick(bought.weight > 0)
        if not len(bought):
            return NeighbourModel(
                normalize_matrix(sp.csr_matrix((data.n_items, data.n_items))), self.recipe.fading
            )
        baskets, basket = np.unique(bought.basket, return_inverse=True)
        worth = np.zeros(len(baskets))
        np.maximum.at(
            # The decay alone, without the weight of the event type: a basket counts once.
            worth,
            basket,
            compute_event_weights(bought, self.recipe.half_life_days) / bought.weight,
        )
        shape = (len(baskets), data.n_items)
        # Booleans: a product that a basket has twice counts once.
        lines = sp.csr_matrix((np.ones(len(basket), np.bool_), (basket, bought.item)), shape=shape)
        lines = lines.astype(np.float64)
        # Zeros in place of removed rows: the rows of `worth` keep their numbers.
        lines = sp.diags_array((np.diff(lines.indptr) <= self.recipe.longest).astype(np.float64)) @ lines
        lines.eliminate_zeros()
        weighted = (sp.diags_array(worth) @ lines).tocsr()
        frequency = np.maximum(np.asarray(lines.sum(axis=0)).ravel(), 1.0)
        whole = self._count_pairs(lines.T.tocsr(), weighted, frequency)
        return NeighbourModel(normalize_matrix(whole), self.recipe.fading)

    def _count_pairs(
        self, by_item: sp.csr_matrix, weighted: sp.csr_matrix, frequency: Floats
    ) -> sp.csr_matrix:
        """Count pairs in blocks of items, damp the counts and keep the strongest of each row."""
        sizes = np.diff(weighted.indptr).astype(np.float64)
        # Pairs up to each item, before equal ones are added up: as many as its baskets have lines.
        made = np.cumsum(by_item @ sizes)
        cuts = np.flatnonzero(np.diff((made / _BLOCK_PAIRS).astype(np.int64))) + 1
        bounds = [0, *cuts.tolist(), by_item.shape[0]]
        blocks = []
        for first, last in pairwise(bounds):
            pairs = (by_item[first:last] @ weighted).tocsr()
            rows = np.repeat(np.arange(first, last), np.diff(pairs.indptr))
            # A product is no companion of itself.
            pairs.data = np.where(
                rows == pairs.indices, 0.0, pairs.data * frequency[pairs.indices] ** -self.recipe.damping
            )
            pairs.eliminate_zeros()
            blocks.append(prune_rows(pairs, self.recipe.keep))
        return sp.vstack(blocks, format="csr")
