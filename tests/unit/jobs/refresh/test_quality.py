"""Ranking quality on public sets: floors on a fast subset; `kiosk bench quality` has the whole table.

Floors are the figures of the best blends of plain numpy implementations. Recipes here are settled ones, so that no test
takes long; that the default recipe finds as good ones by itself is shown on sessions, where planning is quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.refresh.build.fit import TrainedEngine, train_engine
from jobs.refresh.build.model_snapshot import write_model_snapshot
from jobs.refresh.data.split import (
    EvaluationSplit,
    TrainingSplit,
    leave_last_out,
    split_by_time,
    split_next_in_session,
)
from jobs.refresh.evaluation.evaluate import evaluate
from jobs.refresh.learners.neighbours.baskets import BasketsLearner, BasketsRecipe
from jobs.refresh.recipe import load_recipe_file, parse_recipe
from jobs.refresh.tuning.plan import TuningPlan, make_plan
from tests.benchmarks import quality_cold
from tests.benchmarks import quality_sets as sets
from tests.benchmarks.peers.ranking import Follows, Popular
from tests.benchmarks.quality_served import adopt_snapshot, served_figure, train_served_model, until_of
from tests.fakes.basket_split import split_baskets

pytestmark = [pytest.mark.data, pytest.mark.timeout(300), pytest.mark.slow]

SHOP: dict[str, Any] = {
    "parts": {
        "rules": {
            "learner": "rules", "window": 20, "damping": 0.3, "back": 0.6, "half_life_days": 14.0,
            "fading": {"half_life_items": 20.0},
        },
        "trend": {"learner": "popularity"},
    },
    "blend": {"weights": {"rules": 1.0, "trend": 0.1}, "weights_new": {"trend": 1.0}},
}  # fmt: skip
SEQUENCE: dict[str, Any] = {
    "parts": {
        "rules": {"learner": "rules", "window": 20},
        "item_knn": {"learner": "item_knn", "fading": {"half_life_items": 3.0}},
        "content_knn": {"learner": "content_knn"},
    },
    "blend": {"weights": {"rules": 1.0, "item_knn": 0.35, "content_knn": 1.0}, "weights_new": {}},
}


def needs(folder: str) -> None:
    if not sets.has(folder):
        pytest.skip(f"public data set {folder} is not in {sets.data_folder()} (set KIOSK_TEST_DATA)")


def figure(scorer: Any, trial: EvaluationSplit, name: str = "ndcg@10") -> float:
    return float(evaluate(scorer, trial).figures[name].mean())


def users_with_history(trial: EvaluationSplit, most: int = 100_000) -> EvaluationSplit:
    selected = trial.pick(np.flatnonzero(trial.histories.lengths > 0))
    return selected.sample(most, np.random.default_rng(1))


@pytest.fixture(scope="module")
def shop() -> EvaluationSplit:
    needs("online-retail-y1")
    return split_by_time(sets.online_retail(), seen="out").test


@pytest.fixture(scope="module")
def engine(shop: EvaluationSplit) -> TrainedEngine:
    return train_engine(parse_recipe(SHOP), shop.train)


@pytest.fixture(scope="module")
def sessions() -> TrainingSplit:
    needs("yoochoose-100k")
    data, begins = sets.yoochoose()
    test = split_next_in_session(data, begins)
    return TrainingSplit((split_next_in_session(test.train, begins - 86_400.0),), test)


@pytest.fixture(scope="module")
def session_plan(sessions: TrainingSplit) -> TuningPlan:
    return make_plan(load_recipe_file("session"), sessions.validation)


def test_a_shop_reaches_the_best_blend_and_simple_peers_do_not(
    shop: EvaluationSplit, engine: TrainedEngine
) -> None:
    trial = users_with_history(shop)
    ours = figure(engine, trial)
    peers = {peer.__name__: figure(peer(shop.train), trial) for peer in (Popular, Follows)}
    print(f"\nonline-retail-y1 by time: {ours:.4f}, peers {peers}")
    assert ours >= 0.1171
    assert ours > 1.5 * max(peers.values())


def test_readers_without_a_history_get_the_trend(shop: EvaluationSplit, engine: TrainedEngine) -> None:
    new = shop.pick(np.flatnonzero(shop.histories.lengths == 0))
    assert figure(engine, new) >= 0.112


def test_what_is_served_with_a_snapshot_loses_nothing_against_the_trained_blend(
    shop: EvaluationSplit, engine: TrainedEngine
) -> None:
    trial = users_with_history(shop, 500)
    offline = figure(engine, trial)
    recommender = train_served_model(shop.train)
    with adopt_snapshot(recommender, engine, until_of(shop.train)):
        served = served_figure(recommender, trial, "ndcg@10")
    print(f"\noffline {offline:.4f}, served {served:.4f}")
    assert served >= 0.98 * offline


def test_sequences_reach_the_best_blend() -> None:
    needs("amazon-toys")
    trial = leave_last_out(sets.amazon_toys()).test
    ours = train_engine(parse_recipe(SEQUENCE), trial.train)
    selected = users_with_history(trial, 6_000)
    figures = evaluate(ours, selected).figures
    print(f"\namazon-toys leave last out: {figures['ndcg@10'].mean():.4f}")
    assert figures["ndcg@10"].mean() >= 0.0739
    assert figures["recall@20"].mean() >= 0.1408


@pytest.mark.parametrize(("name", "floor"), [("amazon-toys", 0.1), ("ml-latest-small", 0.15)])
def test_new_products_are_ranked_by_what_was_learned_of_their_content(name: str, floor: float) -> None:
    needs(name)
    figure_of_new = quality_cold.measure_learned_content(name)
    print(f"\nnew items of {name}: {figure_of_new:.4f}")
    assert figure_of_new >= floor


def test_the_default_recipe_finds_by_itself_what_suits_sessions(sessions: TrainingSplit) -> None:
    plan = make_plan(load_recipe_file("default"), sessions.validation)
    figures = evaluate(
        train_engine(plan.recipe, sessions.test.train), users_with_history(sessions.test, 4_000)
    ).figures
    assert figures["mrr@20"].mean() >= 0.345
    assert figures["hit_rate@20"].mean() >= 0.676


def test_the_session_recipe_gives_the_same_bytes_twice(
    sessions: TrainingSplit, session_plan: TuningPlan, tmp_path: Path
) -> None:
    versions = []
    again = make_plan(load_recipe_file("session"), sessions.validation)
    for name, plan in (("first", session_plan), ("second", again)):
        manifest = write_model_snapshot(
            train_engine(plan.recipe, sessions.test.train), tmp_path / name, written_at_ms=0
        )
        versions.append(manifest.facts["version"])
    assert versions[0] == versions[1]


def test_what_is_bought_together_reaches_the_notes(shop: EvaluationSplit) -> None:
    data = sets.online_retail(guests=True)
    trial = split_baskets(data, float(np.quantile(data.at_s, 0.9)), np.random.default_rng(1))
    model = BasketsLearner(BasketsRecipe(kinds=())).train(trial.train, np.random.default_rng(1))
    evaluation = evaluate(model, trial)
    assert evaluation.figures["ndcg@10"].mean() >= 0.205
    assert evaluation.coverage >= 0.43


def test_presets_are_settled_by_a_plan_of_real_data(session_plan: TuningPlan) -> None:
    settled = session_plan.recipe
    assert settled.blend.weights != "auto"
    assert not any(part.tune for part in settled.parts.values())
