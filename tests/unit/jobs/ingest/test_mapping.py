"""Columns to fields: renamed, nested, split, typed by what the field needs."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from cluster.errors import Invalid
from jobs.ingest.mappings.mapping import FieldMap


def mapped(rules: list[str], row: dict[str, Any], format: str = "csv") -> dict[str, Any]:
    return FieldMap.parse(rules).build_row_mapper(format)(row)


def test_json_lines_without_a_mapping_stay_as_they_are() -> None:
    row = {
        "product_id": "p",
        "tags": "a|b",
        "a.b": None,
        "created_at": "2026-03-02",
        "price": 5,
        "published_at": True,
    }
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


@pytest.mark.parametrize("rule", ["", "product_id", "=", "product_id=", ":=x"])
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
    ("rule", "message"),
    [
        ("categories=Kategorie||>", "at most two different signs"),
        ("price=Preis:float(,)", "there is no kind 'float'; there are bool, integer"),
        ("price=Preis:number(x)", "decimal sign"),
        ("timestamp=Tag:time(d.m.y)", "looks like time("),
        ("tags=x:list(,)", "only number and time"),
        ("availability=x{ja}", "{ja:IN_STOCK"),
    ],
)
def test_rules_that_make_no_sense_say_what_would(rule: str, message: str) -> None:
    with pytest.raises(Invalid, match=re.escape(message)):
        FieldMap.parse([rule])


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    fields = FieldMap.parse(["product_id=Artikelnumer", "title:=x", "price=meta.price"])
    with pytest.raises(Invalid, match="no column 'Artikelnumer'; there are 'Artikelnummer', 'meta'"):
        fields.check_columns(["Artikelnummer", "meta"])
    with pytest.raises(Invalid, match="kinds after a colon are bool, integer"):
        FieldMap.parse(["price=Preis:float"]).check_columns(["Preis"])
    FieldMap.parse(["title=og:title"]).check_columns(["og:title"])


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("value", [1_600_000_000, 1_600_000_000_000])
def test_integers_of_seconds_and_milliseconds_are_times_in_every_format(format: str, value: int) -> None:
    expected = {"user_id": "u", "timestamp": "2020-09-13T12:26:40.000Z"}
    given = str(value) if format == "csv" else value
    assert mapped([], {"user_id": "u", "timestamp": given}, format) == expected
    assert kept(["user_id=u"], {"u": "u", "timestamp": given}, format=format) == expected


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("Friday, January 4, 2019", "2019-01-04T00:00:00.000Z"),
        ("4. Januar 2019 07:05", "2019-01-04T07:05:00.000Z"),
        ("31 February 2019", "31 February 2019"),
        ("someday", "someday"),
    ],
)
def test_dates_with_the_name_of_a_month_are_times(text: str, stored: str) -> None:
    assert mapped([], {"published_at": text}) == {"published_at": stored}
    assert mapped(["published_at=day"], {"day": text}, "jsonl") == {"published_at": stored}


def test_dates_of_three_numbers_need_their_order() -> None:
    row = {"a": "09.12.2010 19:23", "b": "12/9/10", "c": "31.12.2010"}
    rules = ["created_at=a:time(day-first)", "updated_at=b:time(month-first)", "published_at=c"]
    assert mapped(rules, row) == {
        "created_at": "2010-12-09T19:23:00.000Z", "updated_at": "2010-12-09T00:00:00.000Z",
        "published_at": "31.12.2010",
    }  # fmt: skip


def kept(
    rules: list[str], row: dict[str, Any], noun: str = "interaction", format: str = "csv"
) -> dict[str, Any]:
    return FieldMap.parse(rules, noun).build_row_mapper(format)(row)


RATING = {"userId": "1", "movieId": "31", "rating": "2.5", "timestamp": "1260759144"}
RATE = ["user_id=userId", "product_ids=movieId", "type:=rate"]


def test_columns_with_names_of_fields_stay_beside_rules() -> None:
    assert kept(RATE, RATING) == {
        "type": "rate", "user_id": "1", "product_ids": ["31"], "rating": 2.5, "timestamp": "2009-12-14T02:52:24.000Z",
    }  # fmt: skip
    assert "rating" not in kept([*RATE, "=rating"], RATING)
    assert kept(["product_id=movieId"], {"movieId": "1", "title": "Heat", "genres": "Crime"}, "product") == {
        "product_id": "1", "title": "Heat",
    }  # fmt: skip


def test_a_rule_wins_over_the_column_with_the_name_of_its_field() -> None:
    assert kept(["title=name"], {"name": "A", "title": "B"}, "product") == {"title": "A"}
    assert kept(["description=title"], {"title": "B"}, "product") == {"description": "B"}


def test_a_column_that_its_type_does_not_have_costs_no_event() -> None:
    row = {"kind": "click", "user_id": "u", "product_ids": "p", "rating": "4", "value": "x"}
    assert kept(["type=kind"], row) == {"type": "click", "user_id": "u", "product_ids": ["p"]}
    assert kept(["type=kind"], {**row, "kind": "rate"})["rating"] == 4.0
    assert kept(["type:=click", "rating=rating"], row)["rating"] == 4.0, "a rule is an order"


def test_unused_columns_are_named_and_those_with_names_of_fields_apart() -> None:
    fields = FieldMap.parse([*RATE, "=note"], "interaction")
    unused = fields.find_unused(
        ["userId", "movieId", "rating", "Time-Stamp", "timestamp", "note", "genres", "value"]
    )
    assert (unused.fields, unused.others) == (("Time-Stamp", "value"), ("genres",))
    assert FieldMap.parse([], "interaction").find_unused(["x"]).others == ()


@pytest.mark.parametrize(
    ("rule", "noun", "message"),
    [
        ("type:=rating", "interaction", "there is no type 'rating'; did you mean rate?"),
        ("titel=name", "product", "there is no field 'titel'; did you mean title?"),
        ("price=Preis:numbr(,)", "product", "there is no kind 'numbr'; did you mean number?"),
        ("order_id:=something", "interaction", "order_id:=same user and time"),
        ("returns:=drop", "interaction", "returns:=refund"),
        ("order_id=nr", "product", "there is no field 'order_id'"),
    ],
)
def test_a_mistyped_name_gets_a_proposal(rule: str, noun: str, message: str) -> None:
    with pytest.raises(Invalid, match=re.escape(message)) as refused:
        FieldMap.parse([rule], noun)
    assert refused.value.message.count("add_to_cart") <= 1


def test_a_column_to_leave_out_must_exist() -> None:
    with pytest.raises(Invalid, match="no column 'rateing' to leave out"):
        FieldMap.parse(["=rateing"], "interaction").check_columns(["rating"])


def test_returns_become_refunds_with_a_rule() -> None:
    row = {
        "user_id": "u",
        "product_ids": "p",
        "quantities": "-2",
        "revenue": "-7",
        "timestamp": "2026-03-02T09:15:30.250Z",
    }
    bare = {"user_id": "u", "product_ids": ["p"], "timestamp": "2026-03-02T09:15:30.250Z"}
    assert kept(["type:=checkout", "returns:=refund"], row) == {**bare, "type": "refund"}
    assert kept(["type:=checkout"], row)["quantities"] == [-2.0]
    assert (
        kept(["type:=checkout", "returns:=refund"], {**row, "quantities": "2", "revenue": "7"})["type"]
        == "checkout"
    )
