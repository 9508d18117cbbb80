"""Does a learner of yours keep the protocol of `learner`? One check a promise; `python -m jobs.refresh conform`.

    for check in conform("shop.markov:Markov", {"order": 2}):
        print(check.kept, check.promise, check.reason)

The data is a checkerboard: even readers take even items, odd readers odd ones, so the right answer is visible.
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

from actors.learned.histories import Histories
from actors.learned.model import CommonModel, Model, Parts, SparseModel
from actors.learned.registry import imported_loader
from actors.learned.vocabulary import Vocabulary
from cluster.errors import Invalid
from jobs.refresh.events.dataset import Columns, Interactions, from_frame
from jobs.refresh.learner import Learner
from jobs.refresh.recipe import OwnRecipe

READERS, ITEMS = 40, 12
DAY_S = 86_400.0
_ARRAYS = ("reader", "item", "at_s", "weight", "basket", "kind")


@dataclass(frozen=True, slots=True)
class Check:
    """One promise, and whether it is kept."""

    promise: str
    kept: bool
    reason: str = ""


def conform(learner: str, config: Mapping[str, Any] | None = None) -> list[Check]:
    """Hold a class, named as in a recipe, to every promise; whoever calls this lets it be imported.

    Errors:
        Invalid: it can't be imported, does not take its `config`, or lacks a method
    """
    try:
        part = OwnRecipe(learner=learner, config=dict(config or {}))
    except ValueError:
        raise Invalid(f"{learner!r} names no class; write package.module:Class") from None
    made = imported_loader(part.learner, part.config)
    if not isinstance(made, Learner):
        raise Invalid(f"learner {learner} needs the methods train(data, rng) and load(parts)")
    return [checked(promise, check, made) for promise, check in PROMISES.items()]


def checked(promise: str, check: Callable[[Learner], None], learner: Learner) -> Check:
    """Look at one promise; whatever is raised breaks it."""
    try:
        check(learner)
    except AssertionError as error:
        return Check(promise, False, str(error) or "it is not so")
    except Exception as error:  # noqa: BLE001 - a learner of yours may raise anything
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Check(promise, False, f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})")
    return Check(promise, True)


# --- the data -----------------------------------------------------------------------------------------------------


def checkerboard() -> Interactions:
    """Make 40 readers who take half of the items of their own colour, one a day; the last item has no events.

    Items of one colour are like each other; the last one is like nothing.
    """
    rng = np.random.default_rng(5)
    rows = []
    for reader in range(READERS):
        own = np.arange(reader % 2, ITEMS, 2)
        for day, item in enumerate(rng.permutation(own)[:4].tolist()):
            at = DAY_S * (100 + day + reader % 3)
            rows.append((f"r{reader:02d}", f"i{item:02d}", at, f"b{reader}-{day // 2}"))
    frame = pl.DataFrame(rows, ["reader", "item", "at", "basket"], orient="row")
    data = from_frame(frame, Columns(basket="basket"))
    named = replace(data, items=Vocabulary.of([*data.items.names.to_pylist(), "z-without-events"]))
    content = np.zeros((ITEMS + 1, 3), np.float32)
    content[np.arange(ITEMS), np.arange(ITEMS) % 2] = 1
    return named.described(content)


def frozen(data: Interactions) -> Interactions:
    """Make every array of the data read-only, as they come out of shared memory."""
    fields = {}
    for name in _ARRAYS:
        array = getattr(data, name).copy()
        array.flags.writeable = False
        fields[name] = array
    return replace(data, **fields)


def bytes_of(parts: Parts) -> dict[str, bytes]:
    """Give arrays as bytes, with their types."""
    return {name: array.dtype.str.encode() + array.tobytes() for name, array in parts.arrays.items()}


def _trained(learner: Learner, data: Interactions | None = None) -> Model:
    return learner.train(checkerboard() if data is None else data, np.random.default_rng(1))


def _everybody(data: Interactions | None = None) -> Histories:
    return Histories.of(checkerboard() if data is None else data, np.arange(READERS))


# --- promises -----------------------------------------------------------------------------------------------------


def _same_bytes(learner: Learner) -> None:
    first, again = _trained(learner).save(), _trained(learner, frozen(checkerboard())).save()
    assert bytes_of(first) == bytes_of(again), "two trainings with an equal rng saved different arrays"
    assert first.facts == again.facts, "two trainings with an equal rng saved different facts"


def _input_untouched(learner: Learner) -> None:
    data = checkerboard()
    _trained(learner, data).score(_everybody(data))
    untouched = checkerboard()
    for name in _ARRAYS:
        assert np.array_equal(getattr(data, name), getattr(untouched, name)), f"{name} was changed"


def _loads_back(learner: Learner) -> None:
    model = _trained(learner)
    parts = model.save()
    arrays = {}
    for name, array in parts.arrays.items():
        arrays[name] = np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)
    loaded = learner.load(Parts(arrays, json.loads(json.dumps(dict(parts.facts)))))
    same = np.array_equal(loaded.score(_everybody()), model.score(_everybody()))
    assert same, "the loaded model scores differently"


def _plain(learner: Learner) -> None:
    parts = _trained(learner).save()
    for name, array in parts.arrays.items():
        assert not array.dtype.hasobject, f"array {name} holds objects"
    json.dumps(dict(parts.facts), allow_nan=False)


def _fresh_rows(learner: Learner) -> None:
    model, histories = _trained(learner), _everybody()
    scores = model.score(histories)
    expected = (READERS, ITEMS + 1)
    assert scores.dtype == np.float32, f"scores are {scores.dtype}, float32 was expected"
    assert scores.shape == expected, f"scores have the shape {scores.shape}, {expected} was expected"
    assert np.isfinite(scores).all(), "there are NaN or infinite scores"
    kept = scores.copy()
    scores[:] = -7
    assert np.array_equal(model.score(histories), kept), "scores share memory with the model"


def _nothing_known(learner: Learner) -> None:
    model, data = _trained(learner), checkerboard()
    scores = model.score(Histories.of(data, np.array([-1, -1])))
    assert np.array_equal(scores[0], scores[1]), "two empty histories get different rows"
    assert np.isfinite(scores).all(), "an empty history gets NaN or infinite scores"
    if not isinstance(model, CommonModel):
        assert np.ptp(scores[0]) == 0, "an empty history has preferences of its own"


def _nobody(learner: Learner) -> None:
    scores = _trained(learner).score(Histories.of(checkerboard(), np.zeros(0, np.int64)))
    assert scores.shape == (0, ITEMS + 1), f"no history at all gives the shape {scores.shape}"


def _unknown_items(learner: Learner) -> None:
    model = _trained(learner)
    plain = Histories.of_lists([[2, 4]], ITEMS + 1)
    with_unknown = replace(
        plain,
        starts=np.array([0, 3]),
        items=np.array([-1, 2, 4]),
        at_s=np.array([0.0, *plain.at_s]),
        weights=np.ones(3, np.float32),
    )
    same = np.allclose(model.score(with_unknown), model.score(plain), rtol=1e-5)
    assert same, "an unknown item (-1) in a history changes its scores"


def _untrained_item(learner: Learner) -> None:
    scores = _trained(learner).score(Histories.of_lists([[ITEMS], [2, ITEMS]], ITEMS + 1))
    assert np.isfinite(scores).all(), "an item without events gives NaN or infinite scores"


def _alone_as_together(learner: Learner) -> None:
    model, histories = _trained(learner), _everybody()
    alone = np.concatenate([model.score(histories.block(at, at + 1)) for at in range(READERS)])
    same = np.allclose(alone, model.score(histories), rtol=1e-4, atol=1e-6)
    assert same, "histories are scored differently alone and together"


def _nothing_to_learn(learner: Learner) -> None:
    data = checkerboard()
    model = _trained(learner, data.pick(np.zeros(len(data), np.bool_)))
    scores = model.score(Histories.of_lists([[], [1, 3]], ITEMS + 1))
    assert np.isfinite(scores).all(), "a model without data gives NaN or infinite scores"


def _cheaper_forms(learner: Learner) -> None:
    model, histories = _trained(learner), _everybody()
    scores = model.score(histories)
    if isinstance(model, SparseModel):
        assert np.array_equal(model.sparse(histories).toarray(), scores), "`sparse` says something else"
    if isinstance(model, CommonModel):
        assert np.array_equal(np.tile(model.common(), (READERS, 1)), scores), "`common` says something else"


def _own_colour(learner: Learner) -> None:
    model = _trained(learner)
    if isinstance(model, CommonModel):
        return
    scores = model.score(_everybody())[:, :ITEMS]
    colour = np.arange(ITEMS) % 2
    own = np.array([row[colour == reader % 2].mean() for reader, row in enumerate(scores)])
    other = np.array([row[colour != reader % 2].mean() for reader, row in enumerate(scores)])
    assert (own > other).all(), (
        f"{int((own <= other).sum())} of {READERS} readers get the other readers' items"
    )


PROMISES: Mapping[str, Callable[[Learner], None]] = MappingProxyType(
    {
        "equal data and seed give equal bytes, also from read-only input": _same_bytes,
        "input is never changed": _input_untouched,
        "a loaded model scores as the saved one, also from read-only arrays": _loads_back,
        "what is saved is plain: arrays without objects, facts that fit JSON": _plain,
        "scores are one fresh finite float32 row per history": _fresh_rows,
        "an empty history gets a row without preferences of its own": _nothing_known,
        "no history at all gives no rows": _nobody,
        "unknown items of a history are ignored": _unknown_items,
        "an item without events breaks nothing": _untrained_item,
        "histories are scored alike alone and together": _alone_as_together,
        "nothing to learn from is not an error": _nothing_to_learn,
        "the cheaper forms say the same": _cheaper_forms,
        "readers get what readers like them took": _own_colour,
    }
)
"Promise -> the check that holds a learner to it."
