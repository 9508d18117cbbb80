"""The user record."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from cluster.records.validation.upload import parse_upload
from tests.unit.cluster.records.grammar import NOW, at_most, body_of, faults, kept

GINA = {
    "user_id": "gina-7", "name": "Gina Holt", "profile_image": "https://shop.example/g.png", "age": 41, "gender": "F",
    "city": "Leeds", "state": "West Yorkshire", "country": "GB", "group_id": "g-1", "description": "Grows bulbs.",
    "created_at": "2025-11-20", "updated_at": "2026-03-02T09:00:00Z",
    "custom_attributes": {"plan": "gold", "interests": ["bulbs", "soil"], "gone": None},
}  # fmt: skip


def test_a_complete_user_is_kept_as_it_was_sent() -> None:
    assert kept("user", GINA) == GINA


def test_only_the_id_is_required() -> None:
    assert kept("user", {"user_id": "u"}) == {"user_id": "u"}
    assert faults("user", {}) == ["data.0.user_id is invalid. The attribute is required."]


def test_null_of_an_optional_field_is_absence_but_stays_inside_custom_attributes() -> None:
    sent = dict.fromkeys(GINA) | {"user_id": "u", "custom_attributes": {"a": None}}
    assert kept("user", sent) == {"user_id": "u", "custom_attributes": {"a": None}}
    assert faults("user", {"user_id": None}) == [
        "data.0.user_id is invalid. The attribute expected to be of type 'string', but 'null' is given."
    ]


def test_times_with_an_offset_are_rewritten() -> None:
    sent = {"user_id": "u", "created_at": "2026-03-02T10:00:00+01:00", "updated_at": "2026-03-02T10:00:00"}
    assert kept("user", sent) == {
        "user_id": "u",
        "created_at": "2026-03-02T09:00:00Z",
        "updated_at": "2026-03-02T10:00:00Z",
    }


@pytest.mark.parametrize(
    "user_id", ["a", "x" * 512, "a/b", "../..", "a,b", " ", "用户", "👩‍🌾", "\u202eabc", "a_b", "%2F"]
)
def test_ids_may_be_any_text_without_control_characters(user_id: str) -> None:
    assert kept("user", {"user_id": user_id})["user_id"] == user_id


@pytest.mark.parametrize(
    ("user_id", "text"),
    [
        ("", "The attribute should have at least 1 characters."),
        ("x" * 513, at_most(512)),
        ("_x", "The attribute should not start with '_'."),
        ("a\x00", "The attribute should not contain control characters."),
        ("a\r\nb", "The attribute should not contain control characters."),
        ("a\n", "The attribute should not contain control characters."),
        ("\x7f", "The attribute should not contain control characters."),
    ],
)
def test_other_ids_are_refused(user_id: str, text: str) -> None:
    assert faults("user", {"user_id": user_id}) == [f"data.0.user_id is invalid. {text}"]


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("name", 12, "expected to be of type 'string', but 'integer' is given."),
        ("name", 1.5, "expected to be of type 'string', but 'number' is given."),
        ("name", True, "expected to be of type 'string', but 'boolean' is given."),
        ("name", ["x"], "expected to be of type 'string', but 'array' is given."),
        ("name", {}, "expected to be of type 'string', but 'object' is given."),
        ("age", "41", "expected to be of type 'integer', but 'string' is given."),
        ("age", 41.5, "expected to be of type 'integer', but 'number' is given."),
        ("age", True, "expected to be of type 'integer', but 'boolean' is given."),
        ("age", 10**25, "expected to be of type 'integer', but 'number' is given."),
        ("age", 2**63, "should be less than 2147483648."),
        ("age", -(2**40), "should be greater than or equal to -2147483648."),
        ("created_at", "yesterday", "should match 'date-time' format."),
        ("created_at", 1772442930, "expected to be of type 'string', but 'integer' is given."),
        ("profile_image", "", "should have at least 1 characters."),
        ("profile_image", "x" * 65_537, "should have at most 65536 characters."),
        ("custom_attributes", [], "expected to be of type 'object', but 'array' is given."),
        ("colour", "red", "is not allowed."),
    ],
)
def test_fields_are_strict(field: str, value: Any, text: str) -> None:
    body = b'{"data":[{"user_id":"u","%s":%s}]}' % (
        field.encode(),
        str(value).encode()
        if isinstance(value, int) and not isinstance(value, bool)
        else orjson.dumps(value),
    )
    with pytest.raises(Exception, match="None of the records are inserted") as caught:
        parse_upload("user", body, now_ms=NOW)
    assert caught.value.facts["messages"] == [f"data.0.{field} is invalid. The attribute {text}"]  # type: ignore[attr-defined]


def test_records_keep_their_order_and_index() -> None:
    records = [{"user_id": name} for name in ("b", "a", "b")]
    upload = parse_upload("user", body_of(*records), now_ms=NOW)
    assert [(record.index, record.record_id) for record in upload.records] == [(0, "b"), (1, "a"), (2, "b")]
    assert orjson.loads(upload.check_types({}).payload) == records


def test_an_empty_upload_is_accepted() -> None:
    assert parse_upload("user", body_of(), now_ms=NOW).check_types({}).payload == b"[]"
