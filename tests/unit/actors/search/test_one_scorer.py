"""One scorer, several views: the same filters and boosts mean the same on every endpoint, and say the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.recommender.messages import Boost, QueryKind, UserQuery
from actors.recommender.recommender import Recommender
from actors.serving import dispatch
from cluster.query.columnar.filter_evaluation import matches_filter
from cluster.query.language.parser import parse
from cluster.query.language.tree import Node
from cluster.records.interaction import RecentEvent
from jobs.playground.loader import build_sample
from tests.fakes import corner_shop
from tests.fakes.corner_shop import NOW_MS, interaction_change, open_catalog

ALL = 1000
KINDS: tuple[QueryKind, ...] = (
    "user_to_products",
    "user_to_trending",
    "user_to_history",
    "product_to_products",
    "user_to_categories",
    "user_to_attributes",
)


@dataclass(frozen=True)
class World:
    """A catalog with a past, and what may be asked of it."""

    recommender: Recommender
    products: Mapping[str, Mapping[str, Any]]
    events_of_users: Mapping[str, list[bytes]]
    clauses: list[str]

    def on_offer(self) -> Iterator[Mapping[str, Any]]:
        return (
            product for product in self.products.values() if product.get("availability") != "OUT_OF_STOCK"
        )


def _world(
    products: list[dict[str, Any]],
    interactions: list[dict[str, Any]],
    events_of_users: Mapping[str, list[bytes]],
) -> World:
    recommender = open_catalog(products, f"{NOW_MS - 1}-0")
    for at in range(0, len(interactions), 2_000):
        recommender.apply(interaction_change(interactions[at : at + 2_000], f"{NOW_MS}-{at}"))
    brands = sorted({product["brand"] for product in products if product.get("brand")})[:4]
    tags = sorted({tag for product in products for tag in product.get("tags", ())})[:4]
    tops = sorted({path[0] for product in products for path in product.get("categories", ())})[:4]
    clauses = [
        *[f'brand:"{brand}"' for brand in brands],
        *[f'tags:"{tag}"' for tag in tags],
        *[f'categories:"{top}"' for top in tops],
        "price:[* TO 20]", "rating:[4 TO *]", "*:*", "title:steel", "brand:*",
    ]  # fmt: skip
    return World(
        recommender, {product["product_id"]: product for product in products}, events_of_users, clauses
    )


@pytest.fixture(scope="module")
def shop() -> World:
    events_of_users = {user_id: corner_shop.recents(user_id) for user_id in corner_shop.USER_IDS}
    return _world(corner_shop.PRODUCTS, corner_shop.INTERACTIONS, events_of_users)


@pytest.fixture(scope="module")
def playground() -> World:
    made = build_sample(NOW_MS)
    lists: dict[str, list[bytes]] = {"": []}
    for item in made.interactions:
        if item.get("product_ids") and "impression" not in item["type"]:
            packed = RecentEvent(item["type"], tuple(item["product_ids"]), NOW_MS, 0.0).pack()
            lists.setdefault(item.get("user_id", ""), []).insert(0, packed)
    busiest = sorted(lists, key=lambda user_id: -len(lists[user_id]))[:3]
    chosen = {user_id: lists[user_id][:50] for user_id in busiest}
    return _world(made.products, made.interactions, {**chosen, "new": []})


@st.composite
def questions(draw: st.DrawFn) -> Callable[[World], tuple[str, dict[str, Any]]]:
    """A user, filters and boosts, as places in the lists of a world."""
    numbers = st.integers(0, 10_000)
    user_number, filters, boosts, excluded, anchor = draw(
        st.tuples(
            numbers,
            st.lists(numbers, max_size=2),
            st.lists(numbers, max_size=2),
            st.lists(numbers, max_size=3),
            numbers,
        )
    )
    joined, dedupe = draw(st.sampled_from([" AND ", " OR ", " AND NOT "])), draw(st.booleans())

    def made(world: World) -> tuple[str, dict[str, Any]]:
        def pick(options: list[str], number: int) -> str:
            return options[number % len(options)]

        ids = list(world.products)
        text = joined.join(pick(world.clauses, number) for number in filters)
        rules = [Boost(parse(pick(world.clauses, n)), None, f"rule {at}") for at, n in enumerate(boosts)]
        return pick(list(world.events_of_users), user_number), {
            "filter": parse(text) if text else None,
            "boosts": tuple(rules),
            "exclude": tuple(pick(ids, number) for number in excluded),
            "anchors": (pick(ids, anchor),),
            "dedupe": dedupe,
        }

    return made


def _ask(world: World, kind: QueryKind, user_id: str, **more: Any) -> Any:
    query = UserQuery(
        kind=kind, app_id="a", engine_id="default", user_id=user_id, rows=ALL, group_rows=ALL, field_name="brand",
        root_category=("*",) if kind == "user_to_categories" else None, **more,
    )  # fmt: skip
    return dispatch.answer(world.recommender, query, world.events_of_users[user_id], (), NOW_MS)


def _lists(result: Any) -> list[list[dict[str, Any]]]:
    return [result.products] if result.products else [group.products for group in result.groups]


def _check(world: World, user_id: str, options: dict[str, Any]) -> None:
    scores: dict[str, float] = {}
    node: Node | None = options["filter"]
    for kind in KINDS:
        result = _ask(world, kind, user_id, **options)
        for records in _lists(result):
            ids = [record["product_id"] for record in records]
            assert len(ids) == len(set(ids))
            assert not set(ids) & set(options["exclude"])
            families = [world.products[product_id].get("product_group_id", product_id) for product_id in ids]
            assert not options["dedupe"] or len(families) == len(set(families))
            marks = [record.get("_boosted") for record in records]
            assert marks == sorted(marks, key=lambda mark: not mark)
            for record in records:
                product = world.products[record["product_id"]]
                assert product.get("availability") != "OUT_OF_STOCK"
                assert node is None or matches_filter(node, product)
                expected = tuple(b.name for b in options["boosts"] if matches_filter(b.filter, product))
                assert record.get("_boosted_rules", []) == list(dict.fromkeys(expected))
                assert record.get("_boosted") == (bool(expected) if options["boosts"] else None)
                now = record["_personalization_score"]
                assert scores.setdefault(product["product_id"], now) == pytest.approx(now, abs=2e-5), kind
    _check_totals(world, user_id, options)


def _check_totals(world: World, user_id: str, options: dict[str, Any]) -> None:
    node = options["filter"]
    counted = [
        product for product in world.products.values() if node is None or matches_filter(node, product)
    ]
    for group in _ask(world, "user_to_categories", user_id, **options).groups:
        depth = len(group.value)
        assert group.total == sum(
            any(tuple(path[:depth]) == group.value for path in product.get("categories", ()))
            for product in counted
        )
    for group in _ask(world, "user_to_attributes", user_id, **options).groups:
        assert group.total == sum(product.get("brand") == group.value for product in counted)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=questions())
def test_the_corner_shop_scores_are_equal_everywhere(shop: World, question: Any) -> None:
    _check(shop, *question(shop))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(question=questions())
def test_the_playground_scores_are_equal_everywhere(playground: World, question: Any) -> None:
    _check(playground, *question(playground))


@pytest.mark.parametrize("kind", KINDS[:2])
def test_lists_hold_everything_that_may_be_shown(shop: World, kind: QueryKind) -> None:
    result = _ask(shop, kind, "nora", dedupe=False, anchors=())
    assert {record["product_id"] for record in result.products} == {
        product["product_id"] for product in shop.on_offer()
    }
