"""A snapshot with a transformer serves: its scores are a part of the sum, kept per user, and dropped with erasures."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.models.transformer import TransformerModel
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.recommender.recommender import Recommender
from actors.serving import dispatch
from cluster.records.interaction import RecentEvent
from cluster.store.data.change_log import ChangeLogEntry
from tests.fakes.corner_shop import NOW_MS
from tests.fakes.trained_snapshot import RING, load_ring_model, name, open_ring_shop

TRANSFORMER = {
    "learner": "transformer", "dimensions": 16, "events": 12, "batch_events": 100, "epochs": 12, "candidates": 10,
}  # fmt: skip


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> LoadedSnapshot:
    pytest.importorskip("jax")
    blend = {"weights": {"transformer": 1.0, "trend": 0.05}, "weights_new": {"trend": 1.0}}
    parts = {"transformer": TRANSFORMER, "trend": {"learner": "popularity"}}
    return load_ring_model(tmp_path_factory.mktemp("ring") / "snapshot", parts=parts, blend=blend)


def ask(shop: Recommender, **more: Any) -> RecommendationResult:
    recent = [
        RecentEvent("click", (name(number),), NOW_MS - 60_000 * (9 - number)).pack() for number in (7, 6)
    ]
    query = UserQuery("user_to_products", "shop", "default", user_id="somebody", rows=5, **more)
    return dispatch.answer(shop, query, recent, (), NOW_MS)


def transformer_of(learned: LoadedSnapshot) -> TransformerModel:
    (model,) = (part.model for part in learned.blend.parts if part.name == "transformer")
    assert isinstance(model, TransformerModel)
    return model


def test_what_comes_next_is_recommended_and_explained(learned: LoadedSnapshot) -> None:
    result = ask(open_ring_shop(learned), explain=True)
    assert result.products[0]["product_id"] == name(8)
    explanation = result.products[0]["_explain"]
    assert explanation["score_parts"]["learned:transformer"] > 0
    assert explanation["score"] == pytest.approx(sum(explanation["score_parts"].values()))


def test_two_replicas_give_equal_lists(learned: LoadedSnapshot) -> None:
    lists = [ask(open_ring_shop(learned)).products for _ in range(2)]
    assert orjson.dumps(lists[0]) == orjson.dumps(lists[1])
    assert len(lists[0]) == 5 <= RING


def test_an_erasure_drops_the_scores_that_are_kept(learned: LoadedSnapshot) -> None:
    shop = open_ring_shop(learned)
    ask(shop)
    cache = transformer_of(learned).cache
    assert len(cache) > 0
    erasure = ChangeLogEntry("interaction", f"{NOW_MS}-1", "erase", orjson.dumps(["u:somebody"]))
    shop.apply(erasure)
    shop.default_engine_state._item_priors = None  # the next refresh
    shop.default_engine_state.get_item_priors(NOW_MS + 60_000)
    assert len(cache) == 0
