"""A re-ranker is learned where clicks have something to teach, and left out with the reason where they have not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actors.models.user_histories import DAY_S
from actors.vectors.types import Floats, Rows
from jobs.refresh.build import reranker_training
from jobs.refresh.build.fit import TrainedEngine, train_engine
from jobs.refresh.build.reranker_training import (
    LearnedReranker,
    RerankedEngine,
    cut_histories,
    learn_reranker,
    score_parts,
)
from jobs.refresh.data.dataset import Interactions, interactions_from_segments
from jobs.refresh.learners.reranker import RerankerRecipe
from jobs.refresh.recipe import Recipe, parse_recipe
from tests.fakes import generated_market
from tests.fakes.simulated_lists import LISTED, Likings, show_lists
from tests.fakes.simulated_searches import show_searches

FIELDS: dict[str, Any] = {
    "parts": {
        "item_knn": {"learner": "item_knn"},
        "rules": {"learner": "rules"},
        "trend": {"learner": "popularity"},
    },
    "blend": {"weights": {"item_knn": 1.0, "rules": 0.5, "trend": 0.2}, "weights_new": {"trend": 1.0}},
    "validation": {"seen": "allowed"},
}
PART = RerankerRecipe(least_lists=100, least_rows=20, trees=60)
SINCE_DAYS = 20
WORDS = ("lamp", "chair", "kettle", "trowel")


class Market:
    """Interactions, a blend trained before the lists, and likings that only the clicks show."""

    def __init__(self) -> None:
        made = generated_market.table(20_000, 800, 80)
        self.data: Interactions = interactions_from_segments(made)
        self.recipe: Recipe = parse_recipe(FIELDS)
        self.since_s = self.data.now_s - SINCE_DAYS * DAY_S
        self.engine: TrainedEngine = train_engine(self.recipe, self.data.pick(self.data.at_s < self.since_s))
        taken = np.bincount(self.data.item, minlength=self.data.n_items)
        self.is_rare = taken < np.median(taken)

    def prefer_rare(self, products: Rows, _: float) -> Floats:
        """Like products that few people took; the blend ranks them low."""
        return np.where(self.is_rare[products], 0.4, 0.1)

    def learn(self, likings: Likings, seed: int = 3) -> LearnedReranker:
        shown = show_lists(self.engine, self.data, self.since_s, seed=seed, most=3_000)
        return learn_reranker(self.recipe, PART, self.data, shown.click(likings))


@pytest.fixture(scope="module")
def market() -> Market:
    pytest.importorskip("lightgbm")
    return Market()


def discount(market: Market, listed: Rows, scores: Floats) -> Floats:
    """Return the true likings of each list in the order of scores, discounted by place."""
    ordered = np.take_along_axis(listed, np.argsort(-scores, axis=1), 1)
    gains: Floats = (market.prefer_rare(ordered, 0.0) / np.log2(2.0 + np.arange(LISTED))).sum(axis=1)
    return gains


def draw_evenly(products: Rows, _: float) -> Floats:
    """Like each product alike."""
    return np.full(len(products), 0.15)


def test_likings_are_learned_through_the_bias_of_places(market: Market) -> None:
    learned = market.learn(market.prefer_rare)
    facts, reranker = learned.facts, learned.reranker
    assert reranker is not None
    assert facts["kept"]
    assert facts["later_days"]["low"] > 0
    assert facts["sentence"].startswith("certainly better: clicks of held-out days")
    assert reranker.parts == ("item_knn", "rules", "trend")
    histories = cut_histories(market.data, np.arange(500), np.full(500, market.data.now_s))
    before = market.engine.score(histories)
    after = RerankedEngine(market.engine, reranker).score(histories)
    listed = np.argsort(-before, axis=1)[:, :LISTED]
    worth = [discount(market, listed, np.take_along_axis(scores, listed, 1)) for scores in (before, after)]
    gained = worth[1] - worth[0]
    assert gained.mean() > 1.96 * gained.std() / np.sqrt(len(gained))
    assert (after >= before).all()


def test_clicks_without_likings_leave_it_out(market: Market) -> None:
    learned = [market.learn(draw_evenly, seed) for seed in range(20)]
    # The interval is two-sided: one draw in forty is certainly better by chance.
    assert sum(entry.reranker is not None for entry in learned) <= 2
    left_out = next(entry.facts for entry in learned if entry.reranker is None)
    assert left_out["sentence"].startswith("left out: not certainly better: clicks of held-out days")


def test_equal_data_gives_equal_trees(market: Market) -> None:
    first, second = (market.learn(market.prefer_rare).save() for _ in range(2))
    assert first.facts == second.facts
    for name, array in first.arrays.items():
        assert array.tobytes() == second.arrays[name].tobytes()


def test_no_event_of_the_days_of_the_lists_trains_their_blend(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest: list[float] = []

    def train(recipe: Recipe, data: Interactions) -> TrainedEngine:
        newest.append(float(data.at_s.max()))
        return train_engine(recipe, data)

    monkeypatch.setattr(reranker_training, "train_engine", train)
    lists = show_lists(market.engine, market.data, market.since_s).click(market.prefer_rare)
    learn_reranker(market.recipe, PART, market.data, lists)
    assert newest
    assert newest[0] < lists.at_s.min()


def test_searches_teach_through_their_logged_scores(market: Market) -> None:
    names = market.data.items.names.to_pylist()
    titles = {product: f"{WORDS[item % len(WORDS)]} number {item}" for item, product in enumerate(names)}
    shown = show_searches(market.engine, market.data, titles, market.since_s, most=3_000)
    for likings, is_kept in ((market.prefer_rare, True), (draw_evenly, False)):
        lists = shown.click(likings)
        assert (lists.users < 0).any()
        learned = learn_reranker(market.recipe, PART, market.data, lists)
        assert (learned.reranker is not None) is is_kept, learned.facts
        assert learned.facts["interactions"] is None


def test_a_history_ends_at_its_list(market: Market) -> None:
    data = market.data
    users = np.array([3, 3, 5, -1])
    at_s = np.array([data.at_s.min(), data.now_s + 1, market.since_s, data.now_s + 1])
    histories = cut_histories(data, users, at_s)
    assert histories.lengths[0] == 0
    assert histories.lengths[3] == 0
    assert histories.lengths[1] == np.count_nonzero(data.reader == 3)
    assert (histories.at_s < at_s[histories.owners()]).all()


def test_parts_sum_to_the_blend(market: Market) -> None:
    histories = cut_histories(market.data, np.arange(20), np.full(20, market.since_s))
    items = np.tile(np.arange(market.data.n_items), 20)
    _, total = score_parts(
        market.engine.blend, histories, np.repeat(np.arange(20), market.data.n_items), items
    )
    whole = market.engine.score(histories).astype(np.float64)
    centered = total.reshape(whole.shape)
    # The blend does not center user-independent parts, which moves all scores of a user alike.
    moved = whole - centered
    np.testing.assert_allclose(moved, np.broadcast_to(moved[:, :1], moved.shape), atol=1e-4)


@pytest.mark.parametrize("most", [10, 60])
def test_few_lists_leave_it_out(market: Market, most: int) -> None:
    lists = show_lists(market.engine, market.data, market.since_s, most=most).click(market.prefer_rare)
    learned = learn_reranker(market.recipe, PART, market.data, lists)
    assert learned.reranker is None
    assert "usable lists with a click, and 100 are necessary" in learned.facts["sentence"]
