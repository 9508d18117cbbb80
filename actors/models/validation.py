"""Whether a snapshot may serve: beyond checksums, that every array has the form its model reads it in.

A wrong index would not fail when it is loaded but when somebody asks, or not at all and be wrong. So every index is
looked at once, before anybody is served.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from actors.models.cohorts import Cohorts
from actors.models.content import ContentWeights
from actors.models.factors import Factors
from actors.models.model import Array, CommonModel, Model
from actors.models.neighbours import Neighbours
from actors.models.popularity import Counted
from actors.models.registry import Learned, learned_of
from actors.models.sessions import Sessions
from actors.models.snapshot import Snapshot, version_of
from actors.models.user_histories import Histories
from cluster.errors import Fault, HouseError


def trusted(snapshot: Snapshot, version: str) -> Learned:
    """Make an opened snapshot score after every part of it was looked at.

    Errors:
        Fault: it is another version than was asked for, or an array is not what its model reads
        Invalid: it was trained with a learner of yours that is not installed here
    Cost:
        40 ms for 20 million weights
    """
    facts = dict(snapshot.manifest.facts)
    named = facts.pop("version", "")
    if named != version:
        raise _damaged("manifest.json", f"it is version {named}, {version} was asked for")
    if version_of(facts, snapshot.manifest.files) != version:
        raise _damaged("manifest.json", "its version does not fit its contents")
    if not snapshot.items.is_ordered:
        raise _damaged("items.arrow", "its names do not ascend")
    learned = learned_of(snapshot)
    count = len(snapshot.items)
    for part in learned.blend.parts:
        if not (np.isfinite(part.weight) and np.isfinite(part.weight_new)):
            raise _damaged(part.name, "its weight is no number")
        _check(part.name, part.model, count)
    if learned.baskets is not None:
        _check("baskets", learned.baskets, count)
    if learned.cohorts is not None:
        _check_cohorts(learned.cohorts, count)
    if learned.content is not None:
        _check_content(learned.content, count)
    return learned


def _check(name: str, model: Model, count: int) -> None:
    match model:
        case Neighbours():
            weights = model.weights
            _check_lists(name, weights.indptr, weights.indices, count, count)
            _check_numbers(name, weights.data, (len(weights.indices),))
        case Sessions():
            sessions = len(model.session_starts) - 1
            _check_lists(f"{name} sessions", model.session_starts, model.session_items, sessions, count)
            _check_lists(f"{name} items", model.item_starts, model.item_sessions, count, sessions)
            _check_numbers(name, model.idf, (count,))
        case Counted():
            _check_numbers(name, model.scores, (count,))
            if model.power <= 0 or (model.half_life_days is not None and model.half_life_days <= 0):
                raise _damaged(name, "power and half-life must be above 0")
            if len(model.scores) and model.scores.min() < 0:
                raise _damaged(name, "a count is below 0")
        case Factors():
            width = model.items.shape[-1]
            _check_numbers(name, model.items, (count, width))
            _check_numbers(name, model.gram, (width, width))
        case _:
            _try(name, model, count)


def _check_lists(name: str, starts: Array, values: Array, lists: int, below: int) -> None:
    """See that lists stand one behind the other and hold numbers from 0 up to a bound."""
    for array in (starts, values):
        if array.ndim != 1 or array.dtype.kind != "i":
            raise _damaged(
                name, f"it holds {array.dtype} of {array.ndim} dimensions where whole numbers belong"
            )
    if lists < 0 or len(starts) != lists + 1:
        raise _damaged(name, f"it has {len(starts) - 1} lists, {lists} belong")
    if starts[0] != 0 or starts[-1] != len(values) or (np.diff(starts) < 0).any():
        raise _damaged(name, "its lists do not stand one behind the other")
    if len(values) and (values.min() < 0 or values.max() >= below):
        raise _damaged(name, f"it names numbers outside of 0 to {below - 1}")


def _check_numbers(name: str, array: Array, shape: tuple[int, ...]) -> None:
    if array.dtype != np.float32 or array.shape != shape:
        raise _damaged(name, f"it holds {array.dtype} {array.shape} where float32 {shape} belongs")
    # a sum is finite when all are, and reads every page once without an array of its own
    if not np.isfinite(array.sum(dtype=np.float64)):
        raise _damaged(name, "it holds what is no number")


def _check_cohorts(cohorts: Cohorts, count: int) -> None:
    sizes = [len(values) for values in cohorts.values]
    _check_numbers("cohorts", cohorts.shares, (sum(sizes), count))
    _check_numbers("cohorts", cohorts.everybody, (count,))
    if cohorts.mass is not None:
        _check_numbers("cohorts", cohorts.mass, (sum(sizes),))
        if len(cohorts.mass) and cohorts.mass.min() < 0:
            raise _damaged("cohorts", "a cohort has less than no votes")
    first = [sum(sizes[:at]) for at in range(len(sizes))]
    if len(cohorts.fields) != len(sizes) or cohorts.first.tolist() != first:
        raise _damaged("cohorts", "its fields do not fit its shares")


def _check_content(content: ContentWeights, count: int) -> None:
    width = len(content.features)
    if content.features.dtype != np.int64 or (np.diff(content.features) <= 0).any():
        raise _damaged("content", "its features do not ascend")
    for name, matrix, rows in (
        ("content", content.weights, count),
        ("content sample", content.sample, content.sample.shape[0]),
    ):
        _check_lists(name, matrix.indptr, matrix.indices, rows, width)
        _check_numbers(name, matrix.data, (len(matrix.indices),))


def _try(name: str, model: Model, count: int) -> None:
    """Ask a model nobody here knows one question."""
    try:
        scores: Any = model.score(Histories.of_lists([[]], count))
        common: Any = model.common()[None] if isinstance(model, CommonModel) else scores
    except HouseError:
        raise
    except Exception as error:
        # whatever a model of somebody else raises, it must not serve
        raise _damaged(name, f"it can't answer: {error!r}") from error
    for answer in (scores, common):
        _check_answer(name, answer, count)


def _check_answer(name: str, scores: Any, count: int) -> None:
    if getattr(scores, "shape", None) != (1, count) or not np.isfinite(np.asarray(scores, np.float64)).all():
        raise _damaged(name, f"its answer is no float32 (1, {count})")


def _damaged(name: str, why: str) -> HouseError:
    return Fault(f"snapshot is damaged: {name}: {why}", path=name)
