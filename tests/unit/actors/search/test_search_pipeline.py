"""Searches over the corner shop: what is found, in which order, on which page, with which scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.recommender.messages import UserQuery
from actors.recommender.recommender import Recommender
from actors.serving import dispatch
from cluster.query.columnar.filter_evaluation import matches_filter
from cluster.query.language.parser import parse
from cluster.store.data.change_log import ChangeLogEntry
from deployments.api.wire.search import ManyProducts, SearchBody, to_mget_query, to_search_query
from tests.fakes.corner_shop import APP, NOW_MS, PRODUCTS, USER_IDS, open_shop, product_change, recents
from tests.fakes.search_queries import ids, search, search_result

STEADY = settings(
    derandomize=True, deadline=None, max_examples=40, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
BY_ID = {product["product_id"]: product for product in PRODUCTS}
CLAUSES = ["brand:Alder", "tags:steel", "price:[12 TO *]", "categories:Garden", "-tags:small", "*:*"]


@pytest.fixture
def small_shop() -> Recommender:
    return open_shop()


# --- one scorer ---------------------------------------------------------------------------------------


@STEADY
@given(
    user_id=st.sampled_from(USER_IDS), clause=st.sampled_from(CLAUSES),
    boost=st.sampled_from([None, "brand:Birk", "tags:steel"]), words=st.sampled_from(["*", "steel", "garden"]),
)  # fmt: skip
def test_a_product_has_the_score_it_has_on_recommendations(
    shop: Recommender, user_id: str, clause: str, boost: str | None, words: str
) -> None:
    result = search(
        shop, recents(user_id), q=words, user_id=user_id, fq=clause, boost_fq=boost, rows=50,
        dedupe_product_group_id=False,
    )  # fmt: skip
    request = UserQuery(
        kind="user_to_products", app_id=APP, engine_id="default", user_id=user_id, filter=parse(clause), rows=50,
        dedupe=False,
    )  # fmt: skip
    # nothing the reader did, so that nothing is left out
    scores = {
        product_record["product_id"]: product_record["_personalization_score"]
        for query in (
            request,
            replace(request, kind="user_to_trending"),
            replace(request, kind="user_to_history"),
        )
        for product_record in dispatch.answer(shop, query, recents(user_id), (), NOW_MS).products
    }
    for product in result.products:
        assert matches_filter(parse(clause), BY_ID[product["product_id"]])
        assert product["_boosted"] is (
            boost is not None and matches_filter(parse(boost), BY_ID[product["product_id"]])
        )
        if product["product_id"] in scores:
            assert product["_personalization_score"] == pytest.approx(scores[product["product_id"]], abs=2e-6)


def test_profile_changes_the_order_and_never_the_matches(shop: Recommender) -> None:
    carl = search(shop, recents("carl"), q="steel", user_id="carl", rows=50)
    gina = search(shop, recents("gina"), q="steel", user_id="gina", rows=50)
    assert sorted(ids(carl)) == sorted(ids(gina))
    assert ids(carl) != ids(gina)
    assert ids(carl).index("carving-knife") < ids(gina).index("carving-knife")


def test_without_weight_relevance_decides_whoever_asks(shop: Recommender) -> None:
    def scores_of(user_id: str) -> list[Any]:
        result = search(shop, recents(user_id), q="knife", user_id=user_id, rows=50, personalization_weight=0)
        return [product["_search_score"] for product in result.products]

    scores = scores_of("carl")
    assert scores == sorted(scores, reverse=True) == scores_of("gina")
    assert all(score > 0 for score in scores)


def test_without_weight_equals_stand_in_one_order_for_everybody(shop: Recommender) -> None:
    lists = {
        tuple(ids(search(shop, recents(user_id), q="*", user_id=user_id, rows=50, personalization_weight=0)))
        for user_id in (*USER_IDS, "nobody")
    }
    assert len(lists) == 1


def test_a_product_out_of_stock_matches_with_a_low_score(shop: Recommender) -> None:
    (teapot,) = search(shop, q="teapot").products
    assert teapot["product_id"] == "teapot"
    assert 0 <= teapot["_personalization_score"] < 0.5


# --- pages ---------------------------------------------------------------------------------------


@STEADY
@given(
    rows=st.integers(1, 5), dedupe=st.booleans(), words=st.sampled_from(["*", "steel", "trowel"]),
    more=st.sampled_from(
        [
            {}, {"boost_fq": "brand:Birk"}, {"boost_fq": "brand:Mori", "boost_positions": [2, 4]},
            {"order_by": [{"field": "price"}]}, {"diversification": {"brand": {"minimum_distance": 1}}},
            {"include": ["teapot"]},
            {"anchoring_settings": [{"product_id": "garden-almanac", "anchor_ids": ["hand-fork"]}]},
            {"enable_partial_match": True, "like": "bulbs"},
        ]
    ),
)  # fmt: skip
def test_pages_put_together_are_the_whole_list(
    shop: Recommender, rows: int, dedupe: bool, words: str, more: dict[str, Any]
) -> None:
    body = {"q": words, "dedupe_product_group_id": dedupe, **more}
    every = [product["product_id"] for product in PRODUCTS]
    whole = search(shop, **body, rows=100, query_product_existence={"product_ids": every})
    search_counts = search_result(whole)
    pages: list[str] = []
    for start in range(0, search_counts.total + rows, rows):
        page = search(shop, **body, rows=rows, start=start)
        pages += ids(page)
        assert search_result(page).total == search_counts.total
    assert pages == ids(whole)
    assert len(set(pages)) == len(pages) == search_counts.total
    assert {product_id for product_id, there in search_counts.existence.items() if there} == set(pages)


# --- freshness ---------------------------------------------------------------------------------------


def test_products_are_matched_counted_and_returned_as_stored_now(small_shop: Recommender) -> None:
    bucket = {"product_id": "bucket", "title": "Pewter bucket", "brand": "Zink", "price": 7}
    assert search_result(search(small_shop, q="pewter", facets=["brand"])).total == 0
    small_shop.apply(product_change([bucket], f"{NOW_MS + 1}-0"))
    result = search(small_shop, q="pewter", facets=["brand"], order_by=[{"field": "price"}])
    assert ids(result) == ["bucket"]
    assert search_result(result).facets == {"brand": [("Zink", 1)]}
    small_shop.apply(product_change([{**bucket, "title": "Tin bucket", "brand": "Tinn"}], f"{NOW_MS + 2}-0"))
    assert search_result(search(small_shop, q="pewter")).total == 0
    assert search_result(search(small_shop, q="tin", facets=["brand"])).facets == {"brand": [("Tinn", 1)]}
    small_shop.apply(ChangeLogEntry("product", f"{NOW_MS + 3}-0", "remove", b'["bucket"]'))
    assert search_result(search(small_shop, q="tin", facets=["brand"])).facets == {"brand": []}
    request = UserQuery(
        kind="mget", app_id=APP, engine_id="default", anchors=("bucket", "hand-fork"), fields=("*",)
    )
    gone, there = dispatch.answer(small_shop, request, [], (), NOW_MS + 4).products
    assert gone == {"_found": False, "product_id": "bucket"}
    assert there == {"_found": True, **BY_ID["hand-fork"]}


def test_an_empty_shop_finds_nothing() -> None:
    empty = open_shop()
    for at, product in enumerate(PRODUCTS):
        change = ChangeLogEntry(
            "product", f"{NOW_MS + 1}-{at}", "remove", f'["{product["product_id"]}"]'.encode()
        )
        empty.apply(change)
    for words in ("*", "steel"):
        result = search(
            empty, q=words, facets=["brand", "title"], order_by=[{"field": "price"}], include=["teapot"]
        )
        assert (result.products, search_result(result).total) == ([], 0)
        assert search_result(result).facets == {"brand": [], "title": []}


# --- variants ---------------------------------------------------------------------------------------


def test_one_variant_stands_for_its_product_and_the_filter_selects_it(shop: Recommender) -> None:
    assert search_result(search(shop, q="trowel")).total == 1
    for grip in ("green", "red"):
        assert ids(search(shop, q="trowel", fq=f"attributes.grip:{grip}")) == [f"trowel-{grip}"]
    both = search_result(search(shop, q="trowel", facets=["attributes.grip", "brand"])).facets
    assert both == {"attributes.grip": [("green", 1), ("red", 1)], "brand": [("Alder", 1)]}
    apart = search(shop, q="trowel", facets=["brand"], dedupe_product_group_id=False)
    assert search_result(apart).facets == {"brand": [("Alder", 2)]}


# --- words ---------------------------------------------------------------------------------------


def test_a_phrase_stands_together_in_some_text(small_shop: Recommender) -> None:
    small_shop.apply(
        product_change(
            [
                {"product_id": "a", "title": "Lamp", "html": "<p>A bright green lamp.</p>"},
                {"product_id": "b", "title": "Lamp", "description": "green and bright"},
            ],
            f"{NOW_MS + 1}-0",
        )
    )
    assert ids(search(small_shop, advanced_q='full_text:"bright green"')) == ["a"]
    assert sorted(ids(search(small_shop, advanced_q="full_text:(bright green)"))) == ["a", "b"]
    assert ids(search(small_shop, advanced_q='full_text:(lamp -"bright green")')) == ["b"]


def test_a_title_is_marked_as_html_whatever_stands_in_it(small_shop: Recommender) -> None:
    hostile = {"product_id": "x", "title": '<script>alert("steel")</script> & <mark>'}
    small_shop.apply(product_change([hostile], f"{NOW_MS + 1}-0"))
    (product,) = search(small_shop, q="steel alert", fl=["title"]).products
    assert product["title"] == hostile["title"]
    assert product["_title_with_markups"] == (
        "&lt;script&gt;<mark>alert</mark>(&quot;<mark>steel</mark>&quot;)&lt;/script&gt; &amp; &lt;mark&gt;"
    )
    (plain,) = search(small_shop, q="steel alert").products
    assert "_title_with_markups" not in plain


@pytest.mark.parametrize("q", ["brûlée", "bru\u0302le\u0301e", "İSTANBUL", "istanbul"])
def test_accents_that_are_separate_characters_belong_to_their_words(small_shop: Recommender, q: str) -> None:
    product = {"product_id": "x", "title": "bru\u0302le\u0301e İstanbul"}
    small_shop.apply(product_change([product], f"{NOW_MS + 1}-0"))
    answer = search(small_shop, q=q, fl=["title"])
    marked = product["title"].split()["stanbul" in q.lower()]
    assert f"<mark>{marked}</mark>" in answer.products[0]["_title_with_markups"]
    assert not search_result(answer).spelling.errors


def test_anchors_count_by_variant_and_stay_within_filters(shop: Recommender) -> None:
    settings = [{"product_id": "tulip-bulbs", "anchor_ids": ["trowel-red"], "relative_position": 1}]
    by_price = [{"field": "price", "order": "asc"}]
    result = search(shop, q="steel", rows=50, order_by=by_price, anchoring_settings=settings)
    listed = ids(result)
    at = next(place for place, product_id in enumerate(listed) if product_id.startswith("trowel"))
    assert listed[at + 1] == "tulip-bulbs"
    assert "tulip-bulbs" not in ids(
        search(shop, q="steel", fq="tags:steel", rows=50, anchoring_settings=settings)
    )
    assert "tulip-bulbs" not in ids(search(shop, q="knife", rows=50, anchoring_settings=settings))


def test_a_boost_under_an_order_marks_and_pins_but_raises_nothing(shop: Recommender) -> None:
    order = [{"field": "price", "order": "asc"}]
    plain = ids(search(shop, q="*", rows=50, order_by=order))
    raised = search(shop, q="*", rows=50, order_by=order, boost_fq="brand:Mori")
    assert ids(raised) == plain
    assert [product["product_id"] for product in raised.products if product["_boosted"]] == [
        "garden-almanac",
        "teapot",
    ]
    pinned = search(shop, q="*", rows=50, order_by=order, boost_fq="brand:Mori", boost_positions=[0])
    assert ids(pinned)[0] == "garden-almanac"


def test_what_a_caller_can_make_heavy_leaves_the_event_loop() -> None:
    shop = open_shop()
    plain = {"q": "steel", "rows": 20, "fl": ["title", "price"], "facets": ["brand", "price"]}

    def is_light(**more: Any) -> bool:
        body = SearchBody.model_validate({**plain, **more})
        return dispatch.is_light(shop, to_search_query(body, app_id=APP, user_id="", now_ms=NOW_MS))

    assert is_light()
    assert is_light(q="*")
    assert is_light(order_by=[{"field": "price"}])
    for heavy in (
        {"rows": 1_000},
        {"fl": ["title", *(f"custom_attributes.a{at}*" for at in range(60))]},
        {"advanced_q": 'full_text:"red trowel"'},
        {"like": "red trowel"},
        {"q": "steel " * 100},
        {"facets": ["brand"] * 6},
        {"facets": [{"field": "title", "include": ".*a.*"}]},
        {"query_product_existence": {"product_ids": list(map(str, range(100)))}},
    ):
        assert not is_light(**heavy), heavy

    def is_light_to_give(count: int, *fl: str) -> bool:
        body = ManyProducts(product_ids=list(map(str, range(count))), fl=list(fl))
        return dispatch.is_light(shop, to_mget_query(body, app_id=APP))

    assert is_light_to_give(100, "*")
    assert is_light_to_give(20, "title", "url", "price")
    assert not is_light_to_give(1_000, "*")
    assert not is_light_to_give(100, *map(str, range(10)))
