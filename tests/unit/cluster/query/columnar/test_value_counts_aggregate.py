"""Counting values."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.errors import FilterSyntax, NotFound
from cluster.query.columnar.value_counts import count_values
from cluster.query.language.parser import parse

RECORDS: list[dict[str, Any]] = [
    {"brand": "Alder", "tags": ["steel", "small", "steel"], "n": 1,
     "categories": [["Garden", "Tools"], ["Garden", "Gifts"]]},
    {"brand": "Fernhill", "tags": ["steel"], "categories": [["Garden"]], "n": 1.0, "custom_attributes": {"on": True}},
    {"brand": "Alder", "tags": [], "n": 2.5, "custom_attributes": {"on": False}},
    {"brand": None, "title": "x", "n": True, "custom_attributes": {"on": True}},
]  # fmt: skip


def test_values_come_with_how_many_records_hold_them() -> None:
    counted = count_values(RECORDS, "brand")
    assert (counted.total, counted.values) == (3, [("Alder", 2), ("Fernhill", 1)])


def test_a_record_counts_once_for_a_value_and_each_level_of_a_path_is_one() -> None:
    assert count_values(RECORDS, "tags").values == [("steel", 2), ("small", 1)]
    assert count_values(RECORDS, "tags").total == 2
    assert count_values(RECORDS, "categories").values == [("Garden", 2), ("Gifts", 1), ("Tools", 1)]


def test_numbers_and_booleans_are_not_mixed_up() -> None:
    assert count_values(RECORDS, "n").values == [(1, 2), (2.5, 1), (True, 1)]
    assert count_values(RECORDS, "attributes.on").values == [(True, 2), (False, 1)]


def test_size_cuts_the_list_and_not_the_total() -> None:
    assert count_values(RECORDS, "tags", size=1).values == [("steel", 2)]
    assert count_values(RECORDS, "tags", size=0).values == []
    assert count_values(RECORDS, "tags", size=0).total == 2


def test_include_and_exclude_look_at_whole_values_with_regard_to_case() -> None:
    assert count_values(RECORDS, "tags", include="s.*").values == [("steel", 2), ("small", 1)]
    assert count_values(RECORDS, "tags", include="S.*").values == []
    assert count_values(RECORDS, "tags", include="tee").values == []
    assert count_values(RECORDS, "tags", include="s.*", exclude='"small"').values == [("steel", 2)]
    assert count_values(RECORDS, "attributes.on", include="true").values == [(True, 2)]
    assert count_values(RECORDS, "n", include="[0-9]").values == [(1, 2)]


def test_a_filter_chooses_the_records_but_not_whether_the_field_exists() -> None:
    counted = count_values(iter(RECORDS), "tags", fq=parse("brand:Fernhill"))
    assert (counted.total, counted.values) == (1, [("steel", 1)])
    nothing = count_values(RECORDS, "tags", fq=parse("brand:Nobody"))
    assert (nothing.total, nothing.values) == (0, [])


@pytest.mark.parametrize("field", ["nowhere", "brand.x", "custom_attributes.nowhere"])
def test_a_field_without_records_has_no_column(field: str) -> None:
    with pytest.raises(NotFound, match="field is not found"):
        count_values(RECORDS, field)


@pytest.mark.parametrize("parameter", ["include", "exclude"])
def test_a_bad_expression_names_its_parameter(parameter: str) -> None:
    with pytest.raises(FilterSyntax) as caught:
        count_values(RECORDS, "tags", **{parameter: "a("})
    assert (caught.value.facts["parameter"], caught.value.facts["position"]) == (parameter, 1)
