"""The probability of a cold-start item at the place that its draw chose, alone and where the engine explores."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from actors.recommender.messages import UserQuery
from actors.recommender.ranking.pipeline_inputs import PageWindow
from actors.recommender.rerank.exploration import (
    BLOCK_SIZE,
    ColdStartDraws,
    draw_exploration,
    insert_cold_start_items,
)
from actors.recommender.rerank.rerank import RankedItem, describe_placements, explore_page
from cluster.records.engine import Exploration
from tests.fakes.request_handler import NOW_MS

RANKED = list(range(2 * BLOCK_SIZE))
CATALOG: Any = SimpleNamespace(groups=np.arange(100))
SETTINGS = Exploration(share=0.2, pool=5, secret="5eed" * 8)


def build_query(user_id: str, **more: str) -> UserQuery:
    return UserQuery("user_to_products", "shop", "default", user_id=user_id, **more)


def insert_items(
    cold_start: list[int], query: UserQuery, depth: int = BLOCK_SIZE
) -> tuple[list[int], ColdStartDraws]:
    ranking: Any = SimpleNamespace(select_best_of=lambda rows, count: rows[:count])
    candidates, draws = insert_cold_start_items(
        RANKED, ranking, query, CATALOG, np.array(cold_start), NOW_MS, depth
    )
    assert draws is not None
    return candidates, draws


def explore(cold_start: list[int], user_id: str) -> tuple[list[int], dict[int, float | None]]:
    candidates, draws = insert_items(cold_start, build_query(user_id))
    return candidates, draws.probabilities


@pytest.mark.parametrize("user_id", [f"user-{number}" for number in range(20)])
def test_an_item_that_is_in_no_list_has_an_equal_share_of_its_place(user_id: str) -> None:
    candidates, draws = explore([50, 51, 52, 53], user_id)
    (row,) = draws
    assert draws[row] == 1 / 4
    assert [other for other in candidates if other != row] == RANKED


@pytest.mark.parametrize("user_id", [f"user-{number}" for number in range(20)])
def test_a_draw_that_could_take_an_item_from_a_later_stretch_has_no_probability(user_id: str) -> None:
    cold_start, query = [50, BLOCK_SIZE + 5], build_query(user_id)
    _, draws = insert_items(cold_start, query, 2 * BLOCK_SIZE)
    assert next(iter(draws.probabilities.values())) is None
    _, draws = insert_items(cold_start, query)
    assert list(draws.probabilities.values()) == [1 / 2], "both items come from behind the list"


def test_a_pagination_id_does_not_choose_the_item() -> None:
    lists = {
        tuple(insert_items([50, 51, 52], build_query("ada", pagination_id=f"p-{n}"))[0]) for n in range(20)
    }
    assert len(lists) == 1


def test_frequencies_of_cold_start_items_in_explored_lists_are_their_propensities() -> None:
    cold_start = [50, 51, 52, 22]
    state = SimpleNamespace(
        serving_version="", serving_model=None, overlay=SimpleNamespace(position=""), priors_position=""
    )
    shown: Counter[tuple[int, int]] = Counter()
    logged: dict[tuple[int, int], float] = {}
    count = 0
    for user in range(40_000):
        query = build_query(f"user-{user}")
        candidates, draws = insert_items(cold_start, query)
        if candidates.index(next(iter(draws.probabilities))) != 5:
            continue
        query = replace(query, service_id=f"answer-{user}")
        draw = draw_exploration(SETTINGS, query)
        items = [RankedItem(row) for row in candidates[:BLOCK_SIZE]]
        page = PageWindow(0, 0, BLOCK_SIZE, draw=draw)
        explored = explore_page(items, candidates, query, CATALOG, page, draws.groups)
        placements = describe_placements(
            items, items, dict.fromkeys(candidates, 0.0), query, state,  # type: ignore[arg-type]
            draws=draws.probabilities, explored=explored,
        )  # fmt: skip
        assert placements is not None
        count += 1
        for place, item in enumerate(items):
            key = place, item.row
            shown[key] += 1
            assert placements.propensities[place] == logged.setdefault(
                key, placements.propensities[place] or 0
            )
    assert {row for place, row in logged if place == 5} >= {*cold_start}
    for key, propensity in logged.items():
        assert abs(shown[key] / count - propensity) < 5 * sqrt(propensity / count), key
