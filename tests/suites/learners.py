"""What every learner promises (`jobs.refresh.learner`). Hold your own to it:

    class TestMine(LearnerSuite):
        @pytest.fixture
        def learner(self) -> Learner:
            return Mine(window=3)

The data is a checkerboard: even readers take even items, odd readers odd ones, so the right answer is visible.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from actors.learned.histories import Histories
from actors.learned.model import CommonModel, Model, Parts, SparseModel
from actors.learned.vocabulary import Vocabulary
from jobs.refresh.dataset import Columns, Interactions, from_frame
from jobs.refresh.learner import Learner

READERS, ITEMS = 40, 12
DAY_S = 86_400.0


def checkerboard() -> Interactions:
    """Make 40 readers who take half of the items of their own colour, one a day; the last item has no events."""
    rng = np.random.default_rng(5)
    rows = []
    for reader in range(READERS):
        own = np.arange(reader % 2, ITEMS, 2)
        for day, item in enumerate(rng.permutation(own)[:4].tolist()):
            rows.append(
                (f"r{reader:02d}", f"i{item:02d}", DAY_S * (100 + day + reader % 3), f"b{reader}-{day // 2}")
            )
    frame = pl.DataFrame(rows, ["reader", "item", "at", "basket"], orient="row")
    data = from_frame(frame, Columns(basket="basket"))
    names = [*data.items.names.to_pylist(), "z-without-events"]
    return replace(data, items=Vocabulary.of(names))


def frozen(data: Interactions) -> Interactions:
    """Make every array of the data read-only, as they come out of shared memory."""
    fields = {}
    for name in ("reader", "item", "at_s", "weight", "basket", "kind"):
        array = getattr(data, name).copy()
        array.flags.writeable = False
        fields[name] = array
    return replace(data, **fields)


def bytes_of(parts: Parts) -> dict[str, bytes]:
    return {name: array.dtype.str.encode() + array.tobytes() for name, array in parts.arrays.items()}


class LearnerSuite:
    @pytest.fixture
    def learner(self) -> Learner:
        raise NotImplementedError

    @pytest.fixture
    def data(self) -> Interactions:
        return checkerboard()

    @pytest.fixture
    def model(self, learner: Learner, data: Interactions) -> Model:
        return learner.train(data, np.random.default_rng(1))

    @pytest.fixture
    def histories(self, data: Interactions) -> Histories:
        return Histories.of(data, np.arange(READERS))

    def test_equal_data_and_seed_give_equal_bytes(self, learner: Learner, data: Interactions) -> None:
        first = learner.train(data, np.random.default_rng(1)).save()
        again = learner.train(frozen(data), np.random.default_rng(1)).save()
        assert bytes_of(first) == bytes_of(again)
        assert first.facts == again.facts

    def test_read_only_input_is_enough(self, learner: Learner, data: Interactions, model: Model) -> None:
        again = learner.train(frozen(data), np.random.default_rng(1))
        assert bytes_of(again.save()) == bytes_of(model.save())

    def test_input_is_never_changed(self, learner: Learner, data: Interactions) -> None:
        model = learner.train(data, np.random.default_rng(1))
        model.score(Histories.of(data, np.arange(READERS)))
        untouched = checkerboard()
        for name in ("reader", "item", "at_s", "weight", "basket", "kind"):
            np.testing.assert_array_equal(getattr(data, name), getattr(untouched, name))

    def test_a_loaded_model_scores_as_the_saved_one(
        self, learner: Learner, model: Model, histories: Histories
    ) -> None:
        parts = model.save()
        arrays = {}
        for name, array in parts.arrays.items():
            arrays[name] = np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)
            assert not arrays[name].flags.writeable
        loaded = learner.load(Parts(arrays, json.loads(json.dumps(dict(parts.facts)))))
        np.testing.assert_array_equal(loaded.score(histories), model.score(histories))

    def test_what_is_saved_is_plain(self, model: Model) -> None:
        parts = model.save()
        assert all(not array.dtype.hasobject for array in parts.arrays.values())
        assert json.loads(json.dumps(dict(parts.facts))) is not None

    def test_scores_are_one_fresh_finite_row_per_history(self, model: Model, histories: Histories) -> None:
        scores = model.score(histories)
        assert (scores.dtype, scores.shape) == (np.float32, (READERS, ITEMS + 1))
        assert np.isfinite(scores).all()
        kept = scores.copy()
        scores[:] = -7
        np.testing.assert_array_equal(model.score(histories), kept)

    def test_an_empty_history_gets_a_row_without_preferences_of_its_own(
        self, model: Model, data: Interactions
    ) -> None:
        scores = model.score(Histories.of(data, np.array([-1, -1])))
        np.testing.assert_array_equal(scores[0], scores[1])
        assert np.isfinite(scores).all()
        if not isinstance(model, CommonModel):
            assert np.ptp(scores[0]) == 0

    def test_no_history_at_all_gives_no_rows(self, model: Model, data: Interactions) -> None:
        assert model.score(Histories.of(data, np.zeros(0, np.int64))).shape == (0, ITEMS + 1)

    def test_unknown_items_of_a_history_are_ignored(self, model: Model) -> None:
        plain = Histories.of_lists([[2, 4]], ITEMS + 1)
        with_unknown = replace(
            plain,
            starts=np.array([0, 3]),
            items=np.array([-1, 2, 4]),
            at_s=np.array([0.0, *plain.at_s]),
            weights=np.ones(3, np.float32),
        )
        np.testing.assert_allclose(model.score(with_unknown), model.score(plain), rtol=1e-5)

    def test_an_item_without_events_breaks_nothing(self, model: Model) -> None:
        scores = model.score(Histories.of_lists([[ITEMS], [2, ITEMS]], ITEMS + 1))
        assert np.isfinite(scores).all()

    def test_histories_are_scored_alike_alone_and_together(self, model: Model, histories: Histories) -> None:
        together = model.score(histories)
        alone = np.concatenate([model.score(histories.block(at, at + 1)) for at in range(READERS)])
        np.testing.assert_allclose(alone, together, rtol=1e-4, atol=1e-6)

    def test_nothing_to_learn_from_is_not_an_error(self, learner: Learner, data: Interactions) -> None:
        nothing = data.pick(np.zeros(len(data), np.bool_))
        model = learner.train(nothing, np.random.default_rng(1))
        scores = model.score(Histories.of_lists([[], [1, 3]], ITEMS + 1))
        assert np.isfinite(scores).all()

    def test_the_cheaper_forms_say_the_same(self, model: Model, histories: Histories) -> None:
        scores = model.score(histories)
        if isinstance(model, SparseModel):
            np.testing.assert_array_equal(model.sparse(histories).toarray(), scores)
        if isinstance(model, CommonModel):
            np.testing.assert_array_equal(np.tile(model.common(), (READERS, 1)), scores)

    def test_readers_get_their_own_colour(self, model: Model, histories: Histories) -> None:
        if isinstance(model, CommonModel):
            return
        scores = model.score(histories)[:, :ITEMS]
        colour = np.arange(ITEMS) % 2
        own = np.array([row[colour == reader % 2].mean() for reader, row in enumerate(scores)])
        other = np.array([row[colour != reader % 2].mean() for reader, row in enumerate(scores)])
        assert (own > other).all()
