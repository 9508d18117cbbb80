"""Validate a snapshot before it serves: each array must have the form that its model reads.

Checksums do not find a wrong index. It would fail at a query, or give wrong results. So every index is checked once,
before the first query.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from actors.models.cohorts import CohortModel
from actors.models.content import ContentModel
from actors.models.factors import FactorModel
from actors.models.loading.snapshot import Snapshot, version_of
from actors.models.loading.snapshot_models import LoadedSnapshot, load_snapshot_models
from actors.models.model import Model, SharedScoresModel
from actors.models.neighbours import NeighbourModel
from actors.models.popularity import PopularityModel
from actors.models.reranker import OTHER_COLUMNS, Reranker
from actors.models.sessions import SessionModel
from actors.models.transformer import TransformerModel
from actors.models.tree_ensemble import MOST_LEAVES, MOST_TREES
from actors.models.user_histories import UserHistories
from actors.vectors.snapshot_arrays import Array
from cluster.errors import Fault, KioskError


def validate_snapshot(snapshot: Snapshot, version: str) -> LoadedSnapshot:
    """Validate every part of an opened snapshot and return its models.

    Errors:
        Invalid: it was trained with a custom learner that is not installed
    Cost:
        40 ms for 20 million weights
    """
    facts = dict(snapshot.manifest.facts)
    manifest_version = facts.pop("version", "")
    if manifest_version != version:
        raise _damage_fault("manifest.json", f"it is version {manifest_version}, {version} was asked for")
    # The version is a digest: a manifest of another snapshot under this name is refused.
    if version_of(facts, snapshot.manifest.files) != version:
        raise _damage_fault("manifest.json", "its version does not fit its contents")
    # Names are looked up by binary search, which would miss some silently.
    if not snapshot.items.is_ordered:
        raise _damage_fault("items.arrow", "its names do not ascend")
    learned = load_snapshot_models(snapshot)
    count = len(snapshot.items)
    for part in learned.blend.parts:
        # One NaN weight would make every score NaN.
        if not np.isfinite((part.weight, part.weight_new, part.unseen_list_weight)).all():
            raise _damage_fault(part.name, "its weight is no number")
        _validate_model(part.name, part.model, count)
    if learned.baskets is not None:
        _validate_model("baskets", learned.baskets, count)
    if learned.cohorts is not None:
        _validate_cohorts(learned.cohorts, count)
    if learned.content is not None:
        _validate_content(learned.content, count)
    for reranker in (learned.reranker, learned.search_reranker):
        if reranker is not None:
            _validate_reranker(reranker, count)
    return learned


def _validate_model(name: str, model: Model, count: int) -> None:
    match model:
        case NeighbourModel():
            weights = model.weights
            _validate_lists(name, weights.indptr, weights.indices, count, count)
            _validate_numbers(name, weights.data, (len(weights.indices),))
        case SessionModel():
            sessions = len(model.session_starts) - 1
            _validate_lists(f"{name} sessions", model.session_starts, model.session_items, sessions, count)
            _validate_lists(f"{name} items", model.item_starts, model.item_sessions, count, sessions)
            _validate_numbers(name, model.idf, (count,))
        case PopularityModel():
            _validate_numbers(name, model.scores, (count,))
            if model.power <= 0 or (model.half_life_days is not None and model.half_life_days <= 0):
                raise _damage_fault(name, "power and half-life must be above 0")
            if len(model.scores) and model.scores.min() < 0:
                raise _damage_fault(name, "a count is below 0")
        case FactorModel():
            width = model.items.shape[-1]
            _validate_numbers(name, model.items, (count, width))
            _validate_numbers(name, model.gram, (width, width))
        case TransformerModel():
            for array_name, array, shape in model.list_shapes(count):
                _validate_numbers(f"{name} {array_name}", array, shape)
        case _:
            _validate_custom(name, model, count)


def _validate_lists(name: str, starts: Array, values: Array, lists: int, below: int) -> None:
    """Check that lists are consecutive and have numbers from 0 to below a bound."""
    for array in (starts, values):
        if array.ndim != 1 or array.dtype.kind != "i":
            raise _damage_fault(
                name, f"it holds {array.dtype} of {array.ndim} dimensions where whole numbers belong"
            )
    if lists < 0 or len(starts) != lists + 1:
        raise _damage_fault(name, f"it has {len(starts) - 1} lists, {lists} belong")
    # Compiled code of scipy reads between these bounds without a check of its own.
    if starts[0] != 0 or starts[-1] != len(values) or (np.diff(starts) < 0).any():
        raise _damage_fault(name, "its lists do not stand one behind the other")
    if len(values) and (values.min() < 0 or values.max() >= below):
        raise _damage_fault(name, f"it names numbers outside of 0 to {below - 1}")


def _validate_numbers(name: str, array: Array, shape: tuple[int, ...]) -> None:
    if array.dtype != np.float32 or array.shape != shape:
        raise _damage_fault(name, f"it holds {array.dtype} {array.shape} where float32 {shape} belongs")
    # a sum is finite if all values are; it reads every page once and creates no array
    if not np.isfinite(array.sum(dtype=np.float64)):
        raise _damage_fault(name, "it holds what is no number")


def _validate_cohorts(cohorts: CohortModel, count: int) -> None:
    sizes = [len(values) for values in cohorts.values]
    _validate_numbers("cohorts", cohorts.shares, (sum(sizes), count))
    _validate_numbers("cohorts", cohorts.everybody, (count,))
    if cohorts.mass is not None:
        _validate_numbers("cohorts", cohorts.mass, (sum(sizes),))
        if len(cohorts.mass) and cohorts.mass.min() < 0:
            raise _damage_fault("cohorts", "a cohort has less than no votes")
    first = [sum(sizes[:at]) for at in range(len(sizes))]
    if len(cohorts.fields) != len(sizes) or cohorts.first.tolist() != first:
        raise _damage_fault("cohorts", "its fields do not fit its shares")


def _validate_content(content: ContentModel, count: int) -> None:
    width = len(content.features)
    if content.features.dtype != np.int64 or (np.diff(content.features) <= 0).any():
        raise _damage_fault("content", "its features do not ascend")
    for name, matrix, rows in (
        ("content", content.weights, count),
        ("content sample", content.sample, content.sample.shape[0]),
    ):
        _validate_lists(name, matrix.indptr, matrix.indices, rows, width)
        _validate_numbers(name, matrix.data, (len(matrix.indices),))


def _validate_reranker(reranker: Reranker, count: int) -> None:
    trees = reranker.trees.arrays
    products = reranker.products
    conditions = len(trees.features)
    leaves = len(trees.leaves)
    columns = len(reranker.parts) + OTHER_COLUMNS
    _validate_lists("reranker", trees.starts, trees.features, len(trees), columns)
    _validate_lists("reranker leaves", trees.leaf_starts, np.zeros(leaves, np.int64), len(trees), 1)
    # A tree has one leaf more than conditions, and each condition names leaves of its left subtree.
    sizes = np.diff(trees.leaf_starts)
    if len(trees) > MOST_TREES or (sizes != np.diff(trees.starts) + 1).any() or (sizes > MOST_LEAVES).any():
        raise _damage_fault(
            "reranker", "its trees have other numbers of leaves than conditions and bounds allow"
        )
    numbers = (("thresholds", trees.thresholds, conditions), ("leaves", trees.leaves, leaves))
    for name, array, length in numbers:
        if array.dtype != np.float64 or array.shape != (length,) or not np.isfinite(array).all():
            raise _damage_fault("reranker", f"its {name} are no {length} numbers")
    if trees.missing_left.dtype != np.bool_ or trees.missing_left.shape != (conditions,):
        raise _damage_fault("reranker", "its conditions do not say where unknown values go")
    # Bits of all leaves of the tree of each condition.
    whole = np.repeat((1 << sizes) - 1, np.diff(trees.starts))
    if trees.left_leaves.dtype != np.uint16 or trees.left_leaves.shape != (conditions,):
        raise _damage_fault("reranker", "its conditions name no leaves")
    if ((trees.left_leaves == 0) | (trees.left_leaves >= whole)).any():
        raise _damage_fault("reranker", "a condition names leaves that its tree lacks, or all of them")
    _validate_numbers("reranker", products.events, (count,))
    if products.first_s.dtype != np.float64 or products.first_s.shape != (count,):
        raise _damage_fault("reranker", "its times do not fit its items")


def _validate_custom(name: str, model: Model, count: int) -> None:
    """Check the scores of a custom model for an empty history."""
    try:
        # An empty history is the one input that every model must accept.
        scores: Any = model.score(UserHistories.of_lists([[]], count))
        shared: Any = model.common()[None] if isinstance(model, SharedScoresModel) else scores
    except KioskError:
        raise
    except Exception as error:
        # a custom model that raises any error must not serve
        raise _damage_fault(name, f"it can't answer: {error!r}") from error
    for answer in (scores, shared):
        _validate_answer(name, answer, count)


def _validate_answer(name: str, scores: Any, count: int) -> None:
    if getattr(scores, "shape", None) != (1, count) or not np.isfinite(np.asarray(scores, np.float64)).all():
        raise _damage_fault(name, f"its answer is no float32 (1, {count})")


def _damage_fault(name: str, why: str) -> KioskError:
    return Fault(f"snapshot is damaged: {name}: {why}", path=name)
