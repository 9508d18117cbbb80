"""Mappings as forms show them: rules to choices and back."""

from __future__ import annotations

from typing import Any

import pytest

from deployments.console.pages.imports import format_field, format_preview
from deployments.operations.content.import_mapping import MappingChoices, build_mapping, choices_from_mapping

NAMES = ["Artikelnummer", "Preis", "Auf Lager", "Datum", "rating", "Notiz: x"]
COLUMNS: list[dict[str, Any]] = [{"name": name} for name in NAMES]
RULES = (
    "product_id=Artikelnummer",
    "price=Preis:number(,)",
    'availability="Auf Lager"{ja:IN_STOCK,nein:OUT_OF_STOCK}',
    "updated_at=Datum:time(day-first)",
    "=rating",
    "tags=Notiz;",
)


def test_rules_become_choices_and_the_same_rules_again() -> None:
    choices = choices_from_mapping(NAMES, RULES, "product", is_plain=False)
    assert choices.chosen == {0: "product_id", 1: "price", 2: "availability", 3: "updated_at"}
    assert choices.readings == {1: "decimal-comma", 3: "day-first"}
    assert choices.tables == {2: {"ja": "IN_STOCK", "nein": "OUT_OF_STOCK"}}
    assert choices.more == "tags=Notiz;", "this column does not exist, so the rule stays text"
    assert build_mapping(COLUMNS, "product", choices) == RULES
    assert choices.to_dict()["more"] == ["tags=Notiz;"]


def test_facts_about_all_rows_are_choices_of_interactions() -> None:
    rules = ("user_id=Kunde", "type:=checkout", "order_id:=same user and time", "returns:=refund")
    choices = choices_from_mapping(["Kunde"], rules, "interaction", is_plain=False)
    assert (choices.row_type, choices.joins_rows, choices.has_refunds, choices.more) == (
        "checkout",
        True,
        True,
        "",
    )
    assert build_mapping([{"name": "Kunde"}], "interaction", choices) == rules
    by_number = MappingChoices(chosen={0: "order_id"}, joins_rows=True)
    assert build_mapping([{"name": "Nr"}], "interaction", by_number) == ("order_id=Nr",)
    assert choices_from_mapping(["x"], ("type:=tool",), "product", is_plain=False).more == "type:=tool"


def test_columns_left_out_that_are_names_of_fields_are_left_out_by_a_rule() -> None:
    assert build_mapping([{"name": "title"}, {"name": "nix"}], "product", MappingChoices()) == ("=title",)


def test_plain_files_need_no_rules() -> None:
    assert choices_from_mapping(["title"], (), "product", is_plain=True).chosen == {0: "title"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([["Haus", "Küche"], ["Neu"]], "Haus > Küche, Neu"),
        (["a", "b"], "a, b"),
        ({"lat": 1.5, "lon": 2}, "lat: 1.5, lon: 2"),
        (True, "yes"),
        ("x", "x"),
    ],
)
def test_values_of_a_dry_run_are_text_for_people(value: Any, text: str) -> None:
    assert format_field(value) == text
    assert format_preview({"samples": [{"field": value}]})["samples"] == [[("field", text)]]
