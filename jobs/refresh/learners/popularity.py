"""What everybody takes: decayed counts with several half-lives, one vote per user, item and day."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from pydantic import Field

from actors.models.popularity import PopularityModel
from actors.models.user_histories import DAY_S
from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.types import Floats
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.protocol import PartRecipe


class PopularityRecipe(PartRecipe):
    """Parameters of counting."""

    learner: Literal["popularity"] = "popularity"
    half_life_days: float | None = Field(default=7.0, gt=0)
    "Halves a vote for every so many days of age; none counts all of the past alike."
    power: float = Field(default=0.5, gt=0, le=1)
    "Counts to this power: below 1 the lead of the very few on top is smaller."


@dataclass(frozen=True, slots=True)
class PopularityLearner:
    """The learner."""

    recipe: PopularityRecipe = field(default_factory=PopularityRecipe)

    def train(self, data: Interactions, rng: np.random.Generator) -> PopularityModel:
        """Count votes as they stand at the newest event."""
        counts = compute_decayed_counts(data, self.recipe.half_life_days, data.now_s)
        half_life_days = self.recipe.half_life_days if data.clock else None
        scores = (counts**self.recipe.power).astype(np.float32)
        return PopularityModel(scores, half_life_days, self.recipe.power)

    def load(self, parts: ModelState) -> PopularityModel:
        """Bring back what was counted."""
        return PopularityModel.load(parts)


def compute_decayed_counts(data: Interactions, half_life_days: float | None, now_s: float) -> Floats:
    """Count what users did with each item; a user has one say per item and day, the strongest.

    Shapes:
        returns: float64 [n]
    """
    votes = select_daily_votes(data)
    weights = votes.weight.astype(np.float64)
    if half_life_days is not None and data.clock:
        weights *= np.exp2((votes.at_s - now_s) / (DAY_S * half_life_days))
    return np.bincount(votes.item, weights, data.n_items).astype(np.float64)


def select_daily_votes(data: Interactions) -> Interactions:
    """Keep the strongest event of each user, item and day that speaks for the item."""
    liked = data.pick(data.weight > 0)
    days = (liked.at_s // DAY_S).astype(np.int64) if data.clock else np.zeros(len(liked), np.int64)
    order = np.lexsort((-liked.weight, days, liked.item, liked.reader))
    keys = np.stack((liked.reader[order], liked.item[order], days[order]))
    first = np.ones(len(order), np.bool_)
    first[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    return liked.pick(np.sort(order[first]))
