"""The product record, its parts and translations."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.records.product import Product
from cluster.records.validation.upload import parse_upload
from tests.unit.cluster.records.grammar import (
    NOT_ALLOWED,
    NOW,
    REQUIRED,
    body_of,
    faults,
    kept,
    not_of_format,
    wrong,
)

TROWEL = {
    "product_id": "trowel-02-green", "product_group_id": "trowel-02", "parent_id": "trowel", "related_ids": ["hoe-11"],
    "type": "tool", "title": "Steel trowel", "subtitle": "green grip", "description": "Short.",
    "short_description": "S.", "html": "<p>x</p>", "headers": ["h"], "paragraphs": ["p"], "anchors": ["a"],
    "children": [{"id": "3", "url": "u", "title": "t", "description": "d", "html": "h", "headers": ["x"],
                  "custom_attributes": {"n": 1}}],
    "language": "en", "created_at": "2026-03-02", "published_at": "2026-03-02T00:00:00Z",
    "updated_at": "2026-03-02T00:00:00.5Z", "categories": [["Garden", "Hand tools"], ["Gifts"]], "tags": ["steel"],
    "authors": ["A"], "publishers": ["P"], "collections": ["C"], "url": "https://shop.example/t",
    "cover_image": "https://shop.example/t.png", "images": ["a.png", {"src": "b.png", "deep": {"er": [1]}}],
    "price": 14.5, "original_price": 20, "sale_price": 12, "margin": -0.5, "size": "S", "color": "green",
    "material": "steel", "brand": "Alder", "condition": "USED", "availability": "PRE_ORDER", "rating": 4.6,
    "location": {"lat": 53.8, "lon": -1.55}, "enable_question_answering": False, "access": "subscriber",
    "corrected_at": "2026-03-03", "correction_note": "The length was wrong.",
    "custom_attributes": {"weight_g": 210, "vegan": True},
    "i18n_fr": {"title": "Truelle", "tags": ["acier"], "categories": [["Jardin"]], "custom_attributes": {"x": "y"}},
    "i18n_DE": {"title": "Kelle"},
}  # fmt: skip


def test_a_complete_product_is_kept_as_it_was_sent() -> None:
    assert kept("product", TROWEL) == TROWEL


def test_every_field_is_exercised_by_the_complete_product() -> None:
    assert set(Product.model_fields) <= set(TROWEL)


def test_only_the_id_is_required_and_nothing_is_invented() -> None:
    assert kept("product", {"product_id": "p"}) == {"product_id": "p"}


def test_null_of_an_optional_field_is_absence_on_every_level() -> None:
    sent = dict.fromkeys(TROWEL) | {
        "product_id": "p",
        "children": [{"id": "1", "title": None}],
        "i18n_fr": {"title": None, "brand": "B"},
        "i18n_DE": {},
        "i18n_nl": None,
        "custom_attributes": {"a": None},
        "images": [{"alt": None}],
    }
    assert kept("product", sent) == {
        "product_id": "p",
        "children": [{"id": "1"}],
        "i18n_fr": {"brand": "B"},
        "i18n_DE": {},
        "custom_attributes": {"a": None},
        "images": [{"alt": None}],
    }


def test_the_type_travels_beside_the_record() -> None:
    upload = parse_upload(
        "product", body_of({"product_id": "a", "type": "book"}, {"product_id": "b"}), now_ms=NOW
    )
    assert [record.product_type for record in upload.records] == ["book", None]


def test_several_locations_are_one_field() -> None:
    places = [{"lat": 1, "lon": 2}, {"lat": -90, "lon": 180.0}]
    assert kept("product", {"product_id": "p", "location": places})["location"] == places


@pytest.mark.parametrize(
    ("fields", "path", "text"),
    [
        ({"product_id": "a,b"}, "product_id", "The attribute should not contain ','."),
        ({"product_id": "_a"}, "product_id", "The attribute should not start with '_'."),
        ({"product_id": []}, "product_id", wrong("string", "array")),
        ({"tags": "x"}, "tags", wrong("array", "string")),
        ({"tags": ["a", 1, 2]}, "tags.1", wrong("string", "integer")),
        ({"tags": [None]}, "tags.0", wrong("string", "null")),
        ({"categories": ["a"]}, "categories.0", wrong("array", "string")),
        ({"categories": [["a", 1]]}, "categories.0.1", wrong("string", "integer")),
        ({"price": "12"}, "price", wrong("number", "string")),
        ({"price": True}, "price", wrong("number", "boolean")),
        ({"condition": "OLD"}, "condition", "The attribute should be one of 'NEW', 'USED', 'REFURBISHED'."),
        ({"condition": 1}, "condition", wrong("string", "integer")),
        (
            {"availability": "in_stock"},
            "availability",
            "The attribute should be one of 'IN_STOCK', 'OUT_OF_STOCK', 'PRE_ORDER'.",
        ),
        ({"enable_question_answering": 1}, "enable_question_answering", wrong("boolean", "integer")),
        ({"language": "e"}, "language", "The attribute should have at least 2 characters."),
        ({"parent_id": ""}, "parent_id", "The attribute should have at least 1 characters."),
        ({"related_ids": [""]}, "related_ids.0", "The attribute should have at least 1 characters."),
        ({"i18n_fra": None}, "i18n_fra", NOT_ALLOWED),
        ({"url": ""}, "url", "The attribute should have at least 1 characters."),
        ({"images": "x"}, "images", wrong("array", "string")),
        ({"images": [1]}, "images.0", wrong("string or object", "integer")),
        ({"location": "Leeds"}, "location", wrong("object", "string")),
        ({"location": {"lat": 1}}, "location.lon", REQUIRED),
        (
            {"location": {"lat": 91, "lon": 0}},
            "location.lat",
            "The attribute should be less than or equal to 90.",
        ),
        ({"location": {"lat": 1, "lon": 2, "height": 3}}, "location.height", NOT_ALLOWED),
        (
            {"location": [{"lat": 1, "lon": 2}, {"lat": "1", "lon": 2}]},
            "location.1.lat",
            wrong("number", "string"),
        ),
        ({"children": [{"title": "x"}]}, "children.0.id", REQUIRED),
        ({"children": [{"id": "1", "x": 1}]}, "children.0.x", NOT_ALLOWED),
        ({"i18n_fr": "x"}, "i18n_fr", wrong("object", "string")),
        ({"i18n_fr": {"price": 1}}, "i18n_fr.price", NOT_ALLOWED),
        ({"i18n_fra": {}}, "i18n_fra", NOT_ALLOWED),
        ({"i18n_f1": {}}, "i18n_f1", NOT_ALLOWED),
        ({"colour": "red"}, "colour", NOT_ALLOWED),
        ({"product_group_id_or_product_id": "x"}, "product_group_id_or_product_id", NOT_ALLOWED),
        ({"created_at": "2026-13-01"}, "created_at", not_of_format("date-time")),
    ],
)
def test_bad_fields_are_named(fields: dict[str, Any], path: str, text: str) -> None:
    assert faults("product", {"product_id": "p"} | fields) == [f"data.0.{path} is invalid. {text}"]
