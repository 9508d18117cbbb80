"""What a reader takes again: their own items, the more often and the later the higher."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from actors.models.model import Parts
from actors.models.repeat import Habit
from actors.models.user_histories import Fading
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.protocol import PartRecipe


class RepeatsRecipe(PartRecipe):
    """Parameters of repeats; nothing is learned, only how much earlier times count."""

    learner: Literal["repeats"] = "repeats"
    fading: Fading = Fading(half_life_items=100.0, newest=1_000)
    "How the history fades."


@dataclass(frozen=True, slots=True)
class Repeats:
    """The learner."""

    recipe: RepeatsRecipe = field(default_factory=RepeatsRecipe)

    def train(self, data: Interactions, rng: np.random.Generator) -> Habit:
        """Take the fading over."""
        return Habit(self.recipe.fading)

    def load(self, parts: Parts) -> Habit:
        """Bring the fading back."""
        return Habit.load(parts)
