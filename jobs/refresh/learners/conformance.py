"""Checks of a custom learner against the learner protocol; `python -m jobs.refresh conform` runs them.

    for check in check_conformance("shop.markov:Markov", {"order": 2}):
        print(check.kept, check.promise, check.reason)

A promise is a requirement or advice. A learner that breaks a requirement can't be trained, published or served
correctly. If a learner does not follow advice, the reason names the disadvantage. In the test data, even users take
even items and odd users odd items, so the expected ranking is known.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from actors.models.loading.snapshot_models import import_learner
from actors.models.model import Batch, Model, SharedScoresModel, SparseModel
from actors.models.user_histories import UserHistories
from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.vocabulary import Vocabulary
from cluster.errors import Invalid
from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame
from jobs.refresh.learners.protocol import CustomLearnerRecipe, Learner

USERS = 40
ITEMS = 12
DAY_S = 86_400.0
_ARRAYS = ("reader", "item", "at_s", "weight", "basket", "kind")


@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    """The result of one check."""

    promise: str
    kept: bool
    reason: str = ""
    is_advice: bool = False
    "True if a learner that breaks the promise remains usable."

    @property
    def forbids_use(self) -> bool:
        """Return true if the learner breaks a requirement."""
        return not self.kept and not self.is_advice


class AdviceNotFollowed(AssertionError):
    """The learner breaks a promise that is only advice."""


def check_conformance(learner: str, config: Mapping[str, Any] | None = None) -> list[ConformanceCheck]:
    """Import a class, named as in a recipe, and return the result of each check.

    Errors:
        Invalid: the class can't be imported, does not accept its `config`, or lacks a method
    """
    try:
        part = CustomLearnerRecipe(learner=learner, config=dict(config or {}))
    except ValueError:
        raise Invalid(f"{learner!r} names no class; write package.module:Class") from None
    made = import_learner(part.learner, part.config)
    if not isinstance(made, Learner):
        raise Invalid(f"learner {learner} needs the methods train(data, rng) and load(parts)")
    return [run_check(promise, check, made) for promise, check in PROMISES.items()]


def run_check(promise: str, check: Callable[[Learner], None], learner: Learner) -> ConformanceCheck:
    """Run one check and return its result; any exception means that the promise is broken."""
    try:
        check(learner)
    except AdviceNotFollowed as error:
        return ConformanceCheck(promise, False, str(error), is_advice=True)
    except AssertionError as error:
        return ConformanceCheck(promise, False, str(error) or "it is not so", is_advice=promise in ADVICE)
    except Exception as error:  # noqa: BLE001 - a custom learner may raise any exception
        return ConformanceCheck(promise, False, _describe_error(error, "it"), is_advice=promise in ADVICE)
    return ConformanceCheck(promise, True, is_advice=promise in ADVICE)


def _describe_error(error: Exception, what: str) -> str:
    """Return a message with the exception, its place and its frequent cause."""
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    learner_frames = [frame for frame in places if "site-packages" not in frame.filename] or places
    where = f" ({learner_frames[-1].filename}:{learner_frames[-1].lineno})" if learner_frames else ""
    hint = ""
    if isinstance(error, ValueError) and "read-only" in str(error):
        hint = "; what is given is read-only: copy an array before you change it"
    return f"{what} raised {type(error).__name__}: {error}{where}{hint}"


def checkerboard_interactions() -> Interactions:
    """Return interactions of 40 users with half of the items of their colour, one a day; the last item has no events.

    Items of one colour have similar content; the last item has no content.
    """
    rng = np.random.default_rng(5)
    rows = []
    for user in range(USERS):
        colour_items = np.arange(user % 2, ITEMS, 2)
        for day, item in enumerate(rng.permutation(colour_items)[:4].tolist()):
            at = DAY_S * (100 + day + user % 3)
            rows.append((f"r{user:02d}", f"i{item:02d}", at, f"b{user}-{day // 2}"))
    frame = pl.DataFrame(rows, ["reader", "item", "at", "basket"], orient="row")
    data = interactions_from_frame(frame, FrameColumns(basket="basket"))
    named = replace(data, items=Vocabulary.from_names([*data.items.names.to_pylist(), "z-without-events"]))
    content = np.zeros((ITEMS + 1, 3), np.float32)
    content[np.arange(ITEMS), np.arange(ITEMS) % 2] = 1
    return named.with_content(content)


def read_only_interactions(data: Interactions) -> Interactions:
    """Return the data with read-only arrays, as shared memory returns them."""
    fields = {}
    for name in _ARRAYS:
        array = getattr(data, name).copy()
        array.flags.writeable = False
        fields[name] = array
    return replace(data, **fields)


def bytes_from_parts(parts: ModelState) -> dict[str, bytes]:
    """Return the arrays as bytes, with their types."""
    return {name: array.dtype.str.encode() + array.tobytes() for name, array in parts.arrays.items()}


def _train_model(learner: Learner, data: Interactions | None = None) -> Model:
    """Train, and check that the result is a model."""
    try:
        model = learner.train(checkerboard_interactions() if data is None else data, np.random.default_rng(1))
    except Exception as error:
        raise AssertionError(_describe_error(error, "train(data, rng)")) from error
    return _check_model(model, "train(data, rng)")


def _check_model(trained: Any, method: str) -> Model:
    lacking = [name for name in ("score", "save") if not callable(getattr(trained, name, None))]
    assert not lacking, (
        f"{method} must return a model with the methods score(histories) and save(); "
        f"{type(trained).__name__} lacks {' and '.join(lacking)}"
    )
    model: Model = trained
    return model


def _save_model(model: Model) -> ModelState:
    """Save, and check that the state consists of plain arrays and JSON."""
    try:
        parts = model.save()
    except Exception as error:
        raise AssertionError(_describe_error(error, "save()")) from error
    assert isinstance(parts, ModelState), (
        f"save() must return actors.vectors.snapshot_arrays.ModelState, got {type(parts).__name__}; "
        'write ModelState({"counts": array}, {"facts": "that fit JSON"})'
    )
    for name, array in parts.arrays.items():
        assert isinstance(array, np.ndarray), (
            f"save(): ModelState.arrays[{name!r}] must be a numpy array, got {type(array).__name__}"
        )
    return parts


def _load_model(learner: Learner, parts: ModelState) -> Model:
    """Load, and check that the result is a model."""
    try:
        model = learner.load(parts)
    except Exception as error:
        raise AssertionError(_describe_error(error, "load(parts)")) from error
    return _check_model(model, "load(parts)")


def _score_histories(model: Model, histories: UserHistories) -> Batch:
    """Score, and check that the result is an array with one row per history."""
    try:
        scores: Any = model.score(histories)
    except Exception as error:
        raise AssertionError(
            _describe_error(error, f"score(histories) of {len(histories)} histories")
        ) from error
    assert isinstance(scores, np.ndarray), (
        f"score(histories) must return a numpy array float32 [q, n], got {type(scores).__name__}"
    )
    expected = (len(histories), histories.n_items)
    assert scores.shape == expected, (
        f"scores have the shape {scores.shape}, {expected} was expected: a row for each history (len(histories)), "
        "a column for each item (histories.n_items)"
    )
    return scores


def _all_histories(data: Interactions | None = None) -> UserHistories:
    return UserHistories.of(checkerboard_interactions() if data is None else data, np.arange(USERS))


def _check_reproducible(learner: Learner) -> None:
    first = _save_model(_train_model(learner))
    again = _save_model(_train_model(learner, read_only_interactions(checkerboard_interactions())))
    assert bytes_from_parts(first) == bytes_from_parts(again), (
        "two trainings with an equal rng saved different arrays"
    )
    assert first.facts == again.facts, "two trainings with an equal rng saved different facts"


def _check_input_unchanged(learner: Learner) -> None:
    data = checkerboard_interactions()
    _score_histories(_train_model(learner, data), _all_histories(data))
    untouched = checkerboard_interactions()
    for name in _ARRAYS:
        assert np.array_equal(getattr(data, name), getattr(untouched, name)), f"{name} was changed"


def _check_load_equals_save(learner: Learner) -> None:
    model = _train_model(learner)
    parts = _save_model(model)
    arrays = {}
    for name, array in parts.arrays.items():
        # Made from bytes, the arrays are read-only, as those of a loaded snapshot.
        arrays[name] = np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)
    facts = json.loads(json.dumps(dict(parts.facts), default=str))
    loaded = _load_model(learner, ModelState(arrays, facts))
    same = np.array_equal(
        _score_histories(loaded, _all_histories()), _score_histories(model, _all_histories())
    )
    assert same, "the loaded model scores differently"


def _check_plain_parts(learner: Learner) -> None:
    parts = _save_model(_train_model(learner))
    for name, array in parts.arrays.items():
        assert not array.dtype.hasobject, f"array {name} holds objects"
    try:
        json.dumps(dict(parts.facts), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the facts of ModelState must fit JSON: {error}") from error


def _check_finite_rows(learner: Learner) -> None:
    model = _train_model(learner)
    histories = _all_histories()
    scores = _score_histories(model, histories)
    assert scores.dtype == np.float32, f"scores are {scores.dtype}, float32 was expected"
    assert np.isfinite(scores).all(), "there are NaN or infinite scores"
    kept = scores.copy()
    scores[:] = -7
    assert np.array_equal(_score_histories(model, histories), kept), "scores share memory with the model"


def _check_empty_history(learner: Learner) -> None:
    model = _train_model(learner)
    data = checkerboard_interactions()
    scores = _score_histories(model, UserHistories.of(data, np.array([-1, -1])))
    assert np.array_equal(scores[0], scores[1]), "two empty histories get different rows"
    assert np.isfinite(scores).all(), "an empty history gets NaN or infinite scores"
    if not isinstance(model, SharedScoresModel) and np.ptp(scores[0]) != 0:
        raise AdviceNotFollowed(
            "an empty history has preferences of its own. A model that says the same to everybody should have "
            "common() -> float32 [n]: then it ranks for users without a history as well. Others should give zeros"
        )


def _check_no_histories(learner: Learner) -> None:
    scores = _score_histories(
        _train_model(learner), UserHistories.of(checkerboard_interactions(), np.zeros(0, np.int64))
    )
    assert not len(scores), f"no history at all gives the shape {scores.shape}"


def _check_unknown_items(learner: Learner) -> None:
    model = _train_model(learner)
    plain = UserHistories.of_lists([[2, 4]], ITEMS + 1)
    with_unknown = replace(
        plain,
        starts=np.array([0, 3]),
        items=np.array([-1, 2, 4]),
        at_s=np.array([0.0, *plain.at_s]),
        weights=np.ones(3, np.float32),
    )
    same = np.allclose(_score_histories(model, with_unknown), _score_histories(model, plain), rtol=1e-5)
    assert same, "an unknown item (-1) in a history changes its scores"


def _check_untrained_item(learner: Learner) -> None:
    scores = _score_histories(_train_model(learner), UserHistories.of_lists([[ITEMS], [2, ITEMS]], ITEMS + 1))
    assert np.isfinite(scores).all(), "an item without events gives NaN or infinite scores"


def _check_batch_independence(learner: Learner) -> None:
    model = _train_model(learner)
    histories = _all_histories()
    alone = np.concatenate(
        [_score_histories(model, histories.select_block(at, at + 1)) for at in range(USERS)]
    )
    same = np.allclose(alone, _score_histories(model, histories), rtol=1e-4, atol=1e-6)
    assert same, "histories are scored differently alone and together"


def _check_empty_training(learner: Learner) -> None:
    data = checkerboard_interactions()
    model = _train_model(learner, data.pick(np.zeros(len(data), np.bool_)))
    scores = _score_histories(model, UserHistories.of_lists([[], [1, 3]], ITEMS + 1))
    assert np.isfinite(scores).all(), "a model without data gives NaN or infinite scores"


def _check_sparse_forms(learner: Learner) -> None:
    model = _train_model(learner)
    histories = _all_histories()
    scores = _score_histories(model, histories)
    if isinstance(model, SparseModel):
        assert np.array_equal(model.sparse(histories).toarray(), scores), "`sparse` says something else"
    if isinstance(model, SharedScoresModel):
        assert np.array_equal(np.tile(model.common(), (USERS, 1)), scores), "`common` says something else"


def _check_personalization(learner: Learner) -> None:
    model = _train_model(learner)
    if isinstance(model, SharedScoresModel):
        return
    scores = _score_histories(model, _all_histories())[:, :ITEMS]
    colour = np.arange(ITEMS) % 2
    same = np.array([row[colour == user % 2].mean() for user, row in enumerate(scores)])
    other = np.array([row[colour != user % 2].mean() for user, row in enumerate(scores)])
    assert (same > other).all(), (
        f"{int((same <= other).sum())} of {USERS} users get the other users' items. That is so for a model that "
        "says the same to everybody, such as popularity; one that should tell users apart does not"
    )


PROMISES: Mapping[str, Callable[[Learner], None]] = MappingProxyType(
    {
        "equal data and seed give equal bytes, also from read-only input": _check_reproducible,
        "input is never changed": _check_input_unchanged,
        "a loaded model scores as the saved one, also from read-only arrays": _check_load_equals_save,
        "what is saved is plain: arrays without objects, facts that fit JSON": _check_plain_parts,
        "scores are one fresh finite float32 row per history": _check_finite_rows,
        "an empty history gets a row without preferences of its own": _check_empty_history,
        "no history at all gives no rows": _check_no_histories,
        "unknown items of a history are ignored": _check_unknown_items,
        "an item without events breaks nothing": _check_untrained_item,
        "histories are scored alike alone and together": _check_batch_independence,
        "nothing to learn from is not an error": _check_empty_training,
        "the cheaper forms say the same": _check_sparse_forms,
        "users get what users like them took": _check_personalization,
    }
)
"Promise -> its check."

ADVICE = frozenset(
    ("nothing to learn from is not an error", "users get what users like them took"),
)
"Promises without which a learner stays usable; a check may also find that only advice is broken (`AdviceNotFollowed`)."
