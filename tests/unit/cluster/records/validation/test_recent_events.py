"""Simulated interactions of a recommendation request."""

from __future__ import annotations

import pytest

from cluster.errors import Unprocessable
from cluster.records.interaction import RecentEvent
from cluster.records.validation.recent_events import parse_simulated_interactions
from tests.unit.cluster.records.grammar import NOW

WHERE = ("body", "additional_interactions")


def test_simulated_interactions_become_events_oldest_first() -> None:
    items = [
        {"type": "click", "product_ids": ["b"]},
        {"type": "read", "product_ids": ["a"], "duration": 9, "timestamp": "2026-03-02T09:15:29.250Z"},
        {"type": "impression", "product_ids": ["c"]},
        {"type": "search", "search": {"keywords": "x"}},
    ]
    assert parse_simulated_interactions(items, now_ms=NOW, where=WHERE) == [
        RecentEvent("read", ("a",), NOW - 1000, 9.0),
        RecentEvent("click", ("b",), NOW, 0.0),
    ]


def test_very_many_products_of_one_event_are_cut() -> None:
    (event,) = parse_simulated_interactions(
        [{"type": "click", "product_ids": ["p"] * 5_000}], now_ms=NOW, where=WHERE
    )
    assert len(event.product_ids) == 100


def test_bad_ones_are_located_in_the_body() -> None:
    items = [{"type": "click"}, {"type": "x"}, {"type": "rate", "rating": "5"}, 3]
    with pytest.raises(Unprocessable) as caught:
        parse_simulated_interactions(items, now_ms=NOW, where=WHERE)
    detail = caught.value.facts["detail"]
    assert [entry["loc"] for entry in detail] == [[*WHERE, 1, "type"], [*WHERE, 2, "rating"], [*WHERE, 3]]
    assert all(entry["type"] and entry["msg"] for entry in detail)


def test_their_number_is_bounded() -> None:
    with pytest.raises(Unprocessable) as caught:
        parse_simulated_interactions([{"type": "click"}] * 1_001, now_ms=NOW, where=WHERE)
    assert caught.value.facts["detail"][0]["loc"] == [*WHERE]
