"""Orders: keys, ties, formulas, what has no value, and the blend of relevance and taste."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actors.recommender.state.catalog import Catalog
from actors.retrieval.messages import OrderKey
from actors.search.sort import blend_scores, sort_rows


def order(records: list[dict[str, Any]], *keys: OrderKey) -> list[int]:
    catalog = Catalog()
    rows = np.array(
        [catalog.put({"product_id": f"p{at}", **record}) for at, record in enumerate(records)], np.int64
    )
    otherwise = -np.arange(len(rows), dtype=np.float64)
    order_of_rows: list[int] = sort_rows(
        keys, rows, catalog, lambda name: np.zeros(len(rows)), otherwise
    ).tolist()
    return order_of_rows


def prices(*values: Any) -> list[dict[str, Any]]:
    return [{} if value is None else {"price": value} for value in values]


def test_a_key_sorts_descending_by_default_and_ties_keep_their_order() -> None:
    assert order(prices(1, 3, 2, 3), OrderKey("price")) == [1, 3, 2, 0]
    assert order(prices(1, 3, 2, 3), OrderKey("price", ascending=True)) == [0, 2, 1, 3]
    assert order([], OrderKey("price")) == []


def test_what_has_no_value_takes_the_default() -> None:
    assert order(prices(1, None, -1), OrderKey("price")) == [0, 1, 2]
    assert order(prices(1, None, -1), OrderKey("price", default=5)) == [1, 0, 2]
    assert order(prices(1, 2), OrderKey("custom_attributes.nobody")) == [0, 1]


def test_booleans_and_dates_are_numbers() -> None:
    flags = [{"custom_attributes": {"on": value}} for value in (False, True, None)]
    assert order(flags, OrderKey("custom_attributes.on", default=-1)) == [1, 0, 2]
    dates = [
        {"published_at": value}
        for value in ("2024-05-01", "2025-01-01T00:00:00Z", "2024-05-01T01:00:00+02:00")
    ]
    assert order(dates, OrderKey("published_at")) == [1, 0, 2]


def test_neighbours_within_the_threshold_are_equal_and_the_next_key_decides() -> None:
    made = [{"price": price, "rating": rating} for price, rating in ((100, 1), (95, 3), (91, 2), (50, 5))]
    keys = (OrderKey("price", threshold=0.06), OrderKey("rating"))
    assert order(made, *keys) == [1, 2, 0, 3]
    assert order(made, OrderKey("price", threshold=0.01), OrderKey("rating")) == [0, 1, 2, 3]
    assert order(prices(0, 0, 1), OrderKey("price", threshold=0.5)) == [2, 0, 1]


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("price * -1", [0, 2, 1]),
        ("1 / (price - 2)", [1, 2, 0]),
        ("log(price)", [1, 2, 0]),
        ("10 ** 1000 * price", [0, 1, 2]),
        ("price % 2", [0, 1, 2]),
        ("maximum(price, 2, 2.5)", [1, 0, 2]),
        ("-price ^ 2", [0, 2, 1]),
    ],
)
def test_formulas_order_and_what_they_cannot_compute_takes_the_default(
    formula: str, expected: list[int]
) -> None:
    assert order(prices(1, 3, 2), OrderKey(formula)) == expected


def test_personal_scores_move_by_their_weight_and_at_zero_only_break_ties() -> None:
    rows, relevance = np.arange(3), np.array([3, 2, 2], np.float32)
    personal_scores = np.array([0.0, 0.0, 2.0])
    assert np.argsort(-blend_scores(rows, relevance, personal_scores, 0.0)).tolist() == [0, 2, 1]
    far = np.array([-3.0, 3.0, 0.0])
    assert np.argsort(-blend_scores(rows, np.array([3, 2.9, 0], np.float32), far, 1.0)).tolist()[0] == 1
    assert len(blend_scores(rows[:0], relevance[:0], personal_scores[:0], 1.0)) == 0


def test_equals_stand_newest_first_on_every_page() -> None:
    rows = np.arange(5)
    scores = blend_scores(rows, np.ones(5, np.float32), np.zeros(5), 1.0)
    assert np.argsort(-scores).tolist() == [4, 3, 2, 1, 0]
