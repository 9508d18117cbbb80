from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import orjson
import polars as pl
import pyarrow as pa
import pytest

from actors.intake.segment_rows import build_compaction_batch
from actors.recommender.state.events import parse_interactions
from cluster.artifacts.segment_format import LOADED_INTERACTIONS
from cluster.clock import iso_ms
from cluster.errors import Invalid
from cluster.store.data.change_log import ChangeLogEntry
from jobs.refresh.data.dataset import (
    FrameColumns,
    event_factors,
    interactions_from_frame,
    interactions_from_segments,
)

AT_MS = 1_700_000_000_000


def segments(rows: list[tuple[str, str, int, list[str] | None, float, str]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 6
    return pa.table(
        dict(zip(LOADED_INTERACTIONS.names, map(list, columns), strict=True)), LOADED_INTERACTIONS
    )


def test_rows_stand_by_reader_then_time_whatever_their_order() -> None:
    rows = [("b", "x", 3.0), ("a", "y", 2.0), ("b", "y", 1.0), ("a", "z", 2.0)]
    frame = pl.DataFrame(rows, ["reader", "item", "at"], orient="row")
    for shuffled in (frame, frame[[2, 0, 1, 3]]):
        data = interactions_from_frame(shuffled)
        assert data.readers.names.to_pylist() == ["a", "b"]
        assert data.items.names.to_pylist() == ["x", "y", "z"]
        assert data.reader.tolist() == [0, 0, 1, 1]
        assert data.item.tolist() == [1, 2, 1, 0]
        assert data.at_s.tolist() == [2.0, 2.0, 1.0, 3.0]
        assert data.starts().tolist() == [0, 2, 4]


def test_without_a_clock_places_in_the_sequence_are_the_times() -> None:
    data = interactions_from_frame(
        pl.DataFrame({"reader": ["b", "a", "b", "a", "b"], "item": list("vwxyz")}), FrameColumns(at=None)
    )
    assert not data.clock
    assert data.at_s.tolist() == [0, 1, 0, 1, 2]
    assert [data.items.name(code) for code in data.item] == ["w", "y", "v", "x", "z"]


def test_dates_become_seconds() -> None:
    frame = pl.DataFrame({"reader": ["a"], "item": ["x"], "at": [datetime(2024, 1, 1, tzinfo=timezone.utc)]})
    assert interactions_from_frame(frame).at_s.tolist() == [1_704_067_200.0]


def test_an_invalid_time_has_a_clear_error() -> None:
    with pytest.raises(Invalid, match="column 'at' holds String"):
        interactions_from_frame(pl.DataFrame({"reader": ["a"], "item": ["x"], "at": ["yesterday"]}))


def test_a_missing_column_is_named() -> None:
    with pytest.raises(Invalid, match="columns are missing: at; there are reader, item"):
        interactions_from_frame(pl.DataFrame({"reader": ["a"], "item": ["x"]}))


def test_absurd_rows_are_dropped_and_counted() -> None:
    frame = pl.DataFrame(
        {
            "reader": ["a", None, "a", "a", "a"],
            "item": ["x", "x", None, "x", "y"],
            "at": [1.0, 1.0, 1.0, float("nan"), 2.0],
            "weight": [1.0, 1.0, 1.0, 1.0, float("inf")],
        }
    )
    data = interactions_from_frame(frame, FrameColumns(weight="weight"))
    assert (len(data), data.dropped) == (1, 4)


def test_words_where_numbers_belong_cost_their_rows_only() -> None:
    frame = pl.DataFrame({"reader": ["a", "a"], "item": ["x", "y"], "worth": ["0.5", "much"]})
    data = interactions_from_frame(frame, FrameColumns(at=None, weight="worth"))
    assert (data.weight.tolist(), data.dropped) == ([0.5], 1)
    huge = interactions_from_frame(
        frame.with_columns(worth=pl.Series([0.5, 1e300])), FrameColumns(at=None, weight="worth")
    )
    assert huge.dropped == 1


def test_no_rows_at_all_are_fine() -> None:
    data = interactions_from_frame(
        pl.DataFrame({"reader": [], "item": [], "at": []}, schema_overrides={"at": pl.Float64})
    )
    assert (len(data), data.n_readers, data.n_items, data.now_s) == (0, 0, 0, 0.0)
    assert interactions_from_segments(segments([])).n_items == 0


def test_lines_of_a_basket_share_its_number() -> None:
    frame = pl.DataFrame(
        {"reader": ["a"] * 4, "item": list("wxyz"), "at": [1, 1, 2, 2], "invoice": ["p", "p", "q", "q"]}
    )
    basket = interactions_from_frame(frame, FrameColumns(basket="invoice")).basket
    assert basket[0] == basket[1] != basket[2] == basket[3]


def test_segments_are_spread_over_their_products_and_weighed_by_type() -> None:
    offset = f"{AT_MS}-0"
    table = segments(
        [
            ("u:1", "checkout", AT_MS, ["p1", "p2"], 0.0, offset),
            ("u:1", "product_detail_page_view", AT_MS - 5_000, ["p3"], 2.0, offset),
            ("a:9", "rate", AT_MS - 1_000, ["p1"], 1.0, offset),
            ("a:9", "search", AT_MS, None, 0.0, offset),
            ("a:9", "impression", AT_MS, ["p1"], 0.0, offset),
            ("a:9", "click", AT_MS, ["p2"], 0.0, offset),
        ]
    )
    data = interactions_from_segments(table)
    named = [
        (data.readers.name(user), data.items.name(item), round(float(weight), 2))
        for user, item, weight in zip(data.reader, data.item, data.weight, strict=True)
    ]
    # a view of two seconds and an impression say nothing; a rating of 1 of 5 speaks against the product
    assert named == [("a:9", "p1", -0.3), ("a:9", "p2", 0.3), ("u:1", "p1", 1.0), ("u:1", "p2", 1.0)]
    assert data.basket[2] == data.basket[3] != data.basket[1]
    assert data.of_kinds(("checkout",)).item.tolist() == [0, 1]


def test_events_from_the_future_count_from_when_they_were_written() -> None:
    table = segments([("u:1", "click", AT_MS + 86_400_000_000, ["p"], 0.0, f"{AT_MS}-3")])
    assert interactions_from_segments(table).at_s.tolist() == [AT_MS / 1000]


def test_weights_of_types_can_be_changed() -> None:
    offset = f"{AT_MS}-0"
    table = segments(
        [
            ("u:1", "click", AT_MS, ["p1"], 0.0, offset),
            ("u:1", "checkout", AT_MS, ["p2"], 0.0, offset),
            ("u:1", "read", AT_MS, ["p3"], 60.0, offset),
            ("u:1", "like", AT_MS, ["p4"], 0.0, offset),
        ]
    )
    factors = event_factors({"click": 0.0, "checkout": 0.5, "read": 0.6})
    data = interactions_from_segments(table, factors)
    assert data.items.names.to_pylist() == ["p2", "p3", "p4"]
    # A read of one minute weighs 0.275 by default, a read without a duration 0.3.
    assert data.weight.tolist() == pytest.approx([0.5, 0.55, 0.6])
    with pytest.raises(Invalid, match="no such type of event: clicks"):
        event_factors({"clicks": 1.0})


@pytest.mark.parametrize(
    ("kind", "weight", "values", "weights"),
    [
        ("rate", 1.0, [0.0, 2.0, 3.0, 5.0], [-1.0, -1.0, 1.0, 1.0]),
        ("rate", 0.2, [0.0, 2.0, 3.0, 3.5, 5.0], [-1.0, -0.2, 0.2, 0.8, 1.0]),
        ("rate", -1.0, [1.0, 5.0], [1.0, -1.0]),
        ("watch", 1.0, [0.0, 12.0, 1e4], [1.0, 0.31667, 1.0]),
    ],
)
def test_changed_weights_stay_in_their_range(
    kind: str, weight: float, values: list[float], weights: list[float]
) -> None:
    rows = [("u:1", kind, AT_MS, [f"p{row}"], value, f"{AT_MS}-0") for row, value in enumerate(values)]
    data = interactions_from_segments(segments(rows), event_factors({kind: weight}))
    assert data.weight.tolist() == pytest.approx(weights, abs=1e-4)


def test_a_training_weighs_each_event_as_an_engine_does() -> None:
    items = [
        {"type": kind, "user_id": f"{kind} {value}", "product_ids": ["p"], "timestamp": iso_ms(AT_MS)} | more
        for kind in ("product_detail_page_view", "read", "watch", "rate", "click")
        for value in (None, 0, 0.001, 0.04, 0.06, 2.04, 4.949, 4.96, 5.0, 119.96, 1e9)
        for more in [{} if value is None else {"duration": value, "rating": min(value, 5)}]
    ]
    change = ChangeLogEntry("interaction", f"{AT_MS}-0", "put", orjson.dumps(items))
    table = build_compaction_batch("interaction", [change]).table.select(LOADED_INTERACTIONS.names)
    data = interactions_from_segments(table)
    trained = {data.readers.name(user): weight for user, weight in zip(data.reader, data.weight, strict=True)}
    codes: dict[str, int] = {}
    live = parse_interactions(
        items,
        user_code=lambda user_key: codes.setdefault(user_key, len(codes)),
        row_of=lambda _: 0,
        latest_ms=AT_MS,
    )
    served = {name: np.float32(live[code][3]) for name, code in codes.items()}
    assert trained == served
    # A view of 0 s was sent and is none; one without a duration counts.
    assert "u:product_detail_page_view 0" not in served
    assert "u:product_detail_page_view None" in served


def test_content_must_be_about_the_same_items() -> None:
    data = interactions_from_frame(pl.DataFrame({"reader": ["a"], "item": ["x"], "at": [1.0]}))
    with pytest.raises(Invalid, match="contents of 2 items, the data has 1"):
        data.with_content(np.zeros((2, 3), np.float32))
