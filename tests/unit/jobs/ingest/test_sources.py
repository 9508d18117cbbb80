"""Files as rows: every format, packed or not, broken lines alone, memory bounded."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.errors import Invalid
from jobs.ingest.files import sources
from jobs.ingest.files.delimited_files import DelimitedFormat
from jobs.ingest.files.sources import detect_format, find_files, read_row_chunks, read_rows
from jobs.ingest.files.unreadable_row import UnreadableRow


def write(path: Path, data: bytes | str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


def read(address: str, **options: Any) -> list[Any]:
    return [row for source in find_files(address, **options) for row in read_rows(source)]


def test_json_lines_are_read_with_and_without_a_last_newline(tmp_path: Path) -> None:
    for tail in ("", "\n", "\r\n\r\n"):
        address = write(tmp_path / "a.jsonl", '\ufeff{"a":1}\r\n\n{"a":2}' + tail)
        assert read(address) == [{"a": 1}, {"a": 2}]


def test_a_broken_line_costs_only_itself(tmp_path: Path) -> None:
    lines = [b'{"a":1}', b"{broken", b"[1]", b'{"a":"\xff"}', b'{"a":NaN}', b'{"a":2}']
    rows = read(write(tmp_path / "a.jsonl", b"\n".join(lines)))
    assert [isinstance(row, UnreadableRow) for row in rows] == [False, True, True, True, True, False]
    assert rows[1].text == "{broken"
    assert rows[2].reason == "not a JSON object"


def test_a_line_without_end_does_not_fill_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LONGEST_ROW", 1000)
    monkeypatch.setattr(sources, "_BLOCK", 64)
    endless = b'{"a":"' + b"x" * 100_000 + b'"}'
    whole = [{"a": "y" * length} for length in (10, 70, 900)]
    data = b"\n".join([orjson.dumps(whole[0]), endless, *(orjson.dumps(row) for row in whole[1:]), endless])
    rows = read(write(tmp_path / "a.jsonl", data))
    assert [row for row in rows if not isinstance(row, UnreadableRow)] == whole
    bad = [row for row in rows if isinstance(row, UnreadableRow)]
    assert len(bad) == 2
    assert all(len(row.text) <= 500 and "longer than" in row.reason for row in bad)


def test_lines_are_cut_right_wherever_blocks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [{"n": n, "t": "é" * (n % 7)} for n in range(50)]
    address = write(tmp_path / "a.jsonl", b"\n".join(orjson.dumps(row) for row in expected))
    for block in (1, 2, 3, 17, 1 << 20):
        monkeypatch.setattr(sources, "_BLOCK", block)
        assert read(address) == expected


def test_packed_files_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a":1}\n{"a":2}\n'))
    assert read(str(path)) == [{"a": 1}, {"a": 2}]


def test_csv_knows_quotes_newlines_and_empty_cells(tmp_path: Path) -> None:
    address = write(
        tmp_path / "a.csv",
        '\ufeffid,name,note\r\n1,"Ann, ""A""",\r\n2,"two\nlines",x\r\n3,short\r\n\r\n4,,z\r\n',
    )
    rows = read(address)
    assert rows[0] == {"id": "1", "name": 'Ann, "A"'}
    assert rows[1] == {"id": "2", "name": "two\nlines", "note": "x"}
    assert isinstance(rows[2], UnreadableRow)
    assert rows[3] == {"id": "4", "note": "z"}
    assert read(write(tmp_path / "b.tsv", "a\tb\n1\t2\n")) == [{"a": "1", "b": "2"}]


def test_csv_columns_without_a_name_are_left_out_and_others_lose_their_blanks(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.csv", ",user_id, name\r0,u1,Ann\r1,u2,Bob\r")) == [
        {"user_id": "u1", "name": "Ann"},
        {"user_id": "u2", "name": "Bob"},
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"id,name,id\n1,Ann,2\n", "two columns of the name 'id'"),
        ("id,größe\n1,2\n".encode("latin-1"), "not UTF-8"),
        ("id,name\n1,2\n".encode("utf-16"), "not UTF-8"),
        ("id,name\n1,2\n".encode("utf-16-le"), "looks like UTF-16, read it with --encoding utf-16"),
        (b",\n1,2\n", "no header"),
        (b",".join(b"c%d" % at for at in range(300_000)) + b"\n", "300,000 columns; at most 10,000"),
        (b"," * 300_000 + b"\n", "no header"),
    ],
)
def test_an_unreadable_csv_header_has_a_clear_error(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        read(write(tmp_path / "a.csv", data))


def test_a_utf_16_header_is_reported_before_the_csv_module_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The csv module of Python 3.10 fails with `line contains NUL`, which names neither the cause nor the cure."""
    read_lines = csv.reader

    def reader_of_3_10(lines: Iterable[str], **options: Any) -> Iterator[list[str]]:
        for line in lines:
            if "\0" in line:
                raise csv.Error("line contains NUL")
            yield from read_lines([line], **options)

    monkeypatch.setattr(csv, "reader", reader_of_3_10)
    with pytest.raises(Invalid, match="not UTF-8; it looks like UTF-16"):
        read(write(tmp_path / "a.csv", "id,name\n1,2\n".encode("utf-16")))


def test_csv_rows_in_another_encoding_are_refused_and_not_garbled(tmp_path: Path) -> None:
    rows_of = [b"1,Ann", "2,Jürgen".encode("latin-1"), "3,Jürgen".encode()]
    rows = read(write(tmp_path / "a.csv", b"\n".join([b"id,name", *rows_of])))
    assert isinstance(rows[1], UnreadableRow)
    assert (rows[1].reason, rows[1].text) == ("not UTF-8", "2,J\ufffdrgen")
    assert [rows[0], rows[2]] == [{"id": "1", "name": "Ann"}, {"id": "3", "name": "Jürgen"}]


def test_the_text_of_an_article_fits_into_a_csv_cell(tmp_path: Path) -> None:
    text = "word " * 60_000
    assert read(write(tmp_path / "a.csv", f'id,html\n1,"{text}"\n')) == [{"id": "1", "html": text}]


def test_a_quote_left_open_costs_no_more_than_a_cell(tmp_path: Path) -> None:
    lines = [f"{n},{'x' * 90}" for n in range(30_000)]
    lines[10] = '10,"open'
    rows = read(write(tmp_path / "a.csv", "\n".join(["id,note", *lines])))
    bad = [row for row in rows if isinstance(row, UnreadableRow)]
    assert ["quote left open" in row.reason for row in bad] == [True]
    assert len(rows) > 15_000


def test_a_csv_line_without_end_does_not_fill_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LONGEST_ROW", 1000)
    lines = ["id,note", "1,a", "2," + "x" * 100_000, "3,b"]
    rows = read(write(tmp_path / "a.csv", "\n".join(lines)))
    assert [row for row in rows if not isinstance(row, UnreadableRow)] == [
        {"id": "1", "note": "a"},
        {"id": "3", "note": "b"},
    ]
    assert [row.reason for row in rows if isinstance(row, UnreadableRow)] == [
        "can't be read: a line is longer than 1,000 characters"
    ]


def test_an_empty_csv_has_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="no header"):
        read(write(tmp_path / "a.csv", ""))


def test_parquet_rows_keep_their_types(tmp_path: Path) -> None:
    at = datetime(2026, 3, 2, 9, 15, tzinfo=timezone.utc)
    table = pa.table(
        {"id": ["a", "b"], "tags": [["x"], None], "at": [at, at], "price": [Decimal("1.50"), None]}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert read(str(tmp_path / "a.parquet")) == [
        {"id": "a", "tags": ["x"], "at": "2026-03-02T09:15:00.000Z", "price": Decimal("1.50")},
        {"id": "b", "at": "2026-03-02T09:15:00.000Z"},
    ]
    with pytest.raises(Invalid, match="as Parquet"):
        read(write(tmp_path / "b.parquet", b"PAR1 not really"))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_parquet_moments_are_text_in_utc(tmp_path: Path, unit: str, zone: str | None) -> None:
    at = pa.array([1_772_442_900, -1, None], pa.timestamp("s", zone)).cast(pa.timestamp(unit, zone))
    pq.write_table(pa.table({"at": at, "n": [1, 2, 3]}), tmp_path / "a.parquet")
    assert read(str(tmp_path / "a.parquet")) == [
        {"at": "2026-03-02T09:15:00.000Z", "n": 1},
        {"at": "1969-12-31T23:59:59.000Z", "n": 2},
        {"n": 3},
    ]


def test_a_parquet_row_python_can_not_represent_costs_only_itself(tmp_path: Path) -> None:
    words = pa.array([b"good", b"\xff\xfe", b"fine", b"late"]).view(pa.string())
    at = pa.array([0, 0, 0, 2**60], pa.timestamp("ms", "UTC"))
    pq.write_table(pa.table({"word": words, "at": at}), tmp_path / "a.parquet")
    rows = read(str(tmp_path / "a.parquet"))
    assert [isinstance(row, UnreadableRow) for row in rows] == [False, True, False, True]
    assert rows[2]["word"] == "fine"


@pytest.mark.parametrize("kept", [0.02, 0.5, 0.97])
def test_a_truncated_file_has_a_clear_error(tmp_path: Path, kept: float) -> None:
    table = pa.table({"n": list(range(20_000)), "t": [f"text {n * 7919}" for n in range(20_000)]})
    pq.write_table(table, tmp_path / "whole.parquet")
    packed = gzip.compress("".join(f'{{"n":{n * 7919}}}\n' for n in range(20_000)).encode())
    for name, data in (
        ("a.parquet", (tmp_path / "whole.parquet").read_bytes()),
        ("a.jsonl.gz", packed),
        ("a.csv.gz", packed),
    ):
        address = write(tmp_path / name, data[: int(len(data) * kept)])
        with pytest.raises(Invalid, match=r"a\.(parquet|jsonl\.gz|csv\.gz)"):
            read(address)


def test_a_damaged_page_has_a_clear_error(tmp_path: Path) -> None:
    table = pa.table({"n": list(range(20_000)), "t": [f"text {n * 7919}" for n in range(20_000)]})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[len(data) // 3 : len(data) // 3 + 500] = b"\0" * 500
    with pytest.raises(Invalid, match=r"a\.parquet"):
        read(write(tmp_path / "a.parquet", bytes(data)))


def test_folders_that_contain_themselves_end(tmp_path: Path) -> None:
    write(tmp_path / "d/a.jsonl", '{"n":1}')
    (tmp_path / "d" / "again").symlink_to(tmp_path / "d")
    (tmp_path / "d" / "nowhere.jsonl").symlink_to(tmp_path / "gone.jsonl")
    assert [source.name for source in find_files(str(tmp_path / "d"))].count("a.jsonl") == 1


def test_a_directory_gives_its_files_by_name_and_leaves_others_alone(tmp_path: Path) -> None:
    write(tmp_path / "d/b.jsonl", '{"n":2}')
    write(tmp_path / "d/a.csv", "n\n1\n")
    write(tmp_path / "d/deep/c.ndjson", '{"n":3}')
    write(tmp_path / "d/_SUCCESS", "")
    write(tmp_path / "d/.hidden.jsonl", '{"n":9}')
    write(tmp_path / "d/readme.txt", "hello")
    assert read(str(tmp_path / "d")) == [{"n": "1"}, {"n": 2}, {"n": 3}]
    assert read((tmp_path / "d").as_uri()) == [{"n": "1"}, {"n": 2}, {"n": 3}]


def test_unreadable_sources_have_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for address in (
        str(tmp_path / "absent"),
        str(tmp_path / "empty"),
        write(tmp_path / "a.xls", "x"),
        "gopher://x/y",
    ):
        with pytest.raises(Invalid):
            find_files(address)
    assert read(write(tmp_path / "b.txt", '{"a":1}'), format="jsonl") == [{"a": 1}]


def test_formats_are_detected_from_names() -> None:
    assert [detect_format(name) for name in ("A.JSONL", "a.json.zst", "a.csv.gz", "a.pq", "a", "a.gz")] == [
        "jsonl", "jsonl", "csv", "parquet", None, None,
    ]  # fmt: skip


def test_chunks_go_on_after_what_is_done(tmp_path: Path) -> None:
    (source,) = find_files(write(tmp_path / "a.jsonl", "\n".join(f'{{"n":{n}}}' for n in range(10))))
    assert [(first, [row["n"] for row in part]) for first, part in read_row_chunks(source, 4)] == [
        (0, [0, 1, 2, 3]), (4, [4, 5, 6, 7]), (8, [8, 9]),
    ]  # fmt: skip
    assert [(first, len(part)) for first, part in read_row_chunks(source, 4, skip=8)] == [(8, 2)]
    assert list(read_row_chunks(source, 4, skip=10)) == []


@pytest.mark.parametrize(("group", "size"), [(3, 4), (4, 3), (100, 4), (1, 5), (7, 7)])
def test_parquet_is_cut_into_the_same_lots_wherever_its_row_groups_end(
    tmp_path: Path, group: int, size: int
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": list(range(17))}), path, row_group_size=group)
    (source,) = find_files(str(path))
    for skip in (0, size, 16, 17):
        rows = [(first, [row["n"] for row in part]) for first, part in read_row_chunks(source, size, skip)]
        assert rows == [(first, list(range(first, min(first + size, 17)))) for first in range(skip, 17, size)]


def test_rows_that_are_nested_too_deep_are_reported(tmp_path: Path) -> None:
    deep = b'{"x":' + b"[" * 1000 + b"]" * 1000 + b"}\n"
    objects = b'{"a":' * 900 + b"1" + b"}" * 900 + b"\n"
    wide = b'{"x":[' + b",".join([b"{}"] * 1000) + b"]}\n"
    rows = read(write(tmp_path / "a.jsonl", deep + objects + wide + b'{"id":1}\n'))
    assert [row.reason for row in rows[:2]] == ["nested deeper than 64 levels"] * 2
    assert rows[2:] == [{"x": [{}] * 1000}, {"id": 1}]


@pytest.mark.parametrize(
    "encoding", ["idna", "punycode", "PunyCode", "undefined", "a\0b", "\ud800", "base64"]
)
def test_an_encoding_is_one_of_texts_that_is_read_in_linear_time(encoding: str) -> None:
    with pytest.raises(Invalid, match="there is no encoding"):
        DelimitedFormat(encoding=encoding)
