"""A settled recipe and data in, a trained engine out."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from actors.models.blend import Blend, Part
from actors.models.cohorts import Cohorts
from actors.models.model import Batch
from actors.models.neighbours import Neighbours
from actors.models.user_histories import Histories
from actors.models.vocabulary import Vocabulary
from cluster.errors import Invalid
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.baskets import Baskets
from jobs.refresh.learners.cohorts import cohorts_of
from jobs.refresh.learners.registry import learner_of, rng_for
from jobs.refresh.recipe import Recipe
from jobs.refresh.tuning.plan import Plan, Tell, for_catalog, is_settled, plan_for, say_nothing


@dataclass(frozen=True, slots=True)
class DataFacts:
    """Which data an engine was trained on."""

    fingerprint: str
    "SHA-256 over the events and the names of readers and items; the snapshot's version covers all that was learned."
    events: int
    readers: int
    items: int
    dropped: int
    newest_s: float

    @classmethod
    def of(cls, data: Interactions) -> DataFacts:
        """Describe data."""
        digest = hashlib.sha256()
        for array in (data.reader, data.item, data.at_s, data.weight, data.basket, data.kind):
            digest.update(np.ascontiguousarray(array).tobytes())
        for names in (data.readers, data.items):
            digest.update("\n".join(names.names.to_pylist()).encode())
        return cls(digest.hexdigest(), len(data), data.n_readers, data.n_items, data.dropped, data.now_s)


@dataclass(frozen=True, slots=True)
class Engine:
    """Everything that was learned."""

    recipe: Recipe
    "Settled: every weight and parameter is in it."
    blend: Blend
    items: Vocabulary
    facts: DataFacts
    baskets: Neighbours | None = None
    cohorts: Cohorts | None = None

    def score(self, histories: Histories) -> Batch:
        """Score every item for every history.

        Shapes:
            returns: float32 [q, n]
        """
        return self.blend.score(histories)


def fit(recipe: Recipe, data: Interactions, tell: Tell = say_nothing) -> Engine:
    """Train every part of a settled recipe on all of the data.

    Errors:
        Invalid: the recipe has open questions; make a plan first
    """
    blend = recipe.blend
    if not is_settled(recipe) or blend.weights == "auto" or blend.weights_new == "auto":
        raise Invalid("the recipe has open questions (tune, or weights that are `auto`); make a plan first")
    recipe = for_catalog(recipe, data.n_items)
    data = newest_events(data, recipe.events.newest)
    parts = []
    for name, part in recipe.parts.items():
        weight, weight_new = blend.weights.get(name, 0.0), blend.weights_new.get(name, 0.0)
        if weight or weight_new:
            tell(f"train {name}")
            model = learner_of(part).train(data, rng_for(recipe.seed, name))
            parts.append(Part(name, model, float(weight), float(weight_new)))
    baskets = None
    if recipe.baskets is not None:
        tell("train baskets")
        baskets = Baskets(recipe.baskets).train(data, rng_for(recipe.seed, "baskets"))
    cohorts = None
    if recipe.cohorts is not None:
        tell("train cohorts")
        cohorts = cohorts_of(recipe.cohorts, data, rng_for(recipe.seed, "cohorts"))
    return Engine(recipe, Blend(tuple(parts)), data.items, DataFacts.of(data), baskets, cohorts)


def without_weight(engine: Engine, parts: Collection[str]) -> Engine:
    """Give an engine in which some parts have no weight for readers with a history."""
    kept = (replace(part, weight=0.0) if part.name in parts else part for part in engine.blend.parts)
    return replace(engine, blend=Blend(tuple(kept)))


def train(recipe: Recipe, data: Interactions, tell: Tell = say_nothing) -> tuple[Engine, Plan]:
    """Plan on the newest part of the data, then train on all of it."""
    data = newest_events(data, recipe.events.newest)
    plan = plan_for(recipe, data, tell)
    return fit(plan.recipe, data, tell), plan


def newest_events(data: Interactions, most: int | None) -> Interactions:
    """Keep so many of the newest events."""
    if most is None or len(data) <= most:
        return data
    newest = np.argsort(-data.at_s, kind="stable")[:most]
    return data.pick(np.sort(newest))
