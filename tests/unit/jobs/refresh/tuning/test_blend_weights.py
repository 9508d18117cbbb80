"""Candidates, weights and tuning."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from actors.models.blend import Blend, BlendPart
from actors.models.model import Batch, Model
from actors.models.user_histories import TimeDecay, UserHistories
from actors.vectors.snapshot_arrays import ModelState
from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame
from jobs.refresh.data.split import EvaluationSplit, leave_last_out
from jobs.refresh.evaluation.evaluate import evaluate
from jobs.refresh.evaluation.metrics import significant_gain
from jobs.refresh.learners.neighbours.ease import EaseRecipe
from jobs.refresh.learners.neighbours.item_knn import ItemKnnLearner, ItemKnnRecipe
from jobs.refresh.learners.neighbours.sequential_rules import RulesRecipe, SequentialRulesLearner
from jobs.refresh.learners.popularity import PopularityLearner, PopularityRecipe
from jobs.refresh.learners.transformer import TransformerRecipe
from jobs.refresh.recipe import ValidationRecipe
from jobs.refresh.tuning.blend_weights import choose_weights
from jobs.refresh.tuning.candidate_items import TuningCandidates, collect_candidates
from jobs.refresh.tuning.parameter_search import is_too_large, tune_part


class Dense:
    """A model of fixed scores per item and noise per user, in the plain form."""

    def __init__(self, scores: list[float]) -> None:
        self._scores = np.array(scores, np.float32)

    def score(self, histories: UserHistories) -> Batch:
        noise = np.add.outer(np.arange(len(histories)), np.arange(len(self._scores))) % 3
        return (self._scores + 0.1 * noise).astype(np.float32)

    def save(self) -> ModelState:
        return ModelState({"scores": self._scores})


def walks(users: int = 60, items: int = 12) -> Interactions:
    """Make users who go round in a circle of items: what comes next is visible."""
    rng = np.random.default_rng(8)
    rows = []
    for user in range(users):
        first, steps = int(rng.integers(items)), int(rng.integers(4, 8))
        rows += [(f"r{user:02d}", f"i{(first + step) % items:02d}") for step in range(steps)]
    return interactions_from_frame(
        pl.DataFrame(rows, ["reader", "item"], orient="row"), FrameColumns(at=None)
    )


def wanderers(users: int = 80, items: int = 30) -> Interactions:
    """Make users who took three things at random before they began to walk: only the newest items say anything."""
    rng = np.random.default_rng(9)
    rows = []
    for user in range(users):
        first = int(rng.integers(items))
        taken = [*rng.integers(0, items, 3).tolist(), *((first + step) % items for step in range(3))]
        rows += [(f"r{user:02d}", f"i{item:02d}") for item in taken]
    return interactions_from_frame(
        pl.DataFrame(rows, ["reader", "item"], orient="row"), FrameColumns(at=None)
    )


@pytest.fixture
def trial() -> EvaluationSplit:
    return leave_last_out(walks()).test


@pytest.fixture
def models(trial: EvaluationSplit) -> list[Model]:
    rng = np.random.default_rng(0)
    return [
        SequentialRulesLearner(RulesRecipe()).train(trial.train, rng),
        ItemKnnLearner(ItemKnnRecipe()).train(trial.train, rng),
        PopularityLearner(PopularityRecipe(half_life_days=None)).train(trial.train, rng),
        Dense(np.linspace(1, 0, trial.train.n_items).tolist()),
    ]


@pytest.mark.parametrize("seen", ["out", "allowed"])
@pytest.mark.parametrize("weights", [(1, 0, 0, 0), (0, 1, 0.3, 0), (0, 0, 1, 0.01), (0.2, 0.5, 0.1, 1)])
def test_candidates_give_the_figure_of_the_whole_catalog(
    trial: EvaluationSplit, models: list[Model], seen: str, weights: tuple[float, ...]
) -> None:
    trial = EvaluationSplit(trial.name, trial.train, trial.histories, trial.targets, seen)  # type: ignore[arg-type]
    candidates = collect_candidates(models, trial, k=3, depth=12)
    parts = [
        BlendPart(str(at), model, weight)
        for at, (model, weight) in enumerate(zip(models, weights, strict=True))
    ]
    whole = evaluate(Blend(parts), trial, k=3).figures["ndcg@3"]
    figures = candidates.compute_ndcg(candidates.blend_scores(np.array(weights, float)))
    # ties are broken by row in a list and against the target among candidates
    assert (figures <= whole + 1e-9).all()
    assert figures.mean() == pytest.approx(whole.mean(), abs=0.03)


def test_short_lists_hold_the_first_places() -> None:
    trial = leave_last_out(walks(400, 80)).test
    rng = np.random.default_rng(0)
    models: list[Model] = [
        SequentialRulesLearner(RulesRecipe()).train(trial.train, rng),
        ItemKnnLearner(ItemKnnRecipe()).train(trial.train, rng),
    ]
    models.append(Dense(np.linspace(1, 0, 80).tolist()))
    few, whole = collect_candidates(models, trial, depth=15), collect_candidates(models, trial, depth=80)
    assert few.relevant.shape[1] < 50 < whole.relevant.shape[1]
    for weights in np.eye(3), np.array([[1.0, 0.5, 0.3], [0.2, 1.0, 0.1]]):
        for row in weights:
            np.testing.assert_array_equal(
                few.compute_ndcg(few.blend_scores(row)), whole.compute_ndcg(whole.blend_scores(row))
            )


def test_readers_of_several_trials_are_joined(trial: EvaluationSplit, models: list[Model]) -> None:
    first, second = trial.pick(np.arange(7)), trial.pick(np.arange(7, len(trial)))
    weights = np.array([1.0, 0.2, 0.0, 0.5])
    whole = collect_candidates(models, trial)
    joined = TuningCandidates.concatenate(
        [collect_candidates(models, first), collect_candidates(models, second)]
    )
    np.testing.assert_allclose(
        joined.compute_ndcg(joined.blend_scores(weights)), whole.compute_ndcg(whole.blend_scores(weights))
    )


def test_the_better_part_gets_the_weight(trial: EvaluationSplit, models: list[Model]) -> None:
    candidates = collect_candidates(models, trial)
    choice = choose_weights(candidates, np.array([0.0, 0.0, 0.0, 1.0]), ["rules", "knn", "pop", "dense"])
    assert choice.figure > choice.single[3] + 0.2
    assert choice.weights[0] > 0


def test_only_one_variant_of_a_family_has_weight(trial: EvaluationSplit, models: list[Model]) -> None:
    candidates = collect_candidates(models, trial)
    choice = choose_weights(candidates, np.array([0.0, 1.0, 0.0, 0.0]), ["a", "a", "a", "a"])
    assert choice.weights.tolist() == [1.0, 0.0, 0.0, 0.0]


def test_no_more_parts_are_taken_than_allowed(trial: EvaluationSplit, models: list[Model]) -> None:
    choice = choose_weights(collect_candidates(models, trial), np.zeros(4), list("abcd"), most_parts=1)
    assert np.count_nonzero(choice.weights) == 1


def test_choosing_can_be_switched_off(trial: EvaluationSplit, models: list[Model]) -> None:
    start = np.array([0.0, 0.3, 0.0, 1.0])
    choice = choose_weights(collect_candidates(models, trial), start, list("abcd"), rounds=0)
    np.testing.assert_array_equal(choice.weights, start)


def test_a_gain_within_its_uncertainty_is_worth_nothing() -> None:
    now = np.full(100, 0.1)
    noise = np.random.default_rng(0).normal(0, 1, 100)
    noise -= noise.mean()
    assert significant_gain(noise + 0.01, now) == 0
    assert significant_gain(noise + 0.2, now) == pytest.approx(0.2)
    assert significant_gain(np.full(100, 1e-5), now) == 0
    assert significant_gain(np.array([0.5]), np.array([0.1])) == 0


def test_tuning_finds_the_clearly_better_value(trial: EvaluationSplit) -> None:
    # a window of 1 and no way back is all there is to a walk in one direction
    part = RulesRecipe(
        window=8, back=1.0, fading={"half_life_items": None}, tune={"window": (4, 1), "back": (0.0,)}
    )  # type: ignore[arg-type]
    tuned = tune_part(part, [trial], np.random.default_rng(0))
    assert isinstance(tuned.part, RulesRecipe)
    assert (tuned.part.window, tuned.part.back) == (1, 0.0)
    assert len(tuned.tried) == 4
    assert tuned.part.tune == {}


def test_a_candidate_value_may_set_several_parameters(trial: EvaluationSplit) -> None:
    fading = TimeDecay(half_life_items=None)
    part = RulesRecipe(window=8, back=1.0, fading=fading, tune={"window": ({"window": 1, "back": 0.0},)})
    tuned = tune_part(part, [trial], np.random.default_rng(0))
    assert tuned.part == RulesRecipe(window=1, back=0.0, fading=fading)
    assert len(tuned.tried) == 2


def test_large_data_keep_the_first_values(trial: EvaluationSplit) -> None:
    part = RulesRecipe(window=8, tune={"window": (1,), "fading": ({}, {"half_life_items": 2.0})})
    tuned = tune_part(part, [trial], np.random.default_rng(0), is_large=True)
    assert tuned.part == RulesRecipe(window=8)
    assert len(tuned.fadings) == 2, "decays cost no training"
    assert not tuned.tried
    validation = ValidationRecipe()
    for recipe, items, events in ((TransformerRecipe(), 10, 150_000), (EaseRecipe(), 5_000, 10)):
        assert not is_too_large(recipe, items, events, validation)
        assert is_too_large(recipe, items + 1, events + 1, validation)
    assert is_too_large(TransformerRecipe(), 10, 1_001, ValidationRecipe(tune_events=1_000))
    assert not is_too_large(part, 10**6, 10**6, validation)


def test_fadings_stay_in_question_best_first() -> None:
    trial = leave_last_out(wanderers()).test
    fadings = ({"half_life_items": None}, {"half_life_items": 0.2}, {"half_life_items": 50.0})
    part = RulesRecipe(window=1, back=0, tune={"fading": fadings})
    tuned = tune_part(part, [trial], np.random.default_rng(0))
    assert [fading.half_life_items for fading in tuned.fadings] == [0.2, 50.0, None]


def test_tuning_without_anybody_to_ask_changes_nothing(trial: EvaluationSplit) -> None:
    part = RulesRecipe(tune={"window": (1, 2)})
    tuned = tune_part(part, [trial.pick(np.zeros(0, np.int64))], np.random.default_rng(0))
    assert tuned.part == RulesRecipe()


def test_a_blend_never_loses_to_its_best_part() -> None:
    """The start agrees with itself on what is wrong, and no step of the ladder is large enough to turn it."""
    users, width = 40, 12
    relevant = np.zeros((users, width), np.bool_)
    relevant[:, 0] = True
    wrong = np.tile(np.linspace(-5, 5, width, dtype=np.float32), (users, 1))
    right = np.where(relevant, np.float32(0.5), np.float32(0.0))
    candidates = TuningCandidates(np.stack((wrong, wrong, right)), relevant, np.ones(users), 3)
    choice = choose_weights(candidates, np.array([1.0, 1.0, 0.0]), ["ease", "rules", "trend"])
    assert choice.figure >= choice.single.max() == 1.0


def test_longer_lists_have_the_users_with_a_target_among_the_candidates() -> None:
    users, width = 30, 40
    relevant = np.zeros((users, width), np.bool_)
    relevant[:20, 25] = True
    scores = np.tile(np.linspace(1, 0, width, dtype=np.float32), (1, users, 1))
    candidates = TuningCandidates(scores, relevant, np.ones(users), 10)
    deep = candidates.extend_lists(50)
    assert (len(candidates), len(deep), deep.k) == (30, 20, 50)
    assert candidates.compute_ndcg(candidates.scores[0]).tolist() == [0.0] * users, "the target is at rank 25"
    assert deep.compute_ndcg(deep.scores[0]) == pytest.approx(1 / np.log2(27))


def test_the_search_leaves_a_start_that_is_no_optimum() -> None:
    """From the start, no single step has a gain: the wrong components agree, and only together do they lose."""
    rng = np.random.default_rng(3)
    users, width = 200, 60
    relevant = np.zeros((users, width), np.bool_)
    relevant[np.arange(users), rng.integers(0, width, users)] = True
    noise = rng.normal(size=(4, users, width)).astype(np.float32)
    right = np.where(relevant, np.float32(1.5), np.float32(0.0)) + noise[0]
    other = np.where(relevant, np.float32(1.0), np.float32(0.0)) + noise[1]
    candidates = TuningCandidates(
        np.stack((right, other, noise[2] * 9, noise[3] * 9)), relevant, np.ones(users), 10
    )
    choice = choose_weights(candidates, np.array([0.0, 0.0, 1.0, 1.0]), ["a", "b", "c", "d"])
    assert choice.weights[2:].tolist() == [0.0, 0.0]
    assert choice.weights[0] > 0
    assert choice.figure > choice.single.max()


def test_a_weight_without_certain_gain_vanishes() -> None:
    rng = np.random.default_rng(5)
    users, width = 300, 40
    relevant = np.zeros((users, width), np.bool_)
    relevant[np.arange(users), rng.integers(0, width, users)] = True
    first, second = (
        np.where(relevant, 2.0, 0.0).astype(np.float32) + rng.normal(size=(users, width)).astype(np.float32)
        for _ in range(2)
    )
    faint = np.full((users, width), 0.5, np.float32)
    candidates = TuningCandidates(np.stack((first, faint, second)), relevant, np.ones(users), 10)
    choice = choose_weights(candidates, np.array([1.0, 0.1, 1.0]), ["first", "faint", "second"])
    assert choice.weights[1] == 0.0, "no step gains by its removal, and it gains nothing"
    assert (choice.weights[[0, 2]] > 0).all()
