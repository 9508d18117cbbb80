"""Custom attributes: allowed values, and one type per name across a data set."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.records.field_types.attributes import (
    MAX_ATTRIBUTES,
    AttributeFault,
    attribute_types,
    check_attributes,
)
from cluster.records.validation.upload import parse_upload
from tests.unit.cluster.records.grammar import NOW, body_of, faults, kept


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "bool"), (3, "number"), (-2.5, "number"), (1e308, "number"), ("ash", "string"), ("", "string"),
        ([1, 2.5], "number"), (["a", ""], "string"), ({"unit": "kg", "n": 3, "x": None, "y": False}, "object"),
        ({}, "object"), ([{"a": 1}, {}], "object"), (None, None), ([], None),
    ],
)  # fmt: skip
def test_allowed_values_have_a_scalar_type(value: Any, kind: str | None) -> None:
    attributes = {"a": value}
    check_attributes(attributes)
    assert attribute_types(attributes) == ({"a": kind} if kind else {})
    assert (
        kept("product", {"product_id": "p", "custom_attributes": attributes})["custom_attributes"]
        == attributes
    )


@pytest.mark.parametrize(
    "value",
    [
        [True],
        [1, "a"],
        [1, None],
        [None],
        [[1]],
        [{"a": 1}, 2],
        {"a": {"b": 1}},
        {"a": [1]},
        [{"a": {}}],
        [1, True],
    ],
)
def test_other_values_are_schema_errors(value: Any) -> None:
    with pytest.raises(AttributeFault):
        check_attributes({"a": value})
    (message,) = faults("user", {"user_id": "u", "custom_attributes": {"good": 1, "a": value}})
    assert message.startswith("data.0.custom_attributes.a")


def test_a_nested_fault_has_its_path() -> None:
    assert faults("user", {"user_id": "u", "custom_attributes": {"a": [{"b": 1}, {"c": []}]}}) == [
        "data.0.custom_attributes.a.1.c is invalid. "
        "The attribute expected to be of type 'boolean, number, string or null'."
    ]


@pytest.mark.parametrize("name", ["", "x" * 257, "a\x00b", "a\nb", "\x85"])
def test_names_are_bounded_and_free_of_control_characters(name: str) -> None:
    with pytest.raises(AttributeFault):
        check_attributes({name: 1})


@pytest.mark.parametrize("name", ["weight g", "größe", "尺寸", "a.b", "_x", "👩‍🌾", "\u200bx"])
def test_names_may_be_in_any_language(name: str) -> None:
    assert kept("user", {"user_id": "u", "custom_attributes": {name: 1}})["custom_attributes"] == {name: 1}


def test_the_number_of_attributes_is_bounded() -> None:
    many = {f"a{i}": i for i in range(MAX_ATTRIBUTES + 1)}
    assert faults("user", {"user_id": "u", "custom_attributes": many}) == [
        f"data.0.custom_attributes is invalid. The attribute should have at most {MAX_ATTRIBUTES} entries."
    ]
    many.popitem()
    assert kept("user", {"user_id": "u", "custom_attributes": many})["custom_attributes"] == many


def products(*attributes: dict[str, Any]) -> Any:
    """Upload products that differ in their custom attributes."""
    records = [{"product_id": f"p{i}", "custom_attributes": each} for i, each in enumerate(attributes)]
    return parse_upload("product", body_of(*records), now_ms=NOW)


def test_a_later_record_of_the_batch_that_differs_fails_alone() -> None:
    checked = products(
        {"weight": 1, "tag": "a"}, {"weight": "heavy"}, {"weight": [2, 3], "tag": None}
    ).check_types({})
    assert checked.messages == (
        "data.1.custom_attributes.weight is invalid. Its data type is not consistent with other records",
    )
    assert [record.record_id for record in checked.records] == ["p0", "p2"]
    assert checked.attribute_types == {"weight": "number", "tag": "string"}


def test_a_record_that_fails_decides_no_types() -> None:
    checked = products({"a": 1}, {"a": "x", "b": "y"}, {"b": 2}).check_types({})
    assert [record.record_id for record in checked.records] == ["p0", "p2"]
    assert checked.attribute_types == {"a": "number", "b": "number"}


def test_types_of_the_data_set_win_over_the_batch() -> None:
    upload = products({"weight": "light"}, {"weight": 3}, {"other": True})
    assert [record.record_id for record in upload.check_types({}).records] == ["p0", "p2"]
    checked = upload.check_types({"weight": "number", "unrelated": "bool"})
    assert [record.record_id for record in checked.records] == ["p1", "p2"]
    assert checked.messages == (
        "data.0.custom_attributes.weight is invalid. Its data type is not consistent with other records",
    )
    assert checked.attribute_types == {"weight": "number", "other": "bool"}


def test_several_clashes_of_a_record_are_one_message() -> None:
    checked = products({"a": 1, "b": "x"}, {"a": "1", "b": 2}).check_types({})
    assert checked.messages == (
        "data.1.custom_attributes.a is invalid. Its data type is not consistent with other records (and 1 more)",
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, [2]), ([1], 2.5), ("a", ["b"]), ({"x": 1}, [{"y": 2}]), (None, 1), ([], "a"), (True, None)],
)
def test_null_and_arrays_of_the_same_scalar_agree(first: Any, second: Any) -> None:
    assert products({"a": first}, {"a": second}).check_types({}).messages == ()


@pytest.mark.parametrize(("first", "second"), [(True, 1), (1, "1"), ("a", {"x": 1}), ([1], ["a"]), ({}, [1])])
def test_other_types_clash(first: Any, second: Any) -> None:
    assert len(products({"a": first}, {"a": second}).check_types({}).messages) == 1
