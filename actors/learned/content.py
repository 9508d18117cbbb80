"""Where an item without events would stand among the learned ones, from what it is like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from actors.learned.histories import Fading, Histories, faded
from actors.learned.model import Batch
from actors.vectors.types import Matrix


@dataclass(frozen=True, slots=True)
class Likening:
    """How likeness counts."""

    power: float = 2.0
    "Likeness to this power: above 1 only what is very alike counts."
    weight: float = 1.0
    "Weight of likeness beside the regression."


@dataclass(frozen=True, slots=True)
class Content:
    """Vectors in the learned space for all items, worked out of their content.

    Shapes:
        factors: float32 [n, f]; content: CSR or dense float32 [n, d], rows of length 1
    """

    factors: Matrix
    content: Any
    likening: Likening
    fading: Fading

    def score(self, histories: Histories, readers: Matrix) -> Batch:
        """Score every item by the regression and by likeness to the history, each brought to spread 1.

        Shapes:
            readers: float32 [q, f], vectors of the same space as the items were regressed to
            returns: float32 [q, n]
        """
        history = faded(histories, self.fading)
        scores = _spread_one(readers @ self.factors.T)
        if self.likening.weight:
            scores += np.float32(self.likening.weight) * _spread_one(self.likeness(history))
        return scores

    def likeness(self, history: Any) -> Batch:
        """Add up, over a history, how alike each item is to its items.

        Shapes:
            history: CSR float32 [q, n]
            returns: float32 [q, n]
        """
        used = np.unique(history.indices)
        alike = self.content[used] @ self.content.T
        alike = np.maximum(alike.toarray() if sp.issparse(alike) else alike, 0.0) ** self.likening.power
        likeness: Batch = (history[:, used] @ alike).astype(np.float32)
        return likeness


def _spread_one(scores: Batch) -> Batch:
    spread = scores.std(axis=1, dtype=np.float64, keepdims=True)
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-12)
    scaled: Batch = ((scores - scores.mean(axis=1, keepdims=True)) * scale).astype(np.float32)
    return scaled
