"""Explanations: of what is there, of what is missing, and that nobody notices when nobody asks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from actors.recommender.messages import (
    Boost,
    Circle,
    DiversityRule,
    QueryKind,
    RecommendationResult,
    UserQuery,
)
from actors.recommender.ranking.score import normalize_scores
from actors.recommender.recommender import Recommender
from actors.serving import dispatch
from cluster.query.language.parser import parse
from cluster.store.data.change_log import ChangeLogEntry
from tests.fakes.corner_shop import APP, NOW_MS, PRODUCTS, open_shop, product_change, recents, view

LATER = f"{NOW_MS + 1}-0"
EVERY = tuple(product["product_id"] for product in PRODUCTS)
KINDS: tuple[QueryKind, ...] = (
    "user_to_products",
    "user_to_trending",
    "user_to_categories",
    "user_to_attributes",
    "user_to_history",
    "product_to_products",
)


def build_query(kind: QueryKind = "user_to_products", user_id: str = "gina", **more: Any) -> UserQuery:
    return UserQuery(
        **{
            "kind": kind, "app_id": APP, "engine_id": "default", "user_id": user_id, "rows": 3, "group_rows": 2,
            "field_name": "brand", "anchors": ("hand-fork",), **more,
        }
    )  # fmt: skip


def answer(shop: Recommender, query: UserQuery, *, shown: Any = ()) -> RecommendationResult:
    return dispatch.answer(shop, query, recents(query.user_id), shown, NOW_MS)


def records(result: RecommendationResult) -> list[dict[str, Any]]:
    return result.products + [record for group in result.groups for record in group.products]


def reasons(shop: Recommender, product_id: str, query: UserQuery, **more: Any) -> list[dict[str, Any]]:
    result = answer(shop, replace(query, explain=True, explain_missing=(product_id,)), **more)
    assert result.explanation is not None
    (missing,) = result.explanation["missing"]
    assert missing["product_id"] == product_id
    reason: list[dict[str, Any]] = missing["reasons"]
    return reason


def why(shop: Recommender, product_id: str, query: UserQuery, **more: Any) -> list[str]:
    return [reason["reason"] for reason in reasons(shop, product_id, query, **more)]


# --- of what is there -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("user_id", ["gina", "carl", "nora"])
def test_the_parts_of_a_score_add_up_to_the_score_that_is_shown(
    shop: Recommender, kind: QueryKind, user_id: str
) -> None:
    listed = records(answer(shop, build_query(kind, user_id, rows=50, group_rows=50, explain=True)))
    assert listed or kind == "user_to_history"
    for record in listed:
        reason = record["_explain"]
        assert sum(reason["score_parts"].values()) == pytest.approx(reason["score"])
        assert normalize_scores([reason["score"]]) == pytest.approx(
            [record["_personalization_score"]], abs=1e-4
        )


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_is_the_same_whether_it_is_explained_or_not(shop: Recommender, kind: QueryKind) -> None:
    query = build_query(
        kind,
        boosts=(Boost(parse("brand:Birk"), (1,), "b"),),
        spacing=(DiversityRule("brand"),),
        dithering=3.0,
    )
    plain = answer(shop, query)
    for more in ({"explain": True}, {"explain": True, "explain_missing": EVERY}):
        result = answer(shop, replace(query, **more))
        assert result.explanation is not None
        for record in records(result):
            del record["_explain"]
        assert replace(result, explanation=None) == plain
    assert plain.explanation is None
    orjson.dumps(answer(shop, replace(query, explain=True, explain_missing=EVERY)).explanation)


def test_places_ranks_and_moves_report_every_step(shop: Recommender) -> None:
    plain = [record["product_id"] for record in answer(shop, build_query(rows=50)).products]
    rule = Boost(parse("product_id:garden-almanac"), (0,), "books", label="boost_fq")
    products = answer(shop, build_query(rows=50, explain=True, boosts=(rule,))).products
    rank = plain.index("garden-almanac")
    reason = {record["product_id"]: record["_explain"] for record in products}
    assert reason["garden-almanac"]["moves"] == [{"by": "boost_fq", "from": rank, "to": 0}]
    assert (reason["garden-almanac"]["rank"], reason["garden-almanac"]["place"]) == (rank, 0)
    assert reason[plain[0]]["moves"] == [{"by": "made way for others", "from": 0, "to": 1}]
    assert [record["_explain"]["place"] for record in products] == list(range(len(products)))


def test_dithering_and_diversification_are_named(shop: Recommender) -> None:
    query = build_query(rows=50, explain=True, dithering=9.0, spacing=(DiversityRule("brand", 2),))
    products = answer(shop, query).products
    names = {move["by"] for record in products for move in record["_explain"]["moves"]}
    assert names == {"dithering", "diversification"}
    for record in products:
        moves = record["_explain"]["moves"]
        place = record["_explain"]["rank"]
        for move in moves:
            assert move["from"] == place
            place = move["to"]
        assert place == record["_explain"]["place"]


def test_pages_count_places_from_the_start_of_the_list(shop: Recommender) -> None:
    whole = [record["product_id"] for record in answer(shop, build_query(rows=50)).products]
    by_start = answer(shop, build_query(start=2, explain=True)).products
    assert [record["_explain"]["place"] for record in by_start] == [2, 3, 4]
    by_id = answer(shop, build_query(pagination_id="s", explain=True), shown=whole[:2]).products
    assert [record["_explain"]["place"] for record in by_id] == [2, 3, 4]
    assert [record["_explain"]["rank"] for record in by_id] == [2, 3, 4]


def test_the_strongest_parts_name_where_a_product_came_from(shop: Recommender) -> None:
    first = answer(shop, build_query(explain=True)).products[0]["_explain"]
    assert first["came_from"]
    assert max(first["score_parts"], key=first["score_parts"].__getitem__) == first["came_from"][0]


def test_the_rules_of_an_answer_are_listed(shop: Recommender) -> None:
    result = answer(
        shop,
        build_query(
            explain=True,
            boosts=(
                Boost(parse("brand:Birk"), (2,), "b", label="boost_fq"),
                Boost(parse("tags:oak"), bury=True),
            ),
            removed=(Boost(parse("price:[30 TO *]"), name="dear", label="stored rule dear"),),
        ),
    )
    assert result.explanation is not None
    assert result.explanation["rules"] == [
        {"rule": "boost_fq", "name": "b", "does": "raise brand:Birk at 2"},
        {"rule": "", "name": "", "does": "bury tags:oak"},
        {"rule": "stored rule dear", "name": "dear", "does": 'remove price:["30" TO *]'},
    ]


# --- of what is missing -----------------------------------------------------------------------------------------------


def test_each_thing_that_keeps_a_product_out_is_named(shop: Recommender) -> None:
    assert why(shop, "nobody", build_query()) == ["unknown"]
    assert why(shop, "teapot", build_query()) == ["out_of_stock"]
    assert why(shop, "draw-hoe", build_query(exclude=("draw-hoe",))) == ["excluded"]
    assert why(shop, "crocus-bulbs", build_query()) == ["returned"]
    assert reasons(shop, "hand-fork", build_query()) == [
        {"reason": "seen", "told": "the user dealt with it lately"}
    ]
    assert reasons(shop, "trowel-red", build_query())[0]["as"] == "trowel-green"
    assert why(shop, "trowel-red", build_query(dedupe=False, rows=50)) == ["returned"]
    assert reasons(shop, "bread-knife", build_query(type="tool")) == [
        {"reason": "filtered", "by": "type", "clause": "tool"}
    ]
    assert why(shop, "draw-hoe", build_query(pagination_id="s"), shown=("draw-hoe",))[0] == "shown_before"


def test_every_clause_that_does_not_hold_is_named(shop: Recommender) -> None:
    query = build_query(filter=parse('brand:Birk AND price:[* TO 30] AND (tags:oak OR tags:"fine zinc")'))
    assert [reason["clause"] for reason in reasons(shop, "carving-knife", query)] == [
        'price:[* TO "30"]',
        'tags:oak OR tags:"fine zinc"',
    ]
    assert reasons(shop, "draw-hoe", build_query(filter=parse("-tags:steel"))) == [
        {"reason": "filtered", "by": "fq", "clause": "NOT tags:steel"}
    ]
    near = build_query(circles=(Circle(53.8, -1.55, 5), Circle(48.86, 2.35, 5)), user_id="nora")
    assert [reason["by"] for reason in reasons(shop, "draw-hoe", near)] == ["geo.filter[0]", "geo.filter[1]"]
    removed = build_query(removed=(Boost(parse("brand:Fernhill"), label="stored rule x"),))
    assert reasons(shop, "draw-hoe", removed) == [
        {"reason": "filtered", "by": "stored rule x", "clause": "brand:Fernhill"}
    ]


def test_all_reasons_are_listed_at_once(shop: Recommender) -> None:
    query = build_query(type="tool", filter=parse("brand:Alder"), exclude=("teapot",))
    assert why(shop, "teapot", query) == ["out_of_stock", "filtered", "filtered", "excluded"]


@pytest.mark.parametrize("kind", ["user_to_products", "user_to_trending", "product_to_products"])
def test_below_the_cut_tells_rank_and_score(shop: Recommender, kind: QueryKind) -> None:
    whole = answer(shop, build_query(kind, "nora", rows=50, explain=True)).products
    last = whole[-1]
    (reason,) = reasons(shop, last["product_id"], build_query(kind, "nora"))
    assert (reason["reason"], reason["rank"]) == ("below_the_cut", len(whole) - 1)
    assert reason["score"] == pytest.approx(last["_explain"]["score"])


def test_variants_name_the_one_that_stands_for_them(shop: Recommender) -> None:
    whole = [record["product_id"] for record in answer(shop, build_query(user_id="nora", rows=50)).products]
    shown = next(product_id for product_id in whole if product_id.startswith("trowel"))
    other = "trowel-red" if shown == "trowel-green" else "trowel-green"
    (reason,) = reasons(shop, other, build_query(user_id="nora"))
    assert reason == {"reason": "same_group", "as": shown, "rank": whole.index(shown)}


def test_anchors_and_their_variants_say_so(shop: Recommender) -> None:
    query = build_query("product_to_products", anchors=("trowel-red",))
    assert reasons(shop, "trowel-red", query)[0] == {"reason": "anchor", "told": "it is an anchor"}
    assert reasons(shop, "trowel-green", query)[0] == {
        "reason": "anchor",
        "told": "it is a variant of an anchor",
    }


@pytest.mark.parametrize("kind", ["user_to_categories", "user_to_attributes"])
def test_explanations_of_groups_know_no_pages(shop: Recommender, kind: QueryKind) -> None:
    query = build_query(kind, rows=9, group_rows=5, explain=True)
    mixed = replace(query, spacing=(DiversityRule("product_id", always_together=True),), pagination_id="p")
    whole = records(answer(shop, mixed))
    later = records(answer(shop, replace(mixed, start=7), shown=EVERY))
    assert whole == later
    assert later[0]["_explain"]["place"] == 0


def test_groups_and_histories_have_specific_reasons(shop: Recommender) -> None:
    categories = build_query("user_to_categories", rows=1, group_rows=1)
    assert why(shop, "garden-almanac", categories) == ["no_candidate"]
    garden = answer(shop, replace(categories, group_rows=50)).groups[0]
    last = garden.products[-1]["product_id"]
    reason = reasons(shop, last, categories)[-1]
    assert (reason["reason"], reason["group"], reason["rank"]) == (
        "below_the_cut", garden.value, len(garden.products) - 1,
    )  # fmt: skip
    assert why(shop, last, replace(categories, group_rows=0))[-1] == "below_the_cut"
    assert "seen" in why(shop, "hand-fork", categories)
    assert why(shop, "bread-knife", build_query("user_to_history")) == ["no_candidate"]


def test_deleted_and_too_new_products_have_a_reason() -> None:
    shop = open_shop(refresh_ms=10_000)
    assert why(shop, "draw-hoe", build_query(rows=50)) == ["returned"]
    shop.apply(ChangeLogEntry("product", LATER, "remove", orjson.dumps(["draw-hoe"])))
    shop.apply(product_change([{**PRODUCTS[2], "product_id": "spade"}], f"{NOW_MS + 2}-0"))
    assert why(shop, "draw-hoe", build_query()) == ["unknown"]
    assert why(shop, "spade", build_query()) == ["too_new"]


def test_a_product_somebody_clicked_before_it_was_uploaded_is_unknown(shop: Recommender) -> None:
    from tests.fakes.corner_shop import interaction_change

    shop.apply(interaction_change([view("gina", "not-yet")], f"{NOW_MS + 5}-0"))
    assert why(shop, "not-yet", build_query()) == ["unknown"]
