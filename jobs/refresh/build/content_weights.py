"""What products without events are worth to a user, learned from what products with events are like."""

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
"EASE is trained for this alone in catalogs up to so many items."
USABLE = ("ease", "graph_filter", "item_knn")
"Parts of a blend whose weights are explained, the best first."


def build_content_weights(
    recipe: ContentRecipe,
    products: Iterable[bytes],
    data: Interactions,
    parts: Mapping[str, str],
    blend: Blend,
    seed: int = 1,
) -> Mapping[str, ModelState]:
    """Explain what was learned of items by what their products are like; nothing when there is too little.

    `parts` names the learner of each part of the blend.
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
    """Take the weights between items from the blend, or learn them."""
    for learner in USABLE:
        for part in blend.parts:
            if parts[part.name] == learner and isinstance(part.model, NeighbourModel):
                return part.model
    rng = build_rng(seed, CONTENT)
    if data.n_items <= EASE_ITEMS:
        return EaseLearner(EaseRecipe(regularisation=100.0)).train(data, rng)
    return ItemKnnLearner(ItemKnnRecipe()).train(data, rng)
