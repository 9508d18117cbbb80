"""Load the models of a snapshot by the names of their learners.

Custom learner classes are imported by name, if the installation allows them (`allowed_learners`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from actors.models.blend import Blend, BlendPart
from actors.models.cohorts import CohortModel
from actors.models.content import ContentModel
from actors.models.factors import FactorModel
from actors.models.loading.allowed_learners import ALLOWED
from actors.models.loading.snapshot import Snapshot
from actors.models.model import Model, ModelLoader
from actors.models.neighbours import NeighbourModel
from actors.models.popularity import PopularityModel
from actors.models.repeat import RepeatModel
from actors.models.reranker import Reranker
from actors.models.sessions import SessionModel
from actors.models.transformer import TransformerModel
from actors.vectors.snapshot_arrays import ModelState
from cluster.errors import Fault, Invalid

BASKETS = "extra-baskets"
"Name of the extra with products bought together."

COHORTS = "extra-cohorts"
"Name of the extra with the popularity in cohorts of users."

CONTENT = "extra-content"
"Name of the extra that scores products without events by their features."

RERANKER = "extra-reranker"
"Name of the extra with the learned re-ranker of lists."

SEARCH_RERANKER = "extra-search-reranker"
"Name of the extra with the learned re-ranker of searches."

LOADERS: Mapping[str, Callable[[ModelState], Model]] = MappingProxyType(
    {
        "als": FactorModel.load,
        "baskets": NeighbourModel.load,
        "content_knn": NeighbourModel.load,
        "ease": NeighbourModel.load,
        "graph_filter": NeighbourModel.load,
        "item_knn": NeighbourModel.load,
        "popularity": PopularityModel.load,
        "repeats": RepeatModel.load,
        "rules": NeighbourModel.load,
        "session_knn": SessionModel.load,
        "transformer": TransformerModel.load,
    }
)
"Learner -> the function that loads its model."

_BUILTIN = (PopularityModel, FactorModel, RepeatModel, NeighbourModel, SessionModel, TransformerModel)
_METHODS = ("train", "load")
_MOVED_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "actors.learned": (
            "import Batch from actors.models.model, ModelState (was Parts) from actors.vectors.snapshot_arrays, and "
            "UserHistories, TimeDecay and apply_time_decay (were Histories, Fading and faded) from "
            "actors.models.user_histories"
        ),
        "jobs.refresh.events": "import Interactions from jobs.refresh.data.dataset",
        "jobs.refresh.learner": "import Learner from jobs.refresh.learners.protocol",
    }
)
"Module that custom learners imported before it moved -> the imports that replace it."


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """A snapshot with its loaded models."""

    snapshot: Snapshot
    blend: Blend
    baskets: NeighbourModel | None = None
    cohorts: CohortModel | None = None
    content: ContentModel | None = None
    reranker: Reranker | None = None
    search_reranker: Reranker | None = None


def load_snapshot_models(snapshot: Snapshot) -> LoadedSnapshot:
    """Return the models of an opened snapshot over its mapped arrays.

    Errors:
        Invalid: it was trained with a custom learner that is not installed or not allowed
        Fault: the manifest lacks facts that models need
    """
    try:
        configs = snapshot.manifest.facts["recipe"]["parts"]
        parts = tuple(
            BlendPart(
                name=kept["name"],
                model=load_model(
                    kept["learner"], snapshot.parts[kept["name"]], configs[kept["name"]].get("config", {})
                ),
                weight=float(kept["weight"]),
                weight_new=float(kept["weight_new"]),
                weight_unseen=None if "weight_unseen" not in kept else float(kept["weight_unseen"]),
            )
            for kept in snapshot.manifest.facts["parts"]
        )
        baskets = NeighbourModel.load(snapshot.parts[BASKETS]) if BASKETS in snapshot.parts else None
        cohorts = CohortModel.load(snapshot.parts[COHORTS]) if COHORTS in snapshot.parts else None
        content = ContentModel.load(snapshot.parts[CONTENT]) if CONTENT in snapshot.parts else None
        reranker, search_reranker = (
            Reranker.load(snapshot.parts[name]) if name in snapshot.parts else None
            for name in (RERANKER, SEARCH_RERANKER)
        )
    # What a manifest of another form can raise.
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise Fault(f"snapshot is damaged: its parts do not fit together: {error!r}") from error
    return LoadedSnapshot(snapshot, Blend(parts), baskets, cohorts, content, reranker, search_reranker)


def load_model(learner: str, parts: ModelState, config: Mapping[str, Any] | None = None) -> Model:
    """Return the model of one saved part.

    Errors:
        Invalid: the learner is unknown, or a custom class is not allowed or fails
    """
    if ":" in learner:
        return build_allowed_learner(learner, config or {}).load(parts)
    if learner not in LOADERS:
        raise Invalid(f"there is no learner {learner!r}; known are {', '.join(sorted(LOADERS))}")
    return LOADERS[learner](parts)


def is_builtin(model: Model) -> bool:
    """Return whether a model is built in, so that `validation` checks its arrays before it serves."""
    return isinstance(model, _BUILTIN)


def build_allowed_learner(learner: str, config: Mapping[str, Any]) -> ModelLoader:
    """Return a custom learner, named `package.module:Class`, if the installation allows the class.

    Errors:
        Invalid: the class is not allowed, can't be imported, lacks a method, or does not accept the `config`
    """
    ALLOWED.check(learner)
    return import_learner(learner, config)


def import_learner(learner: str, config: Mapping[str, Any]) -> ModelLoader:
    """Return a learner whose class a CLI user named. For stored class names, use `build_allowed_learner`.

    Errors:
        Invalid: the class can't be imported, lacks a method, or does not accept the `config`
    """
    module_name, _, class_name = learner.partition(":")
    try:
        # The import runs the module: callers with stored names come through `build_allowed_learner`.
        named = getattr(importlib.import_module(module_name), class_name)
        # checked before the call: code that is no learner class must not run
        made = named(**config) if _is_learner_class(named) else None
    except Exception as error:
        # a custom module can raise any error on import, even a syntax error
        raise Invalid(
            f"learner {learner} can't be used: {type(error).__name__}: {error}{_remedy(error)}"
        ) from error
    if not isinstance(made, ModelLoader):
        raise Invalid(f"learner {learner} needs the methods train(data, rng) and load(parts), as a class")
    return made


def _remedy(error: Exception) -> str:
    """Return the remedy for a missing module: the new path of a built-in one, or how to install a custom
    one.
    """
    if not isinstance(error, ModuleNotFoundError):
        return ""
    moved = _MOVED_MODULES.get(error.name or "")
    if moved:
        return f"; the module has moved: {moved}"
    return (
        "; install it into the environment of `kiosk up` (or start that with PYTHONPATH), or ship it with one run: "
        "kiosk train --working-dir DIR"
    )


def _is_learner_class(named: object) -> bool:
    return isinstance(named, type) and all(callable(getattr(named, method, None)) for method in _METHODS)
