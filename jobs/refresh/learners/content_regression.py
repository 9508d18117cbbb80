"""Ridge regression from item features to learned item weights, for items without events.

    A = W X,  M = P (A (X'X + lambda I)^-1 + s X D / |X D^1/2|) diag(scales),  D = diag(idf^2), P = diag(users^-1/2)

W holds the learned item-to-item weights, X the scaled features of the items with events. A row of M maps an item of the
history to features. `h M x` is the score of a product with features x for a history h. The second term counts the
features that a product shares with the history, rare ones more: it ranks where few people took two items both. P
damps the items of a history that many people took: they say less of a taste.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from pydantic import Field, model_validator
from scipy.linalg import solve

from actors.models.content import ContentModel
from actors.models.user_histories import TimeDecay, UserHistories, apply_time_decay
from actors.vectors.row_selection import distinct_values
from actors.vectors.types import Floats, Mask, Matrix, Rows, Scores
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.split import Targets
from jobs.refresh.evaluation import metrics
from jobs.refresh.learners.neighbours.sparse_weights import normalize_matrix, select_strongest
from jobs.refresh.learners.protocol import RecipeModel

_BLOCK = 1_000
_RETIRED = ("power", "likeness")
"Parameters of an earlier release; no training used them."
# Items whose scores give the scale of cold products; serving scores all of them for each user.
_SAMPLE = 512
_FOLDS = 3
"Tenths of the items held out one after the other; a single tenth chooses lambda by chance."
_VALIDATION_SHARE = 0.1
_WEAK = 0.5
"Scale of words and pairs. A word says less of a product than its brand or category."
_SECONDS_A_LIST = 1.6e-5
_ENOUGH_USERS = 30
_POPULARITY_DAMPING = 0.5
"""Exponent of the number of users of an item of the history. On the development sets, 0.5 ranks better than 0 and 0.25
(docs/decisions/0031-decades-and-popularity-of-cold-products.md)."""
_LEAST_PRODUCTS = 2
"A feature of only one product can't generalize to others."
_LEAST_PRODUCTS_OF_A_PAIR = 20
"Products of a pair of values. Rarer pairs triple the features of a shop with many tags, and rank no better."


_ITEMS_UP_TO = 400_000
"With so many items, the regression still fits into the default limit of memory."


class ContentRecipe(RecipeModel):
    """Parameters of the regression."""

    regularisation: tuple[float, ...] = Field(
        default=(50.0, 0.5, 2.0, 10.0, 200.0), min_length=1, max_length=16
    )
    "Candidate values of lambda; the one that ranks held-out items best is used."
    fading: tuple[TimeDecay, ...] = Field(
        default=(TimeDecay(half_life_items=None), TimeDecay(half_life_items=20.0)),
        min_length=1,
        max_length=16,
    )
    "Candidate time decays of the history; chosen in the same way."
    similarity: tuple[float, ...] = Field(default=(0.5, 0.0, 0.25, 1.0, 2.0), min_length=1, max_length=16)
    "Candidate weights of shared features, relative to the deviation of the regression's scores; chosen likewise."
    features: int = Field(default=3_000, ge=1, le=10_000)
    "Maximum number of features, the most frequent first; cost grows with its square."
    keep: int = Field(default=300, ge=1)
    "Weights kept per item."
    readers: int = Field(default=600, ge=1)
    "Maximum number of users on which the values are chosen."
    # The default is left out: earlier releases read stored recipes without the field, and name versions by them.
    items_up_to: int = Field(default=_ITEMS_UP_TO, ge=1, exclude_if=lambda most: most == _ITEMS_UP_TO)
    "The regression is omitted if the catalog has more items: it needs 5 KB of memory for each."

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
    """Items and their features.

    Shapes:
        matrix: CSR float32 [n, d] of ones; features: int64 [d], ascending; scales: float32 [d]
    """

    matrix: Any
    features: Rows
    scales: Scores

    @classmethod
    def of(cls, matrix: Any, features: Rows, weak: Iterable[int]) -> ItemFeatures:
        """Return items with scaled features; `weak` names those that say less.

        Shapes:
            matrix: CSR float32 [n, d] of ones; features: int64 [d], ascending
        """
        is_weak = np.isin(features, np.fromiter(weak, np.int64))
        return cls(matrix, features, np.where(is_weak, np.float32(_WEAK), np.float32(1)))

    def scaled(self) -> Any:
        """Return the scaled features of the items.

        Shapes:
            returns: CSR float32 [n, d]
        """
        return (self.matrix @ sp.diags_array(self.scales)).tocsr()


def select_frequent_features(
    products: list[list[int]], most: int, pairs: Collection[int] = frozenset()
) -> Rows:
    """Return the most frequent features that at least two products share, pairs at least twenty.

    Ties are broken by feature number.

    Shapes:
        returns: int64 [d], ascending
    """
    flat = np.fromiter((feature for features in products for feature in features), np.int64)
    names, counts = np.unique(flat, return_counts=True)
    order = np.lexsort((names, -counts))
    is_pair = np.isin(names, np.fromiter(pairs, np.int64, len(pairs)))
    least = np.where(is_pair, _LEAST_PRODUCTS_OF_A_PAIR, _LEAST_PRODUCTS)
    order = order[counts[order] >= least[order]][:most]
    chosen: Rows = np.sort(names[order]).astype(np.int64)
    return chosen


def train_content_regression(
    recipe: ContentRecipe, described: ItemFeatures, weights: Any, data: Interactions, rng: np.random.Generator
) -> ContentModel | None:
    """Regress learned weights on the features of items with events.

    Returns None if fewer than two items have both events and features.

    Shapes:
        weights: CSR float32 [n, n]; row = item of the history, column = item to recommend
    Cost:
        n = 8,000, d = 3,000: 23 s on one core; n = 10,600: 36 s; n = 3,600, d = 1,300: 9 s
    """
    taken = np.zeros(data.n_items, np.bool_)
    taken[data.item[data.weight > 0]] = True
    trained = taken & (np.diff(described.matrix.indptr) > 0)
    if np.count_nonzero(trained) < 2:
        return None
    scaled = described.scaled()
    damping = _damp_popular_items(data)
    # P W: rows are items of the history, damped by users^-1/2 (equation 12, decision 31)
    weights = (sp.diags_array(damping) @ weights).tocsr()
    shared = _shared_features(described, trained, damping)
    rows = np.flatnonzero(trained)
    sampled = rows[:: max(1, len(rows) // _SAMPLE)]
    chosen = _choose_parameters(recipe, described, weights, damping, data, trained, rng)
    if chosen is None:
        # (X'X + lambda I)^-1, shape [d, d]; only items with events teach
        inverse = _ridge_inverse(scaled[trained], recipe.regularisation[0])
        regressed = _feature_contributions(weights[sampled], scaled, trained).toarray() @ inverse
        regressed = regressed @ scaled[sampled].T
        ratio = _deviation_ratio(regressed, (shared[sampled] @ scaled[sampled].T).toarray())
        chosen = _Parameters(recipe.regularisation[0], recipe.fading[0], recipe.similarity[0] * ratio)
    else:
        inverse = _ridge_inverse(scaled[trained], chosen.regularisation)
    columns = np.arange(len(described.features))
    deviations = _feature_deviations(described.matrix[trained])
    blocks = []
    for first in range(0, data.n_items, _BLOCK):
        block = slice(first, first + _BLOCK)
        regressed = _feature_contributions(weights[block], scaled, trained).toarray() @ inverse
        # M = W X (X'X + lambda I)^-1 + s X D / |X D^1/2|, a block of rows at a time: the whole is dense
        mapped = np.asarray(regressed + chosen.similarity * shared[block].toarray(), np.float32)
        # Times the deviation while rows are pruned: what remains are weights that change scores (decision
        # 30).
        mapped *= described.scales * deviations
        blocks.append(select_strongest(mapped, recipe.keep, columns, len(columns)))
    mapping = normalize_matrix(sp.vstack(blocks, format="csr"))
    # The deviation served the selection only.
    mapping.data /= deviations[mapping.indices]
    sample = normalize_matrix(described.matrix[sampled])
    return ContentModel(mapping, described.features, sample, chosen.fading)


def estimate_memory_bytes(items: int, features: int, keep: int) -> int:
    """Return the estimated peak memory of the training in bytes."""
    return 24 * features * features + 12 * _BLOCK * features + 16 * items * keep + (100 << 20)


def estimate_seconds(items: int, features: int, recipe: ContentRecipe) -> float:
    """Return the estimated training time on one core in seconds."""
    tried = len(recipe.regularisation)
    choices = tried * len(recipe.fading) * len(recipe.similarity)
    ranked = _SECONDS_A_LIST * _FOLDS * choices * recipe.readers
    inverted = (_FOLDS * tried / 3 + 1) * float(features) ** 3
    multiplied = (1 + _FOLDS * _VALIDATION_SHARE * tried) * items * float(features) ** 2
    return 4e-11 * (inverted + multiplied) + ranked


def _feature_contributions(weights: Any, matrix: Any, trained: Mask) -> Any:
    """Sum the weights of some items of a history over the features of the known items.

    Shapes:
        weights: CSR [b, n]; returns: CSR [b, d]
    """
    return (weights @ sp.diags_array(trained.astype(np.float32)) @ matrix).tocsr()


def _damp_popular_items(data: Interactions) -> Scores:
    """Return the factor of each item of a history, at most 1.

    Shapes:
        returns: float32 [n]
    """
    counts = np.bincount(data.item[data.weight > 0], minlength=data.n_items)
    return (np.maximum(counts, 1) ** -_POPULARITY_DAMPING).astype(np.float32)


def _shared_features(described: ItemFeatures, trained: Mask, damping: Scores) -> Any:
    """Weigh the features of each known item by squared inverse document frequency, over the length of the item.

    Shapes:
        damping: float32 [n], factor of each item
        returns: CSR float64 [n, d], rows of unknown items are empty
    """
    of_trained = sp.diags_array(trained.astype(np.float64)) @ described.matrix
    counts = np.asarray(of_trained.sum(axis=0)).ravel()
    # idf of each feature; D = diag(idf^2), one factor here and one in the last line
    rarity = np.log(max(np.count_nonzero(trained), 1) / np.maximum(counts, 1.0))
    weighted = of_trained @ sp.diags_array(rarity * described.scales)
    lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    return (sp.diags_array(damping / np.maximum(lengths, 1e-9)) @ weighted @ sp.diags_array(rarity)).tocsr()


def _feature_deviations(matrix: Any) -> Scores:
    """Return the standard deviation of each feature, which is what its weight can change in a score.

    Pruned by weight alone, a row keeps rare features that hardly any product has.

    Shapes:
        matrix: CSR [n, d] of ones; returns: float32 [d], above 0
    """
    # the mean of many float32 ones may exceed 1
    share = np.clip(np.asarray(matrix.mean(axis=0), np.float64).ravel(), 0.0, 1.0)
    return np.maximum(np.sqrt(share * (1 - share)), 1e-6).astype(np.float32)


def _deviation_ratio(regressed: Floats, shared: Floats) -> float:
    """Return what scores of shared features are multiplied by to deviate as much as those of the regression."""
    return float(np.std(regressed) / max(float(np.std(shared)), 1e-12))


def _regularised_gram(features: Any, regularisation: float) -> Matrix:
    # X'X + lambda I: lambda on the diagonal keeps it positive definite.
    gram: Matrix = (features.T @ features).toarray().astype(np.float32)
    gram[np.diag_indices_from(gram)] += np.float32(regularisation)
    return gram


def _ridge_inverse(features: Any, regularisation: float) -> Matrix:
    return np.asarray(np.linalg.inv(_regularised_gram(features, regularisation)), np.float32)


def _choose_parameters(
    recipe: ContentRecipe,
    described: ItemFeatures,
    weights: Any,
    damping: Scores,
    data: Interactions,
    trained: Mask,
    rng: np.random.Generator,
) -> _Parameters | None:
    """Hold out tenths of the items; return the values that rank them best for the users who took them.

    Returns None if there is nothing to choose, or too little to choose by.
    """
    choices = list(product(recipe.regularisation, recipe.fading, recipe.similarity))
    if len(choices) == 1:
        return None
    # A permutation, not draws: all folds have nearly the same size.
    fold_of = rng.permutation(data.n_items) % round(1 / _VALIDATION_SHARE)
    figures = []
    ratios = []
    for fold in range(_FOLDS):
        hidden = _select_fold(recipe, data, trained, trained & (fold_of == fold), rng)
        if hidden is not None:
            ndcg, ratio = _compare_parameters(recipe, described, weights, damping, hidden)
            figures.append(ndcg)
            ratios.append(ratio)
    if not figures:
        return None
    # a mean over folds needs no threshold: near equals rank nearly alike
    best = int(np.concatenate(figures, axis=1).mean(axis=1).argmax())
    regularisation, fading, similarity = choices[best]
    return _Parameters(regularisation, fading, similarity * float(np.mean(ratios, axis=0)[best]))


@dataclass(frozen=True, slots=True)
class _ColdFold:
    """Items that are treated as new, and the users who took them.

    Shapes:
        rest: bool [n], the items that may teach; rows: int64 [k], the items held out
    """

    rest: Mask
    rows: Rows
    histories: UserHistories
    targets: Targets


def _select_fold(
    recipe: ContentRecipe, data: Interactions, trained: Mask, hidden: Mask, rng: np.random.Generator
) -> _ColdFold | None:
    events = data.pick(hidden[data.item] & (data.weight > 0))
    users = distinct_values(events.reader)
    rest = trained & ~hidden
    if len(users) < _ENOUGH_USERS or not rest.any():
        return None
    users = np.sort(rng.choice(users, min(recipe.readers, len(users)), replace=False))
    events = events.pick(np.isin(events.reader, users))
    # Without the hidden items: they are new to the model in every way.
    histories = UserHistories.of(data.pick(~hidden[data.item]), users)
    rows = np.flatnonzero(hidden)
    places = np.searchsorted(rows, events.item)
    targets = Targets.from_pairs(np.searchsorted(users, events.reader), places, len(users))
    return _ColdFold(rest, rows, histories, targets)


def _compare_parameters(
    recipe: ContentRecipe, described: ItemFeatures, weights: Any, damping: Scores, hidden: _ColdFold
) -> tuple[Floats, Floats]:
    """Return the NDCG@10 of each user and the ratio of deviations, for each choice in the order of the product.

    Shapes:
        returns: float64 [choices, q], float64 [choices]
    """
    scaled = described.scaled()
    candidates = scaled[hidden.rows].T
    shared = _shared_features(described, hidden.rest, damping)
    # Multiply users by weights first; the other order creates a matrix of all items by all features.
    past = {fading: apply_time_decay(hidden.histories, fading) for fading in recipe.fading}
    liked = {
        fading: _feature_contributions(past[fading] @ weights, scaled, hidden.rest).toarray()
        for fading in recipe.fading
    }
    similar = {fading: (past[fading] @ shared @ candidates).toarray() for fading in recipe.fading}
    right = candidates.toarray().astype(np.float32)
    figures = []
    ratios = []
    for regularisation in recipe.regularisation:
        gram = _regularised_gram(scaled[hidden.rest], regularisation)
        # (X'X + lambda I)^-1 x for the held-out items alone: cheaper than the inverse, and more exact.
        towards = solve(gram, right, assume_a="pos", check_finite=False)
        for fading in recipe.fading:
            regressed = liked[fading] @ towards
            ratio = _deviation_ratio(regressed, similar[fading])
            for share in recipe.similarity:
                scores = regressed + share * ratio * similar[fading]
                lists = metrics.rank_top_items(np.asarray(scores, np.float32), 10)
                hits = metrics.mark_hits(lists, hidden.targets, len(hidden.rows))
                figures.append(metrics.ndcg(hits, hidden.targets.lengths, 10))
                ratios.append(ratio)
    return np.array(figures), np.array(ratios)
