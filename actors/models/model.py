"""The protocol of everything that scores, ours and yours.

    class Model:                                    what was learned: arrays, and how to answer
        def score(self, histories) -> Batch: ...
        def save(self) -> Parts: ...

`score` answers every history, also an empty one (equal scores when nothing is known), ignores items it does not know
(-1, or never trained), and gives a fresh float32 [q, n] without NaN. Larger is better; the scale is free, because
blending brings every part to spread 1.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from actors.models.user_histories import UserHistories
from actors.models.user_history import UserHistory
from actors.vectors.snapshot_arrays import Array as Array
from actors.vectors.snapshot_arrays import ModelState as ModelState
from actors.vectors.types import Scores

Batch = npt.NDArray[np.float32]
"""float32 [q, n], one row of scores per history."""


Parts = ModelState
"The name in learners that were written before; both are the same class."


@runtime_checkable
class Model(Protocol):
    """What was learned."""

    def score(self, histories: UserHistories) -> Batch:
        """Score every item for every history.

        Shapes:
            returns: float32 [q, n], fresh, finite
        """
        ...

    def save(self) -> ModelState:
        """Give everything needed to load it again."""
        ...


@runtime_checkable
class SparseModel(Model, Protocol):
    """A model that says nothing (0) about most items; optional, it makes choosing weights and evaluating faster."""

    def sparse(self, histories: UserHistories) -> Any:
        """Score like `score`.

        Shapes:
            returns: scipy CSR float32 [q, n] without duplicates
        """
        ...


@runtime_checkable
class SharedScoresModel(Model, Protocol):
    """A model that says the same to everybody; optional, for the same reason."""

    def common(self) -> Scores:
        """Give the scores.

        Shapes:
            returns: float32 [n], may be a view
        """
        ...


@runtime_checkable
class SingleUserModel(Model, Protocol):
    """A model that can be asked about one reader without building matrices; optional, it makes serving faster."""

    def quick(self, past: UserHistory) -> tuple[npt.NDArray[np.integer], Scores]:
        """Score like `score`, 0 where nothing is said.

        Shapes:
            returns: int [m], items that may repeat and then add up, and float32 [m]
        """
        ...


@runtime_checkable
class AccumulatingModel(SingleUserModel, Protocol):
    """A model that has much to say of one reader and adds it up as it goes; optional, for the same reason."""

    def add_to(self, total: Scores, past: UserHistory) -> int:
        """Add what `quick` would give to `total`, and tell how many entries that were.

        Shapes:
            total: float32 [n or more], is changed
        """
        ...


@runtime_checkable
class ModelLoader(Protocol):
    """What knows how to bring a model back; every learner does."""

    def load(self, parts: ModelState) -> Model:
        """Bring back what `save` gave."""
        ...
