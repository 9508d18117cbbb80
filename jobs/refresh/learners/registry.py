"""The learner of each component of a recipe; custom learners are imported by name if the settings allow them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any
from zlib import crc32

import numpy as np

from actors.models.loading.snapshot_models import build_allowed_learner
from cluster.errors import Invalid
from jobs.refresh.learners.als import AlsLearner, AlsRecipe
from jobs.refresh.learners.neighbours.baskets import BasketsLearner, BasketsRecipe
from jobs.refresh.learners.neighbours.content_knn import ContentKnnLearner, ContentKnnRecipe
from jobs.refresh.learners.neighbours.ease import EaseLearner, EaseRecipe
from jobs.refresh.learners.neighbours.graph_filter import GraphFilterLearner, GraphFilterRecipe
from jobs.refresh.learners.neighbours.item_knn import ItemKnnLearner, ItemKnnRecipe
from jobs.refresh.learners.neighbours.sequential_rules import RulesRecipe, SequentialRulesLearner
from jobs.refresh.learners.popularity import PopularityLearner, PopularityRecipe
from jobs.refresh.learners.protocol import CustomLearnerRecipe, Learner, PartRecipe, check_package
from jobs.refresh.learners.repeat import RepeatLearner, RepeatsRecipe
from jobs.refresh.learners.session_knn import SessionKnnLearner, SessionKnnRecipe
from jobs.refresh.learners.transformer import TransformerLearner, TransformerRecipe

_LEARNERS: Mapping[type[PartRecipe], Callable[[Any], Learner]] = MappingProxyType(
    {
        EaseRecipe: EaseLearner,
        RulesRecipe: SequentialRulesLearner,
        ItemKnnRecipe: ItemKnnLearner,
        GraphFilterRecipe: GraphFilterLearner,
        ContentKnnRecipe: ContentKnnLearner,
        SessionKnnRecipe: SessionKnnLearner,
        PopularityRecipe: PopularityLearner,
        RepeatsRecipe: RepeatLearner,
        BasketsRecipe: BasketsLearner,
        AlsRecipe: AlsLearner,
        TransformerRecipe: TransformerLearner,
    }
)


def build_learner(part: PartRecipe) -> Learner:
    """Return the learner of a component.

    Errors:
        Invalid: a custom class is not allowed, can't be imported, or does not accept its `config`
    """
    if isinstance(part, CustomLearnerRecipe):
        return _build_custom_learner(part)
    if type(part) not in _LEARNERS:
        raise Invalid(f"there is no learner for {type(part).__name__}")
    return _LEARNERS[type(part)](part)


def check_packages(parts: Iterable[PartRecipe], *, reranks: bool = False) -> None:
    """Check that the optional packages of components and of re-rankers are installed.

    Errors:
        Invalid: a package is missing; the message says how to install it
    """
    if any(isinstance(part, TransformerRecipe) for part in parts):
        check_package("jax")
    if reranks:
        check_package("lightgbm")


def build_rng(seed: int, purpose: str) -> np.random.Generator:
    """Return a generator that depends only on the seed and the purpose, not on earlier draws."""
    # One generator for each purpose: a component more or less does not change the others.
    return np.random.default_rng([seed, crc32(purpose.encode())])


def _build_custom_learner(part: CustomLearnerRecipe) -> Learner:
    made = build_allowed_learner(part.learner, part.config)
    if not isinstance(made, Learner):
        raise Invalid(f"learner {part.learner} needs the methods train(data, rng) and load(parts)")
    return made
