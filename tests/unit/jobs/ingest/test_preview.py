"""Looking before an ingest: layouts that are found or named, dry runs, reasons, fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cluster.errors import Invalid
from jobs.ingest.fields_command import show_fields
from jobs.ingest.files.delimited_files import DelimitedFormat
from jobs.ingest.files.sources import PlainFiles
from jobs.ingest.pipeline import IngestSpec
from jobs.ingest.preview import IngestPreview, preview_ingest
from jobs.ingest.validation import RejectionReason, merge_reasons


def _order(
    path: Path, *rules: str, noun: Any = "product", limit: int = 0, layout: DelimitedFormat | None = None
) -> IngestSpec:
    return IngestSpec(str(path), noun, "shop", mapping=rules, limit=limit, layout=layout or DelimitedFormat())


def _look(path: Path, *rules: str, **options: Any) -> IngestPreview:
    return preview_ingest(_order(path, *rules, **options), now_ms=1_700_000_000_000)


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_the_header_shows_what_parts_the_cells(tmp_path: Path, sign: str) -> None:
    file = tmp_path / "catalog.csv"
    file.write_text(f'product_id{sign}title\np1{sign}"a,b;c"\n')
    (preview,) = _look(file).samples
    assert preview == {"product_id": "p1", "title": "a,b;c"}


def test_a_delimiter_and_an_encoding_may_be_named(tmp_path: Path) -> None:
    file = tmp_path / "katalog.csv"
    file.write_bytes("Nummer;Größe, Titel\n7;Gießkanne\n".encode("cp1252"))
    layout = DelimitedFormat(";", "cp1252")
    (preview,) = _look(file, "product_id=Nummer", "title=Größe, Titel", layout=layout).samples
    assert preview == {"product_id": "7", "title": "Gießkanne"}
    with pytest.raises(Invalid, match="--encoding cp1252"):
        _look(file)


@pytest.mark.parametrize(("delimiter", "encoding"), [(";;", ""), ('"', ""), ("", "utf-9"), ("", "base64")])
def test_layouts_that_make_no_sense_are_refused(delimiter: str, encoding: str) -> None:
    with pytest.raises(Invalid):
        DelimitedFormat(delimiter, encoding)


def test_a_mistyped_column_is_reported_before_the_first_row(tmp_path: Path) -> None:
    file = tmp_path / "catalog.csv"
    file.write_text("Artikelnummer,leer\n1,\n")
    with pytest.raises(Invalid, match="no column 'Artikelnumer'; there are 'Artikelnummer', 'leer'"):
        _look(file, "product_id=Artikelnumer")
    assert _look(file, "product_id=Artikelnummer", "title=leer").accepted == 1


def test_reasons_are_counted_whatever_place_their_rows_have(tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    bad = {"product_id": "p", "price": "2,55", "condition": "OLD"}
    good = {"product_id": "q"}
    file.write_text("\n".join(json.dumps(row) for row in [bad, good, bad, {"title": "x"}, bad]))
    preview = _look(file)
    assert (preview.rows, preview.accepted, preview.refused) == (5, 1, 4)
    first, second = preview.reasons
    assert (first.count, first.row, second.count) == (3, 0, 1)
    assert first.text.startswith("price is invalid. The attribute expected to be of type 'number'")
    assert "condition: The attribute should be one of" in first.text
    assert second.text == "product_id is invalid. The attribute is required."


def test_a_dry_run_reads_only_so_many_rows(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("product_id\n" + "\n".join(f"{name}{at}" for at in range(9)))
    preview = _look(tmp_path, limit=12)
    assert (preview.rows, len(preview.samples)) == (12, 3)


def test_ids_that_a_table_wrote_as_decimals_are_noticed(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("type,user_id,product_ids\nclick,15311.0,a\nclick,15312.0,b\n")
    _, warning = _look(file, noun="interaction").warnings
    assert "every user_id ends in '.0'" in warning
    (_,) = _look(file, "user_id=user_id:integer", noun="interaction").warnings


def test_events_without_a_time_are_announced(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("type,user_id,product_ids,Zeit,rating\nclick,u,a,1600000000,4\nclick,u,b,,\n")
    (unused, time) = _look(file, "user_id=user_id", noun="interaction").warnings
    assert unused == "not used: 'Zeit'"
    assert "ALL EVENTS GET THE TIME OF THE IMPORT" in time
    (warning,) = _look(file, "timestamp=Zeit", noun="interaction").warnings
    assert warning.startswith("1 of the first 2 rows have no timestamp")
    loud, _ = _look(file, "type:=click", "=type", noun="interaction").warnings[:2]
    assert loud.startswith("NOT USED, although they have names of fields: 'rating'")


def test_rows_of_orders_are_joined_in_a_dry_run(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    lines = [f"{at // 3},u,p{at},2026-03-02T09:15:30.250Z,{at % 3 - 1}" for at in range(9)]
    file.write_text("order_id,user_id,product_ids,timestamp,quantities\n" + "\n".join(lines))
    preview = _look(file, "type:=checkout", noun="interaction")
    assert (preview.rows, preview.accepted) == (9, 3), "a quantity of 0 or below is no purchase"
    assert preview.reasons[0].text.startswith("the quantity is negative, as of a return"), preview.reasons
    preview = _look(file, "type:=checkout", "=quantities", noun="interaction")
    assert [sample["product_ids"] for sample in preview.samples] == [
        ["p0", "p1", "p2"],
        ["p3", "p4", "p5"],
        ["p6", "p7", "p8"],
    ]
    assert preview.warnings == ("9 rows were joined to 3 orders",)


def test_reasons_of_several_files_are_added_up() -> None:
    first, second = RejectionReason("a", 2, 0, "x"), RejectionReason("b", 3, 1, "y")
    assert merge_reasons([(first,), (second, RejectionReason("a", 5, 9, "z"))]) == (
        RejectionReason("a", 7, 0, "x"),
        second,
    )


def test_fields_of_a_noun_are_listed_with_what_they_take(capsys: pytest.CaptureFixture[str]) -> None:
    show_fields("interaction", as_json=True)
    fields = json.loads(capsys.readouterr().out)
    assert fields["type"]["required"] == "yes"
    assert fields["product_ids"]["takes"] == "list of string"
    assert fields["custom_action_name"]["required"] == "for custom"
    show_fields("product", as_json=False)
    assert all(len(line) <= 80 for line in capsys.readouterr().out.splitlines())


def test_files_keep_the_layout_they_are_read_with(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n")
    (source,) = PlainFiles(layout=DelimitedFormat(";")).find(str(tmp_path))
    assert source.layout == DelimitedFormat(";")
