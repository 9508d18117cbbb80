"""The protocol of everything that learns, ours and yours.

    class Markov:                                   a learner: parameters, and how to learn
        def train(self, data, rng) -> Model: ...
        def load(self, parts) -> Model: ...

    class Model:                                    what was learned: arrays, and how to answer
        def score(self, histories) -> Batch: ...
        def save(self) -> Parts: ...

The promises, which `tests/suites/test_learners.py` holds every learner to:

- `train` reads its input and nothing else: no clock, no files, no randomness but `rng`. Equal data and an equally
  seeded `rng` give the same bytes. Input arrays may be read-only and are never changed.
- `score` answers every history, also an empty one (equal scores when nothing is known), ignores items it does not
  know (-1, or never trained), and gives a fresh float32 [q, n] without NaN. Larger is better; the scale is free,
  because blending scales every part to spread 1.
- `load(model.save())` scores exactly as `model` does. Arrays that were memory-mapped read-only are fine.

A learner of your own stands in a recipe as `learner = "package.module:Class"`; `config` is given to its constructor
as keyword arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from actors.vectors.types import Scores
from cluster.errors import Fault
from jobs.refresh.dataset import Interactions
from jobs.refresh.histories import Histories

Array = npt.NDArray[Any]

Batch = npt.NDArray[np.float32]
"""float32 [q, n], one row of scores per history."""

STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
"A recipe is never changed, and a field nobody knows is a mistake to be told."


class PartRecipe(BaseModel):
    """What the recipes of all parts have in common."""

    model_config = STRICT

    tune: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    "Parameter -> values to try on validation; the best one is taken."
    items_up_to: int | None = Field(default=None, ge=1)
    "The part is left out of catalogs with more items than this."


@dataclass(frozen=True, slots=True)
class Parts:
    """What is kept of a model: named arrays without objects in them, and facts that fit JSON."""

    arrays: Mapping[str, Array]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def array(self, name: str) -> Array:
        """Give one array.

        Errors:
            Fault: there is none of that name
        """
        if name not in self.arrays:
            raise Fault(f"the saved model has no array {name!r}; it has {', '.join(sorted(self.arrays))}")
        return self.arrays[name]


@runtime_checkable
class Model(Protocol):
    """What was learned."""

    def score(self, histories: Histories) -> Batch:
        """Score every item for every history.

        Shapes:
            returns: float32 [q, n], fresh, finite
        """
        ...

    def save(self) -> Parts:
        """Give everything needed to load it again."""
        ...


@runtime_checkable
class SparseModel(Model, Protocol):
    """A model that says nothing (0) about most items; optional, it makes choosing weights and evaluating faster."""

    def sparse(self, histories: Histories) -> Any:
        """Score like `score`.

        Shapes:
            returns: scipy CSR float32 [q, n] without duplicates
        """
        ...


@runtime_checkable
class CommonModel(Model, Protocol):
    """A model that says the same to everybody; optional, for the same reason."""

    def common(self) -> Scores:
        """Give the scores.

        Shapes:
            returns: float32 [n], may be a view
        """
        ...


@runtime_checkable
class Learner(Protocol):
    """Parameters, and how to learn."""

    def train(self, data: Interactions, rng: np.random.Generator) -> Model:
        """Learn."""
        ...

    def load(self, parts: Parts) -> Model:
        """Bring back what `save` gave."""
        ...
