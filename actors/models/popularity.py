"""What everybody takes: one score an item, the same for all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from actors.models.model import Batch, Parts
from actors.models.user_histories import Histories
from actors.vectors.types import Scores


@dataclass(frozen=True, slots=True)
class Counted:
    """The same scores for everybody.

    Shapes:
        scores: float32 [n], 0 or more
    """

    scores: Scores
    half_life_days: float | None = None
    "How votes fade; none: they do not."
    power: float = 1.0
    "Scores are votes to this power."

    def common(self) -> Scores:
        """Give the scores.

        Shapes:
            returns: float32 [n]
        """
        return self.scores

    def score(self, histories: Histories) -> Batch:
        """Repeat the scores for every history.

        Shapes:
            returns: float32 [q, n]
        """
        return np.repeat(self.scores[None], len(histories), axis=0)

    def save(self) -> Parts:
        """Give the scores."""
        facts = {"half_life_days": self.half_life_days, "power": self.power}
        return Parts({"scores": self.scores}, facts)

    @classmethod
    def load(cls, parts: Parts) -> Counted:
        """Bring back what was counted."""
        return cls(parts.array("scores"), parts.facts["half_life_days"], float(parts.facts["power"]))
