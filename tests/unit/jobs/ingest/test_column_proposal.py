"""Columns of uploaded files: kinds, proposals, and names that look like rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.ingest.files.sources import PlainFiles
from jobs.ingest.mappings.column_proposal import (
    ColumnProposal,
    build_rule,
    list_noun_fields,
    propose_columns,
    propose_mapping,
)
from jobs.ingest.mappings.mapping import FieldMap
from jobs.ingest.mappings.mapping_rules import quote_column

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
        "SKU": ("product_id", "id"), "Product Name": ("title", "text"), "Preis": ("price", "decimal comma"),
        "brand": ("brand", "text"), "Noise": ("", "empty"),
    }  # fmt: skip
    rules = [column.rule for column in columns if column.rule]
    assert rules == ["product_id=SKU", 'title="Product Name"', "price=Preis:number(,)", "brand=brand"]
    read = FieldMap.parse(rules).build_row_mapper("csv")
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
    assert FieldMap.parse([rule]).build_row_mapper("csv")({name: "v"}) == {"custom_attributes": {"note": "v"}}
    FieldMap.parse([rule]).check_columns([name])


def test_rules_keep_their_signs_behind_a_quoted_column() -> None:
    rules = [
        f"price={quote_column('Preis: EUR')}:number(,)",
        f"tags={quote_column('my tags')};",
        f"availability={quote_column('on {stock}')}{{ja:IN_STOCK}}",
    ]
    read = FieldMap.parse(rules).build_row_mapper("csv")
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


LANGUAGES = {
    "en": ("SKU", "Product Name", "Category", "Image URL", "Customer", "Date", "Quantity", "Revenue", "Invoice No"),
    "de": ("Artikelnummer", "Bezeichnung", "Kategorie", "Bild", "Kunde", "Datum", "Menge", "Umsatz", "Bestellnummer"),
    "fr": ("Référence", "Désignation", "Catégorie", "Image", "Client", "Date", "Quantité", "Montant", "N° commande"),
    "es": ("Código", "Nombre", "Categoría", "Imagen", "Cliente", "Fecha", "Cantidad", "Importe", "Pedido"),
    "it": ("Codice prodotto", "Titolo", "Categoria", "Immagine", "Cliente", "Data", "Quantità", "Importo", "Ordine"),
    "nl": ("Artikelcode", "Omschrijving", "Categorie", "Afbeelding", "Klant", "Datum", "Aantal", "Omzet", "Order"),
    "pt": ("Código", "Nome", "Categoria", "Imagem", "Cliente", "Data", "Quantidade", "Receita", "Encomenda"),
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_columns_have_names_in_seven_languages(language: str, tmp_path: Path) -> None:
    code, title, category, image, customer, day, amount, revenue, order = LANGUAGES[language]
    products = propose(tmp_path, f"{code};{title};{category};{image}\n85123A;Mug;Home;7\n")
    assert [column.field for column in products] == ["product_id", "title", "categories", "cover_image"]
    head = ";".join((order, customer, code, day, amount, revenue))
    lines = propose(tmp_path, f"{head}\n7;17;85123A;09.12.2010 19:23;2;3,50\n", "interaction")
    assert [column.field for column in lines] == [
        "order_id", "user_id", "product_ids", "timestamp", "quantities", "revenue",
    ]  # fmt: skip
    assert propose_mapping(lines, "interaction")[3:] == [
        f"timestamp={quote_column(day)}:time(day-first)", f"quantities={quote_column(amount)}",
        f"revenue={quote_column(revenue)}:number(,)", "type:=checkout",
    ]  # fmt: skip


def test_content_decides_where_names_do_not(tmp_path: Path) -> None:
    columns = propose(
        tmp_path,
        "A;B;C;D\nX-1;https://s.example/p;https://s.example/p.jpg?w=9;x\nX-2;https://s.example/q;/img/q.webp;y\n",
    )
    assert [(column.kind, column.field) for column in columns] == [
        ("id", "product_id"), ("web address", "url"), ("image address", "cover_image"), ("text", ""),
    ]  # fmt: skip
    events = propose(tmp_path, "user_id,sku,seen\nu,a,12/31/2010\nu,b,01/05/2011\n", "interaction")
    assert [column.rule for column in events][2] == "timestamp=seen:time(month-first)"
    two = propose(tmp_path, "user_id,sku,seen,left\nu,a,2010-12-31,2010-12-31\n", "interaction")
    assert [column.field for column in two] == ["user_id", "product_ids", "", ""]


def test_values_of_other_systems_become_those_of_the_field(tmp_path: Path) -> None:
    columns = propose(tmp_path, "sku;Lagernd;Zustand\n1;ja;neu\n2;Nein;gebraucht\n3;bald;IN_STOCK\n")
    assert columns[1].table == {"ja": "IN_STOCK", "Nein": "OUT_OF_STOCK"}
    assert columns[1].rule == "availability=Lagernd{ja:IN_STOCK,Nein:OUT_OF_STOCK}"
    assert columns[2].table == {"neu": "NEW", "gebraucht": "USED"}
    events = propose(
        tmp_path, "user_id,sku,event,ts\nu,1,purchase,1\nu,1,view,2\nu,1,click,3\n", "interaction"
    )
    assert events[2].table == {"purchase": "checkout", "view": "product_detail_page_view"}
    assert propose_mapping(events, "interaction")[-1].startswith("timestamp=ts")
    assert (
        build_rule("availability", "x", "", {"a,b": "IN_STOCK", "c": "IN_STOCK"})
        == "availability=x{c:IN_STOCK}"
    )


def test_order_lines_without_order_numbers_and_with_returns_get_rules(tmp_path: Path) -> None:
    columns = propose(
        tmp_path, "user_id,sku,date,qty\nu,1,2010-12-09 10:00,1\nu,2,2010-12-09 10:00,-1\n", "interaction"
    )
    assert propose_mapping(columns, "interaction")[-3:] == [
        "type:=checkout", "order_id:=same user and time", "returns:=refund",
    ]  # fmt: skip


def test_lists_and_paths_get_their_separators(tmp_path: Path) -> None:
    columns = propose(tmp_path, "sku\ttags\tcategories\n1\tred, warm\tHome/Kitchen\n")
    assert [column.rule for column in columns[1:]] == ["tags=tags,", "categories=categories|/"]
    read = FieldMap.parse([column.rule for column in columns]).build_row_mapper("csv")
    assert read({"sku": "1", "tags": "red, warm", "categories": "Home/Kitchen"}) == {
        "product_id": "1", "tags": ["red", "warm"], "categories": [["Home", "Kitchen"]],
    }  # fmt: skip
