"""Repeat consumption: items of the user's history, scored by frequency and recency."""

from __future__ import annotations

from typing import Literal

import numpy as np

from actors.models.repeat import RepeatModel
from actors.models.user_histories import TimeDecay
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.protocol import BuiltInLearner, PartRecipe


class RepeatsRecipe(PartRecipe):
    """Parameters of repeat consumption; the training only stores the time decay."""

    learner: Literal["repeats"] = "repeats"
    fading: TimeDecay = TimeDecay(half_life_items=100.0, newest=1_000)
    "Time decay of the history."


class RepeatLearner(BuiltInLearner[RepeatsRecipe]):
    """Learner of repeat consumption."""

    def train(self, data: Interactions, rng: np.random.Generator) -> RepeatModel:
        """Return a model with the time decay of the recipe."""
        return RepeatModel(self.recipe.fading)
