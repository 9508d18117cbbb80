"""Odd files from a seeded generator: no row ends an ingest, good rows arrive, every other row has a reason."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import uuid
from datetime import datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.errors import Invalid, KioskError
from cluster.records.apps import App
from jobs.ingest.display import show_preview
from jobs.ingest.files.delimited_files import DelimitedFormat
from jobs.ingest.pipeline import IngestSpec, ingest
from jobs.ingest.preview import IngestPreview, preview_ingest
from jobs.ingest.progress import IngestProgress
from tests.fakes.dying_shelf import Killed
from tests.fakes.stores.memory import memory_stores

APP = "shop"
NOW_MS = 1_772_442_930_250
AT = "2026-03-02T09:15:30.250Z"
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001
"What tables write for a time without an end."
VALUES = (
    b"null", b"true", b"-1", b"1e308", b"9" * 25, b"18446744073709551615", b'""', b'" "', b'"\\u0000"', b'"\\ud800"',
    b'"\xff"', b"[]", b"[null]", b"{}", b'{"a":{"a":1}}', b"[" * 62 + b"]" * 62, b"[" * 70 + b"]" * 70, b"NaN",
    b'"' + b"x" * 3_000 + b'"', b'"2024-02-30"', b"20240131", b'"0001-01-01T00:00:00+14:00"', b'["a",1]', b"[1e308]",
)  # fmt: skip
CELLS = (
    "", " ", '""', '"a\nb"', 'a"b', "\0", "\udcff", "é", "NaN", "1e999", "9" * 400, "x" * 3_000, "0001-01-01 +0200",
    "9999-12-31 -0200", "2024-02-30 +0000", "20240131", "20240131235959", "-62135596800001", "99999999999999999",
)  # fmt: skip
FIELDS = ("timestamp", "revenue", "quantities", "order_id", "user_id", "product_ids", "type", "context", "x")


def preview(path: Path, noun: Any, mapping: tuple[str, ...] = (), encoding: str = "") -> IngestPreview:
    layout = DelimitedFormat(encoding=encoding)
    return preview_ingest(IngestSpec(str(path), noun, APP, mapping=mapping, layout=layout), now_ms=NOW_MS)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def click(number: int) -> dict[str, Any]:
    return {"type": "click", "user_id": f"u{number % 3}", "product_ids": [f"good{number}"], "timestamp": AT}


def write_json_lines(rng: random.Random, folder: Path) -> tuple[Path, set[str]]:
    """Write rows of interactions, every second one odd."""
    lines = []
    for number in range(20):
        row = {name: orjson.dumps(value) for name, value in click(number).items()}
        if number % 2:
            row["product_ids"] = b'["odd"]'
            row |= {rng.choice(FIELDS): rng.choice(VALUES) for _ in range(2)}
        line = b"{" + b",".join(b'"%b":%b' % (name.encode(), value) for name, value in row.items()) + b"}"
        lines.append(line[: rng.randint(1, len(line))] if number % 2 and rng.random() < 0.2 else line)
        lines += rng.choices((b"", b" ", b"\0", b"[]", b"1"), k=rng.randint(0, 1))
    end = rng.choice((b"\n", b"\r\n"))
    data = rng.choice((b"", b"\xef\xbb\xbf")) + end.join(lines) + rng.choice((b"", end))
    path = folder / rng.choice(("rows.jsonl", "rows.jsonl.gz"))
    halves = (data[:500], data[500:])
    write(path, b"".join(map(gzip.compress, halves)) if path.suffix == ".gz" else data)
    return path, {f"good{number}" for number in range(0, 20, 2)}


def write_csv(rng: random.Random, folder: Path) -> tuple[Path, set[str]]:
    lines = ["type,user_id,product_ids,timestamp,revenue"]
    for number in range(20):
        cells = ["click", f"u{number % 3}", f"good{number}", AT, ""]
        if number % 2:
            cells[2] = "odd"
            cells[rng.randrange(5)] = rng.choice(CELLS)
        lines += [",".join(cells), *rng.choices(("", "x"), k=rng.randint(0, 1))]
    end = rng.choice(("\n", "\r\n", "\r"))
    text = rng.choice(("", "\ufeff")) + end.join(lines) + rng.choice(("", end))
    path = write(folder / "rows.csv", text.encode("utf-8", "surrogateescape"))
    return path, {f"good{number}" for number in range(0, 20, 2)}


def write_parquet(rng: random.Random, folder: Path) -> tuple[Path, set[str]]:
    """Write rows of interactions with an odd column, and row groups without rows."""
    rows = [click(number) for number in range(20)]
    table = pa.Table.from_pylist(rows)
    ids = rng.choice((pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())))
    lists = rng.choice((pa.list_, pa.large_list))(ids)
    table = table.set_column(2, "product_ids", pa.array([row["product_ids"] for row in rows], lists))
    since = (datetime.fromisoformat(AT[:-1]), LAST, datetime(1, 1, 1), None)  # noqa: DTZ001
    at_us = pa.array([since[number % 2 * rng.randint(0, 3)] for number in range(20)], pa.timestamp("us"))
    zone = rng.choice((None, "UTC", "+14:00", "-12:00"))
    table = table.set_column(3, "timestamp", at_us.cast(pa.timestamp("us", zone)))
    odd = (LAST, timedelta(1), time(1), uuid.UUID(int=1).bytes, float("inf"), [LAST], {"at": LAST}, b"\xff")
    values = [rng.choice(odd)] * 20
    table = table.append_column(
        "context", pa.array([None if n % 2 == 0 else value for n, value in enumerate(values)])
    )
    path = folder / "rows.parquet"
    with pq.ParquetWriter(path, table.schema, compression=rng.choice(("zstd", "gzip", "none"))) as writer:
        for part in (table.slice(0, 0), table, table.slice(0, 0)):
            writer.write_table(part, row_group_size=rng.choice((1, 3, 100)))
    return path, {f"good{number}" for number in range(0, 20, 2)}


@pytest.mark.parametrize("write_rows", [write_json_lines, write_csv, write_parquet])
async def test_good_rows_of_odd_files_arrive_once_whatever_interrupts_the_ingest(
    tmp_path: Path, write_rows: Any
) -> None:
    for seed in range(12):
        rng = random.Random(seed)
        path, good = write_rows(rng, tmp_path)
        stores = memory_stores()
        await stores.access.put_app(App(app_id=APP, environment="development", created_at=0))
        order = IngestSpec(str(path), "interaction", APP, chunk=rng.choice((3, 7, 500)), keep_going=True)
        kill_after = rng.randint(1, 4)

        def die(progress: IngestProgress, most: int = kill_after) -> None:
            if progress.rows >= most and not progress.finished:
                raise Killed

        state = tmp_path / f"state {seed}"
        with pytest.raises(Killed):
            await ingest(order, stores, state_dir=state, watch=die)
        report = await ingest(order, stores, state_dir=state)
        assert (await ingest(order, stores, state_dir=state)).already
        changes = await stores.changes.read(APP, {"interaction": "0"}, count=10_000, block_ms=0)
        items = [item for change in changes for item in orjson.loads(change.payload)]
        arrived = [product_id for item in items for product_id in item.get("product_ids", ())]
        assert sorted(name for name in arrived if name in good) == sorted(good), seed
        quarantine = state.glob("*/quarantine.jsonl")
        lines = [orjson.loads(line) for file in quarantine for line in file.read_bytes().splitlines()]
        assert len(items) == report.accepted
        assert len(lines) == report.refused
        assert len({line["row"] for line in lines}) == len(lines)
        assert all(line["reason"] for line in lines)


@pytest.mark.parametrize("order_rule", ["order_id=order_id", "order_id:=same user and time"])
def test_order_lines_with_odd_numbers_stay_alone(tmp_path: Path, order_rule: str) -> None:
    lines = [
        b'{"type":"checkout","user_id":"u","order_id":"1","timestamp":"%b","product_ids":["p"],%b}'
        % (AT.encode(), rng_value)
        for rng_value in (b'"quantities":[1e308]', b'"revenue":1e308', b'"quantities":[18446744073709551615]')
        * 2
    ]
    report = preview(write(tmp_path / "rows.jsonl", b"\n".join(lines)), "interaction", (order_rule,))
    assert (report.rows, report.accepted) == (6, 6)


def test_values_without_a_form_in_json_have_their_text_in_a_dry_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moment = {"ends": LAST, "open": time(9, 30), "length": timedelta(minutes=2)}
    pq.write_table(
        pa.Table.from_pylist([{"user_id": "u", "custom_attributes": moment}]), tmp_path / "a.parquet"
    )
    report = preview(tmp_path / "a.parquet", "user")
    assert report.samples == (
        {
            "user_id": "u",
            "custom_attributes": {"ends": "9999-12-31T23:59:59.999Z", "open": "09:30:00", "length": 120.0},
        },
    )
    assert report.accepted == 1
    show_preview(IngestSpec("a", "user", APP), report, as_json=True)
    assert json.loads(capsys.readouterr().out)["samples"] == list(report.samples)


def test_a_time_whose_offset_leads_out_of_the_calendar_costs_its_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b"user_id,since\nu1,0001-01-01 +0200\nu2,2020-01-01 +0000\n")
    report = preview(path, "user", ("created_at=since:time(%Y-%m-%d %z)",))
    assert report.samples[1]["created_at"] == "2020-01-01T00:00:00.000Z"
    assert (report.accepted, report.refused) == (1, 1)


@pytest.mark.parametrize("digits", ["20240131", "20240131235959"])
def test_digits_of_a_date_are_no_seconds_and_no_milliseconds(tmp_path: Path, digits: str) -> None:
    rows = [click(1) | {"timestamp": value} for value in (digits, int(digits))]
    csv = write(tmp_path / "a.csv", f"type,user_id,product_ids,timestamp\nclick,u,p,{digits}\n".encode())
    lines = write(tmp_path / "b.jsonl", b"\n".join(map(orjson.dumps, rows[1:])))
    pq.write_table(pa.Table.from_pylist(rows[1:]), tmp_path / "c.parquet")
    at = datetime.strptime(digits.ljust(14, "0"), "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
    for path in (csv, lines, tmp_path / "c.parquet"):
        report = preview(path, "interaction")
        assert [row["timestamp"] for row in report.samples] == [at.isoformat()[:19] + ".000Z"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_is_no_part_of_a_name_also_if_the_encoding_is_given(
    tmp_path: Path, encoding: str
) -> None:
    path = write(tmp_path / "a.csv", '\ufeff"user_id",name\nu1,Ann\n'.encode(encoding))
    assert preview(path, "user", (), encoding).samples == ({"user_id": "u1", "name": "Ann"},)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-7"])
def test_bytes_that_an_encoding_can_not_decode_refuse_the_file(tmp_path: Path, encoding: str) -> None:
    data = "user_id,name\nu1,Ann\nu2,Zoë\n".encode(encoding, "ignore")
    for seed in range(30):
        rng = random.Random(seed)
        at = rng.randrange(len(data))
        path = write(tmp_path / "a.csv", data[:at] + rng.randbytes(rng.randint(0, 3)) + data[at + 1 :])
        with contextlib.suppress(Invalid):
            report = preview(path, "user", (), encoding)
            assert report.accepted + report.refused == report.rows


def test_parts_without_bytes_hold_no_rows(tmp_path: Path) -> None:
    for number, data in enumerate((b"user_id\nu1\n", b"", b"user_id\nu2\n")):
        write(tmp_path / f"part-{number}.csv", data)
    assert [preview(tmp_path, "user", rules).accepted for rules in ((), ("user_id=user_id",))] == [2, 2]


def test_a_name_of_a_file_that_is_not_utf_8_has_a_clear_error(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/K\xf6ln.csv"
    with open(path, "wb") as stream:
        stream.write(b"user_id\nu1\n")
    for address in (str(tmp_path), os.fsdecode(path)):
        with pytest.raises(Invalid, match="is not UTF-8; rename it") as caught:
            preview(Path(address), "user")
        assert caught.value.message.isascii()


def test_compressed_data_under_a_plain_name_has_a_clear_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", gzip.compress(b"user_id\nu1\n"))
    with pytest.raises(Invalid, match=r"compressed by gzip; give its name the suffix \.gz"):
        preview(path, "user")


def test_damaged_parquet_is_refused_or_read(tmp_path: Path) -> None:
    pq.write_table(
        pa.Table.from_pylist([click(number) for number in range(50)]), tmp_path / "a", row_group_size=20
    )
    whole = (tmp_path / "a").read_bytes()
    read = 0
    for seed in range(150):
        rng = random.Random(seed)
        data = bytearray(whole)
        for _ in range(rng.choice((1, 5))):
            data[rng.randrange(rng.choice((0, len(data) - 1_500)), len(data) - 8)] = rng.randrange(256)
        with contextlib.suppress(KioskError):
            report = preview(write(tmp_path / "a.parquet", bytes(data)), "interaction")
            read += 1
            assert report.accepted + report.refused == report.rows
    assert read > 0
