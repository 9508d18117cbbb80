"""What a reader takes again: their own items, the more often and the later the higher."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.models.model import Batch, Parts
from actors.models.user_histories import Fading, Histories, faded
from actors.models.user_history import Past
from actors.vectors.types import Scores


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

    def quick(self, past: Past) -> tuple[npt.NDArray[np.integer], Scores]:
        """Score one reader's own items."""
        return past.faded(self.fading)

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

    @classmethod
    def load(cls, parts: Parts) -> Habit:
        """Bring the fading back."""
        return cls(Fading(**parts.facts["fading"]))
