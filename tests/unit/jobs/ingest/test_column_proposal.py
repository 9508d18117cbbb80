"""Columns of uploaded files: kinds, proposals, and names that look like rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.ingest.column_proposal import ColumnProposal, build_rule, list_noun_fields, propose_columns
from jobs.ingest.mapping import FieldMap, quote_column
from jobs.ingest.sources import PlainFiles

HOSTILE = [
    "price:number(,)", "x{a:b}", "tags|>", "a=b", "=cmd|' /C calc'!A0", "<script>", 'quo"te', "back\\slash", "a.b.c",
    "f:=x", "ünï", " ", "\u202eevil",
]  # fmt: skip


def propose(folder: Path, text: str, noun: str = "product", name: str = "file.csv") -> list[ColumnProposal]:
    path = folder / name
    path.write_text(text, "utf-8")
    files = PlainFiles()
    (source,) = files.find(str(path))
    return propose_columns(source, files, noun)


def test_columns_get_fields_by_name_and_synonym(tmp_path: Path) -> None:
    columns = propose(
        tmp_path, "SKU;Product Name;Preis;brand;Noise\nA1;Oak;1.234,50;Birk;\nA2;Elm;2,00;Birk;\n"
    )
    assert {column.name: (column.field, column.kind) for column in columns} == {
        "SKU": ("product_id", "text"), "Product Name": ("title", "text"), "Preis": ("price", "decimal comma"),
        "brand": ("brand", "text"), "Noise": ("", "empty"),
    }  # fmt: skip
    rules = [column.rule for column in columns if column.rule]
    assert rules == ["product_id=SKU", 'title="Product Name"', "price=Preis:number(,)", "brand=brand"]
    read = FieldMap.parse(rules).build_reader("csv")
    assert read({"SKU": "A1", "Product Name": "Oak", "Preis": "1.234,50", "brand": "Birk"}) == {
        "product_id": "A1", "title": "Oak", "price": 1234.5, "brand": "Birk",
    }  # fmt: skip


def test_a_field_goes_to_one_column_and_equal_names_win(tmp_path: Path) -> None:
    columns = propose(tmp_path, "id,product_id,name,title\n1,2,3,4\n")
    assert [(column.name, column.field) for column in columns] == [
        ("id", ""), ("product_id", "product_id"), ("name", ""), ("title", "title"),
    ]  # fmt: skip


def test_kinds_of_json_lines_are_those_of_json(tmp_path: Path) -> None:
    text = '{"user_id": "u", "age": 3, "ok": true, "tags": ["a"], "more": {"x": 1}, "w": 0.5}\n{"user_id": "v"}\n'
    columns = propose(tmp_path, text, "user", "file.jsonl")
    kinds = {column.name: column.kind for column in columns}
    assert kinds == {
        "user_id": "text", "age": "integer", "ok": "bool", "tags": "list", "more": "object", "w": "number",
    }  # fmt: skip
    assert columns[0].filled == 2


@pytest.mark.parametrize("name", HOSTILE)
def test_any_column_name_is_only_a_name(name: str) -> None:
    rule = build_rule("custom_attributes.note", name)
    assert FieldMap.parse([rule]).build_reader("csv")({name: "v"}) == {"custom_attributes": {"note": "v"}}
    FieldMap.parse([rule]).check_columns([name])


def test_rules_keep_their_signs_behind_a_quoted_column() -> None:
    rules = [
        f"price={quote_column('Preis: EUR')}:number(,)",
        f"tags={quote_column('my tags')};",
        f"availability={quote_column('on {stock}')}{{ja:IN_STOCK}}",
    ]
    read = FieldMap.parse(rules).build_reader("csv")
    record = read({"Preis: EUR": "3,50", "my tags": "a;b", "on {stock}": "ja"})
    assert record == {"price": 3.5, "tags": ["a", "b"], "availability": "IN_STOCK"}


def test_required_fields_come_first() -> None:
    assert list_noun_fields("product")[0] == "product_id"
    assert "type" in list_noun_fields("interaction")[:2]


def test_a_few_dirty_values_do_not_decide_the_kind(tmp_path: Path) -> None:
    rows = "".join(f'{at};"{at},50"\n' for at in range(20))
    columns = propose(tmp_path, f"id;price\n{rows}20;7\n21;free\n")
    assert [(column.kind, column.rule) for column in columns] == [
        ("integer", "product_id=id"), ("decimal comma", "price=price:number(,)"),
    ]  # fmt: skip
