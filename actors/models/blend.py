"""A blend of models: the weighted sum of scores, each scaled to deviation 1 over the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from actors.models.model import Batch, Model
from actors.models.standardized_scores import StandardizedScores
from actors.models.user_histories import UserHistories


@dataclass(frozen=True, slots=True)
class BlendPart:
    """One model of a blend."""

    name: str
    model: Model
    weight: float = 1.0
    "For users with a history."
    weight_new: float = 0.0
    "For users without one."
    weight_unseen: float | None = None
    "For lists without products of the user's history; None: as `weight`."

    @property
    def unseen_list_weight(self) -> float:
        """Return the weight for lists without products of the user's history."""
        return self.weight if self.weight_unseen is None else self.weight_unseen


@dataclass(frozen=True, slots=True)
class Blend:
    """Weighted parts that score like one model."""

    parts: Sequence[BlendPart]

    def for_unseen(self) -> Blend:
        """Return the blend of lists without products of the user's history."""
        return Blend(
            [replace(part, weight=part.unseen_list_weight, weight_unseen=None) for part in self.parts]
        )

    def score(self, histories: UserHistories) -> Batch:
        """Return the weighted sum of the scaled scores of all parts.

        Shapes:
            returns: float32 [q, n]
        """
        has_history = histories.lengths > 0
        total = np.zeros((len(histories), histories.n_items), np.float32)
        for part in self.parts:
            # Shape [q]: every history of a batch has the weights of its kind of user.
            weights = np.where(has_history, part.weight, part.weight_new).astype(np.float32)
            # A part without weight in this batch is not scored at all.
            if weights.any():
                StandardizedScores.of(part.model, histories).add_to(total, weights)
        return total
