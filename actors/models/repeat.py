"""What a reader takes again: their own items, the more often and the later the higher."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.models.model import Batch
from actors.models.user_histories import TimeDecay, UserHistories, apply_time_decay
from actors.models.user_history import UserHistory
from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.types import Scores


@dataclass(frozen=True, slots=True)
class RepeatModel:
    """The model: the faded history itself."""

    fading: TimeDecay

    def sparse(self, histories: UserHistories) -> Any:
        """Score a reader's own items.

        Shapes:
            returns: CSR float32 [q, n]
        """
        return apply_time_decay(histories, self.fading)

    def quick(self, past: UserHistory) -> tuple[npt.NDArray[np.integer], Scores]:
        """Score one reader's own items."""
        return past.apply_time_decay(self.fading)

    def fading_as(self, fading: TimeDecay) -> RepeatModel:
        """Give the same with another fading."""
        return replace(self, fading=fading)

    def score(self, histories: UserHistories) -> Batch:
        """Score a reader's own items.

        Shapes:
            returns: float32 [q, n], 0 for items without history
        """
        scores: Batch = self.sparse(histories).toarray()
        return scores

    def save(self) -> ModelState:
        """Give the fading."""
        return ModelState({}, {"fading": self.fading.model_dump()})

    @classmethod
    def load(cls, parts: ModelState) -> RepeatModel:
        """Bring the fading back."""
        return cls(TimeDecay(**parts.facts["fading"]))
