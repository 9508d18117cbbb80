"""The protocol of models, built-in and custom.

    class Model:
        def score(self, histories) -> Batch: ...
        def save(self) -> ModelState: ...

`score` returns a new float32 [q, n] without NaN, with a row for every history. An empty history gets equal scores. The
model ignores unknown items (-1, or never trained). Larger is better. The scale is free, because the blend scales every
part to deviation 1.
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
"The earlier name of the same class, for custom learners."


@runtime_checkable
class Model(Protocol):
    """A trained model."""

    def score(self, histories: UserHistories) -> Batch:
        """Score every item for every history.

        Shapes:
            returns: float32 [q, n], a new array, finite
        """
        ...

    def save(self) -> ModelState:
        """Return the arrays and facts that `load` needs."""
        ...


@runtime_checkable
class SparseModel(Model, Protocol):
    """A model with score 0 for most items. Optional: it makes validation and evaluation faster."""

    def sparse(self, histories: UserHistories) -> Any:
        """Return the scores of `score` as a sparse matrix.

        Shapes:
            returns: scipy CSR float32 [q, n] without duplicates
        """
        ...


@runtime_checkable
class SharedScoresModel(Model, Protocol):
    """A model with equal scores for all users. Optional: it makes validation and evaluation faster."""

    def common(self) -> Scores:
        """Return the scores of all items.

        Shapes:
            returns: float32 [n], may be a view
        """
        ...


@runtime_checkable
class SingleUserModel(Model, Protocol):
    """A model that scores one user without building matrices. Optional: it makes serving faster."""

    def quick(self, past: UserHistory) -> tuple[npt.NDArray[np.integer], Scores]:
        """Return the scores of `score` for one history; items that are absent have score 0.

        Shapes:
            returns: int [m], items, and float32 [m], their scores; scores of repeated items add up
        """
        ...


@runtime_checkable
class AccumulatingModel(SingleUserModel, Protocol):
    """A model that adds many scores of one user in place. Optional: it makes serving faster."""

    def add_to(self, total: Scores, past: UserHistory) -> int:
        """Add the scores of `quick` to `total`; return the number of scores.

        Shapes:
            total: float32 [n or more], changed in place
        """
        ...


@runtime_checkable
class ModelLoader(Protocol):
    """Loads a saved model; every learner is one."""

    def load(self, parts: ModelState) -> Model:
        """Return the model of a saved state."""
        ...
