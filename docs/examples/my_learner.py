"""A learner to copy: items that the same users took, one after the other.

    PYTHONPATH=. kiosk learners conform my_learner:NextItem --config '{"window": 3}'
    kiosk learners allow my_learner:NextItem
    kiosk train APP --recipe ./my_recipe.toml --working-dir .

`docs/guides/learners.md` explains it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from actors.models.model import Batch
from actors.models.user_histories import TimeDecay, UserHistories, apply_time_decay
from actors.vectors.snapshot_arrays import ModelState
from jobs.refresh.data.dataset import Interactions


@dataclass(frozen=True)
class NextItemModel:
    """A matrix of weights, and how to score with it."""

    weights: Any
    "CSR float32 [n, n]: row = item of the history, column = item to recommend."
    half_life: float

    def score(self, histories: UserHistories) -> Batch:
        """Return the score of every item for every history: float32 [q, n], larger is better, 0 without knowledge."""
        # CSR [q, n]: the weight of each item in each history; the newest event counts most.
        # It leaves out items that the catalog does not know (-1). An empty history gets an empty row.
        recent = apply_time_decay(histories, TimeDecay(half_life_items=self.half_life))
        scores: Batch = np.asarray((recent @ self.weights).toarray(), np.float32)
        return scores

    def save(self) -> ModelState:
        """Return what load() needs: arrays by name, and facts that fit JSON."""
        matrix = self.weights
        arrays = {"starts": matrix.indptr, "items": matrix.indices, "values": matrix.data}
        return ModelState(arrays, {"half_life": self.half_life})


class NextItem:
    """Learns the matrix. The arguments of the constructor come from `config` in the recipe."""

    def __init__(self, window: int = 3, half_life: float = 5.0) -> None:
        self.window = window
        self.half_life = half_life

    def train(self, data: Interactions, rng: np.random.Generator) -> NextItemModel:
        """Count which item follows which within `window` events of the same user.

        Rows of `data` are sorted by user, then by time, so the next rows follow an event.
        """
        size = data.n_items
        counts = sp.csr_matrix((size, size), dtype=np.float32)
        for step in range(1, self.window + 1):
            same_user = data.reader[step:] == data.reader[:-step]
            liked = same_user & (data.weight[:-step] > 0) & (data.weight[step:] > 0)
            before, after = data.item[:-step][liked], data.item[step:][liked]
            values = np.full(len(before), 1.0 / step, np.float32)
            counts = counts + sp.csr_matrix((values, (before, after)), shape=(size, size))
        # frequent items follow everything: divide by the root of how often an item was taken
        taken = np.bincount(data.item[data.weight > 0], minlength=size)
        damped = counts @ sp.diags_array(1.0 / np.sqrt(np.maximum(taken, 1.0)))
        return NextItemModel(damped.tocsr().astype(np.float32), self.half_life)

    def load(self, parts: ModelState) -> NextItemModel:
        """Return the model that save() described. Arrays may be memory-mapped and read-only."""
        starts = parts.array("starts")
        size = len(starts) - 1
        stored = (parts.array("values"), parts.array("items"), starts)
        return NextItemModel(sp.csr_matrix(stored, shape=(size, size)), parts.facts["half_life"])
