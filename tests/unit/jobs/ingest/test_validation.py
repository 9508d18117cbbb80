"""The validation rejects invalid rows with reason and number, and accepts all valid rows of the same chunk."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest

from jobs.ingest.files.unreadable_row import UnreadableRow
from jobs.ingest.mappings.mapping import FieldMap
from jobs.ingest.validation import check_interactions, check_records, row_from_message

READ = FieldMap().build_row_mapper("jsonl")
NOW_MS = 1_800_000_000_000


def test_bad_rows_are_rejected_by_number_and_the_others_accepted() -> None:
    rows: list[Any] = [
        {"product_id": "a"},
        {"product_id": "b", "colour": "red"},
        UnreadableRow("not JSON", "{"),
        {"product_id": "c", "price": "cheap"},
        {"title": "no id"},
        {"product_id": "d", "custom_attributes": {"x": {1, 2}}},
        {"product_id": "e"},
    ]
    checked = check_records("product", rows, 100, READ, NOW_MS)
    (part,) = checked.parts
    assert [record.record_id for record in part.accepted.records] == ["a", "e"]
    assert part.rows == (100, 106)
    assert [bad.row for bad in checked.refused] == [101, 102, 103, 104, 105]
    assert "colour" in checked.refused[0].reason
    assert orjson.loads(checked.refused[0].text) == rows[1]


def test_a_chunk_without_a_good_row_has_no_part() -> None:
    checked = check_records("user", [{"name": "x"}, {}], 0, READ, NOW_MS)
    assert checked.parts == ()
    assert len(checked.refused) == 2
    assert check_records("user", [], 0, READ, NOW_MS).parts == ()


def test_rows_that_are_too_much_together_are_taken_in_parts() -> None:
    many = {f"k{n}": [n] for n in range(900)}
    rows = [{"user_id": f"u{n}", "custom_attributes": many} for n in range(250)]
    checked = check_records("user", rows, 0, READ, NOW_MS)
    assert checked.refused == ()
    assert len(checked.parts) > 1
    assert [row for part in checked.parts for row in part.rows] == list(range(250))


def test_a_row_beyond_every_limit_is_refused_alone() -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    rows = [{"user_id": "a"}, {"user_id": "b", "custom_attributes": {"deep": deep}}, {"user_id": "c"}]
    checked = check_records("user", rows, 0, READ, NOW_MS)
    assert [record.record_id for part in checked.parts for record in part.accepted.records] == ["a", "c"]
    assert [bad.row for bad in checked.refused] == [1]


def test_interactions_need_somebody_who_acted() -> None:
    rows = [
        {"type": "click", "user_id": "u", "product_ids": ["p"], "timestamp": "2026-03-02T09:15:30Z"},
        {"type": "click", "product_ids": ["p"]},
        {"type": "dance", "user_id": "u"},
    ]
    checked = check_interactions(rows, 7, READ, NOW_MS)
    (part,) = checked.parts
    assert part.accepted.count == 1
    assert [bad.row for bad in checked.refused] == [8, 9]
    assert checked.refused[0].reason == "neither user_id nor anonymous_id"


def test_the_same_rows_give_the_same_payload_again() -> None:
    rows = [{"type": "click", "user_id": "u", "product_ids": ["p"]}] * 3
    payloads = [check_interactions(rows, 0, READ, NOW_MS).parts[0].accepted.payload for _ in range(2)]
    assert payloads[0] == payloads[1]


@pytest.mark.parametrize(
    ("message", "row"), [("data.1.x is invalid. y", 8), ("data.9 is invalid. y", None), ("no", None)]
)
def test_messages_are_traced_to_rows(message: str, row: int | None) -> None:
    assert row_from_message(message, (7, 8)) == row


def test_interactions_checked_at_once_come_out_as_those_checked_through_json() -> None:
    rows: list[Any] = [
        {"type": "click", "user_id": "u", "product_ids": ["p"], "timestamp": "2026-03-02T10:15:00+01:00"},
        {"type": "rate", "anonymous_id": "v", "product_ids": ["p", "q"], "rating": 4, "service_id": None},
        {"type": "search", "user_id": "u", "anonymous_id": "v", "search": {"keywords": "é", "filters": None}},
        {"type": "checkout", "user_id": "u", "product_ids": ["p"], "quantities": 2},
    ]
    bad = {"type": "click", "product_ids": ["p"]}
    at_once = check_interactions(copy.deepcopy(rows), 0, READ, NOW_MS)
    through_json = check_interactions([*copy.deepcopy(rows), bad], 0, READ, NOW_MS)
    assert at_once.refused == ()
    assert at_once.parts == through_json.parts
    assert [refused.row for refused in through_json.refused] == [4]


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", float("nan"), 10**400])
def test_an_interaction_no_json_can_hold_costs_only_itself(value: Any) -> None:
    good = {"type": "click", "user_id": "u", "product_ids": ["p"]}
    bad = {**good, "context": {"custom_context": {"x": value}}}
    checked = check_interactions([dict(good), bad, dict(good)], 0, READ, NOW_MS)
    assert sum(part.accepted.count for part in checked.parts) + len(checked.refused) == 3
    assert [refused.row for refused in checked.refused] in ([1], [])


def test_an_interaction_too_deep_is_refused_alone() -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    good = {"type": "click", "user_id": "u", "product_ids": ["p"]}
    checked = check_interactions(
        [good, {**good, "context": {"custom_context": {"x": deep}}}], 0, READ, NOW_MS
    )
    assert [refused.row for refused in checked.refused] == [1]
