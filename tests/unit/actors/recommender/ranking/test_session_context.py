from __future__ import annotations

from typing import Any

import pytest

from actors.recommender.messages import UserQuery
from actors.recommender.recommender import Recommender
from actors.serving import dispatch
from tests.fakes.corner_shop import APP, NOW_MS, recents


def ids(
    shop: Recommender, user_id: str = "nora", *, kind: Any = "user_to_products", **context: Any
) -> list[str]:
    query = UserQuery(
        kind=kind,
        app_id=APP,
        engine_id="default",
        user_id=user_id,
        rows=50,
        context=context,
        anchors=("hand-fork",),
    )
    return [
        product["product_id"]
        for product in dispatch.answer(shop, query, recents(user_id), (), NOW_MS).products
    ]


def test_a_new_reader_leans_to_what_the_session_names(shop: Recommender) -> None:
    assert ids(shop)[0] == "watering-can"
    knives = ids(shop, brand="Birk")
    assert set(knives[:3]) == {"bread-knife", "carving-knife", "cutting-board"}
    assert sorted(knives) == sorted(ids(shop))


@pytest.mark.parametrize(
    "context",
    [
        {"categories": "Knives"},
        {"tags": ["oak", "steel"], "brand": ["Birk"]},
        {"product_id": "bread-knife"},
        {"categories": ["Kitchen", None, {"x": 1}], "channel": "app"},
    ],
)  # fmt: skip
def test_variables_may_be_any_keyword_field_and_the_best_matches_count(
    shop: Recommender, context: dict[str, Any]
) -> None:
    assert set(ids(shop, **context)[:3]) == {"bread-knife", "carving-knife", "cutting-board"}


def test_a_custom_attribute_is_named_by_its_path(shop: Recommender) -> None:
    assert ids(shop, **{"attributes.grip": "green"})[0] in ("trowel-green", "hand-fork", "trowel-red")
    assert ids(shop, grip="green") == ids(shop)


@pytest.mark.parametrize(
    "context",
    [{"session_id": "x", "page": 3, "flags": [], "nothing": None}, {"brand": "Nobody"}, {"brand": []},
     {"title": "knife"}, {"custom_attributes": "x"}, {"categories": "Tea"}],
)  # fmt: skip
def test_what_names_no_product_on_offer_changes_nothing(shop: Recommender, context: dict[str, Any]) -> None:
    assert ids(shop, **context) == ids(shop)


def test_a_history_weighs_more_than_the_session(shop: Recommender) -> None:
    assert ids(shop, "gina", brand="Birk")[0] == ids(shop, "gina")[0]
    assert ids(shop, "gina", brand="Birk").index("bread-knife") < ids(shop, "gina").index("bread-knife")


def test_what_the_session_names_is_not_taken_for_seen(shop: Recommender) -> None:
    assert "bread-knife" in ids(shop, product_id="bread-knife")
    assert ids(shop, kind="user_to_history", product_id="bread-knife") == []


def test_the_fallback_level_names_the_session_context(shop: Recommender) -> None:
    query = UserQuery(kind="user_to_products", app_id=APP, engine_id="default", context={"brand": "Birk"})
    assert dispatch.answer(shop, query, [], (), NOW_MS).served_by == "context"
