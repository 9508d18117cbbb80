"""Changes to segment rows: in log order, the newest row of an id, nothing of the erased."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from actors.intake.segment_rows import CompactionBatch, build_compaction_batch
from cluster.artifacts.segment_format import INTERACTIONS, RECORDS
from cluster.records.intake import Noun, Op
from cluster.records.interaction import RecentEvent
from cluster.records.validation.upload import parse_upload
from cluster.store.data.change_log import ChangeLogEntry

AT = "2026-03-02T09:15:30.250Z"
AT_MS = 1_772_442_930_250
LATER = "1900000000000-0"


def change(
    noun: Noun, offset: str, op: Op, items: Any, vectors: bytes = b"", embedder: str = ""
) -> ChangeLogEntry:
    return ChangeLogEntry(noun, offset, op, orjson.dumps(items), vectors, embedder)


def compact(*changes: ChangeLogEntry) -> CompactionBatch:
    return build_compaction_batch(changes[0].noun, changes)


def click(**fields: Any) -> dict[str, Any]:
    return {"type": "click", "timestamp": AT, "product_ids": ["p1"], **fields}


def test_products_keep_json_type_and_vector() -> None:
    vectors = np.arange(8, dtype="<f2").tobytes()
    products = [{"product_id": "a", "type": "book"}, {"product_id": "b"}]
    settled = compact(change("product", "5-1", "put", products, vectors, "e-1"))
    assert settled.table.schema == RECORDS
    rows = settled.table.to_pylist()
    assert [(row["id"], row["product_type"], row["embedder"], row["offset"]) for row in rows] == [
        ("a", "book", "e-1", "5-1"),
        ("b", None, "e-1", "5-1"),
    ]
    assert np.frombuffer(rows[1]["vector"], np.float16).tolist() == [4, 5, 6, 7]
    assert orjson.loads(rows[0]["json"]) == {"product_id": "a", "type": "book"}
    assert (settled.first, settled.last, settled.erased, settled.refused) == ("5-1", "5-1", (), ())


def test_only_the_newest_row_of_an_id_settles_and_a_removed_product_leaves_a_tombstone() -> None:
    products = [{"product_id": "a", "v": 1}, {"product_id": "b"}, {"product_id": "a", "v": 2}]
    settled = compact(
        change("product", "1-0", "put", products),
        change("product", "2-0", "remove", ["b", "never-seen"]),
        change("product", "3-0", "put", [{"product_id": "c"}]),
        change("product", "4-0", "remove", ["c"]),
        change("product", "5-0", "put", [{"product_id": "c", "v": 5}]),
    )
    rows = {row["id"]: (row["gone"], row["json"]) for row in settled.table.to_pylist()}
    assert rows == {
        "a": (False, b'{"product_id":"a","v":2}'),
        "b": (True, None),
        "never-seen": (True, None),
        "c": (False, b'{"product_id":"c","v":5}'),
    }
    assert (settled.first, settled.last) == ("1-0", "5-0")


def test_a_removed_user_leaves_no_row_at_all_and_is_erased_from_what_settled_before() -> None:
    settled = compact(
        change("user", "1-0", "put", [{"user_id": "ann"}, {"user_id": "bob"}, {"user_id": "cy"}]),
        change("user", "2-0", "remove", ["ann", "cy"]),
        change("user", "3-0", "put", [{"user_id": "cy", "back": True}]),
    )
    assert [row["json"] for row in settled.table.to_pylist()] == [
        b'{"user_id":"bob"}',
        b'{"user_id":"cy","back":true}',
    ]
    assert settled.erased == ("ann", "cy")


def test_interactions_become_typed_rows() -> None:
    items = [
        click(user_id="ann", anonymous_id="phone"),
        {"type": "search", "timestamp": AT, "anonymous_id": "phone", "search": {"keywords": "bulb"}},
    ]
    settled = compact(change("interaction", LATER, "put", items))
    assert settled.table.schema == INTERACTIONS
    first, second = settled.table.to_pylist()
    assert first == {
        "reader": "u:ann", "type": "click", "at_ms": AT_MS, "product_ids": ["p1"], "value": 0.0, "offset": LATER,
        "json": orjson.dumps(items[0]),
    }  # fmt: skip
    assert (second["reader"], second["product_ids"]) == ("a:phone", [])


def test_rows_say_the_same_as_recent_lists() -> None:
    sent = [
        click(user_id="u", product_group_ids=["g1"]),
        {"type": "product_detail_page_view", "user_id": "u", "product_ids": ["p"], "duration": 42.5},
        {"type": "product_detail_page_view", "user_id": "u", "product_ids": ["p"], "duration": 0},
        {"type": "product_detail_page_view", "user_id": "u", "product_ids": ["p"]},
        {"type": "rate", "user_id": "u", "product_ids": ["p"], "rating": 4.5},
        {"type": "rate", "user_id": "u", "product_ids": ["p"]},
        {"type": "rate", "user_id": "u", "product_ids": ["p"], "rating": 0},
        {
            "type": "checkout",
            "user_id": "u",
            "product_ids": ["p", "q"],
            "quantities": [1, 2],
            "revenue": 61.4,
        },
    ]
    accepted = parse_upload("interaction", orjson.dumps({"data": sent}), now_ms=AT_MS)
    settled = compact(ChangeLogEntry("interaction", f"{AT_MS}-0", "put", accepted.payload))
    rows = settled.table.to_pylist()
    events = [RecentEvent.unpack(packed) for _, _, packed in accepted.recents]
    assert sorted(
        (row["type"], tuple(row["product_ids"]), row["at_ms"], row["value"]) for row in rows
    ) == sorted((event.type, event.product_ids, event.at_ms, event.value) for event in events)


def test_nothing_happened_after_it_was_logged() -> None:
    settled = compact(change("interaction", f"{AT_MS - 500}-3", "put", [click(user_id="u")]))
    assert settled.table["at_ms"].to_pylist() == [AT_MS - 500]


def test_an_erased_reader_keeps_only_what_came_afterwards() -> None:
    clicks = [click(user_id="ann"), click(user_id="bob"), click(anonymous_id="phone")]
    settled = compact(
        change("interaction", "1-0", "put", clicks),
        change("interaction", "2-0", "erase", ["u:ann", "a:phone"]),
        change("interaction", "3-0", "put", [click(user_id="ann", product_ids=["new"])]),
    )
    assert [(row["reader"], row["offset"]) for row in settled.table.to_pylist()] == [
        ("u:bob", "1-0"),
        ("u:ann", "3-0"),
    ]
    assert settled.erased == ("a:phone", "u:ann")


def test_entries_that_break_the_promise_are_left_out_and_named() -> None:
    good = click(user_id="ann")
    mixed = [good, {"type": "click"}, click(user_id="x", timestamp="soon"), 7, good]
    settled = compact(
        ChangeLogEntry("interaction", "1-0", "put", b"not json"),
        change("interaction", "2-0", "put", mixed),
        change("interaction", "3-0", "put", [good]),
    )
    assert settled.table["offset"].to_pylist() == ["2-0", "2-0", "3-0"]
    assert [reason.split(":")[0] for reason in settled.refused] == ["1-0", "2-0[1]", "2-0[2]", "2-0[3]"]
    assert settled.last == "3-0"


def test_a_broken_product_does_not_shift_its_neighbours_vectors() -> None:
    vectors = np.arange(6, dtype="<f2").tobytes()
    items = [{"product_id": "a"}, {"nothing": 1}, {"product_id": "c"}]
    settled = compact(change("product", "1-0", "put", items, vectors, "e"))
    rows = settled.table.to_pylist()
    assert [(row["id"], np.frombuffer(row["vector"], np.float16).tolist()) for row in rows] == [
        ("a", [0.0, 1.0]),
        ("c", [4.0, 5.0]),
    ]


def test_an_empty_change_settles_to_no_rows() -> None:
    settled = compact(ChangeLogEntry("product", "9-0", "put", b"[]"))
    assert settled.table.num_rows == 0
    assert settled.last == "9-0"
