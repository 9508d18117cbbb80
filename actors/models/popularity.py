"""Popularity: one score for each item, the same for all users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from actors.models.model import Batch
from actors.models.user_histories import UserHistories
from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.types import Scores


@dataclass(frozen=True, slots=True)
class PopularityModel:
    """The same scores for all users.

    Shapes:
        scores: float32 [n], 0 or more
    """

    scores: Scores
    half_life_days: float | None = None
    "Half-life of votes; None: no decay."
    power: float = 1.0
    "Scores are votes to this power."

    def common(self) -> Scores:
        """Return the scores.

        Shapes:
            returns: float32 [n]
        """
        return self.scores

    def score(self, histories: UserHistories) -> Batch:
        """Return the scores, repeated for every history.

        Shapes:
            returns: float32 [q, n]
        """
        return np.repeat(self.scores[None], len(histories), axis=0)

    def save(self) -> ModelState:
        facts = {"half_life_days": self.half_life_days, "power": self.power}
        return ModelState({"scores": self.scores}, facts)

    @classmethod
    def load(cls, parts: ModelState) -> PopularityModel:
        return cls(parts.array("scores"), parts.facts["half_life_days"], float(parts.facts["power"]))
