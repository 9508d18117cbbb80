"""Columns to fields: renamed, nested, split, typed by what the field needs."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from cluster.errors import Invalid
from jobs.ingest.mapping import FieldMap


def mapped(rules: list[str], row: dict[str, Any], format: str = "csv") -> dict[str, Any]:
    return FieldMap.parse(rules).build_reader(format)(row)


def test_json_lines_without_a_mapping_stay_as_they_are() -> None:
    row = {"product_id": "p", "tags": "a|b", "a.b": None, "created_at": 5}
    assert mapped([], row, "jsonl") == row


def test_csv_columns_become_what_their_fields_need() -> None:
    row = {
        "product_id": "42", "price": "1.5", "tags": "a| b |", "categories": "Garden > Tools|Gifts",
        "created_at": "1700000000", "published_at": "2026-03-02", "enable_question_answering": "Yes",
        "location.lat": "53.8", "custom_attributes.handle": "ash", "title": "7",
    }  # fmt: skip
    assert mapped([], row) == {
        "product_id": "42",
        "price": 1.5,
        "tags": ["a", "b"],
        "categories": [["Garden", "Tools"], ["Gifts"]],
        "created_at": "2023-11-14T22:13:20.000Z",
        "published_at": "2026-03-02",
        "enable_question_answering": True,
        "location": {"lat": 53.8},
        "custom_attributes": {"handle": "ash"},
        "title": "7",
    }


def test_columns_are_renamed_nested_split_and_set() -> None:
    rules = [
        "product_id=sku", "custom_attributes.weight=grams:number", "categories=cat;/", "tags=words,",
        "type:=book", "title=meta.title", "price=missing",
    ]  # fmt: skip
    row = {
        "sku": "s-1",
        "grams": "210",
        "cat": "A/B;C",
        "words": "x,y",
        "meta": {"title": "T"},
        "other": "dropped",
    }
    assert mapped(rules, row) == {
        "product_id": "s-1",
        "custom_attributes": {"weight": 210.0},
        "categories": [["A", "B"], ["C"]],
        "tags": ["x", "y"],
        "type": "book",
        "title": "T",
    }


def test_interactions_from_a_click_log() -> None:
    rules = [
        "type:=checkout",
        "user_id=visitor",
        "product_ids=item",
        "timestamp=ts",
        "quantities=n",
        "revenue=paid",
    ]
    row = {"visitor": 17, "item": "p1", "ts": 1_700_000_000_250, "n": "2", "paid": "61.4"}
    assert mapped(rules, row) == {
        "type": "checkout", "user_id": "17", "product_ids": ["p1"], "timestamp": "2023-11-14T22:13:20.250Z",
        "quantities": [2.0], "revenue": 61.4,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [("price", "cheap"), ("price", "nan"), ("created_at", "soon"), ("created_at", "2026-03-02T09:15:30Z"),
     ("created_at", "2026"), ("age", "41.5"), ("enable_question_answering", "perhaps"), ("created_at", "1e300")],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_left_for_the_validation(name: str, value: str) -> None:
    assert mapped([], {name: value}) == {name: value}


def test_parquet_values_become_json_values() -> None:
    row = {
        "created_at": datetime(2026, 3, 2, 10, 15, tzinfo=timezone(timedelta(hours=1))),
        "updated_at": datetime(2026, 3, 2, 9, 15, 30, 250_000),  # noqa: DTZ001
        "published_at": date(2026, 3, 2),
        "price": Decimal("1.50"),
        "rating": float("nan"),
        "title": b"bytes",
        "user_id": 17,
        "location": {"lat": 1.0, "lon": None},
        "custom_attributes": {"sizes": [Decimal(1)]},
    }
    assert mapped([], row, "parquet") == {
        "created_at": "2026-03-02T09:15:00.000Z",
        "updated_at": "2026-03-02T09:15:30.250Z",
        "published_at": "2026-03-02",
        "price": 1.5,
        "title": "bytes",
        "user_id": "17",
        "location": {"lat": 1.0},
        "custom_attributes": {"sizes": [1.0]},
    }


def test_numbered_products_are_named_by_their_numbers() -> None:
    assert mapped(["product_ids=item"], {"item": 318}, "parquet") == {"product_ids": ["318"]}
    assert mapped([], {"product_ids": [318, 47]}, "parquet") == {"product_ids": ["318", "47"]}
    assert mapped(["custom_attributes.sizes=s:list"], {"s": [38, 39]}, "parquet") == {
        "custom_attributes": {"sizes": [38, 39]}
    }


def test_a_decimal_that_is_no_number_is_left_out() -> None:
    assert mapped([], {"title": "t", "price": Decimal("NaN")}, "parquet") == {"title": "t"}


@pytest.mark.parametrize("rule", ["", "product_id", "=column", "product_id=", ":=x"])
def test_a_rule_that_makes_no_sense_is_refused(rule: str) -> None:
    with pytest.raises(Invalid):
        FieldMap.parse([rule])


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        ("price=x:number(,)", "1.234,50", 1234.5),
        ("price=x:number(,)", "2,55", 2.55),
        ("price=x:number(.)", "2.55", 2.55),
        ("price=x", "2,55", "2,55"),
        ("timestamp=x:time(%m/%d/%Y %H:%M)", "12/01/2010 08:26", "2010-12-01T08:26:00.000Z"),
        ("timestamp=x:time(%d.%m.%Y %H:%M %z)", "01.12.2010 08:26 +0100", "2010-12-01T07:26:00.000Z"),
        ("timestamp=x:time(%m/%d/%Y)", "13/13/2010", "13/13/2010"),
        ("user_id=x:integer", "17850.0", "17850"),
        ("user_id=x:integer", 17850.0, "17850"),
        ("age=x:integer", 41.0, 41),
        ("availability=x{ja:IN_STOCK,nein:OUT_OF_STOCK}", "nein", "OUT_OF_STOCK"),
        ("availability=x{ja:IN_STOCK,nein:OUT_OF_STOCK}", "vielleicht", "vielleicht"),
        ("rating=x{gut:4,schlecht:1}", "gut", 4.0),
    ],
)
def test_values_of_real_files_become_what_fields_take(rule: str, value: Any, expected: Any) -> None:
    assert list(mapped([rule], {"x": value}).values()) == [expected]


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("categories=Kategorie||>", "at most two different signs"),
        ("price=Preis:float(,)", "there is no kind 'float'; there are bool, integer"),
        ("price=Preis:number(x)", "decimal sign"),
        ("timestamp=Tag:time(d.m.y)", "looks like time("),
        ("tags=x:list(,)", "only number and time"),
        ("availability=x{ja}", "{ja:IN_STOCK"),
    ],
)
def test_rules_that_make_no_sense_say_what_would(rule: str, told: str) -> None:
    with pytest.raises(Invalid, match=re.escape(told)):
        FieldMap.parse([rule])


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    fields = FieldMap.parse(["product_id=Artikelnumer", "title:=x", "price=meta.price"])
    with pytest.raises(Invalid, match="no column 'Artikelnumer'; there are 'Artikelnummer', 'meta'"):
        fields.check_columns(["Artikelnummer", "meta"])
    with pytest.raises(Invalid, match="kinds after a colon are bool, integer"):
        FieldMap.parse(["price=Preis:float"]).check_columns(["Preis"])
    FieldMap.parse(["title=og:title"]).check_columns(["og:title"])
