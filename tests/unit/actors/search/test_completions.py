"""Completions over the corner shop: what may be found, in which order, and what is shown of it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.recommender.messages import Boost, UserQuery
from actors.recommender.recommender import Recommender
from actors.serving import dispatch
from cluster.query.language.parser import parse
from cluster.store.data.change_log import ChangeLogEntry
from tests.fakes.corner_shop import (
    APP,
    DAY_MS,
    NOW_MS,
    PRODUCTS,
    interaction_change,
    open_shop,
    product_change,
    recents,
    view,
)


@pytest.fixture
def shop() -> Recommender:
    return open_shop()


def complete(
    shop: Recommender, typed: str, user_id: str = "", **query: Any
) -> dict[str, list[dict[str, Any]]]:
    query.setdefault("completion_fields", ("title",))
    request = UserQuery(
        kind="autocomplete",
        app_id=APP,
        engine_id="default",
        user_id=user_id,
        typed=typed,
        language="en",
        **query,
    )
    return dict(dispatch.answer(shop, request, recents(user_id), (), NOW_MS).completions)


def titles(shop: Recommender, typed: str, user_id: str = "", **query: Any) -> list[str]:
    return [entry["text"] for entry in complete(shop, typed, user_id, **query)["title"]]


def searched(who: str, keywords: str) -> dict[str, Any]:
    return {
        "type": "search",
        "user_id": who,
        "timestamp": "2025-11-20T10:00:00.000Z",
        "search": {"keywords": keywords},
    }


def test_titles_are_completed_with_their_products(shop: Recommender) -> None:
    product = next(product for product in PRODUCTS if product["product_id"] == "watering-can")
    (entry, *_) = complete(shop, product["title"][:5], fields=("brand",))["title"]
    assert entry["text"] == product["title"]
    assert entry["product"]["product_id"] == "watering-can"
    assert entry["product"]["_boosted"] is False
    assert entry["text_with_markups"] == f"{product['title'][:5]}<mark>{product['title'][5:]}</mark>"


def test_typos_are_forgiven(shop: Recommender) -> None:
    assert titles(shop, "watring")[0] == titles(shop, "watering")[0]
    assert titles(shop, "xatering")[0] == titles(shop, "watering")[0]


def test_what_is_out_of_stock_or_filtered_is_not_completed(shop: Recommender) -> None:
    teapot = next(product["title"] for product in PRODUCTS if product["product_id"] == "teapot")
    assert teapot not in titles(shop, teapot)
    can = titles(shop, "watering")[0]
    assert can not in titles(shop, "watering", filter=parse("-product_id:watering-can"))


def test_a_new_title_is_completed_at_once_and_a_changed_one_only_as_it_is_now(shop: Recommender) -> None:
    assert titles(shop, "pewt") == []
    shop.apply(product_change([{"product_id": "bucket", "title": "Pewter bucket"}], f"{NOW_MS + 1}-0"))
    assert titles(shop, "pewt") == ["Pewter bucket"]
    shop.apply(product_change([{"product_id": "bucket", "title": "Tin bucket"}], f"{NOW_MS + 2}-0"))
    assert titles(shop, "pewter b") == []
    assert titles(shop, "tin b") == ["Tin bucket"]
    shop.apply(ChangeLogEntry("product", f"{NOW_MS + 3}-0", "remove", b'["bucket"]'))
    assert titles(shop, "tin b") == []


def test_what_changes_while_the_index_is_built_again_is_not_lost(shop: Recommender) -> None:
    titles(shop, "a")
    many = [{"product_id": f"n{at}", "title": f"Novelty {at:04}"} for at in range(1_500)]
    shop.apply(product_change(many, f"{NOW_MS + 1}-0"))
    work = shop.plan_completion_rebuild(NOW_MS)
    assert work is not None
    field, build = work
    shop.apply(product_change([{"product_id": "n7", "title": "Curiosity"}], f"{NOW_MS + 2}-0"))
    assert "Novelty 0007" not in titles(shop, "novelty 0007")
    field.adopt(build())
    assert shop.plan_completion_rebuild(NOW_MS) is None
    assert titles(shop, "novelty 1499") == ["Novelty 1499"]
    assert "Novelty 0007" not in titles(shop, "novelty 0007")
    assert titles(shop, "curio") == ["Curiosity"]


def test_a_rebuilt_index_completes_in_the_order_of_the_first_one(shop: Recommender) -> None:
    many = [{"product_id": f"n{at}", "title": f"Novelty {at:04}"} for at in range(1_500)]
    many += [{"product_id": "stand", "title": "Zither stand"}, {"product_id": "oak", "title": "Oak zither"}]
    # A twentieth of the best seller lifts a text by more than the place of the match costs, counted by logarithm.
    reads = [view(f"reader-{at}", "n0") for at in range(200)] + [
        view(f"reader-{at}", "oak") for at in range(10)
    ]
    later = open_shop()
    titles(later, "a")
    for recommender in (shop, later):
        recommender.apply(product_change(many, f"{NOW_MS + 1}-0"))
        recommender.apply(interaction_change(reads, f"{NOW_MS + 2}-0"))
    work = later.plan_completion_rebuild(NOW_MS)
    assert work is not None
    field, build = work
    field.adopt(build())
    assert titles(later, "zither") == titles(shop, "zither") == ["Oak zither", "Zither stand"]


def test_boosts_and_profile_change_the_order_and_never_the_matches(shop: Recommender) -> None:
    plain = titles(shop, "", rows=12)
    last = plain[-1]
    product = next(product for product in PRODUCTS if product["title"] == last)
    boosted = titles(shop, "", rows=12, boosts=(Boost(parse(f'product_id:"{product["product_id"]}"')),))
    assert boosted[0] == last
    assert sorted(boosted) == sorted(plain)
    assert sorted(titles(shop, "", "carl", rows=12)) == sorted(plain)
    assert titles(shop, "", "carl", rows=12) != titles(shop, "", "gina", rows=12)


def test_attributes_and_brands_are_completed_without_a_product(shop: Recommender) -> None:
    brand = next(product["brand"] for product in PRODUCTS if product.get("brand"))
    completions = complete(shop, brand[:3], completion_fields=("brand", "custom_attributes.nothing"))
    assert completions["brand"][0]["text"] == brand
    assert "product" not in completions["brand"][0]
    assert completions["custom_attributes.nothing"] == []


def test_all_values_of_one_product_are_completed(shop: Recommender) -> None:
    product = {"product_id": "pot", "title": "Pot", "tags": ["terracotta", "terrace", "territory"]}
    shop.apply(product_change([product], f"{NOW_MS + 1}-0"))
    for boosts in ((), (Boost(parse('product_id:"pot"')),)):
        tags = complete(shop, "terr", completion_fields=("tags",), boosts=boosts)["tags"]
        assert {entry["text"] for entry in tags} == {"terracotta", "terrace", "territory"}


def test_a_translation_is_completed_in_its_language(shop: Recommender) -> None:
    product = {
        "product_id": "kanne",
        "title": "Copper jug",
        "language": "en",
        "i18n_de": {"title": "Kupferkanne"},
    }
    shop.apply(product_change([product], f"{NOW_MS + 1}-0"))
    request = UserQuery(
        kind="autocomplete", app_id=APP, engine_id="default", typed="kupfer", completion_fields=("title",),
        language="de", only_language=True,
    )  # fmt: skip
    assert [
        entry["text"] for entry in dispatch.answer(shop, request, (), (), NOW_MS).completions["title"]
    ] == ["Kupferkanne"]
    assert titles(shop, "kupfer") == []


def test_queries_are_suggested_once_enough_readers_made_them(shop: Recommender) -> None:
    calls = [searched(f"r{at}", "Tulip bulbs") for at in range(5)] + [searched("r1", "secret plan")]
    shop.apply(interaction_change(calls, f"{NOW_MS + 1}-0"))
    fields = ("historical_queries",)
    (entry,) = complete(shop, "tul", completion_fields=fields)["historical_queries"]
    assert entry == {
        "text": "Tulip bulbs",
        "text_with_markups": "Tul<mark>ip bulbs</mark>",
        "text_with_inverted_markups": "<mark>Tul</mark>ip bulbs",
    }
    assert complete(shop, "sec", completion_fields=fields)["historical_queries"] == []
    assert complete(shop, "sec", completion_fields=fields, min_users=1)["historical_queries"] != []
    shop.apply(ChangeLogEntry("interaction", f"{NOW_MS + 2}-0", "remove", b'["u:r3"]'))
    assert complete(shop, "tul", completion_fields=fields)["historical_queries"] == []


def test_old_queries_are_forgotten(shop: Recommender) -> None:
    shop.apply(
        interaction_change([searched(f"r{at}", "old news") for at in range(9)], f"{NOW_MS - 40 * DAY_MS}-0")
    )
    assert complete(shop, "old", completion_fields=("historical_queries",))["historical_queries"] == []
