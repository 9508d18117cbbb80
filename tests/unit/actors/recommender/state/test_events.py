from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest

from actors.recommender.state.events import (
    EVENT_WEIGHTS,
    EXPOSURE,
    EventArrays,
    events_from_table,
    parse_interactions,
    weigh_event,
    weigh_events,
)
from cluster.artifacts.segment_format import LOADED_INTERACTIONS
from cluster.clock import iso_ms

NOW = 1_772_452_800_000
ROWS = {"p1": 1, "p2": 2, "p3": 3, "group:g": 9}


def _read(*items: dict[str, Any], latest_ms: int = NOW) -> EventArrays:
    codes: dict[str, int] = {}
    return EventArrays.of(
        parse_interactions(
            items,
            user_code=lambda user_key: codes.setdefault(user_key, len(codes)),
            row_of=lambda name: ROWS.get(name, -1),
            latest_ms=latest_ms,
        )
    )


def _item(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "user_id": "u", "product_ids": ["p1"], "timestamp": iso_ms(NOW - 5), **more}


@pytest.mark.parametrize(
    ("kind", "value", "sign"),
    [
        ("checkout", 0, 1), ("add_to_cart", 0, 1), ("click", 0, 1), ("like", 0, 1), ("read", 0, 1),
        ("dislike", 0, -1), ("refund", 0, -1), ("remove_from_cart", 0, -1),
        ("impression", 0, 0), ("viewable_impression", 0, 0), ("home_page_view", 0, 0), ("feedback", 0, 0),
        ("product_detail_page_view", 3, 0), ("product_detail_page_view", 30, 1), ("product_detail_page_view", 0, 1),
        ("rate", 5, 1), ("rate", 3.5, 1), ("rate", 2, -1), ("rate", 0, -1),
    ],
)  # fmt: skip
def test_the_sign_of_an_event_weight_follows_its_type(kind: str, value: float, sign: int) -> None:
    weight = weigh_event(kind, value)
    assert (weight > 0) - (weight < 0) == sign


def test_readers_are_remembered_only_by_events_that_count() -> None:
    met: list[str] = []

    def code(user_key: str) -> int:
        met.append(user_key)
        return 7

    items = [
        _item("click"),
        {**_item("click", product_ids=["nobody has it"]), "user_id": "crawler"},
        {**_item("impression"), "user_id": "passer-by"},
    ]
    events = parse_interactions(items, user_code=code, row_of=lambda name: ROWS.get(name, -1), latest_ms=NOW)
    assert (len(events), met) == (1, ["u:u"])
    rows = [
        (user_key, kind, NOW, [product], 0.0, f"{NOW}-0")
        for user_key, kind, product in (
            ("a:crawler", "click", "nobody has it"), ("a:passer-by", "impression", "p1"), ("u:u", "click", "p1")
        )
    ]  # fmt: skip
    columns = dict(zip(LOADED_INTERACTIONS.names, zip(*rows, strict=True), strict=True))
    table = pa.table({name: list(column) for name, column in columns.items()}, schema=LOADED_INTERACTIONS)
    settled = events_from_table(table, user_code=code, row_of=lambda name: ROWS.get(name, -1))
    assert (settled.users.tolist(), met) == ([7], ["u:u", "u:u"])


def test_stronger_deeds_weigh_more() -> None:
    ladder = ["checkout", "add_to_cart", "like", "product_detail_page_view", "product_image_view"]
    weights = [weigh_event(kind) for kind in ladder]
    assert weights == sorted(weights, reverse=True)
    assert (
        weigh_event("watch", 300)
        == weigh_event("watch", 120)
        == 0.5
        > weigh_event("watch", 30)
        > weigh_event("watch", 1)
    )


def test_many_events_weigh_what_each_weighs_alone() -> None:
    names = [*EVENT_WEIGHTS, "impression", "a type of a newer release"]
    values = [0.0, 0.001, 0.04, 2.0, 3.0, 4.2, 4.99, 5.0, 60.0, 119.99, 120.0, 1e12]
    kind, value = np.meshgrid(np.arange(len(names)), values)
    weights = weigh_events(names, kind.ravel(), value.ravel())
    pairs = zip(kind.ravel().tolist(), value.ravel().tolist(), strict=True)
    assert weights.tolist() == [weigh_event(names[code], seconds) for code, seconds in pairs]


def test_every_weighted_type_exists_in_the_interface() -> None:
    from cluster.records import interaction

    public_types: set[str] = set()
    for model in vars(interaction).values():
        fields = getattr(model, "model_fields", {})
        if "type" in fields:
            public_types.update(get_args(fields["type"].annotation))
    assert set(EVENT_WEIGHTS) | EXPOSURE <= public_types
    assert not set(EVENT_WEIGHTS) & EXPOSURE


def test_one_event_a_product_and_unknown_products_are_left_out() -> None:
    events = _read(_item("checkout", product_ids=["p1", "nobody", "p2"]))
    assert events.rows.tolist() == [1, 2]
    assert events.bought.all()
    assert events.at_ms.tolist() == [NOW - 5, NOW - 5]


def test_groups_count_as_their_product() -> None:
    assert _read(_item("click", product_ids=None, product_group_ids=["g"])).rows.tolist() == [9]


def test_user_id_precedes_anonymous_id() -> None:
    events = _read(
        _item("click", anonymous_id="x"), _item("click", user_id=None, anonymous_id="x"), _item("click")
    )
    assert events.users.tolist() == [0, 1, 0]


def test_nothing_happens_after_it_was_written() -> None:
    assert _read(_item("click", timestamp="2099-01-01T00:00:00.000Z")).at_ms.tolist() == [NOW]


def test_a_missing_rating_is_neither_good_nor_bad() -> None:
    assert 0 <= _read(_item("rate")).weights[0] < _read(_item("rate", rating=4)).weights[0]


def test_events_that_say_nothing_leave_nothing() -> None:
    assert len(_read(_item("impression"), _item("search", product_ids=None), _item("feedback"))) == 0
    assert len(_read()) == 0


def test_settled_interactions_count_exactly_as_live_ones() -> None:
    items = [
        _item("checkout", product_ids=["p1", "p2"]),
        _item("rate", rating=4.5, user_id=None, anonymous_id="x"),
        _item("rate", rating=0.0),
        _item("product_detail_page_view", duration=2.0),
        _item("product_detail_page_view", duration=0.0),
        _item("product_detail_page_view"),
        _item("watch", duration=60.0, product_ids=["p3"]),
        _item("impression"),
        _item("dislike", product_ids=["group:g"]),
        _item("click", product_ids=[]),
        _item("click", timestamp="2099-01-01T00:00:00.000Z"),
    ]
    values = [0.0, 4.5, 0.0, 2.0, 0.001, 0.0, 60.0, 0.0, 0.0, 0.0, 0.0]
    rows = [
        {
            "reader": "u:u" if item["user_id"] else "a:x",
            "type": item["type"],
            "at_ms": 4_070_908_800_000 if "2099" in item["timestamp"] else NOW - 5,
            "product_ids": item["product_ids"],
            "value": value,
            "offset": f"{NOW}-0",
        }
        for item, value in zip(items, values, strict=True)
    ]
    codes: dict[str, int] = {}
    settled = events_from_table(
        pa.Table.from_pylist(rows, schema=LOADED_INTERACTIONS),
        user_code=lambda user_key: codes.setdefault(user_key, len(codes)),
        row_of=lambda name: ROWS.get(name, -1),
    )
    live = _read(*items)
    for column in ("users", "rows", "at_ms", "bought"):
        assert getattr(settled, column).tolist() == getattr(live, column).tolist(), column
    assert settled.weights.tolist() == pytest.approx(live.weights.tolist())


def test_an_empty_table_is_no_event() -> None:
    empty = events_from_table(LOADED_INTERACTIONS.empty_table(), user_code=len, row_of=len)
    assert len(empty) == 0
