from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from actors.models.loading import snapshot_models
from actors.models.loading.validation import _validate_model
from actors.models.transformer import CandidateCache, TransformerConfig, TransformerModel
from actors.models.user_histories import UserHistories
from actors.models.user_history import UserHistory
from actors.vectors.snapshot_arrays import ModelState
from cluster.errors import Fault, Invalid
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners import protocol
from jobs.refresh.learners import transformer as transformer_module
from jobs.refresh.learners.packed_sequences import (
    Sequences,
    pack_ends,
    pack_rows,
    sequences_from_interactions,
)
from jobs.refresh.learners.registry import check_packages
from jobs.refresh.learners.training_progress import keep_progress
from jobs.refresh.learners.transformer import (
    TransformerLearner,
    TransformerRecipe,
    estimate_seconds,
    reduce_content,
)
from tests.fakes.trained_snapshot import RING, ring_data

SMALL = TransformerRecipe(
    dimensions=16, heads=2, events=12, batch_events=100, epochs=6, patience=6, dropout=0.1, sampled=16,
    candidates=10,
)  # fmt: skip


class _Memory:
    """Progress that keeps states in memory, and ends the process after some epochs."""

    def __init__(self, epochs: int | None = None) -> None:
        self.states: dict[str, ModelState] = {}
        self.texts: list[str] = []
        self._epochs = epochs

    def show(self, text: str) -> None:
        self.texts.append(text)
        if self._epochs is not None and len(self.texts) > self._epochs:
            raise KeyboardInterrupt

    def load(self, name: str) -> ModelState | None:
        return self.states.get(name)

    def store(self, name: str, state: ModelState) -> None:
        self.states[name] = state


@pytest.fixture(scope="module")
def model() -> TransformerModel:
    return _train(SMALL)


def _train(recipe: TransformerRecipe, data: Interactions | None = None) -> TransformerModel:
    return TransformerLearner(recipe).train(data or ring_data(), np.random.default_rng(1))


def test_it_learns_what_comes_next(model: TransformerModel) -> None:
    items, scores = model.quick(UserHistory.of([5, 4, 3], [300.0, 200.0, 100.0], [1.0, 1.0, 1.0], 400.0))
    assert items[np.argmax(scores)] == 6
    assert len(items) == 10
    assert scores.max() == 1.0


def test_numpy_gives_the_outputs_of_the_training(model: TransformerModel) -> None:
    from jobs.refresh.learners import transformer_steps as steps

    data = ring_data()
    sequences = sequences_from_interactions(data)
    users = np.arange(5)
    rows, last = pack_ends(sequences, users, sequences.starts[users + 1], SMALL.events)
    parameters = {**model.arrays, "items": np.asarray(model.items)}
    config = steps.StepConfig(model.config, 0.0, 0.0)
    (batch,) = rows.batches(5)
    outputs = steps.encode_last(parameters, parameters["items"], batch, last, config=config)
    histories = UserHistories.of(data, users)
    for user in users.tolist():
        events = slice(histories.starts[user], histories.starts[user + 1])
        vector = model.compute_user_vector(
            histories.items[events], histories.weights[events].astype(np.float64), histories.at_s[events]
        )
        np.testing.assert_allclose(vector, outputs[user], rtol=1e-3, atol=1e-3)


def test_one_user_gets_the_scores_of_many(model: TransformerModel) -> None:
    histories = UserHistories.of_lists([[3, 4, 5], [], [-1, 7]], RING)
    scores = model.score(histories)
    past = UserHistory.of([5, 4, 3], [2.0, 1.0, 0.0], [1.0, 1.0, 1.0], 3.0)
    items, values = model.quick(past)
    np.testing.assert_allclose(scores[0, items], values, rtol=1e-4)
    assert np.count_nonzero(scores[0]) == 10
    assert not scores[1].any()
    assert np.count_nonzero(scores[2]) == 10


def test_a_saved_model_gives_the_same_scores(model: TransformerModel) -> None:
    histories = UserHistories.of_lists([[3, 4, 5]], RING)
    again = snapshot_models.load_model("transformer", model.save())
    np.testing.assert_array_equal(again.score(histories), model.score(histories))
    _validate_model("transformer", again, RING)


def test_a_damaged_array_is_refused(model: TransformerModel) -> None:
    state = model.save()
    cut = ModelState({**state.arrays, "1.mix": state.arrays["1.mix"][:-1]}, state.facts)
    with pytest.raises(Fault, match=r"transformer 1\.mix"):
        _validate_model("transformer", TransformerModel.load(cut), RING)


def _build_large(model: TransformerModel) -> TransformerModel:
    """Return a model of 3,000 items in groups, without a training."""
    rng = np.random.default_rng(3)
    centers = rng.normal(0.0, 1.0, (20, model.items.shape[1]))
    items = centers[rng.integers(0, 20, 3_000)] + rng.normal(0.0, 0.3, (3_000, model.items.shape[1]))
    return replace(model, items=items.astype(np.float32), cache=CandidateCache())


PAST = UserHistory.of([5, 4, 3], [300.0, 200.0, 100.0], [1.0, 1.0, 1.0], 400.0)


def test_sketches_give_nearly_the_candidates_of_all_vectors_with_equal_scores(
    model: TransformerModel,
) -> None:
    large = _build_large(model)
    sketched = large.with_sketches(least=1_000)
    exact = dict(zip(*(column.tolist() for column in large.quick(PAST)), strict=True))
    rows, scores = sketched.quick(PAST)
    assert len(rows) == len(set(rows.tolist())) == 10
    shared = [(row, score) for row, score in zip(rows.tolist(), scores.tolist(), strict=True) if row in exact]
    assert len(shared) >= 7
    assert all(score == pytest.approx(exact[row], rel=1e-4) for row, score in shared)


def test_small_catalogs_have_no_sketches(model: TransformerModel) -> None:
    assert model.with_sketches() is model
    wide = replace(_build_large(model), config=replace(model.config, candidates=100))
    assert wide.with_sketches(least=1_000).sketches is None, "40 items for each candidate"


def test_replicas_find_equal_candidates_by_stored_sketches(model: TransformerModel) -> None:
    state = _build_large(model).with_sketches(least=1_000).save()
    first, second = (TransformerModel.load(state) for _ in range(2))
    _validate_model("transformer", first, 3_000)
    for column, other in zip(first.quick(PAST), second.quick(PAST), strict=True):
        np.testing.assert_array_equal(column, other)
    assert first.save().arrays.keys() == state.arrays.keys()


def test_a_snapshot_without_sketches_compares_all_vectors(model: TransformerModel) -> None:
    large = _build_large(model)
    earlier = TransformerModel.load(large.save())
    assert earlier.sketches is None
    np.testing.assert_array_equal(earlier.quick(PAST)[0], large.quick(PAST)[0])


@pytest.mark.parametrize("cut", [np.s_[:-1], np.s_[:, :-1]])
def test_sketches_of_other_items_are_refused(model: TransformerModel, cut: object) -> None:
    state = _build_large(model).with_sketches(least=1_000).save()
    damaged = ModelState({**state.arrays, "sketch.codes": state.arrays["sketch.codes"][cut]}, state.facts)
    with pytest.raises(ValueError, match="sketches"):
        TransformerModel.load(damaged)


def test_nothing_is_computed_between_two_events(
    model: TransformerModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = replace(model, config=replace(model.config, power=0.7), cache=CandidateCache())
    past = UserHistory.of([5, 4], [2.0, 1.0], [1.0, 1.0], 3.0)
    first = fresh.quick(past)
    monkeypatch.setattr(TransformerModel, "score_past", None)
    later = UserHistory.of([5, 4], [2.0, 1.0], [1.0, 1.0], 9_000.0)
    assert fresh.quick(later)[0] is first[0]
    assert len(fresh.cache) == 1


def test_the_cache_is_bounded() -> None:
    cache = CandidateCache(most=2)
    entry = np.zeros(1, np.int32), np.zeros(1, np.float32)
    for key in (b"a", b"b"):
        cache.put(key, entry)
    assert cache.get(b"a") is not None
    cache.put(b"c", entry)
    assert (cache.get(b"a") is None, cache.get(b"b") is None, len(cache)) == (False, True, 2)


def test_the_cache_is_bounded_by_scores_not_by_users() -> None:
    cache = CandidateCache(most=10)
    for count in (4, 4, 8, 8):
        cache.put(bytes([count]), (np.zeros(count, np.int32), np.zeros(count, np.float32)))
    assert (cache.get(b"\x04") is None, len(cache)) == (True, 1)
    cache.clear()
    cache.put(b"a", (np.zeros(10, np.int32), np.zeros(10, np.float32)))
    assert len(cache) == 1


def test_a_diverged_epoch_is_never_the_best() -> None:
    training = _prepare(SMALL)
    state = training._begin()
    broken = {name: array * np.nan for name, array in state.parameters.items()}
    assert training._measure(broken) < training._measure(state.parameters)
    assert training._measure(broken) < 0.5


def test_it_keeps_the_average_of_the_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[np.ndarray] = []
    average = transformer_module._Training._average

    def record(training: transformer_module._Training, state: transformer_module._TrainingState) -> object:
        ends.append(np.array(state.parameters["items"]))
        return average(training, state)

    monkeypatch.setattr(transformer_module._Training, "_average", record)
    recipe = SMALL.model_copy(update={"epochs": 3, "averaging": 0.6})
    training = _prepare(recipe)
    state = training.run("averaged")
    first, second, third = (end.astype(np.float64) for end in ends)
    # 0.6 is more than the half that the first epoch has of two, and less than the two thirds that two have of three
    expected = 0.6 * (first + second) / 2 + 0.4 * third
    np.testing.assert_allclose(state.average["items"], expected, rtol=1e-5, atol=1e-6)
    assert training._measure(state.average) == pytest.approx(state.curve[-1][1], abs=1e-5)


def test_without_averaging_it_keeps_single_epochs() -> None:
    training = _prepare(SMALL.model_copy(update={"epochs": 2, "averaging": 0.0}))
    state = training.run("single")
    for name, array in state.parameters.items():
        np.testing.assert_array_equal(state.average[name], array)


def _prepare(recipe: TransformerRecipe) -> transformer_module._Training:
    config = TransformerConfig(recipe.blocks, recipe.heads, recipe.events, recipe.candidates, recipe.power)
    data = ring_data()
    return transformer_module._Training(
        recipe, config, sequences_from_interactions(data), data.n_items, None, 1
    )


def test_equal_seeds_train_equal_models(model: TransformerModel) -> None:
    again = _train(SMALL)
    np.testing.assert_array_equal(again.items, model.items)
    for name, array in model.arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)
    assert again.facts == model.facts


def test_a_training_that_is_killed_twice_ends_with_the_same_model(
    model: TransformerModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformer_module, "_STORE_INTERVAL_S", 0.0)
    memory = _Memory()
    for epochs in (2, 3):
        attempt = _Memory(epochs)
        attempt.states = memory.states
        with pytest.raises(KeyboardInterrupt), keep_progress(attempt):
            _train(SMALL)
    with keep_progress(memory):
        again = _train(SMALL)
    assert len(memory.texts) < SMALL.epochs
    np.testing.assert_array_equal(again.items, model.items)
    assert again.facts == model.facts


def test_other_data_or_parameters_do_not_continue_it() -> None:
    memory = _Memory()
    with keep_progress(memory):
        _train(SMALL.model_copy(update={"epochs": 1}))
        _train(SMALL.model_copy(update={"epochs": 2}))
        data = ring_data()
        _train(SMALL.model_copy(update={"epochs": 1}), data.pick(np.arange(len(data) - 1)))
    assert len(memory.states) == 3


def test_it_visits_at_most_so_many_events_and_keeps_the_best_epoch(model: TransformerModel) -> None:
    data = ring_data()
    visits = 3 * len(data) + 1
    memory = _Memory()
    with keep_progress(memory):
        limited = _train(SMALL.model_copy(update={"event_visits": visits}))
    assert limited.facts["curve"] == model.facts["curve"][:3]
    assert len(memory.texts) == 3
    (state,) = memory.states.values()
    figures = [figure for _, figure in limited.facts["curve"]]
    best = _train(SMALL.model_copy(update={"epochs": 1 + int(np.argmax(figures))}))
    np.testing.assert_array_equal(state.arrays["best/items"], best.items)
    assert len(_train(SMALL.model_copy(update={"event_visits": 1})).facts["curve"]) == 1


def test_a_state_of_a_recipe_without_the_limit_continues() -> None:
    fields = TransformerRecipe().model_dump(mode="json")
    assert not {"event_visits", "averaging"} & set(fields), "a field would give the state another name"
    limited = TransformerRecipe(event_visits=5_000_000)
    assert TransformerRecipe.model_validate(limited.model_dump(mode="json")) == limited
    assert limited.limit_epochs(400_000) == 12
    usual = TransformerRecipe()
    assert [usual.limit_epochs(events) for events in (0, 360_000, 1_000_000, 30_000_000)] == [60, 60, 22, 1]


def test_without_jax_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "find_spec", lambda name: None)
    with pytest.raises(Invalid, match=r"pip install 'kiosk\[sequence\]'"):
        check_packages([SMALL])
    check_packages([])


def test_serving_needs_no_jax() -> None:
    import subprocess

    code = "import sys, actors.models.loading.snapshot_models, jobs.refresh.recipe; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_data_without_sequences_trains_a_model_of_chance() -> None:
    data = ring_data()
    first = np.unique(data.reader, return_index=True)[1]
    scores = _train(SMALL, data.pick(np.sort(first))).score(UserHistories.of_lists([[1]], RING))
    assert np.isfinite(scores).all()


def test_items_with_contents_share_what_is_learned() -> None:
    data = ring_data().with_content(np.eye(RING, dtype=np.float32))
    assert np.isfinite(_train(SMALL.model_copy(update={"epochs": 1}), data).items).all()
    assert reduce_content(np.ones((4, 300), np.float32), np.random.default_rng(1)).shape == (4, 128)


def _sequences(lengths: list[int]) -> Sequences:
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    items = np.arange(starts[-1], dtype=np.int32)
    zeros = np.zeros_like(items)
    targets = items + 1
    targets[starts[1:] - 1] = -1
    return Sequences(starts, items, zeros, zeros, targets)


@pytest.mark.parametrize("seed", range(5))
def test_every_event_is_in_a_row_once(seed: int) -> None:
    sequences = _sequences([2, 30, 7, 8, 9, 100])
    rows = pack_rows(sequences, 8, np.random.default_rng(seed))
    used = rows.sequences >= 0
    assert sorted(rows.items[used].tolist()) == list(range(156))
    # inside a piece, the next event is the target
    same = used[:, 1:] & (rows.sequences[:, 1:] == rows.sequences[:, :-1])
    np.testing.assert_array_equal(rows.targets[:, :-1][same], rows.items[:, 1:][same])
    assert used.mean() > 0.5


def test_batches_have_one_shape() -> None:
    rows = pack_rows(_sequences([8] * 5), 8, np.random.default_rng(1))
    batches = list(rows.batches(2))
    assert [batch["items"].shape for batch in batches] == [(2, 8)] * 3
    assert (batches[-1]["targets"][1] == -1).all()


def test_the_estimate_grows_with_the_events() -> None:
    recipe = TransformerRecipe()
    assert estimate_seconds(10_000, 1_000_000, recipe) > 5 * estimate_seconds(10_000, 100_000, recipe)


@pytest.fixture(autouse=True)
def _is_installed() -> None:
    pytest.importorskip("jax")
    return


def test_the_config_has_all_that_scoring_needs(model: TransformerModel) -> None:
    assert model.config == TransformerConfig(2, 2, 12, 10, SMALL.power)
