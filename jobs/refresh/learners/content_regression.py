"""Ridge regression from item features to learned item weights, for items without events.

    A = W X,  M = A (X'X + lambda I)^-1 + s X D / |X D^1/2|,  D = diag(idf^2)

W holds the learned item-to-item weights, X the features of the items with events. A row of M maps an item of the
history to features. `h M x` is the score of a product with features x for a history h. The second term counts the
features that a product shares with the history, rare ones more: it ranks where few people took two items both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from pydantic import BaseModel, Field, model_validator

from actors.models.content import ContentWeights
from actors.models.user_histories import TimeDecay, UserHistories, apply_time_decay
from actors.vectors.types import Floats, Mask, Rows
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.split import Targets
from jobs.refresh.evaluation import metrics
from jobs.refresh.evaluation.metrics import significant_gain
from jobs.refresh.learners.protocol import STRICT
from jobs.refresh.learners.sparse_weights import normalize_matrix, select_strongest

_BLOCK = 1_000
_RETIRED = ("power", "likeness")
"Parameters of an earlier release; no training used them."
_SAMPLE = 512
_VALIDATION_SHARE = 0.1
_ENOUGH_USERS = 30
_LEAST_PRODUCTS = 2
"A feature of only one product can't generalize to others."


class ContentRecipe(BaseModel):
    """Parameters of the regression."""

    model_config = STRICT

    regularisation: tuple[float, ...] = Field(default=(50.0, 10.0, 200.0), min_length=1, max_length=16)
    "Candidate values of lambda; the one that ranks held-out items best is used."
    fading: tuple[TimeDecay, ...] = Field(
        default=(TimeDecay(half_life_items=None), TimeDecay(half_life_items=20.0)),
        min_length=1,
        max_length=16,
    )
    "Candidate time decays of the history; chosen in the same way."
    similarity: tuple[float, ...] = Field(default=(0.5, 0.0, 2.0), min_length=1, max_length=16)
    "Candidate weights of shared features, relative to the deviation of the regression's scores; chosen likewise."
    features: int = Field(default=2_000, ge=1, le=10_000)
    "Maximum number of features, the most frequent first; cost grows with its square."
    keep: int = Field(default=300, ge=1)
    "Weights kept per item."
    readers: int = Field(default=600, ge=1)
    "Maximum number of users on which the values are chosen."

    @model_validator(mode="before")
    @classmethod
    def _read_earlier_form(cls, given: Any) -> Any:
        """Convert a recipe of an earlier release: single values become tuples, two unused parameters are dropped.

        Stored runs and schedules may still contain this form.
        """
        if not isinstance(given, dict):
            return given
        fields = {name: value for name, value in given.items() if name not in _RETIRED}
        for name in ("regularisation", "fading", "similarity"):
            if name in fields and not isinstance(fields[name], list | tuple):
                fields[name] = (fields[name],)
        return fields


@dataclass(frozen=True, slots=True)
class _Parameters:
    """What a regression is trained with."""

    regularisation: float
    fading: TimeDecay
    similarity: float
    "Weight of shared features, in the unit of the regression."


@dataclass(frozen=True, slots=True)
class ItemFeatures:
    """Items and their binary features.

    Shapes:
        matrix: CSR float32 [n, d] of ones; features: int64 [d], ascending
    """

    matrix: Any
    features: Rows


def select_frequent_features(products: list[list[int]], most: int) -> Rows:
    """Return the most frequent features that at least two products share; ties are broken by feature number.

    Shapes:
        returns: int64 [d], ascending
    """
    flat = np.fromiter((feature for features in products for feature in features), np.int64)
    names, counts = np.unique(flat, return_counts=True)
    order = np.lexsort((names, -counts))[:most]
    chosen: Rows = np.sort(names[order[counts[order] >= _LEAST_PRODUCTS]]).astype(np.int64)
    return chosen


def train_content_regression(
    recipe: ContentRecipe, described: ItemFeatures, weights: Any, data: Interactions, rng: np.random.Generator
) -> ContentWeights | None:
    """Regress learned weights on the features of items with events.

    Returns None if fewer than two items have both events and features.

    Shapes:
        weights: CSR float32 [n, n]; row = item of the history, column = item to recommend
    Cost:
        n = 10,000, d = 2,000: 5 s on one core, 0.3 GB
    """
    taken = np.zeros(data.n_items, np.bool_)
    taken[data.item[data.weight > 0]] = True
    trained = taken & (np.diff(described.matrix.indptr) > 0)
    if np.count_nonzero(trained) < 2:
        return None
    shared = _shared_features(described.matrix, trained)
    rows = np.flatnonzero(trained)
    sampled = rows[:: max(1, len(rows) // _SAMPLE)]
    sample = normalize_matrix(described.matrix[sampled])
    chosen = _choose_parameters(recipe, described, weights, data, trained, rng)
    if chosen is None:
        inverse = _ridge_inverse(described.matrix[trained], recipe.regularisation[0])
        regressed = _feature_contributions(weights[sampled], described.matrix, trained) @ inverse @ sample.T
        ratio = _deviation_ratio(regressed, (shared[sampled] @ sample.T).toarray())
        chosen = _Parameters(recipe.regularisation[0], recipe.fading[0], recipe.similarity[0] * ratio)
    else:
        inverse = _ridge_inverse(described.matrix[trained], chosen.regularisation)
    columns = np.arange(len(described.features))
    blocks = []
    for first in range(0, data.n_items, _BLOCK):
        block = slice(first, first + _BLOCK)
        regressed = _feature_contributions(weights[block], described.matrix, trained) @ inverse
        mapped = np.asarray(regressed + chosen.similarity * shared[block].toarray(), np.float32)
        blocks.append(select_strongest(mapped, recipe.keep, columns, len(columns)))
    mapping = normalize_matrix(sp.vstack(blocks, format="csr"))
    return ContentWeights(mapping, described.features, sample, chosen.fading)


def estimate_memory_bytes(items: int, features: int, keep: int) -> int:
    """Return the estimated peak memory of the training in bytes."""
    return 24 * features * features + 12 * _BLOCK * features + 16 * items * keep + (100 << 20)


def estimate_seconds(items: int, features: int, recipe: ContentRecipe) -> float:
    """Return the estimated training time on one core in seconds."""
    tried = len(recipe.regularisation)
    inverted = (tried + 1) * float(features) ** 3
    multiplied = (1 + _VALIDATION_SHARE * tried) * items * float(features) ** 2
    return 1e-10 * (inverted + multiplied)


def _feature_contributions(weights: Any, matrix: Any, trained: Mask) -> Any:
    """Sum the weights of some items of a history over the features of the known items.

    Shapes:
        weights: CSR [b, n]; returns: CSR [b, d]
    """
    return (weights @ sp.diags_array(trained.astype(np.float32)) @ matrix).tocsr()


def _shared_features(matrix: Any, trained: Mask) -> Any:
    """Weigh the features of each known item by squared inverse document frequency, over the length of the item.

    Shapes:
        matrix: CSR [n, d]; returns: CSR float64 [n, d], rows of unknown items are empty
    """
    of_trained = sp.diags_array(trained.astype(np.float64)) @ matrix
    counts = np.asarray(of_trained.sum(axis=0)).ravel()
    rarity = np.log(max(np.count_nonzero(trained), 1) / np.maximum(counts, 1.0))
    weighted = of_trained @ sp.diags_array(rarity)
    lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    return (sp.diags_array(1 / np.maximum(lengths, 1e-9)) @ weighted @ sp.diags_array(rarity)).tocsr()


def _deviation_ratio(regressed: Floats, shared: Floats) -> float:
    """Return what scores of shared features are multiplied by to deviate as much as those of the regression."""
    return float(np.std(regressed) / max(float(np.std(shared)), 1e-12))


def _ridge_inverse(features: Any, regularisation: float) -> Floats:
    gram = np.asarray((features.T @ features).toarray(), np.float64)
    gram[np.diag_indices_from(gram)] += regularisation
    return np.asarray(np.linalg.inv(gram), np.float64)


def _choose_parameters(
    recipe: ContentRecipe,
    described: ItemFeatures,
    weights: Any,
    data: Interactions,
    trained: Mask,
    rng: np.random.Generator,
) -> _Parameters | None:
    """Hold out a tenth of the items; return the values that rank them best for the users who took them.

    Returns None if there is nothing to choose, or too little to choose by.
    """
    choices = len(recipe.regularisation) * len(recipe.fading) * len(recipe.similarity)
    is_validation = trained & (rng.random(data.n_items) < _VALIDATION_SHARE)
    validation_events = data.pick(is_validation[data.item] & (data.weight > 0))
    users = np.unique(validation_events.reader)
    rest = trained & ~is_validation
    if choices == 1 or len(users) < _ENOUGH_USERS or not rest.any():
        return None
    users = np.sort(rng.choice(users, min(recipe.readers, len(users)), replace=False))
    validation_events = validation_events.pick(np.isin(validation_events.reader, users))
    histories = UserHistories.of(data.pick(~is_validation[data.item]), users)
    rows = np.flatnonzero(is_validation)
    places = np.searchsorted(rows, validation_events.item)
    targets = Targets.from_pairs(np.searchsorted(users, validation_events.reader), places, len(users))
    candidates = described.matrix[rows].T
    # Multiply users by weights first; the other order creates a matrix of all items by all features.
    past = {fading: apply_time_decay(histories, fading) for fading in recipe.fading}
    liked = {
        fading: _feature_contributions(past[fading] @ weights, described.matrix, rest).toarray()
        for fading in recipe.fading
    }
    shared = _shared_features(described.matrix, rest)
    similar = {fading: (past[fading] @ shared @ candidates).toarray() for fading in recipe.fading}
    best: _Parameters | None = None
    now = np.zeros(len(users))
    for regularisation in recipe.regularisation:
        towards = _ridge_inverse(described.matrix[rest], regularisation) @ candidates.toarray()
        for fading in recipe.fading:
            regressed = liked[fading] @ towards
            ratio = _deviation_ratio(regressed, similar[fading])
            for share in recipe.similarity:
                scores = regressed + share * ratio * similar[fading]
                lists = metrics.rank_top_items(np.asarray(scores, np.float32), 10)
                ndcg = metrics.ndcg(metrics.mark_hits(lists, targets, len(rows)), targets.lengths, 10)
                if best is None or significant_gain(ndcg - now, now):
                    best, now = _Parameters(regularisation, fading, share * ratio), ndcg
    return best
