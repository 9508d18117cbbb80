"""The probability of a cold-start item at the place that its draw chose."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from actors.recommender.messages import UserQuery
from actors.recommender.rerank.exploration import BLOCK_SIZE, add_exploration
from tests.fakes.request_handler import NOW_MS

RANKED = list(range(2 * BLOCK_SIZE))


def explore(cold_start: list[int], user_id: str) -> tuple[list[int], dict[int, float | None]]:
    request: Any = SimpleNamespace(
        query=UserQuery("user_to_products", "shop", "default", user_id=user_id),
        now_ms=NOW_MS,
        catalog=SimpleNamespace(groups=np.arange(100)),
        item_priors=SimpleNamespace(cold_start=SimpleNamespace(rows=np.array(cold_start))),
    )
    ranking: Any = SimpleNamespace(select_best_of=lambda rows, count: rows[:count])
    return add_exploration(RANKED, ranking, request, BLOCK_SIZE)


@pytest.mark.parametrize("user_id", [f"user-{number}" for number in range(20)])
def test_an_item_that_is_in_no_list_has_an_equal_share_of_its_place(user_id: str) -> None:
    candidates, draws = explore([50, 51, 52, 53], user_id)
    (row,) = draws
    assert draws[row] == 1 / 4
    assert [other for other in candidates if other != row] == RANKED


@pytest.mark.parametrize("user_id", [f"user-{number}" for number in range(20)])
def test_a_draw_that_could_take_an_item_from_further_down_has_no_probability(user_id: str) -> None:
    _, draws = explore([50, BLOCK_SIZE + 5], user_id)
    assert list(draws.values()) == [None]
