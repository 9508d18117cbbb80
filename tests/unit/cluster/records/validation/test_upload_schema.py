"""The published schema of upload bodies says what the validator does."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from cluster.errors import KioskError
from cluster.records.interaction import INTERACTION_TYPES
from cluster.records.validation.upload import parse_upload
from cluster.records.validation.upload_schema import build_upload_schema
from tests.unit.cluster.records.grammar import NOW, body_of
from tests.unit.cluster.records.test_interaction import FIELDS, SHARED
from tests.unit.cluster.records.test_product import TROWEL
from tests.unit.cluster.records.test_user import GINA

jsonschema = pytest.importorskip("jsonschema")

GOOD: list[tuple[Any, dict[str, Any]]] = [
    ("user", GINA), ("user", {"user_id": "u", "name": None}),
    ("product", TROWEL), ("product", {"product_id": "p", "location": [{"lat": 1, "lon": 2}], "i18n_xx": {}}),
    *[("interaction", {"type": kind} | FIELDS[kind] | SHARED) for kind in INTERACTION_TYPES],
    ("interaction", {"type": "click", "user_id": None}),
]  # fmt: skip
BAD: list[tuple[Any, Any]] = [
    ("user", {}), ("user", {"user_id": "_x"}), ("user", {"user_id": ""}), ("user", {"user_id": 3}), ("user", "u"),
    ("user", {"user_id": "u", "colour": 1}), ("user", {"user_id": "u", "age": "4"}), ("user", {"user_id": "a\nb"}),
    ("user", {"user_id": "u", "custom_attributes": {"a": [True]}}),
    ("user", {"user_id": "u", "custom_attributes": {"a": {"b": {}}}}),
    ("user", {"user_id": "u", "custom_attributes": {"": 1}}),
    ("product", {"product_id": "a,b"}), ("product", {"product_id": "p", "condition": "OLD"}),
    ("product", {"product_id": "p", "i18n_fra": {}}), ("product", {"product_id": "p", "i18n_fr": {"x": 1}}),
    ("product", {"product_id": "p", "location": {"lat": 1}}), ("product", {"product_id": "p", "images": [1]}),
    ("product", {"product_id": "p", "children": [{}]}),
    ("interaction", {}), ("interaction", {"type": "stare"}), ("interaction", {"type": "custom"}),
    ("interaction", {"type": "click", "duration": 1}), ("interaction", {"type": "rate", "rating": 6}),
    ("interaction", {"type": "checkout", "quantities": 0}), ("interaction", {"type": "click", "service_id": "x"}),
]  # fmt: skip


@pytest.mark.parametrize(("noun", "record"), GOOD)
def test_what_is_accepted_is_in_the_schema(noun: Any, record: Any) -> None:
    parse_upload(noun, body_of(record), now_ms=NOW)
    jsonschema.Draft202012Validator(build_upload_schema(noun)).validate({"data": [record]})


@pytest.mark.parametrize(("noun", "record"), BAD)
def test_what_is_refused_is_not(noun: Any, record: Any) -> None:
    with pytest.raises(KioskError):
        parse_upload(noun, body_of(record), now_ms=NOW)
    assert not jsonschema.Draft202012Validator(build_upload_schema(noun)).is_valid({"data": [record]})


@pytest.mark.parametrize("noun", ["user", "product", "interaction"])
def test_the_schema_is_valid_and_stands_alone(noun: Any) -> None:
    schema = build_upload_schema(noun)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert b"$ref" not in orjson.dumps(schema)
    assert not jsonschema.Draft202012Validator(schema).is_valid({})
