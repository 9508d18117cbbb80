"""What a reader takes again: their own items, the more often and the later the higher."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from jobs.refresh.dataset import Interactions
from jobs.refresh.histories import Fading, Histories, faded
from jobs.refresh.learner import Batch, PartRecipe, Parts


class RepeatsRecipe(PartRecipe):
    """Parameters of repeats; nothing is learned, only how much earlier times count."""

    learner: Literal["repeats"] = "repeats"
    fading: Fading = Fading(half_life_items=100.0, newest=1_000)
    "How the history fades."


@dataclass(frozen=True, slots=True)
class Habit:
    """The model: the faded history itself."""

    fading: Fading

    def sparse(self, histories: Histories) -> Any:
        """Score a reader's own items.

        Shapes:
            returns: CSR float32 [q, n]
        """
        return faded(histories, self.fading)

    def fading_as(self, fading: Fading) -> Habit:
        """Give the same with another fading."""
        return replace(self, fading=fading)

    def score(self, histories: Histories) -> Batch:
        """Score a reader's own items.

        Shapes:
            returns: float32 [q, n], 0 for items without history
        """
        scores: Batch = self.sparse(histories).toarray()
        return scores

    def save(self) -> Parts:
        """Give the fading."""
        return Parts({}, {"fading": self.fading.model_dump()})


@dataclass(frozen=True, slots=True)
class Repeats:
    """The learner."""

    recipe: RepeatsRecipe = field(default_factory=RepeatsRecipe)

    def train(self, data: Interactions, rng: np.random.Generator) -> Habit:
        """Take the fading over."""
        return Habit(self.recipe.fading)

    def load(self, parts: Parts) -> Habit:
        """Bring the fading back."""
        return Habit(Fading(**parts.facts["fading"]))
