"""Content weights, which score products without events; trained on the content of products with events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson

from actors.models.blend import Blend
from actors.models.features import build_feature_matrix, features_from_product
from actors.models.neighbours import NeighbourModel
from actors.models.registry import CONTENT
from actors.vectors.snapshot_arrays import ModelState
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.content_regression import (
    ContentRecipe,
    ItemFeatures,
    select_frequent_features,
    train_content_regression,
)
from jobs.refresh.learners.ease import EaseLearner, EaseRecipe
from jobs.refresh.learners.item_knn import ItemKnnLearner, ItemKnnRecipe
from jobs.refresh.learners.registry import build_rng

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
    rows = {name: row for row, name in enumerate(data.items.names.to_pylist())}
    lists: list[list[int]] = [[] for _ in rows]
    for product in products:
        record = orjson.loads(product)
        row = rows.get(record.get("product_id"))
        if row is not None:
            lists[row] = features_from_product(record)
    features = select_frequent_features(lists, recipe.features)
    if not len(features):
        return {}
    described = ItemFeatures(build_feature_matrix(lists, features), features)
    weights = _item_weights(data, parts, blend, seed).weights
    trained = train_content_regression(recipe, described, weights, data, build_rng(seed, CONTENT))
    return {} if trained is None else {CONTENT: trained.save()}


def _item_weights(data: Interactions, parts: Mapping[str, str], blend: Blend, seed: int) -> NeighbourModel:
    """Return the item-to-item weights of the blend, or train them."""
    for learner in USABLE:
        for part in blend.parts:
            if parts[part.name] == learner and isinstance(part.model, NeighbourModel):
                return part.model
    rng = build_rng(seed, CONTENT)
    if data.n_items <= EASE_ITEMS:
        return EaseLearner(EaseRecipe(regularisation=100.0)).train(data, rng)
    return ItemKnnLearner(ItemKnnRecipe()).train(data, rng)
