"""Public data as shops export it: a German CSV of order lines, a shop's catalog, ratings of films."""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.ingest.files.delimited_files import DelimitedFormat
from jobs.ingest.files.sources import PlainFiles
from jobs.ingest.mappings.column_proposal import propose_for_file
from jobs.ingest.mappings.mapping import FieldMap
from jobs.ingest.mappings.row_baskets import BasketFiles
from jobs.ingest.pipeline import IngestSpec
from jobs.ingest.preview import IngestPreview, preview_ingest
from tests.benchmarks.quality_sets import data_folder

LINES = 20_000
NOW_MS = 1_790_000_000_000


def needs(name: str) -> Path:
    path = data_folder() / name
    if not path.exists():
        pytest.skip(f"public data set {name} is not in {data_folder()} (set KIOSK_TEST_DATA)")
    return path


def comma(number: float) -> str:
    return f"{number:.2f}".replace(".", ",")


def german_orders(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """Write order lines as a German shop exports them: semicolons, decimal commas, its dates, Latin-1."""
    path = folder / "bestellungen.csv"
    with path.open("w", encoding="latin-1", newline="") as out:
        table = csv.writer(out, delimiter=";")
        table.writerow(
            ["Bestellnummer", "Kunde", "Artikelnummer", "Bezeichnung", "Datum", "Menge", "Umsatz", "Geschäft"]
        )
        for row in rows:
            at = row["ts"].strftime("%d.%m.%Y %H:%M")
            sum_ = comma(row["quantity"] * row["price"])
            user = row["customer_id"] or ""
            table.writerow(
                [
                    row["invoice"],
                    user,
                    row["stock_code"],
                    row["description"],
                    at,
                    row["quantity"],
                    sum_,
                    "Köln",
                ]
            )
    return path


def retail_lines() -> list[dict[str, Any]]:
    table = pq.read_table(needs("online-retail-y1") / "transactions.parquet").slice(0, LINES)
    return list(table.to_pylist())


def dry_run(path: Path, noun: Any, rules: list[str], encoding: str = "", limit: int = LINES) -> IngestPreview:
    order = IngestSpec(
        str(path), noun, "shop", mapping=tuple(rules), limit=limit, layout=DelimitedFormat("", encoding)
    )
    return preview_ingest(order, now_ms=NOW_MS)


def test_a_german_export_of_orders_is_guessed_and_its_baskets_are_those_of_the_invoices(
    tmp_path: Path,
) -> None:
    rows = retail_lines()
    path = german_orders(tmp_path, rows)
    files = PlainFiles()
    (source,) = files.find(str(path))
    proposal = propose_for_file(source, files, "interaction")
    assert proposal.encoding == "cp1252"
    assert {column.field: column.name for column in proposal.columns if column.field} == {
        "order_id": "Bestellnummer", "user_id": "Kunde", "product_ids": "Artikelnummer", "timestamp": "Datum",
        "quantities": "Menge", "revenue": "Umsatz",
    }  # fmt: skip
    kinds = {column.name: column.kind for column in proposal.columns}
    assert (kinds["Artikelnummer"], kinds["Datum"]) == ("id", "date, day first")
    rules = [*proposal.rules, "returns:=refund"]
    bought = {
        (row["invoice"], row["customer_id"], row["quantity"] > 0): None
        for row in rows if row["customer_id"] and row["quantity"]
    }  # fmt: skip
    preview = dry_run(path, "interaction", rules, proposal.encoding)
    assert preview.accepted == len(bought)
    assert {reason.text for reason in preview.reasons} == {"neither user_id nor anonymous_id"}
    assert preview.refused == sum(row["customer_id"] is None for row in rows)
    layout = DelimitedFormat("", proposal.encoding)
    baskets = BasketFiles(PlainFiles(layout=layout), FieldMap.parse(rules, "interaction"))
    (source,) = PlainFiles(layout=layout).find(str(path))
    products = defaultdict[tuple[Any, ...], dict[str, int]](lambda: defaultdict(int))
    for row in rows:
        if row["customer_id"] and row["quantity"] > 0:
            products[row["invoice"], row["customer_id"]][row["stock_code"]] += row["quantity"]
    expected = sorted(sorted(basket.items()) for basket in products.values())
    purchases = [
        row for _, chunk in baskets.chunks(source, 500) for row in chunk
        if isinstance(row, dict) and row["type"] == "checkout" and row.get("user_id")
    ]  # fmt: skip
    joined = sorted(sorted(zip(row["product_ids"], row["quantities"], strict=True)) for row in purchases)
    assert joined == expected


def test_a_german_export_of_products_needs_no_rule_text(tmp_path: Path) -> None:
    products = {row["stock_code"]: row for row in retail_lines() if row["description"] and row["price"] > 0}
    path = tmp_path / "artikel.csv"
    with path.open("w", encoding="latin-1", newline="") as out:
        table = csv.writer(out, delimiter=";")
        table.writerow(
            ["Artikelnummer", "Bezeichnung", "Kategorie", "Preis", "Verfügbar", "Bild", "Zuletzt verkauft"]
        )
        for at, (code, row) in enumerate(products.items()):
            sold = row["ts"].strftime("%d.%m.%Y %H:%M")
            table.writerow(
                [code, row["description"], "Haus/Küche", comma(row["price"]), ("ja", "nein")[at % 3 == 0],
                 f"https://shop.example/{code}.jpg", sold]
            )  # fmt: skip
    files = PlainFiles()
    (source,) = files.find(str(path))
    proposal = propose_for_file(source, files, "product")
    preview = dry_run(path, "product", list(proposal.rules), proposal.encoding)
    assert (preview.rows, preview.refused, preview.warnings) == (len(products), 0, ())
    first = preview.samples[0]
    assert first["categories"] == [["Haus", "Küche"]]
    assert first["availability"] == "OUT_OF_STOCK"
    assert first["updated_at"].startswith("2009-12-0")
    assert first["cover_image"].endswith(".jpg")


def test_ratings_with_three_rules_keep_their_times_and_stars(tmp_path: Path) -> None:
    path = needs("ml-latest-small") / "ratings.csv.gz"
    rules = ["user_id=userId", "product_ids=movieId", "type:=rate"]
    preview = dry_run(path, "interaction", rules, limit=2_000)
    assert (preview.accepted, preview.refused, preview.warnings) == (2_000, 0, ())
    assert all({"rating", "timestamp"} <= sample.keys() for sample in preview.samples)
    movies = needs("ml-latest-small") / "movies.csv.gz"
    preview = dry_run(movies, "product", ["product_id=movieId"], limit=2_000)
    assert preview.samples[0]["title"] == "Toy Story (1995)"
    assert preview.warnings == ("not used: 'genres'",)
    files = PlainFiles()
    (source,) = files.find(str(path))
    assert propose_for_file(source, files, "interaction").rules == (
        "user_id=userId", "product_ids=movieId", "rating=rating", "timestamp=timestamp", "type:=rate",
    )  # fmt: skip


def test_one_rule_of_times_keeps_everything_else(tmp_path: Path) -> None:
    with gzip.open(needs("amazon-toys") / "sequences.txt.gz", "rt") as lines:
        sequences = [line.split() for _, line in zip(range(50), lines, strict=False)]
    path = tmp_path / "toys.jsonl"
    rows = [
        {"type": "checkout", "user_id": user, "product_ids": [item], "timestamp": 1_600_000_000 + at}
        for user, *items in sequences for at, item in enumerate(items)
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, rows)))
    for rules in ([], ["timestamp=timestamp:time"]):
        preview = dry_run(path, "interaction", rules)
        assert (preview.accepted, preview.refused, preview.warnings) == (len(rows), 0, ())
        assert preview.samples[0]["timestamp"] == "2020-09-13T12:26:40.000Z"
