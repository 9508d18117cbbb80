"""Training of an engine from a settled recipe and data.

It also fits the content weights, which score products without events by the content of products with events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import orjson

from actors.models.blend import Blend, BlendPart
from actors.models.cohorts import CohortModel
from actors.models.features import (
    build_feature_matrix,
    features_from_product,
    pair_features_from_product,
    weak_features_from_product,
)
from actors.models.loading.snapshot_models import CONTENT
from actors.models.model import Batch
from actors.models.neighbours import NeighbourModel
from actors.models.user_histories import UserHistories
from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.vocabulary import Vocabulary
from cluster.errors import Invalid
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.cohorts import build_cohorts
from jobs.refresh.learners.content_regression import (
    ContentRecipe,
    ItemFeatures,
    select_frequent_features,
    train_content_regression,
)
from jobs.refresh.learners.neighbours.baskets import BasketsLearner
from jobs.refresh.learners.neighbours.ease import EaseLearner, EaseRecipe
from jobs.refresh.learners.neighbours.item_knn import ItemKnnLearner, ItemKnnRecipe
from jobs.refresh.learners.registry import build_learner, build_rng
from jobs.refresh.recipe import Recipe
from jobs.refresh.tuning.plan import fit_recipe_to_catalog, is_settled
from jobs.refresh.tuning.variant_training import StepCallback, ignore_step


@dataclass(frozen=True, slots=True)
class DataFacts:
    """Size and fingerprint of the training data."""

    fingerprint: str
    "SHA-256 of the events and the ids of users and items; the version of the snapshot covers the models."
    events: int
    readers: int
    items: int
    dropped: int
    newest_s: float

    @classmethod
    def from_interactions(cls, data: Interactions) -> DataFacts:
        """Return the facts of interactions."""
        digest = hashlib.sha256()
        # The fingerprint covers every array, so that two trainings on equal data can be told to be so.
        for array in (data.reader, data.item, data.at_s, data.weight, data.basket, data.kind):
            digest.update(np.ascontiguousarray(array).tobytes())
        for names in (data.readers, data.items):
            digest.update("\n".join(names.names.to_pylist()).encode())
        return cls(digest.hexdigest(), len(data), data.n_readers, data.n_items, data.dropped, data.now_s)


@dataclass(frozen=True, slots=True)
class TrainedEngine:
    """A settled recipe with its trained models."""

    recipe: Recipe
    "Settled: it has all weights and parameters."
    blend: Blend
    items: Vocabulary
    facts: DataFacts
    baskets: NeighbourModel | None = None
    cohorts: CohortModel | None = None

    def score(self, histories: UserHistories) -> Batch:
        """Return the blended score of each item for each history.

        Shapes:
            returns: float32 [q, n]
        """
        return self.blend.score(histories)

    def for_unseen(self) -> TrainedEngine:
        """Return the engine of lists without products of the user's history."""
        return replace(self, blend=self.blend.for_unseen())


def train_engine(recipe: Recipe, data: Interactions, on_step: StepCallback = ignore_step) -> TrainedEngine:
    """Train each component of a settled recipe on all data and return the engine.

    Errors:
        Invalid: the recipe has open parameters or weights
    """
    blend = recipe.blend
    if not is_settled(recipe) or blend.weights == "auto" or blend.weights_new == "auto":
        raise Invalid("the recipe has open questions (tune, or weights that are `auto`); make a plan first")
    recipe = fit_recipe_to_catalog(recipe, data.n_items)
    data = select_newest_events(data, recipe.events.newest)
    parts = []
    for name, part in recipe.parts.items():
        weight = float(blend.weights.get(name, 0.0))
        weight_new = float(blend.weights_new.get(name, 0.0))
        unseen = None if blend.weights_unseen is None else float(blend.weights_unseen.get(name, 0.0))
        # Parts without any weight are not trained: `auto` leaves parts of a recipe at 0.
        if weight or weight_new or unseen:
            on_step(f"train {name}")
            # The seed depends on the name alone, so a part is the same with and without its neighbours.
            model = build_learner(part).train(data, build_rng(recipe.seed, name))
            parts.append(BlendPart(name, model, weight, weight_new, unseen))
    baskets = None
    if recipe.baskets is not None:
        on_step("train baskets")
        baskets = BasketsLearner(recipe.baskets).train(data, build_rng(recipe.seed, "baskets"))
    cohorts = None
    if recipe.cohorts is not None:
        on_step("train cohorts")
        cohorts = build_cohorts(recipe.cohorts, data, build_rng(recipe.seed, "cohorts"))
    return TrainedEngine(
        recipe, Blend(tuple(parts)), data.items, DataFacts.from_interactions(data), baskets, cohorts
    )


def clear_history_weights(
    engine: TrainedEngine, parts: Collection[str], parts_unseen: Collection[str] = ()
) -> TrainedEngine:
    """Return an engine in which some components have no weight for users with a history.

    `parts_unseen` are those without weight in lists without products of the history.
    """
    kept = (replace(part, weight=0.0) if part.name in parts else part for part in engine.blend.parts)
    left = (replace(part, weight_unseen=0.0) if part.name in parts_unseen else part for part in kept)
    return replace(engine, blend=Blend(tuple(left)))


def select_newest_events(data: Interactions, most: int | None) -> Interactions:
    """Return at most `most` of the newest events."""
    if most is None or len(data) <= most:
        return data
    # Sorted again below: events must stay by user and time.
    newest = np.argsort(-data.at_s, kind="stable")[:most]
    return data.pick(np.sort(newest))


EASE_ITEMS = 6_000
"Largest catalog for which EASE is trained only for the content weights."
USABLE = ("ease", "graph_filter", "item_knn")
"Components whose item weights are regression targets, the best first."


def build_content_weights(
    recipe: ContentRecipe,
    products: Iterable[bytes],
    data: Interactions,
    parts: Mapping[str, str],
    blend: Blend,
    seed: int = 1,
) -> Mapping[str, ModelState]:
    """Train content weights on the learned item weights; return an empty mapping if there is too little data.

    `parts` maps each component of the blend to its learner.
    """
    lists, weak, pairs = _collect_features(products, data)
    features = select_frequent_features(lists, recipe.features, pairs)
    if not len(features):
        return {}
    described = ItemFeatures.of(build_feature_matrix(lists, features), features, weak)
    weights = _item_weights(data, parts, blend, seed).weights
    trained = train_content_regression(recipe, described, weights, data, build_rng(seed, CONTENT))
    return {} if trained is None else {CONTENT: trained.save()}


def count_content_features(recipe: ContentRecipe, products: Iterable[bytes], data: Interactions) -> int:
    """Return the number of features that content weights of these products have."""
    lists, _, pairs = _collect_features(products, data)
    return len(select_frequent_features(lists, recipe.features, pairs))


def _collect_features(
    products: Iterable[bytes], data: Interactions
) -> tuple[list[list[int]], set[int], set[int]]:
    """Return the features of each item, the weak ones among them, and the pairs among them."""
    rows = {name: row for row, name in enumerate(data.items.names.to_pylist())}
    lists: list[list[int]] = [[] for _ in rows]
    weak: set[int] = set()
    pairs: set[int] = set()
    for product in products:
        record = orjson.loads(product)
        row = rows.get(record.get("product_id"))
        if row is not None:
            lists[row] = features_from_product(record)
            weak.update(weak_features_from_product(record))
            pairs.update(pair_features_from_product(record))
    return lists, weak, pairs


def _item_weights(data: Interactions, parts: Mapping[str, str], blend: Blend, seed: int) -> NeighbourModel:
    """Return the item-to-item weights of the blend, or train them."""
    # The blend may have trained some already; only without any is another model trained for them.
    for learner in USABLE:
        for part in blend.parts:
            if parts[part.name] == learner and isinstance(part.model, NeighbourModel):
                return part.model
    rng = build_rng(seed, CONTENT)
    if data.n_items <= EASE_ITEMS:
        # Only to learn item weights for the regression; it gets no weight in the blend.
        return EaseLearner(EaseRecipe(regularisation=100.0)).train(data, rng)
    return ItemKnnLearner(ItemKnnRecipe()).train(data, rng)
