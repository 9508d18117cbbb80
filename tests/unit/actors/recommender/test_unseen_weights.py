"""Which weights of a snapshot order a list: those for new products if the list has none of the history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.recommender.messages import QueryKind, RecommendationResult, UserQuery
from actors.recommender.recommender import Recommender
from actors.serving import dispatch
from cluster.records.interaction import RecentEvent
from tests.fakes.corner_shop import DAY_MS, NOW_MS
from tests.fakes.trained_snapshot import (
    RECIPE,
    RING,
    get_serving_model,
    load_ring_model,
    name,
    open_ring_shop,
)

UNSEEN = {"rules": 1.0, "trend": 0.05}
PARTS = {
    "rules": RECIPE["parts"]["rules"],
    "repeats": {"learner": "repeats"},
    "trend": {"learner": "popularity"},
}


def load_model(folder: Path, unseen: dict[str, float] | None, *, repeats: float = 2.0) -> LoadedSnapshot:
    blend: dict[str, Any] = {
        "weights": {"rules": 0.2, "repeats": repeats, "trend": 0.4},
        "weights_new": {"trend": 1.0},
        "weights_unseen": unseen,
    }
    return load_ring_model(folder, parts=PARTS, blend=blend)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LoadedSnapshot]:
    folder = tmp_path_factory.mktemp("snapshots")
    return {
        "two": load_model(folder / "two", UNSEEN),
        "single": load_model(folder / "single", None),
        "never": load_model(folder / "never", UNSEEN, repeats=0.0),
    }


def ask(
    shop: Recommender, kind: QueryKind = "user_to_products", *, ago_ms: int = 3 * DAY_MS, **more: Any
) -> RecommendationResult:
    recent = [RecentEvent("click", (name(number),), NOW_MS - ago_ms).pack() for number in (7, 6)]
    query = UserQuery(kind, "shop", "default", user_id="somebody", explain=True, rows=RING, **more)
    return dispatch.answer(shop, query, recent, (), NOW_MS)


def weights_of(result: RecommendationResult) -> str | None:
    assert result.explanation is not None
    weights: str | None = result.explanation.get("weights")
    return weights


def parts_of(result: RecommendationResult, product_id: str) -> dict[str, float]:
    (product,) = [product for product in result.products if product["product_id"] == product_id]
    assert product["_explain"]["score"] == pytest.approx(sum(product["_explain"]["score_parts"].values()))
    parts: dict[str, float] = product["_explain"]["score_parts"]
    return parts


def test_a_list_that_may_repeat_has_the_weights_of_all_targets(models: dict[str, LoadedSnapshot]) -> None:
    result = ask(open_ring_shop(models["two"]))
    assert weights_of(result) == "all"
    assert {product["product_id"] for product in result.products[:2]} == {name(6), name(7)}
    assert parts_of(result, name(7))["learned:repeats"] > 0


def test_a_query_that_excludes_the_history_has_the_weights_of_new_products(
    models: dict[str, LoadedSnapshot],
) -> None:
    shop = open_ring_shop(models["two"])
    result = ask(shop, exclude=(name(6), name(7)))
    assert weights_of(result) == "unseen"
    assert result.products[0]["product_id"] == name(8)
    other = parts_of(ask(shop), name(8))
    assert parts_of(result, name(8))["learned:rules"] == pytest.approx(5 * other["learned:rules"], rel=1e-4)
    assert parts_of(result, name(8))["learned:trend"] == pytest.approx(other["learned:trend"] / 8, rel=1e-4)


def test_to_exclude_a_share_of_the_history_is_not_enough(models: dict[str, LoadedSnapshot]) -> None:
    assert weights_of(ask(open_ring_shop(models["two"]), exclude=(name(6),))) == "all"


def test_products_of_the_running_session_are_left_out(models: dict[str, LoadedSnapshot]) -> None:
    result = ask(open_ring_shop(models["two"]), ago_ms=60_000)
    assert weights_of(result) == "unseen"
    assert name(7) not in {product["product_id"] for product in result.products}


def test_an_engine_without_repeats_always_has_them(models: dict[str, LoadedSnapshot]) -> None:
    result = ask(open_ring_shop(models["never"]))
    assert weights_of(result) == "unseen"
    assert result.products[0]["product_id"] == name(8)


def test_similar_products_always_have_them(models: dict[str, LoadedSnapshot]) -> None:
    result = ask(open_ring_shop(models["two"]), "product_to_products", anchors=(name(3),))
    assert result.products
    assert weights_of(result) == "unseen"


@pytest.mark.parametrize("kind", ["user_to_products", "user_to_trending"])
def test_a_snapshot_with_a_single_set_serves_as_before(
    models: dict[str, LoadedSnapshot], kind: QueryKind
) -> None:
    shop = open_ring_shop(models["single"])
    whole, excluding = ask(shop, kind), ask(shop, kind, exclude=(name(6), name(7)))
    assert weights_of(whole) is None
    assert weights_of(excluding) is None
    assert parts_of(whole, name(9)) == parts_of(excluding, name(9))
    model = get_serving_model(shop)
    assert not model.has_unseen_weights
    priors = shop.default_engine_state.get_item_priors(NOW_MS)
    assert priors.prior_unseen is priors.prior


def test_the_manifest_has_the_second_set_only_if_there_is_one(models: dict[str, LoadedSnapshot]) -> None:
    stored = {
        key: [part.get("weight_unseen") for part in model.snapshot.manifest.facts["parts"]]
        for key, model in models.items()
    }
    assert stored["single"] == [None, None, None]
    assert stored["two"] == [1.0, 0.0, 0.05]
