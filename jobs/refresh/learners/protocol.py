"""The protocol of learners, built-in and custom.

    class Markov:                                   a learner: parameters and training
        def train(self, data, rng) -> Model: ...
        def load(self, parts) -> Model: ...

    class Model:                                    the result: arrays and scoring
        def score(self, histories) -> Batch: ...
        def save(self) -> ModelState: ...

Requirements, which `jobs.refresh.learners.conformance` checks:

- `train` uses only its arguments: no clock, no files, no randomness except `rng`. Equal data and an equal seed give
  byte-equal models. Input arrays may be read-only; `train` does not change them.
- `score` returns a new float32 [q, n] without NaN. It accepts empty histories (equal scores for all items) and
  ignores unknown items (-1, or not in the training data). A larger score is better. The scale is free, because the
  blend standardizes the scores of each component.
- `load(model.save())` returns the same scores as `model`. It accepts arrays that are memory-mapped read-only.

A model may also have `quick(past)` (`actors.models.model.SingleUserModel`), which returns sparse scores for one user as
rows and values. The engine calls it if it exists, otherwise `score` for all items. If a custom model raises while it
serves, the engine disables it, logs `part_silenced` and uses the other components.

A recipe names a custom learner as `learner = "package.module:Class"`. Its constructor gets the fields of `config` as
keyword arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from actors.models.loading.snapshot_models import load_model
from actors.models.model import Model
from actors.vectors.snapshot_arrays import ModelState
from cluster.errors import Invalid
from jobs.refresh.data.dataset import Interactions

_PACKAGES: Final = {
    "jax": (
        "learner transformer needs JAX",
        "'kiosk[sequence]', with a GPU also jax[cuda12]; or choose recipe default",
    ),
    "lightgbm": (
        "the sections [reranker] and [search_reranker] need LightGBM",
        "'kiosk[ranking]'; or leave the sections out",
    ),
}
"Optional module -> what needs it, and how to install it or do without."


def check_package(module: str) -> None:
    """Check that an optional module is installed.

    Errors:
        Invalid: it is not; the message says how to install it
    """
    if find_spec(module) is None:
        need, remedy = _PACKAGES[module]
        raise Invalid(f"{need}, which is not installed here. Where trainings run: pip install {remedy}")


class RecipeModel(BaseModel):
    """A section of a recipe: immutable, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class PartRecipe(RecipeModel):
    """Parameters that the recipes of all components share."""

    tune: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    "Parameter -> candidate values; the tuning selects the best on validation. See `expand_value` for tables."
    items_up_to: int | None = Field(default=None, ge=1)
    "The component is omitted if the catalog has more items."
    items_from: int | None = Field(default=None, ge=1)
    "The component is omitted if the catalog has fewer items."


def expand_value(parameter: str, value: Any) -> dict[str, Any]:
    """Return the parameters that a candidate value of `tune` sets.

    A table that names the parameter itself sets all that it names: `dropout = [{ dropout = 0.5, decay = 0.3 }]`.
    """
    return dict(value) if isinstance(value, Mapping) and parameter in value else {parameter: value}


class CustomLearnerRecipe(PartRecipe):
    """Recipe of a custom learner."""

    learner: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    "Import path of the class: `package.module:Class`."
    config: dict[str, Any] = Field(default_factory=dict)
    "Keyword arguments of its constructor."


RecipeT = TypeVar("RecipeT", bound=PartRecipe)


class BuiltInLearner(Generic[RecipeT]):
    """A learner whose model the processes that serve can load by the name of the learner."""

    def __init__(self, recipe: RecipeT) -> None:
        self.recipe = recipe

    def load(self, parts: ModelState) -> Model:
        """Return the model of a saved state."""
        return load_model(type(self.recipe).model_fields["learner"].default, parts)


@runtime_checkable
class Learner(Protocol):
    """Parameters, and the training of a model with them."""

    def train(self, data: Interactions, rng: np.random.Generator) -> Model:
        """Train and return a model."""
        ...

    def load(self, parts: ModelState) -> Model:
        """Return the model of a state that `save` returned."""
        ...
