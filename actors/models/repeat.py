"""Repeat consumption: scores of the items in the history, higher for frequent and recent ones."""

from __future__ import annotations

from dataclasses import dataclass
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
    """A model whose scores are the decayed history."""

    fading: TimeDecay

    def sparse(self, histories: UserHistories) -> Any:
        """Return the scores of the items in every history as a sparse matrix.

        Shapes:
            returns: CSR float32 [q, n]
        """
        return apply_time_decay(histories, self.fading)

    def quick(self, past: UserHistory) -> tuple[npt.NDArray[np.integer], Scores]:
        """Return the scores of the items in one history.

        Shapes:
            returns: int64 [k], items that may repeat and then add up, and float32 [k]
        """
        return past.apply_time_decay(self.fading)

    def score(self, histories: UserHistories) -> Batch:
        """Return the scores of the items in every history.

        Shapes:
            returns: float32 [q, n], 0 for items outside the history
        """
        scores: Batch = self.sparse(histories).toarray()
        return scores

    def save(self) -> ModelState:
        return ModelState({}, {"fading": self.fading.model_dump()})

    @classmethod
    def load(cls, parts: ModelState) -> RepeatModel:
        return cls(TimeDecay(**parts.facts["fading"]))
