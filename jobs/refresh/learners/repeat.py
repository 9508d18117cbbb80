"""What a user takes again: their own items, the more often and the later the higher."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from actors.models.repeat import RepeatModel
from actors.models.user_histories import TimeDecay
from actors.vectors.snapshot_arrays import ModelState
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.protocol import PartRecipe


class RepeatsRecipe(PartRecipe):
    """Parameters of repeats; nothing is learned, only how much earlier times count."""

    learner: Literal["repeats"] = "repeats"
    fading: TimeDecay = TimeDecay(half_life_items=100.0, newest=1_000)
    "How the history fades."


@dataclass(frozen=True, slots=True)
class RepeatLearner:
    """The learner."""

    recipe: RepeatsRecipe = field(default_factory=RepeatsRecipe)

    def train(self, data: Interactions, rng: np.random.Generator) -> RepeatModel:
        """Take the fading over."""
        return RepeatModel(self.recipe.fading)

    def load(self, parts: ModelState) -> RepeatModel:
        """Bring the fading back."""
        return RepeatModel.load(parts)
