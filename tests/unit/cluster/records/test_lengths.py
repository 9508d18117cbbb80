"""Bounds on the lengths of the texts of records: each text has one, and so has the whole record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cluster.records.field_types.attributes import MAX_TEXT
from cluster.records.field_types.fields import (
    MAX_CONTENT,
    MAX_ITEMS,
    MAX_LEVELS,
    MAX_PATHS,
    MAX_RECORD_BYTES,
    MAX_TITLE,
)
from cluster.records.validation.upload import parse_upload
from cluster.records.validation.upload_schema import build_upload_schema
from tests.unit.cluster.records.grammar import NOW, body_of, faults, kept

WITHOUT_BOUND = {"images"}
"Items are returned as sent; the bound on the record covers them."
BOUNDS = {"maxLength", "enum", "const", "pattern", "format", "anyOf"}
"Each of them bounds a text: `pattern` stands alone at UUIDs and addresses, the others at times."


def _texts(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield each text of a schema with its path; names of objects are no texts."""
    if isinstance(schema, list):
        for item in schema:
            yield from _texts(item, path)
    if isinstance(schema, dict):
        if schema.get("type") == "string":
            yield path, schema
        for name, part in schema.items():
            if name in ("properties", "patternProperties"):
                for field, described in part.items():
                    yield from _texts(described, (*path, field))
            elif name != "propertyNames":
                yield from _texts(part, path)


@pytest.mark.parametrize("noun", ["user", "product", "interaction"])
def test_every_text_of_a_published_schema_has_a_bound(noun: Any) -> None:
    texts = list(_texts(build_upload_schema(noun)))
    assert len(texts) > 10
    unbounded = [path for path, text in texts if not BOUNDS & set(text) and path[-1] not in WITHOUT_BOUND]
    assert unbounded == []


FIELDS: list[tuple[Any, str, int]] = [
    ("product", "title", MAX_TITLE), ("product", "subtitle", MAX_TEXT), ("product", "short_description", MAX_TEXT),
    ("product", "description", MAX_CONTENT), ("product", "html", MAX_CONTENT), ("product", "brand", MAX_TEXT),
    ("user", "name", MAX_TEXT), ("user", "description", MAX_CONTENT),
]  # fmt: skip


@pytest.mark.parametrize(("noun", "field", "most"), FIELDS)
def test_a_text_of_the_largest_length_is_kept_and_one_more_character_is_refused(
    noun: Any, field: str, most: int
) -> None:
    identity = {f"{noun}_id": "x"}
    assert kept(noun, {**identity, field: "a" * most})[field] == "a" * most
    (message,) = faults(noun, {**identity, field: "a" * (most + 1)})
    assert message == f"data.0.{field} is invalid. The attribute should have at most {most} characters."


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("tags.1", {"tags": ["a", "a" * (MAX_TEXT + 1)]}),
        ("categories.0.0", {"categories": [["a" * (MAX_TEXT + 1)]]}),
        ("i18n_fr.title", {"i18n_fr": {"title": "a" * (MAX_TITLE + 1)}}),
        ("children.0.html", {"children": [{"id": "1", "html": "a" * (MAX_CONTENT + 1)}]}),
        ("custom_attributes.note", {"custom_attributes": {"note": "a" * (MAX_TEXT + 1)}}),
        ("custom_attributes.notes", {"custom_attributes": {"notes": ["a", "a" * (MAX_TEXT + 1)]}}),
        ("custom_attributes.note.text", {"custom_attributes": {"note": {"text": "a" * (MAX_TEXT + 1)}}}),
    ],
)
def test_a_nested_text_that_is_too_long_is_named_with_its_path(place: str, value: dict[str, Any]) -> None:
    (message,) = faults("product", {"product_id": "p", **value})
    assert message.startswith(f"data.0.{place} is invalid. The attribute should have at most ")


@pytest.mark.parametrize(
    ("field", "value", "most"),
    [
        ("categories", ["a"], MAX_PATHS),
        *((field, "a", MAX_ITEMS) for field in ("tags", "authors", "paragraphs")),
    ],
)
def test_a_list_has_a_limited_number_of_entries(field: str, value: object, most: int) -> None:
    assert kept("product", {"product_id": "p", field: [value] * most})[field] == [value] * most
    (message,) = faults("product", {"product_id": "p", field: [value] * (most + 1)})
    assert message == f"data.0.{field} is invalid. The attribute should have at most {most} entries."


def test_a_category_path_has_a_limited_number_of_levels() -> None:
    paths = [["a"] * MAX_LEVELS, ["b"]]
    assert kept("product", {"product_id": "p", "categories": paths})["categories"] == paths
    (message,) = faults("product", {"product_id": "p", "categories": [["b"], ["a"] * (MAX_LEVELS + 1)]})
    assert (
        message == f"data.0.categories.1 is invalid. The attribute should have at most {MAX_LEVELS} entries."
    )


@pytest.mark.parametrize(
    ("noun", "record"),
    [
        ("product", {"product_id": "p", "images": ["a" * MAX_RECORD_BYTES]}),
        ("product", {"product_id": "p", "paragraphs": ["é" * 600_000] * 2}),
        ("user", {"user_id": "u", "custom_attributes": {f"a{at}": "a" * 9_000 for at in range(300)}}),
        ("interaction", {"type": "click", "context": {"custom_context": {"a": "a" * MAX_RECORD_BYTES}}}),
    ],
)
def test_a_record_of_more_bytes_than_allowed_is_refused(noun: Any, record: dict[str, Any]) -> None:
    (message,) = faults(noun, record)
    assert message == f"data.0 is invalid. The record should have at most {MAX_RECORD_BYTES} bytes."


def test_many_interactions_of_allowed_size_may_be_larger_together() -> None:
    record = {"type": "click", "context": {"custom_context": {"a": "a" * 1_500_000}}}
    assert parse_upload("interaction", body_of(record, record), now_ms=NOW).count == 2
