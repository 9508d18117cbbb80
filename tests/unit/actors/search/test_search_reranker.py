"""A snapshot with a re-ranker of searches moves the best hits; what the client sorts, pins or filters stays."""

from __future__ import annotations

from typing import Any

import pytest

from actors.models.loading.snapshot_models import RERANKER, SEARCH_RERANKER
from actors.recommender.messages import RecommendationResult
from actors.recommender.recommender import Recommender
from cluster.records.interaction import RecentEvent
from jobs.refresh.build.fit import TrainedEngine
from tests.fakes.corner_shop import NOW_MS, product_change
from tests.fakes.reranked_shop import CANDIDATES, RAISED, load, raise_frequent
from tests.fakes.search_queries import ids, search
from tests.fakes.trained_snapshot import RING, name, open_ring_shop, ring_engine

RECENT = [RecentEvent("click", (name(7 - at),), NOW_MS - 60_000 * (at + 1)).pack() for at in range(2)]


@pytest.fixture(scope="module")
def engine() -> TrainedEngine:
    return ring_engine()


@pytest.fixture(scope="module")
def plain(engine: TrainedEngine, tmp_path_factory: pytest.TempPathFactory) -> Recommender:
    extras = {RERANKER: raise_frequent(engine).save()}
    return open_ring_shop(load(tmp_path_factory.mktemp("plain") / "snapshot", engine, extras))


@pytest.fixture
def ranked(engine: TrainedEngine, tmp_path_factory: pytest.TempPathFactory) -> Recommender:
    extras = {SEARCH_RERANKER: raise_frequent(engine).save()}
    return open_ring_shop(load(tmp_path_factory.mktemp("ranked") / "snapshot", engine, extras))


@pytest.fixture(scope="module")
def frequent(engine: TrainedEngine) -> set[str]:
    reranker = raise_frequent(engine)
    limit = float(reranker.trees.arrays.thresholds[0])
    names = engine.items.names.to_pylist()
    return {names[item] for item in range(len(names)) if reranker.products.events[item] > limit}


def log_scores(result: RecommendationResult) -> dict[str, float]:
    """Return the scores that the log of answers gets."""
    assert result.placements is not None
    return dict(zip(ids(result), result.placements.scores, strict=True))


def find(shop: Recommender, recent: Any = RECENT, **body: Any) -> RecommendationResult:
    return search(shop, recent, **{"q": "bead", "rows": RING, "user_id": "somebody", **body})


@pytest.mark.parametrize("recent", [RECENT, []])
@pytest.mark.parametrize("words", ["bead", "*"])
def test_the_best_hits_are_ordered_by_score_and_gain(
    plain: Recommender, ranked: Recommender, frequent: set[str], recent: list[bytes], words: str
) -> None:
    before, after = find(plain, recent, q=words), find(ranked, recent, q=words)
    head = ids(before)[:CANDIDATES]
    gains = {product: RAISED * (product in frequent) for product in head}
    assert len(set(gains.values())) == 2
    scores = log_scores(before)
    assert ids(after)[:CANDIDATES] == sorted(head, key=lambda product: -scores[product] - gains[product])
    assert ids(after)[CANDIDATES:] == ids(before)[CANDIDATES:]
    assert (ids(after) != ids(before)) is bool(
        recent
    )  # without a history, frequent products come first anyway


def test_the_log_gets_scores_without_gains(plain: Recommender, ranked: Recommender) -> None:
    assert log_scores(find(ranked)) == log_scores(find(plain))


def test_explanations_name_the_share_and_sum_to_the_score(ranked: Recommender) -> None:
    result = find(ranked, explain=True)
    explained = [product["_explain"] for product in result.products]
    shares = [entry["score_parts"].get("learned:reranker") for entry in explained]
    assert {round(share, 5) for share in shares if share is not None} == {RAISED}
    assert 0 < shares.count(None) < len(shares)
    logged = log_scores(result)
    for product, share in zip(result.products, shares, strict=True):
        # the log has the score without the share
        expected = logged[product["product_id"]] + (share or 0.0)
        assert product["_explain"]["score"] == pytest.approx(expected, abs=1e-5)
        assert sum(product["_explain"]["score_parts"].values()) == pytest.approx(expected, abs=1e-5)
    scores = [entry["score"] for entry in explained]
    assert scores == sorted(scores, reverse=True)
    assert [entry["place"] for entry in explained] == [entry["rank"] for entry in explained]
    assert "_explain" not in find(ranked).products[0]


def test_a_sorted_list_has_ranks_and_no_parts(ranked: Recommender) -> None:
    result = find(ranked, explain=True, start=3, order_by=[{"field": "price"}])
    assert [product["_explain"]["place"] for product in result.products] == list(range(3, RING))
    assert all(product["_explain"]["score_parts"] == {} for product in result.products)


def test_what_the_client_sorts_stays_sorted(plain: Recommender, ranked: Recommender) -> None:
    for order in ([{"field": "price"}], [{"field": "_search_score", "order": "desc"}]):
        assert ids(find(ranked, order_by=order)) == ids(find(plain, order_by=order))


def test_without_personalization_all_users_get_the_same_list(ranked: Recommender) -> None:
    lists = [ids(find(ranked, recent, personalization_weight=0)) for recent in (RECENT, [])]
    assert lists[0] == lists[1]


def test_filters_pins_and_pages_keep_their_meaning(ranked: Recommender) -> None:
    whole = ids(find(ranked))
    kept = ids(find(ranked, fq="brand:maker-1"))
    assert len(kept) == RING // 3
    pinned = find(ranked, boost_fq=f"product_id:{whole[20]}", boost_positions=[2])
    assert ids(pinned)[2] == whole[20]
    assert ids(find(ranked, rows=4)) + ids(find(ranked, rows=8, start=4)) == whole[:12]


def test_new_products_and_those_out_of_stock_gain_nothing(ranked: Recommender, frequent: set[str]) -> None:
    sold = next(product for product in ids(find(ranked)) if product in frequent)
    records = [
        {"product_id": sold, "title": "Bead sold", "availability": "OUT_OF_STOCK"},
        {"product_id": "new", "title": "Bead bead new"},
    ]
    ranked.apply(product_change(records, f"{NOW_MS - 900}-0"))
    result = ids(find(ranked, rows=RING + 1))
    assert set(result) >= {"new", sold}
    assert result[0] != sold
