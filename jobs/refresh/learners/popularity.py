"""Popularity: counts with exponential time decay, one vote per user, item and day."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from actors.models.popularity import PopularityModel
from actors.models.user_histories import DAY_S
from actors.vectors.types import Floats
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.protocol import BuiltInLearner, PartRecipe


class PopularityRecipe(PartRecipe):
    """Parameters of popularity."""

    learner: Literal["popularity"] = "popularity"
    half_life_days: float | None = Field(default=7.0, gt=0)
    "Half-life of a vote in days; None: votes do not decay."
    power: float = Field(default=0.5, gt=0, le=1)
    "Exponent of the counts; a value below 1 compresses the lead of the most popular items."


class PopularityLearner(BuiltInLearner[PopularityRecipe]):
    """Learner of popularity."""

    def train(self, data: Interactions, rng: np.random.Generator) -> PopularityModel:
        """Count votes, decayed to the time of the newest event, and return the model."""
        counts = compute_decayed_counts(data, self.recipe.half_life_days, data.now_s)
        half_life_days = self.recipe.half_life_days if data.clock else None
        scores = (counts**self.recipe.power).astype(np.float32)
        return PopularityModel(scores, half_life_days, self.recipe.power)


def compute_decayed_counts(data: Interactions, half_life_days: float | None, now_s: float) -> Floats:
    """Sum the decayed votes of each item; a user has one vote per item and day, that of the strongest event.

    Shapes:
        returns: float64 [n]
    """
    votes = select_daily_votes(data)
    weights = votes.weight.astype(np.float64)
    if half_life_days is not None and data.clock:
        weights *= np.exp2((votes.at_s - now_s) / (DAY_S * half_life_days))
    return np.bincount(votes.item, weights, data.n_items).astype(np.float64)


def select_daily_votes(data: Interactions) -> Interactions:
    """Return the strongest event with a positive weight of each user, item and day."""
    liked = data.pick(data.weight > 0)
    days = (liked.at_s // DAY_S).astype(np.int64) if data.clock else np.zeros(len(liked), np.int64)
    # The strongest event of each user, item and day comes first in its run.
    order = np.lexsort((-liked.weight, days, liked.item, liked.reader))
    keys = np.stack((liked.reader[order], liked.item[order], days[order]))
    first = np.ones(len(order), np.bool_)
    first[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    # Back in the order of the log, which tables of events keep: `starts` relies on it.
    return liked.pick(np.sort(order[first]))
