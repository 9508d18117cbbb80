"""Interactions: 29 types with exactly their own fields, and what is made of an upload of them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from cluster.errors import Unauthenticated
from cluster.records.interaction import INTERACTION_TYPES, RecentEvent
from cluster.records.validation.accepted_uploads import AcceptedInteractions
from cluster.records.validation.upload import parse_upload
from tests.unit.cluster.records.grammar import (
    NOT_ALLOWED,
    NOW,
    REQUIRED,
    at_most,
    body_of,
    faults,
    not_of_format,
    wrong,
)

IDS = {"product_ids": ["a", "b"], "product_group_ids": ["g"]}
DURATION = {"duration": 4.5}
FIELDS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        ["remove_from_cart", "refund", "subscribe", "unsubscribe", "add_to_collection", "remove_from_collection",
         "like", "dislike", "share", "bookmark", "complete", "impression", "viewable_impression", "click", "submit",
         "product_image_view"], IDS),
    **dict.fromkeys(["product_detail_page_view", "promo_page_view", "read", "watch", "listen"], IDS | DURATION),
    "search": {"search": {"keywords": "hand fork", "filters": {"brand": ["Alder"]}}},
    "add_to_cart": IDS | {"quantities": [1, 2.5]},
    "checkout": IDS | {"quantities": 3, "revenue": 61.4},
    "rate": IDS | {"rating": 5},
    "feedback": {"question_id": "q", "result_type": "answer", "value": "helpful"},
    "home_page_view": DURATION,
    "category_page_view": DURATION | {"category": ["Garden", "Tools"]},
    "custom": IDS | {"custom_action_name": "heartbeat"},
}  # fmt: skip
SHARED = {
    "user_id": "gina-7",
    "anonymous_id": "anon-51",
    "timestamp": "2026-03-02T09:15:30.250Z",
    "service_id": "0b8d4a52-3f0c-4e0b-9a63-1f2f6a5d8c11",
    "event_id": "checkout-4711",
    "context": {
        "campaign": {"name": "n", "source": "s", "medium": "m", "term": "t", "content": "c"},
        "truncated_ip": "10.1.2.0",
        "locale": "en-US",
        "region": "r",
        "page": {"url": "u", "referrer": "r", "title": "t"},
        "user_agent": "x",
        "custom_context": {"n": 1, "mixed": [1, "a", None, {"x": []}], "none": None},
        "more": {"kept": True},
    },
}


def upload(*records: object, **options: Any) -> AcceptedInteractions:
    """Upload good interactions."""
    return parse_upload("interaction", body_of(*records), now_ms=NOW, **options)


def stored(*records: object, **options: Any) -> list[dict[str, Any]]:
    """Upload good interactions and take what would be stored."""
    items: list[dict[str, Any]] = orjson.loads(upload(*records, **options).payload)
    return items


def test_there_are_29_types() -> None:
    assert len(INTERACTION_TYPES) == len(set(INTERACTION_TYPES)) == 29
    assert set(INTERACTION_TYPES) == set(FIELDS)


@pytest.mark.parametrize("kind", INTERACTION_TYPES)
def test_a_complete_interaction_is_kept_as_it_was_sent(kind: str) -> None:
    sent = {"type": kind} | FIELDS[kind] | SHARED
    assert stored(sent) == [sent]


@pytest.mark.parametrize("kind", INTERACTION_TYPES)
def test_fields_of_other_types_are_refused(kind: str) -> None:
    every_field = {name: value for fields in FIELDS.values() for name, value in fields.items()}
    for name in every_field.keys() - FIELDS[kind].keys():
        assert faults("interaction", {"type": kind, **FIELDS[kind], name: every_field[name]}) == [
            f"data.0.{name} is invalid. The attribute is not allowed."
        ]


@pytest.mark.parametrize("kind", [kind for kind in INTERACTION_TYPES if kind != "custom"])
def test_only_the_type_is_required(kind: str) -> None:
    (item,) = stored({"type": kind})
    assert item == {"type": kind, "timestamp": "2026-03-02T09:15:30.250Z"}


@pytest.mark.parametrize(
    ("record", "path", "text"),
    [
        ({}, "type", REQUIRED),
        ({"type": None}, "type", REQUIRED),
        ({"type": 3}, "type", wrong("string", "integer")),
        ({"type": ["click"]}, "type", wrong("string", "array")),
        ({"type": {}}, "type", wrong("string", "object")),
        ({"type": "custom"}, "custom_action_name", REQUIRED),
        ({"type": "click", "event_id": ""}, "event_id", "The attribute should have at least 1 characters."),
        ({"type": "rate", "rating": 5.1}, "rating", "The attribute should be less than or equal to 5."),
        ({"type": "rate", "rating": -1}, "rating", "The attribute should be greater than or equal to 0."),
        ({"type": "click", "product_ids": "a"}, "product_ids", wrong("array", "string")),
        ({"type": "click", "product_ids": [1]}, "product_ids.0", wrong("string", "integer")),
        ({"type": "click", "product_ids": ["x" * 513]}, "product_ids.0", at_most(512)),
        (
            {"type": "click", "product_ids": ["a"] * 10_001},
            "product_ids",
            "The attribute should have at most 10000 entries.",
        ),
        ({"type": "click", "user_id": "x" * 513}, "user_id", at_most(512)),
        (
            {"type": "click", "user_id": "a\n"},
            "user_id",
            "The attribute should not contain control characters.",
        ),
        ({"type": "click", "anonymous_id": "x" * 1025}, "anonymous_id", at_most(1024)),
        ({"type": "click", "timestamp": "2026-03-02"}, "timestamp", not_of_format("date-time")),
        ({"type": "click", "timestamp": 5}, "timestamp", wrong("string", "integer")),
        ({"type": "click", "service_id": "x"}, "service_id", not_of_format("uuid")),
        ({"type": "click", "context": []}, "context", wrong("object", "array")),
        ({"type": "click", "context": {"page": {}}}, "context.page.url", REQUIRED),
        (
            {"type": "click", "context": {"truncated_ip": "1.2.3.256"}},
            "context.truncated_ip",
            not_of_format("ipv4"),
        ),
        (
            {"type": "click", "context": {"custom_context": "x"}},
            "context.custom_context",
            wrong("object", "string"),
        ),
        ({"type": "search", "search": {"keywords": 1}}, "search.keywords", wrong("string", "integer")),
        (
            {"type": "click", "product_id": "p"},
            "product_id",
            "The attribute is not allowed; use 'product_ids'.",
        ),
        ({"type": "search", "search": {"x": 1}}, "search.x", NOT_ALLOWED),
        (
            {"type": "search", "search": {"filters": {"brand": "Alder"}}},
            "search.filters.brand",
            wrong("array", "string"),
        ),
        (
            {"type": "search", "search": {"filters": {"brand": ["a", 1]}}},
            "search.filters.brand.1",
            wrong("string", "integer"),
        ),
        (
            {"type": "checkout", "product_ids": ["a"], "quantities": [1, 2]},
            "quantities",
            "The attribute should have as many items as 'product_ids'.",
        ),
        (
            {"type": "checkout", "quantities": [1]},
            "quantities",
            "The attribute should have as many items as 'product_ids'.",
        ),
        (
            {"type": "checkout", "product_ids": ["a"], "quantities": [0]},
            "quantities.0",
            "The attribute should be greater than 0.",
        ),
        (
            {"type": "checkout", "product_ids": ["a"], "quantities": ["1"]},
            "quantities.0",
            wrong("number", "string"),
        ),
        ({"type": "checkout", "quantities": "1"}, "quantities", wrong("number or array", "string")),
        ({"type": "checkout", "quantities": True}, "quantities", wrong("number or array", "boolean")),
        ({"type": "read", "duration": "5"}, "duration", wrong("number", "string")),
        ({"type": "feedback", "question_id": "x" * 513}, "question_id", at_most(512)),
        ({"type": "category_page_view", "category": [["a"]]}, "category.0", wrong("string", "array")),
    ],
)
def test_bad_fields_are_named(record: dict[str, Any], path: str, text: str) -> None:
    assert faults("interaction", record) == [f"data.0.{path} is invalid. {text}"]


def test_an_unknown_type_gets_the_list_of_all() -> None:
    (message,) = faults("interaction", {"type": "stare"})
    assert message.startswith("data.0.type is invalid. The attribute should be one of '")
    listed = message.partition("one of ")[2].rstrip(".").split(", ")
    assert listed == sorted(f"'{kind}'" for kind in INTERACTION_TYPES)


def test_null_of_an_optional_field_is_absence() -> None:
    sent = {
        "type": "search", "user_id": None, "anonymous_id": "v", "timestamp": None, "service_id": None,
        "search": {"keywords": None},
        "context": {"page": {"url": "u", "title": None}, "campaign": {"name": None}, "locale": None,
                    "custom_context": {"x": None}},
    }  # fmt: skip
    assert stored(sent) == [
        {
            "type": "search", "anonymous_id": "v", "timestamp": "2026-03-02T09:15:30.250Z", "search": {},
            "context": {"page": {"url": "u"}, "campaign": {}, "custom_context": {"x": None}},
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("2026-03-02T10:15:30+01:00", "2026-03-02T09:15:30.000Z"),
        ("2026-03-02T09:15:30", "2026-03-02T09:15:30.000Z"),
        ("2026-03-02T09:15:30.1239Z", "2026-03-02T09:15:30.123Z"),
        ("2026-03-02 09:15:30.250Z", "2026-03-02T09:15:30.250Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
    ],
)
def test_timestamps_have_one_stored_form(sent: str, kept: str) -> None:
    assert stored({"type": "click", "timestamp": sent})[0]["timestamp"] == kept


# --- who it was -----------------------------------------------------------------------------------------------


def test_interactions_without_ids_get_the_configured_default_visitor() -> None:
    calls = []

    def visitor() -> str:
        calls.append(1)
        return "sha"

    items = stored(
        {"type": "click"}, {"type": "like"}, {"type": "share", "user_id": "u"}, default_anonymous_id=visitor
    )
    assert [item.get("anonymous_id") for item in items] == ["sha", "sha", None]
    assert len(calls) == 1
    assert stored({"type": "click", "anonymous_id": None}, default_anonymous_id="x")[0]["anonymous_id"] == "x"


def test_the_default_visitor_is_not_read_without_need() -> None:
    def never() -> str:
        raise AssertionError

    upload(
        {"type": "click", "user_id": "u"}, {"type": "click", "anonymous_id": "v"}, default_anonymous_id=never
    )


def test_the_user_of_a_token_fills_in_and_must_match() -> None:
    items = stored(
        {"type": "click", "anonymous_id": "v"}, {"type": "click", "user_id": "u"}, token_user_id="u"
    )
    assert [item["user_id"] for item in items] == ["u", "u"]
    with pytest.raises(Unauthenticated, match="Token does not match the user"):
        upload({"type": "click", "user_id": "other"}, token_user_id="u")


def test_other_names_of_service_id_are_accepted_when_configured() -> None:
    service_id = SHARED["service_id"]
    aliases = ("acme_id", "other_id")
    assert (
        stored({"type": "click", "acme_id": service_id}, service_id_aliases=aliases)[0]["service_id"]
        == service_id
    )
    both = {"type": "click", "service_id": service_id, "other_id": "ignored"}
    assert stored(both, service_id_aliases=aliases)[0]["service_id"] == service_id
    null = {"type": "click", "service_id": None, "other_id": service_id}
    (item,) = stored(null, service_id_aliases=aliases)
    assert item["service_id"] == service_id
    assert "other_id" not in item
    assert faults("interaction", {"type": "click", "acme_id": service_id}) == [
        "data.0.acme_id is invalid. The attribute is not allowed."
    ]


# --- what the recommender hears ---------------------------------------------------------------------------------


def recents(*records: object, **options: Any) -> list[tuple[str, str, RecentEvent]]:
    """Upload good interactions and unpack their recent events."""
    accepted = upload(*records, **options)
    return [(user, visitor, RecentEvent.unpack(packed)) for user, visitor, packed in accepted.recents]


def test_recent_events_carry_ids_groups_and_time() -> None:
    assert recents(
        {"type": "click", "user_id": "u", "anonymous_id": "v", "timestamp": "2026-03-02T09:15:29Z", **IDS}
    ) == [("u", "v", RecentEvent("click", ("a", "b", "group:g"), NOW - 1250, 0.0))]


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"type": "read", "duration": 42.5}, 42.5),
        ({"type": "product_detail_page_view", "duration": 3}, 3.0),
        ({"type": "watch"}, 0.0),
        ({"type": "listen", "duration": 0}, 0.001),
        ({"type": "read", "duration": -5}, 0.001),
        ({"type": "rate", "rating": 0}, 0.0),
        ({"type": "rate", "rating": 4.5}, 4.5),
        ({"type": "rate"}, 3.0),
        ({"type": "checkout", "revenue": 100, "quantities": 2}, 0.0),
    ],
)
def test_the_value_of_an_event_is_seconds_or_the_rating(fields: dict[str, Any], value: float) -> None:
    ((_, _, event),) = recents({"user_id": "u", "product_ids": ["p"], **fields})
    assert event.value == value


@pytest.mark.parametrize(
    "kind",
    ["impression", "viewable_impression", "search", "feedback", "home_page_view", "category_page_view"],
)
def test_what_shows_no_interest_in_products_is_not_recent(kind: str) -> None:
    assert recents({"type": kind, "user_id": "u", **FIELDS[kind]}) == []


def test_events_without_products_or_without_anybody_are_not_recent() -> None:
    assert (
        recents({"type": "click", "user_id": "u"}, {"type": "click", "user_id": "u", "product_ids": []}) == []
    )
    assert recents({"type": "click", "product_ids": ["p"]}) == []


def test_recent_events_are_oldest_first_and_never_from_the_future() -> None:
    events = recents(
        {"type": "click", "user_id": "u", "product_ids": ["future"], "timestamp": "2999-01-01T00:00:00Z"},
        {"type": "click", "user_id": "u", "product_ids": ["now"]},
        {"type": "click", "user_id": "u", "product_ids": ["past"], "timestamp": "2020-01-01T00:00:00Z"},
    )
    assert [event.product_ids[0] for _, _, event in events] == ["past", "future", "now"]
    assert max(event.at_ms for _, _, event in events) == NOW


def test_events_outside_the_recent_list_still_link_ids() -> None:
    both = {"user_id": "u", "anonymous_id": "v"}
    accepted = upload(
        {"type": "home_page_view", **both}, {"type": "search", **both}, {"type": "click", **both, **IDS}
    )
    assert accepted.links == (("u", "v"),)
    assert len(accepted.recents) == 1
    assert accepted.count == 3
