"""A snapshot with a re-ranker serves: trees move the best candidates, and explanations name their share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from actors.models import reranker as reranker_module
from actors.models.loading.snapshot_models import RERANKER
from actors.models.reranker import build_rows
from actors.models.user_histories import UserHistories
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.recommender.recommender import Recommender
from actors.serving import dispatch
from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.types import Floats
from cluster.errors import Fault
from cluster.records.interaction import RecentEvent
from jobs.refresh.build.fit import TrainedEngine
from jobs.refresh.build.reranker_training import score_parts
from tests.fakes.corner_shop import NOW_MS
from tests.fakes.reranked_shop import CANDIDATES, RAISED, load, raise_frequent
from tests.fakes.search_queries import ids
from tests.fakes.trained_snapshot import RING, name, open_ring_shop, ring_engine


def ask(shop: Recommender, rows: int = RING, events: int = 2, **more: Any) -> RecommendationResult:
    recent = [
        RecentEvent("click", (name(7 - at),), NOW_MS - 60_000 * (at + 1)).pack() for at in range(events)
    ]
    query = UserQuery("user_to_products", "shop", "default", user_id="somebody", rows=rows, **more)
    return dispatch.answer(shop, query, recent, (), NOW_MS)


@pytest.fixture(scope="module")
def engine() -> TrainedEngine:
    return ring_engine()


@pytest.fixture(scope="module")
def plain(engine: TrainedEngine, tmp_path_factory: pytest.TempPathFactory) -> Recommender:
    return open_ring_shop(load(tmp_path_factory.mktemp("plain") / "snapshot", engine, {}))


@pytest.fixture(scope="module")
def ranked(engine: TrainedEngine, tmp_path_factory: pytest.TempPathFactory) -> Recommender:
    extras = {RERANKER: raise_frequent(engine).save()}
    return open_ring_shop(load(tmp_path_factory.mktemp("ranked") / "snapshot", engine, extras))


def test_the_best_candidates_are_ordered_by_score_and_gain(
    engine: TrainedEngine, plain: Recommender, ranked: Recommender
) -> None:
    before, after = ask(plain, explain=True), ask(ranked, explain=True)
    head = ids(before)[:CANDIDATES]
    facts = raise_frequent(engine)
    events = dict(zip(engine.items.names.to_pylist(), facts.products.events.tolist(), strict=True))
    limit = float(facts.trees.arrays.thresholds[0])
    scores = {product["product_id"]: product["_explain"]["score"] for product in before.products}
    gains = {product: RAISED if events[product] > limit else 0.0 for product in head}
    assert len(set(gains.values())) == 2
    assert ids(after)[:CANDIDATES] == sorted(head, key=lambda product: -scores[product] - gains[product])
    assert ids(after)[CANDIDATES:] == ids(before)[CANDIDATES:]


def test_explanations_name_the_share_and_sum_to_the_score(ranked: Recommender) -> None:
    result = ask(ranked, explain=True)
    shares = [product["_explain"]["score_parts"].get("learned:reranker") for product in result.products]
    assert {share for share in shares if share is not None} == {RAISED}
    for product in result.products:
        explained = product["_explain"]
        assert explained["score"] == pytest.approx(sum(explained["score_parts"].values()))
    scores = [product["_explain"]["score"] for product in result.products[:CANDIDATES]]
    assert scores == sorted(scores, reverse=True)
    shown = [product["_personalization_score"] for product in result.products[:CANDIDATES]]
    assert shown == sorted(shown, reverse=True)
    assert 0 < shares.count(None) < len(shares)


def test_pages_continue_the_list(ranked: Recommender) -> None:
    whole = ids(ask(ranked, rows=12))
    assert ids(ask(ranked, rows=4)) + ids(ask(ranked, rows=8, start=4)) == whole


def test_two_replicas_and_users_without_history_get_lists(ranked: Recommender) -> None:
    first, second = (orjson.dumps(ask(ranked).products) for _ in range(2))
    assert first == second
    assert len(ask(ranked, events=0).products) == RING


@pytest.mark.parametrize("events", [0, 2])
def test_the_service_sees_the_features_of_the_training(
    engine: TrainedEngine, ranked: Recommender, events: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Floats] = []
    codes: list[Any] = []

    def record(products: Any, past: Any, items: Any, scores: Any, parts: Floats) -> Floats:
        seen.append(parts)
        codes.append(items)
        return build_rows(products, past, items, scores, parts)

    monkeypatch.setattr(reranker_module, "build_rows", record)
    ask(ranked, events=events)
    items = [engine.items.code(name(7 - at)) for at in reversed(range(events))]
    at_s = [NOW_MS / 1000 - 60 * (at + 1) for at in reversed(range(events))]
    histories = UserHistories(
        np.array([0, events]),
        np.array(items, np.int64),
        np.array(at_s),
        np.full(events, 0.3, np.float32),
        np.array([NOW_MS / 1000]),
        len(engine.items),
    )
    trained, _ = score_parts(engine.blend, histories, np.zeros(CANDIDATES, np.int64), codes[0])
    np.testing.assert_allclose(seen[0], trained, atol=0.02)
    assert np.abs(trained).max() > 0.5


@pytest.mark.parametrize(
    ("array", "change", "message"),
    [
        ("features", lambda values: values + 50, "names numbers outside"),
        ("starts", lambda values: values + 1, "do not stand one behind the other"),
        ("left_leaves", lambda values: values * 0, "leaves that its tree lacks"),
        ("left_leaves", lambda values: values * 0 + 8, "leaves that its tree lacks"),
        ("leaves", lambda values: values * np.nan, "its leaves are no"),
        ("thresholds", lambda values: values[:0], "its parts do not fit together"),
        ("missing_left", lambda values: values.astype(np.int8), "unknown values"),
        ("events", lambda values: values[1:], "float32"),
        ("first_s", lambda values: values[1:], "times do not fit"),
    ],
)
def test_damaged_trees_do_not_serve(
    tmp_path: Path, engine: TrainedEngine, array: str, change: Any, message: str
) -> None:
    state = raise_frequent(engine).save()
    broken = ModelState({**state.arrays, array: change(state.arrays[array])}, state.facts)
    with pytest.raises(Fault, match=message):
        load(tmp_path / "snapshot", engine, {RERANKER: broken})
