from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
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
from actors.recommender.recommender import Recommender
from actors.serving import dispatch
from cluster.query.language.parser import parse
from cluster.records.interaction import RecentEvent
from cluster.store.data.change_log import ChangeLogEntry
from tests.fakes.corner_shop import (
    APP,
    DAY_MS,
    NOW_MS,
    PRODUCTS,
    interaction_change,
    open_catalog,
    open_shop,
    product_change,
    recent_events,
    recents,
    view,
)
from tests.fakes.search_queries import ids

LATER = f"{NOW_MS + 1}-0"
IN_STOCK = {product["product_id"] for product in PRODUCTS} - {"teapot"}
LISTS: tuple[QueryKind, ...] = ("user_to_products", "user_to_trending", "product_to_products")


@pytest.fixture
def shop() -> Recommender:
    return open_shop()


def ask(
    shop: Recommender,
    kind: QueryKind = "user_to_products",
    user_id: str = "",
    *,
    shown: Any = (),
    recent: Sequence[RecentEvent] | None = None,
    later_ms: int = 0,
    **query: Any,
) -> RecommendationResult:
    if kind == "product_to_products":
        query.setdefault("anchors", ("hand-fork",))
    request = UserQuery(kind=kind, app_id=APP, engine_id="default", user_id=user_id, **query)
    events = recent_events(user_id) if recent is None else recent
    return dispatch.answer(shop, request, [event.pack() for event in events], shown, NOW_MS + later_ms)


# --- who gets what ----------------------------------------------------------------------------------------------


def test_a_gardener_is_shown_garden_things_and_a_cook_knives(shop: Recommender) -> None:
    assert ids(ask(shop, user_id="gina"))[0] == "crocus-bulbs"
    assert ids(ask(shop, user_id="carl"))[0] == "carving-knife"


def test_a_new_reader_gets_what_trends(shop: Recommender) -> None:
    result = ask(shop, user_id="nora", rows=50)
    assert ids(result)[0] == "watering-can"
    assert result.served_by == "trending"
    assert ask(shop, user_id="gina").served_by == "personal"


def test_without_interactions_the_newest_products_lead() -> None:
    empty = open_catalog(PRODUCTS, "1-0")
    result = ask(empty, rows=2)
    assert ids(result) == ["garden-almanac", "cutting-board"]
    assert result.served_by == "newest"
    assert ids(ask(empty, "user_to_trending", rows=1)) == ["garden-almanac"]


def test_the_trend_is_what_many_do_now_not_what_sold_long_ago(shop: Recommender) -> None:
    result = ids(ask(shop, "user_to_trending", rows=50))
    assert result[0] == "watering-can"
    shop.apply(product_change([{**PRODUCTS[10], "availability": "IN_STOCK"}], LATER))
    assert ids(ask(shop, "user_to_trending", rows=50)).index("teapot") > 4


def test_a_click_of_a_second_ago_changes_the_next_answer(shop: Recommender) -> None:
    before = ids(ask(shop, anonymous_id="x", rows=3))
    click = RecentEvent("click", ("carving-knife",), NOW_MS)
    after = ids(ask(shop, anonymous_id="x", rows=3, recent=[click], later_ms=1000))
    assert before[0] == "watering-can"
    assert after[0] == "bread-knife"


def test_simulated_interactions_count_like_real_ones(shop: Recommender) -> None:
    click = RecentEvent("click", ("carving-knife",), NOW_MS)
    result = ask(shop, simulated=(click,), rows=20)
    assert ids(result)[0] == "bread-knife"
    assert "carving-knife" not in ids(result)
    assert ids(ask(shop, rows=20))[0] == "watering-can"


def test_the_trend_is_the_same_with_and_without_the_shortcut(shop: Recommender) -> None:
    shop.apply(
        product_change([{"product_id": f"x{n}", "product_group_id": f"g{n // 2}"} for n in range(600)], LATER)
    )
    shop.apply(
        interaction_change(
            [view(f"r{r}", f"x{n}", kind="checkout") for r in range(30) for n in range(0, 600, r + 1)],
            f"{NOW_MS + 1}-0",
        )
    )
    for more in (
        {},
        {"dedupe": False},
        {"exclude": ("x0", "x2")},
        {"start": 30},
        {"rows": 200},
        {"rows": 600},
    ):
        short = ids(ask(shop, "user_to_trending", "gina", **{"rows": 10, **more}))
        long = ids(ask(shop, "user_to_trending", "gina", **{"rows": 10, **more}, filter=parse("*:*")))
        assert short == long, more


def test_many_readers_of_one_product_make_it_trend_at_once(shop: Recommender) -> None:
    checkouts = [view(f"reader-{n}", "draw-hoe", kind="checkout") for n in range(9)]
    shop.apply(interaction_change(checkouts, f"{NOW_MS}-5"))
    assert ids(ask(shop, "user_to_trending"))[0] == "draw-hoe"


def test_a_product_uploaded_a_moment_ago_is_recommended_by_its_content(shop: Recommender) -> None:
    spade = {**PRODUCTS[2], "product_id": "hand-spade", "title": "Steel hand spade"}
    shop.apply(product_change([spade], LATER))
    assert "hand-spade" in ids(ask(shop, user_id="gina"))


def test_the_score_of_a_product_is_the_same_on_every_endpoint(shop: Recommender) -> None:
    def scores(result: RecommendationResult) -> dict[str, float]:
        records = result.products + [record for group in result.groups for record in group.products]
        return {record["product_id"]: record["_personalization_score"] for record in records}

    reference = scores(ask(shop, user_id="gina", rows=50))
    for kind, more in (
        ("user_to_trending", {}),
        ("product_to_products", {"anchors": ("bread-knife",)}),
        ("user_to_categories", {"group_rows": 50}),
        ("user_to_attributes", {"field_name": "brand", "group_rows": 50}),
    ):
        result = scores(ask(shop, kind, "gina", rows=50, **more))  # type: ignore[arg-type]
        shared = result.keys() & reference.keys()
        assert len(shared) > 3
        for product_id in shared:
            assert result[product_id] == pytest.approx(reference[product_id], abs=1e-5), (kind, product_id)
    assert all(0 <= score <= 1 for score in reference.values())
    ranked = [reference[product_id] for product_id in ids(ask(shop, user_id="gina", rows=50))]
    assert ranked == sorted(ranked, reverse=True)


# --- who may appear -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*LISTS, "user_to_history"])
@pytest.mark.parametrize("user_id", ["gina", "otto", "nora"])
def test_out_of_stock_and_removed_products_are_never_returned(
    shop: Recommender, kind: QueryKind, user_id: str
) -> None:
    shop.apply(ChangeLogEntry("product", LATER, "remove", orjson.dumps(["crocus-bulbs", "watering-can"])))
    result = set(ids(ask(shop, kind, user_id, rows=50)))
    assert not result & {"teapot", "crocus-bulbs", "watering-can"}


def test_removed_products_do_not_show_before_the_item_priors_refresh() -> None:
    shop = open_shop(refresh_ms=10_000)
    assert ids(ask(shop, user_id="nora", rows=3))[0] == "watering-can"
    shop.apply(ChangeLogEntry("product", LATER, "remove", orjson.dumps(["watering-can"])))
    for kind in LISTS:
        result = ids(ask(shop, kind, "nora", rows=3))
        assert "watering-can" not in result
        assert len(result) == 3


def test_products_newer_than_the_item_priors_break_nothing() -> None:
    shop = open_shop(refresh_ms=10_000)
    ask(shop, user_id="gina")
    new = [{"product_id": f"n{n}", "categories": [["New"]], "brand": "New"} for n in range(100)]
    shop.apply(product_change(new, LATER))
    shop.apply(interaction_change([view("gina", "n99")], f"{NOW_MS}-7"))
    late = [RecentEvent("click", ("n99", "n5"), NOW_MS).pack()]
    for kind in ("user_to_categories", "user_to_attributes", "user_to_history", *LISTS):
        query = UserQuery(
            kind=kind, app_id=APP, engine_id="default", user_id="gina", rows=200, group_rows=3, field_name="brand",
            filter=parse("*:*"), anchors=("n99",), exclude=("n98",),
        )  # fmt: skip
        dispatch.answer(shop, query, late, ("n97",), NOW_MS)
    shown = dispatch.answer(shop, replace(query, kind="user_to_products"), late, (), NOW_MS + 10_001)
    assert "n97" in ids(shown)


@pytest.mark.parametrize("kind", ["user_to_products", "user_to_trending"])
def test_what_the_reader_dealt_with_lately_is_left_out(shop: Recommender, kind: QueryKind) -> None:
    result = set(ids(ask(shop, kind, "gina", rows=50)))
    assert not result & {"tulip-bulbs", "watering-can", "hand-fork", "trowel-green", "trowel-red"}
    assert "trowel-red" in ids(ask(shop, kind, "gina", rows=50, dedupe=False))


def test_only_the_fifty_most_recent_products_are_left_out(shop: Recommender) -> None:
    shop.apply(product_change([{"product_id": f"x{n}"} for n in range(60)], LATER))
    events = [RecentEvent("click", (f"x{n}",), NOW_MS - n) for n in range(60)]
    result = ids(ask(shop, user_id="z", rows=100, recent=events))
    assert {f"x{n}" for n in range(50, 60)} <= set(result)
    assert not {f"x{n}" for n in range(50)} & set(result)


def test_impressions_do_not_leave_a_product_out(shop: Recommender) -> None:
    seen = [RecentEvent("impression", ("draw-hoe",), NOW_MS)]
    assert "draw-hoe" in ids(ask(shop, user_id="z", rows=50, recent=seen))


@pytest.mark.parametrize("kind", ["user_to_products", "user_to_trending"])
def test_who_has_seen_everything_is_shown_it_again_rather_than_nothing(
    shop: Recommender, kind: QueryKind
) -> None:
    events = [RecentEvent("click", tuple(IN_STOCK), NOW_MS)]
    result = ask(shop, kind, "z", rows=50, recent=events)
    assert result.served_by == "seen_again"
    assert len(ids(result)) == 10
    narrowed: dict[str, Any] = {"filter": parse("brand:Birk"), "exclude": ("bread-knife",)}
    filtered = ask(shop, kind, "z", rows=50, recent=events, **narrowed)
    assert set(ids(filtered)) == {"carving-knife", "cutting-board"}


@pytest.mark.parametrize("kind", LISTS)
def test_excluded_products_never_return(shop: Recommender, kind: QueryKind) -> None:
    result = ids(ask(shop, kind, "nora", rows=50, exclude=("watering-can", "draw-hoe", "never-there")))
    assert result
    assert not {"watering-can", "draw-hoe"} & set(result)


@pytest.mark.parametrize("kind", LISTS)
def test_filters_types_and_circles_hold_for_every_product(shop: Recommender, kind: QueryKind) -> None:
    assert set(ids(ask(shop, kind, "nora", rows=50, filter=parse("brand:Birk AND price:[25 TO *]")))) == {
        "bread-knife",
        "carving-knife",
    }
    assert ids(ask(shop, kind, "nora", rows=50, type="book")) == ["garden-almanac"]
    assert ids(ask(shop, kind, "nora", rows=50, type="hotel")) == []
    paris = Circle(48.86, 2.35, 5)
    assert set(ids(ask(shop, kind, "nora", rows=50, circles=(paris,)))) == {"bread-knife", "cutting-board"}
    assert ids(ask(shop, kind, "nora", rows=50, circles=(paris, Circle(53.8, -1.55, 5)))) == []
    assert ids(ask(shop, kind, "nora", rows=50, circles=(paris,), filter=parse("price:[25 TO *]"))) == [
        "bread-knife"
    ]


def test_a_filter_does_not_change_the_order(shop: Recommender) -> None:
    whole = ids(ask(shop, user_id="gina", rows=50))
    some = ids(ask(shop, user_id="gina", rows=50, filter=parse("tags:steel")))
    assert some == [product_id for product_id in whole if product_id in some]
    assert len(some) >= 2


@pytest.mark.parametrize("kind", LISTS)
def test_one_variant_of_a_product_unless_dedupe_is_off(shop: Recommender, kind: QueryKind) -> None:
    trowels = {"trowel-green", "trowel-red"}
    assert len(trowels & set(ids(ask(shop, kind, "nora", rows=50)))) == 1
    assert trowels <= set(ids(ask(shop, kind, "nora", rows=50, dedupe=False)))


def test_the_variant_is_the_one_most_likely_of_interest(shop: Recommender) -> None:
    red = [
        {"product_id": f"red-{n}", "title": "Red grip red red", "custom_attributes": {"grip": "red"}}
        for n in (1, 2)
    ]
    shop.apply(product_change(red, LATER))
    events = [RecentEvent("add_to_cart", ("red-1", "red-2"), NOW_MS)]
    result = ids(ask(shop, user_id="z", rows=50, recent=events))
    assert "trowel-red" in result
    assert "trowel-green" not in result


# --- the form of the list --------------------------------------------------------------------------------------------


def test_rows_zero_and_rows_beyond_the_catalog(shop: Recommender) -> None:
    assert ids(ask(shop, rows=0)) == []
    assert set(ids(ask(shop, rows=1000, dedupe=False))) == IN_STOCK


@pytest.mark.parametrize("kind", LISTS)
def test_start_is_a_plain_offset_without_a_session(shop: Recommender, kind: QueryKind) -> None:
    whole = ids(ask(shop, kind, "nora", rows=50))
    assert ids(ask(shop, kind, "nora", rows=3, start=2)) == whole[2:5]
    assert ids(ask(shop, kind, "nora", rows=3, start=500)) == []


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"boosts": (Boost(parse("brand:Alder"), name="own"),)},
        {"boosts": (Boost(parse("brand:Alder"), (0, 7, 61)),)},
        {"spacing": (DiversityRule("brand", 2),)},
        {"spacing": (DiversityRule("brand", always_together=True),)},
    ],
    ids=["nothing", "boost", "places", "spacing", "together"],
)
def test_plain_pages_are_pieces_of_one_list(shop: Recommender, kind: QueryKind, more: dict[str, Any]) -> None:
    brands = ("Alder", "Birk", "Mori", "Fernhill", "Quist")
    shop.apply(
        product_change(
            [
                {"product_id": f"x{n}", "title": f"Tool {n % 7} {n % 11}", "brand": brands[n * n % 5]}
                for n in range(900)
            ],
            LATER,
        )
    )
    votes = [view(f"r{r}", f"x{n}") for r in range(20) for n in range(r, 900, r + 1)]
    shop.apply(interaction_change(votes, f"{NOW_MS + 1}-0"))
    whole = ids(ask(shop, kind, "gina", rows=300, **more))
    pages = [ids(ask(shop, kind, "gina", rows=30, start=start, **more)) for start in range(0, 300, 30)]
    assert [product_id for page in pages for product_id in page] == whole
    assert len(set(whole)) == 300


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("dithering", [1.0, 4.0])
def test_pages_of_a_session_never_repeat_and_cover_everything(
    shop: Recommender, kind: QueryKind, dithering: float
) -> None:
    whole = ids(ask(shop, kind, "nora", rows=50, pagination_id="s", dithering=dithering))
    shown: list[str] = []
    for start in range(0, 50, 3):
        page = ids(
            ask(shop, kind, "nora", rows=3, start=start, shown=shown, pagination_id="s", dithering=dithering)
        )
        assert not set(page) & set(shown)
        shown += page
    assert shown == whole


def test_a_session_goes_on_even_without_start(shop: Recommender) -> None:
    first = ids(ask(shop, user_id="nora", rows=3, pagination_id="s"))
    second = ids(ask(shop, user_id="nora", rows=3, pagination_id="s", shown=first))
    assert not set(first) & set(second)
    assert len(second) == 3


def test_an_ended_session_stays_ended(shop: Recommender) -> None:
    everything = ids(ask(shop, user_id="gina", rows=50))
    assert (
        ids(ask(shop, user_id="gina", rows=5, pagination_id="s", shown=everything, start=len(everything)))
        == []
    )


def test_dithering_shuffles_per_reader_and_day_and_keeps_the_products(shop: Recommender) -> None:
    query = UserQuery(kind="user_to_products", app_id=APP, engine_id="default", rows=50, dithering=5.0)
    requests = [replace(query, anonymous_id=f"visitor {n}") for n in range(8)]
    lists = [ids(dispatch.answer(shop, request, [], (), NOW_MS)) for request in requests]
    assert len({tuple(result) for result in lists}) > 4
    assert len({frozenset(result) for result in lists}) == 1
    whole = lists[0]
    pages = [
        ids(dispatch.answer(shop, replace(requests[0], start=at, rows=3), [], (), NOW_MS + at))
        for at in (0, 3, 6, 9)
    ]
    assert [row for result in pages for row in result] == whole
    assert ids(dispatch.answer(shop, requests[0], [], (), NOW_MS + DAY_MS)) != whole


def test_boosts_and_their_marks(shop: Recommender) -> None:
    result = ask(shop, user_id="nora", rows=50, boosts=(Boost(parse("brand:Birk"), name="knives-week"),))
    assert [product["_boosted"] for product in result.products] == [True] * 3 + [False] * 7
    assert result.products[0]["_boosted_rules"] == ["knives-week"]
    assert "_boosted_rules" not in result.products[-1]
    assert "_boosted" not in ask(shop, user_id="nora").products[0]
    pinned = ask(shop, user_id="nora", rows=50, boosts=(Boost(parse("product_id:garden-almanac"), (2,)),))
    assert ids(pinned)[2] == "garden-almanac"


@pytest.mark.parametrize("kind", LISTS)
def test_boosts_and_filters_work_on_every_list(shop: Recommender, kind: QueryKind) -> None:
    result = ask(
        shop, kind, "nora", rows=3, filter=parse("tags:steel"), boosts=(Boost(parse("product_id:draw-hoe")),)
    )
    assert ids(result)[0] == "draw-hoe"
    assert len(ids(result)) == 3


def test_diversification_spreads_brands(shop: Recommender) -> None:
    result = ask(shop, user_id="nora", rows=6, fields=("brand",), spacing=(DiversityRule("brand", 1),))
    brands = [product["brand"] for product in result.products]
    assert all(left != right for left, right in pairwise(brands))


def test_fields_of_the_answer(shop: Recommender) -> None:
    (plain,) = ask(shop, rows=1).products
    assert set(plain) == {"product_id", "_personalization_score"}
    query: dict[str, Any] = {"rows": 1, "filter": parse("product_id:trowel-green")}
    (some,) = ask(shop, fields=("title", "attributes.grip", "no_such"), **query).products
    assert some["title"] == "Steel trowel, green grip"
    assert some["custom_attributes"] == {"grip": "green"}
    assert "no_such" not in some
    (everything,) = ask(shop, fields=("*",), **query).products
    del everything["_personalization_score"]
    assert everything == PRODUCTS[0]


# --- groups ---------------------------------------------------------------------------------------------------------


def _groups(result: RecommendationResult) -> dict[Any, list[str]]:
    return {group.value: [product["product_id"] for product in group.products] for group in result.groups}


def _totals(result: RecommendationResult) -> dict[Any, int]:
    return {group.value: group.total for group in result.groups}


def test_categories_of_a_level(shop: Recommender) -> None:
    top = ask(shop, "user_to_categories", "carl", rows=9, group_rows=2)
    assert next(iter(_groups(top))) == ("Kitchen",)
    assert _totals(top) == {("Kitchen",): 4, ("Garden",): 7, ("Books",): 1}
    children = ask(shop, "user_to_categories", "gina", rows=9, group_rows=1, root_category=("Garden",))
    assert set(_groups(children)) == {("Garden", "Hand tools"), ("Garden", "Bulbs"), ("Garden", "Watering")}
    anywhere = ask(shop, "user_to_categories", rows=20, group_rows=0, root_category=("*",))
    assert all(len(path) == 2 for path in _groups(anywhere))
    assert ask(shop, "user_to_categories", rows=9, root_category=("No", "Such")).groups == []


def test_a_category_whose_products_are_all_sold_out_is_not_offered(shop: Recommender) -> None:
    result = ask(shop, "user_to_categories", rows=9, group_rows=1, root_category=("Kitchen",))
    assert ("Kitchen", "Tea") not in _groups(result)


def test_categories_without_products(shop: Recommender) -> None:
    result = ask(shop, "user_to_categories", "gina", rows=9, group_rows=0)
    assert all(products == [] for products in _groups(result).values())
    assert len(result.groups) == 3


def test_with_a_filter_only_categories_with_enough_matches_come(shop: Recommender) -> None:
    result = ask(shop, "user_to_categories", "gina", rows=9, group_rows=3, filter=parse("tags:steel"))
    assert _totals(result) == {("Garden",): 4}
    two = ask(shop, "user_to_categories", "gina", rows=9, group_rows=2, filter=parse("tags:steel"))
    assert set(_groups(two)) == {("Garden",), ("Kitchen",)}
    steel = {product["product_id"] for product in PRODUCTS if "steel" in product.get("tags", ())}
    assert {product_id for products in _groups(two).values() for product_id in products} <= steel


def test_only_a_filter_asks_for_enough_and_only_of_categories(shop: Recommender) -> None:
    books = ask(shop, "user_to_categories", rows=9, group_rows=5, root_category=("Garden",), type="tool")
    assert ("Garden", "Watering") in _groups(books)
    result = ask(
        shop, "user_to_attributes", rows=9, group_rows=2, field_name="tags", filter=parse("brand:Fernhill")
    )
    assert _totals(result) == {"autumn": 2, "steel": 1}


def test_what_is_excluded_still_belongs_to_its_category(shop: Recommender) -> None:
    result = ask(shop, "user_to_categories", "carl", rows=9, group_rows=9, exclude=("bread-knife",))
    assert _totals(result)["Kitchen",] == 4
    assert "bread-knife" not in _groups(result)["Kitchen",]


def test_many_variants_of_one_product_do_not_keep_others_out_of_a_group(shop: Recommender) -> None:
    variants = [
        {"product_id": f"v{n}", "product_group_id": "v", "title": "Hoe", "categories": [["Hoes"]]}
        for n in range(40)
    ]
    others = [{"product_id": f"o{n}", "title": "Rake", "categories": [["Hoes"]]} for n in range(3)]
    shop.apply(product_change(variants + others, LATER))
    events = [RecentEvent("add_to_cart", ("draw-hoe",), NOW_MS)]
    result = ask(shop, "user_to_categories", "z", rows=9, group_rows=4, recent=events)
    assert len(_groups(result)["Hoes",]) == 4


def test_products_of_a_group_are_one_per_variant_unseen_ones_first(shop: Recommender) -> None:
    result = ask(shop, "user_to_categories", "gina", rows=1, group_rows=10)
    products = _groups(result)["Garden",]
    assert len(set(products) & {"trowel-green", "trowel-red"}) == 1
    assert products[:2] == ["crocus-bulbs", "draw-hoe"]


def test_categories_boosts_reach_into_every_list(shop: Recommender) -> None:
    boosts = (Boost(parse("product_id:(draw-hoe OR carving-knife)")),)
    result = ask(shop, "user_to_categories", "nora", rows=2, group_rows=2, boosts=boosts)
    assert {products[0] for products in _groups(result).values()} == {"draw-hoe", "carving-knife"}


def test_attributes_follow_the_reader(shop: Recommender) -> None:
    cook = ask(shop, "user_to_attributes", "carl", rows=2, group_rows=1, field_name="brand")
    assert next(iter(_groups(cook))) == "Birk"
    gardener = ask(shop, "user_to_attributes", "pia", rows=1, group_rows=1, field_name="brand")
    assert list(_groups(gardener)) == ["Fernhill"]
    assert _totals(ask(shop, "user_to_attributes", rows=9, field_name="brand"))["Birk"] == 3


def test_boosted_values_come_first_and_excluded_values_never(shop: Recommender) -> None:
    result = ask(
        shop, "user_to_attributes", "carl", rows=9, field_name="brand",
        boost_values=("Mori", "Nobody", "Alder"), exclude_values=("Birk",),
    )  # fmt: skip
    assert list(_groups(result)) == ["Mori", "Alder", "Fernhill"]


def test_numbers_keep_all_their_digits_as_values(shop: Recommender) -> None:
    weights = (1234567, 1234568, 12345.678, 20.0)
    shop.apply(
        product_change(
            [
                {"product_id": f"w{n}", "custom_attributes": {"weight": weight}}
                for n, weight in enumerate(weights)
            ],
            LATER,
        )
    )
    result = ask(shop, "user_to_attributes", rows=9, field_name="custom_attributes.weight")
    assert set(_totals(result)) == {"1234567", "1234568", "12345.678", "20"}


def test_custom_attributes_and_arrays_are_fields_too(shop: Recommender) -> None:
    grips = ask(shop, "user_to_attributes", rows=9, group_rows=1, field_name="custom_attributes.grip")
    assert _totals(grips) == {"green": 1, "red": 1}
    tags = ask(
        shop, "user_to_attributes", rows=9, group_rows=1, field_name="tags", filter=parse("brand:Fernhill")
    )
    assert _totals(tags) == {"autumn": 2, "steel": 1}
    assert ask(shop, "user_to_attributes", rows=9, field_name="no_such").groups == []


# --- products to products, history ---------------------------------------------------------------------------------


def test_what_goes_with_a_product(shop: Recommender) -> None:
    assert ids(ask(shop, "product_to_products", anchors=("tulip-bulbs",)))[0] == "crocus-bulbs"
    assert ids(ask(shop, "product_to_products", anchors=("carving-knife",)))[0] == "bread-knife"


def test_what_was_bought_with_a_product(shop: Recommender) -> None:
    result = ask(shop, "product_to_products", anchors=("bread-knife",), buy_together=True)
    assert ids(result)[0] == "cutting-board"
    assert result.served_by == "baskets"
    assert result.warnings == ()


def test_a_product_nobody_bought_together_with_anything_falls_back_to_what_is_similar(
    shop: Recommender,
) -> None:
    result = ask(shop, "product_to_products", anchors=("crocus-bulbs",), buy_together=True)
    assert ids(result)[0] == "tulip-bulbs"
    assert result.served_by == "similar"
    assert [(warning["parameter"], warning["message"]) for warning in result.warnings] == [
        (
            "buy_together",
            "no purchase contains the product together with another one; the list has similar products",
        )
    ]
    misspelled = ask(
        shop, "product_to_products", anchors=("crocus-bulbs",), buy_together=True, fields=("titel",)
    )
    assert [warning["parameter"] for warning in misspelled.warnings] == ["buy_together", "fl"]


def test_anchors_and_their_variants_are_never_returned(shop: Recommender) -> None:
    for anchors in (("trowel-green",), ("group:trowel",), ("trowel-green", "hand-fork")):
        result = set(ids(ask(shop, "product_to_products", anchors=anchors, rows=50)))
        assert not result & {"trowel-green", "trowel-red", *anchors}
        assert len(result) >= 8


def test_an_unknown_anchor_gets_the_personal_list(shop: Recommender) -> None:
    result = ask(shop, "product_to_products", "carl", anchors=("never-there",))
    assert ids(result) == ids(ask(shop, "user_to_products", "carl"))


def test_history_is_newest_first_and_by_kind(shop: Recommender) -> None:
    assert ids(ask(shop, "user_to_history", "gina", rows=50)) == [
        "watering-can", "tulip-bulbs", "hand-fork", "trowel-green",
    ]  # fmt: skip
    assert ids(ask(shop, "user_to_history", "gina", history_type="last_checkout")) == ["tulip-bulbs"]
    assert ids(ask(shop, "user_to_history", "gina", filter=parse("tags:steel"))) == [
        "hand-fork",
        "trowel-green",
    ]
    assert ids(ask(shop, "user_to_history", "nora")) == []


# --- robustness ---------------------------------------------------------------------------------------------------


def test_an_empty_shop_answers_with_nothing() -> None:
    empty = open_catalog([])
    for kind in ("user_to_categories", "user_to_attributes", "user_to_history", *LISTS):
        query = UserQuery(
            kind=kind, app_id=APP, engine_id="default", user_id="u", field_name="brand", anchors=("a",),
            filter=parse("brand:x"), boosts=(Boost(parse("a:b")),), spacing=(DiversityRule("brand"),), dithering=3.0,
        )  # fmt: skip
        result = dispatch.answer(empty, query, recents("gina"), ("x",), NOW_MS)
        assert result.products == []
        assert result.groups == []


def test_a_catalog_of_one_product() -> None:

    tiny = open_catalog(PRODUCTS[:1], "1-0")
    assert ids(ask(tiny, user_id="gina")) == ["trowel-green"]
    assert ids(ask(tiny, "product_to_products", anchors=("trowel-green",))) == []


def test_time_passing_alone_does_not_reorder_the_trend(shop: Recommender) -> None:
    now, later = (ids(ask(shop, "user_to_trending", rows=50, later_ms=ms)) for ms in (0, 3 * DAY_MS))
    assert now == later


# --- groups in a history ----------------------------------------------------------------------------------------------


def test_an_interaction_with_a_group_shows_the_variant_of_most_interest_on_offer(shop: Recommender) -> None:
    blue = {**PRODUCTS[0], "product_id": "trowel-blue", "title": "Zinc watering can", "tags": ["zinc"]}
    shop.apply(product_change([{**PRODUCTS[0], "availability": "OUT_OF_STOCK"}, blue], LATER))
    events = [RecentEvent("click", (name,), NOW_MS) for name in ("group:trowel", "watering-can")]
    assert ids(ask(shop, "user_to_history", recent=events)) == ["trowel-blue", "watering-can"]
    gone = {**blue, "availability": "OUT_OF_STOCK"}
    shop.apply(product_change([gone], f"{NOW_MS + 2}-0"))
    assert ids(ask(shop, "user_to_history", recent=events)) == ["trowel-red", "watering-can"]


def test_a_group_without_a_variant_on_offer_is_left_out_of_the_history(shop: Recommender) -> None:
    shop.apply(
        product_change([{**product, "availability": "OUT_OF_STOCK"} for product in PRODUCTS[:2]], LATER)
    )
    event = RecentEvent("click", ("group:trowel", "group:nobody", "watering-can"), NOW_MS)
    assert ids(ask(shop, "user_to_history", recent=[event])) == ["watering-can"]
