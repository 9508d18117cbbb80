"""The protocol of everything that learns, ours and yours.

    class Markov:                                   a learner: parameters, and how to learn
        def train(self, data, rng) -> Model: ...
        def load(self, parts) -> Model: ...

    class Model:                                    what was learned: arrays, and how to answer
        def score(self, histories) -> Batch: ...
        def save(self) -> ModelState: ...

The promises, which `jobs.refresh.learners.conformance` holds every learner to:

- `train` reads its input and nothing else: no clock, no files, no randomness but `rng`. Equal data and an equally
  seeded `rng` give the same bytes. Input arrays may be read-only and are never changed.
- `score` answers every history, also an empty one (equal scores when nothing is known), ignores items it does not
  know (-1, or never trained), and gives a fresh float32 [q, n] without NaN. Larger is better; the scale is free,
  because blending scales every part to spread 1.
- `load(model.save())` scores exactly as `model` does. Arrays that were memory-mapped read-only are fine.

A model may also have `quick(past)` (`actors.models.model.QuickModel`): what it says to one user as rows and values,
straight from its arrays. Serving asks it that way when it can; otherwise it asks `score` for all items. A model of
yours that raises while it serves is silenced, told in the log as `part_silenced`, and the other parts answer.

A learner of your own stands in a recipe as `learner = "package.module:Class"`; `config` is given to its constructor
as keyword arguments.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from actors.models.model import Model
from actors.vectors.snapshot_arrays import ModelState
from jobs.refresh.data.dataset import Interactions

STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
"A recipe is never changed, and a field nobody knows is a mistake to be told."


class PartRecipe(BaseModel):
    """What the recipes of all parts have in common."""

    model_config = STRICT

    tune: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    "Parameter -> values to try on validation; the best one is taken."
    items_up_to: int | None = Field(default=None, ge=1)
    "The part is left out of catalogs with more items than this."
    items_from: int | None = Field(default=None, ge=1)
    "The part is left out of catalogs with fewer items than this."


class CustomLearnerRecipe(PartRecipe):
    """A learner of your own."""

    learner: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    "Where it is: `package.module:Class`."
    config: dict[str, Any] = Field(default_factory=dict)
    "Given to its constructor."


@runtime_checkable
class Learner(Protocol):
    """Parameters, and how to learn."""

    def train(self, data: Interactions, rng: np.random.Generator) -> Model:
        """Learn."""
        ...

    def load(self, parts: ModelState) -> Model:
        """Bring back what `save` gave."""
        ...
