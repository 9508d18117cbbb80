"""The frequencies of explored lists are the propensities in the log; rules, pages and explanations fit exploration."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from math import sqrt
from typing import Any

import pytest

from actors.recommender.messages import Boost, DiversityRule, QueryKind, RecommendationResult, UserQuery
from actors.recommender.recommender import Recommender
from actors.recommender.rerank.exploration import draw_exploration
from actors.serving import dispatch
from cluster.query.language.parser import parse
from cluster.records.engine import Exploration
from cluster.records.served_list import EXPLORED, RULE
from tests.fakes.corner_shop import APP, NOW_MS, recents
from tests.fakes.search_queries import ids

SETTINGS = Exploration(share=0.2, pool=4, secret="5eed" * 8)
ALWAYS = SETTINGS.model_copy(update={"share": 1.0})
PLACES = 3


def build_query(kind: QueryKind = "user_to_products", **more: Any) -> UserQuery:
    fields = {"user_id": "gina", "rows": PLACES, "anchors": ("hand-fork",), **more}
    return UserQuery(kind, APP, "default", **fields)


def answer(
    shop: Recommender, query: UserQuery, number: int, settings: Exploration = SETTINGS, shown: Any = ()
) -> RecommendationResult:
    query = replace(query, service_id=f"answer-{number}")
    draw = draw_exploration(settings, query)
    return dispatch.answer(shop, query, recents(query.user_id), shown, NOW_MS, draw)


@pytest.mark.parametrize("kind", ["user_to_products", "user_to_trending", "product_to_products"])
def test_each_product_is_at_a_place_as_often_as_its_propensity(shop: Recommender, kind: QueryKind) -> None:
    count = 2_500
    shown: Counter[tuple[int, str]] = Counter()
    logged: defaultdict[tuple[int, str], set[float | None]] = defaultdict(set)
    for number in range(count):
        result = answer(shop, build_query(kind), number)
        assert result.placements is not None
        for key, propensity in zip(enumerate(ids(result)), result.placements.propensities, strict=True):
            shown[key] += 1
            logged[key].add(propensity)
    for key, propensities in logged.items():
        (propensity,) = propensities
        assert propensity is not None
        assert abs(shown[key] / count - propensity) < 4.5 * sqrt(propensity / count), key
    for place in range(PLACES):
        assert sum(p for key, (p,) in logged.items() if key[0] == place and p) == pytest.approx(1)


def test_a_draw_depends_on_the_answer_and_the_secret_alone(shop: Recommender) -> None:
    draws = {draw_exploration(SETTINGS, replace(build_query(), service_id="x", **more)) for more in (
        {}, {"user_id": "carl"}, {"pagination_id": "p-1"}, {"rows": 9}, {"start": 4}, {"fields": ("title",)},
    )}  # fmt: skip
    assert len(draws) == 1
    other = SETTINGS.model_copy(update={"secret": "beef" * 8})
    assert draw_exploration(other, replace(build_query(), service_id="x")) not in draws


@pytest.mark.parametrize(
    "more",
    [
        {"kind": "user_to_history"},
        {"dithering": 2.0},
        {"spacing": (DiversityRule("brand"),)},
        {"start": 3},
    ],
)
def test_lists_without_a_fixed_order_and_later_pages_are_not_explored(
    shop: Recommender, more: dict[str, Any]
) -> None:
    results = [answer(shop, build_query(**more), number, ALWAYS) for number in range(20)]
    assert len({tuple(ids(result)) for result in results}) == 1
    assert all(result.placements and EXPLORED not in result.placements.origins for result in results)


def test_rules_keep_their_places_and_what_they_bury_stays_below(shop: Recommender) -> None:
    boosts = (
        Boost(parse("product_id:teapot OR product_id:cutting-board"), positions=(1,)),
        Boost(parse("brand:Fernhill"), bury=True),
    )
    origins = Counter[tuple[int, ...]]()
    for number in range(200):
        result = answer(shop, build_query(boosts=boosts), number, ALWAYS)
        assert result.placements is not None
        assert ids(result)[1] == "cutting-board"
        assert result.placements.propensities[1] == 1.0
        assert not {"draw-hoe", "tulip-bulbs", "crocus-bulbs"}.intersection(ids(result))
        origins[result.placements.origins] += 1
    assert set(origins) == {(0, RULE, 0), (EXPLORED, RULE, 0), (0, RULE, EXPLORED)}
    # A draw of the place of the rule changes nothing.
    assert 40 < origins[0, RULE, 0] < 95


def test_pages_with_one_pagination_id_repeat_nothing_and_lose_nothing(shop: Recommender) -> None:
    query = build_query(pagination_id="p-1", user_id="nora")
    every = set(ids(answer(shop, replace(query, rows=20), 0, Exploration())))
    for number in range(0, 300, 3):
        shown: list[str] = []
        for page in range(6):
            result = answer(shop, replace(query, start=len(shown)), number + page, ALWAYS, shown)
            shown += ids(result)
        assert len(shown) == len(set(shown))
        assert set(shown) == every


def test_a_list_that_shows_everything_has_propensity_one(shop: Recommender) -> None:
    result = answer(shop, build_query(rows=50), 1, ALWAYS)
    assert result.placements is not None
    assert set(result.placements.propensities) == {1.0}


def test_an_explanation_names_the_exploration(shop: Recommender) -> None:
    result = answer(shop, build_query(explain=True), 1, ALWAYS)
    plain = answer(shop, build_query(), 1, ALWAYS)
    assert result.placements is not None
    assert ids(result) == ids(plain)
    place = result.placements.origins.index(EXPLORED)
    moves = [product["_explain"]["moves"] for product in result.products]
    (move,) = moves.pop(place)
    assert (move["by"], move["to"]) == ("exploration", place)
    assert move["from"] == result.products[place]["_explain"]["rank"] >= PLACES
    assert moves == [[], []]
