"""Delete bodies."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from cluster.errors import Malformed, Unprocessable
from cluster.records.validation.deletes import (
    MAX_IDS,
    parse_interaction_delete,
    parse_product_delete,
    parse_user_delete,
)


def detail(body: object, parse: Any = parse_user_delete) -> list[dict[str, Any]]:
    with pytest.raises(Unprocessable) as caught:
        parse(orjson.dumps(body))
    detail: list[dict[str, Any]] = caught.value.facts["detail"]
    return detail


def test_ids_are_read_once_each_and_in_order() -> None:
    assert parse_user_delete(b'{"data":{"user_ids":["b","a","b","_x","a/b"]},"more":1}') == [
        "b",
        "a",
        "_x",
        "a/b",
    ]
    assert parse_product_delete(b'{"data":{"product_ids":["b"],"more":1}}') == ["b"]
    assert parse_interaction_delete(b'{"user_ids":["b","b"],"more":1}') == ["b"]
    assert parse_interaction_delete(b'{"data":{"user_ids":["b"]}}') == ["b"]
    assert parse_user_delete(b'{"data":{"user_ids":[]}}') == []


@pytest.mark.parametrize(
    ("body", "loc", "msg", "kind"),
    [
        ({}, ["data"], "field required", "value_error.missing"),
        ({"data": {}}, ["data", "user_ids"], "field required", "value_error.missing"),
        ([], [], "value is not a valid dict", "type_error.dict"),
        ({"data": []}, ["data"], "value is not a valid dict", "type_error.dict"),
        ({"data": None}, ["data"], "none is not an allowed value", "type_error.none.not_allowed"),
    ],
)
def test_faults_of_the_frame_are_located(body: object, loc: list[Any], msg: str, kind: str) -> None:
    assert detail(body) == [{"loc": ["body", *loc], "msg": msg, "type": kind}]


@pytest.mark.parametrize(
    ("ids", "loc", "msg", "kind"),
    [
        ("a", [], "value is not a valid list", "type_error.list"),
        (None, [], "none is not an allowed value", "type_error.none.not_allowed"),
        (["a", 1], [1], "str type expected", "type_error.str"),
        ([None], [0], "none is not an allowed value", "type_error.none.not_allowed"),
        ([""], [0], "ensure this value has at least 1 characters", "value_error.any_str.min_length"),
        (["x" * 513], [0], "ensure this value has at most 512 characters", "value_error.any_str.max_length"),
        (
            ["x"] * (MAX_IDS + 1),
            [],
            "ensure this value has at most 10000 items",
            "value_error.list.max_items",
        ),
    ],
)
def test_faults_of_ids_are_located(ids: object, loc: list[Any], msg: str, kind: str) -> None:
    faults = detail({"data": {"user_ids": ids}})
    assert faults == [{"loc": ["body", "data", "user_ids", *loc], "msg": msg, "type": kind}]


def test_each_resource_names_its_field() -> None:
    assert detail({"data": {"user_ids": []}}, parse_product_delete)[0]["loc"] == [
        "body",
        "data",
        "product_ids",
    ]
    assert detail({}, parse_interaction_delete)[0]["loc"] == ["body", "user_ids"]
    assert detail({"data": []}, parse_interaction_delete)[0]["loc"] == ["body", "user_ids"]


def test_many_bad_ids_are_many_entries_but_not_without_bound() -> None:
    assert [entry["loc"][-1] for entry in detail({"data": {"user_ids": [1, "a", ""]}})] == [0, 2]
    assert len(detail({"data": {"user_ids": [1] * 5_000}})) == 100


@pytest.mark.parametrize("parse", [parse_user_delete, parse_product_delete, parse_interaction_delete])
def test_what_is_not_json_is_malformed(parse: Any) -> None:
    for body in (b"", b"{", b'{"user_ids":["\\ud800"]}', b'{"user_ids":[],"user_ids":[]}'):
        with pytest.raises(Malformed):
            parse(body)
