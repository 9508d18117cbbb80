"""The event account counts each accepted interaction."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest

from cluster.artifacts.segment_format import LOADED_INTERACTIONS
from jobs.refresh.data.dataset import interactions_from_segments
from jobs.refresh.data.event_counts import build_event_counts
from jobs.refresh.runs.estimate import count_uncompacted_interactions
from tests.fakes.stores.memory import memory_stores


def _row(kind: str, *products: str, at_ms: int = 5_000, user_key: str = "u:a") -> dict[str, Any]:
    return {
        "reader": user_key, "type": kind, "at_ms": at_ms, "product_ids": list(products), "value": 0.0,
        "offset": "9000-0",
    }  # fmt: skip


def test_every_interaction_is_accounted_for() -> None:
    rows = [
        *[_row("click", "p1")] * 3,
        _row("click", "p1", at_ms=6_000),
        _row("checkout", "p1", "p2", "p3"),
        *[_row("impression", "p1", "p2")] * 2,
        _row("search"),
        _row("home_page_view"),
    ]
    table = pa.Table.from_pylist(rows, schema=LOADED_INTERACTIONS)
    data = interactions_from_segments(table)
    account = build_event_counts(table, data)
    assert (account.settled, account.without_products, account.lines) == (9, 2, 11)
    assert account.unweighted == {"impression": 4}
    assert account.repeats == 2
    assert account.lines == len(data) + sum(account.unweighted.values()) + data.dropped
    assert account.explain() == [
        "9 interactions have settled",
        "they name 11 products in all, each is one event",
        "2 interactions name no product",
        "4 events of type impression say nothing for or against a product",
        "2 repeats of the same user, product, type and instant; they count",
    ]


def test_nothing_is_accounted_for_as_nothing() -> None:
    table = LOADED_INTERACTIONS.empty_table()
    account = build_event_counts(table, interactions_from_segments(table))
    assert (account.settled, account.lines, account.repeats, account.unweighted) == (0, 0, 0, {})


@pytest.mark.parametrize("after", [0, 1])
async def test_interactions_that_wait_are_counted(after: int) -> None:
    stores = memory_stores()
    click = {"type": "click", "anonymous_id": "v", "timestamp": "2026-03-01T00:00:00.000Z"}
    offsets = [
        "0",
        *[await stores.interactions.append("shop", orjson.dumps([click] * n), []) for n in (2, 3)],
    ]
    assert await count_uncompacted_interactions(stores.changes, "shop", offsets[after]) == (5, 3)[after]
