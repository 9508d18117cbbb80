"""Small or strange files that could take much memory or time: each ends in bounded work, with a message."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.errors import KioskError
from cluster.records.field_types.fields import MAX_RECORD_BYTES
from jobs.ingest.pipeline import IngestSpec
from jobs.ingest.preview import IngestPreview, preview_ingest

MB = 1 << 20
WITHIN_S = 20.0
"Far above what each takes on a busy machine, far below what an unbounded reader would."


def _preview(path: Path, mapping: tuple[str, ...] = ()) -> IngestPreview:
    order = IngestSpec(str(path), "product", "shop", mapping=mapping, limit=1_000)
    return preview_ingest(order, now_ms=1_772_442_930_250)


def _write_columns(path: Path) -> None:
    path.write_text(",".join(f"c{at}" for at in range(2_000_000)) + "\n1,2\n")


def _write_open_quote(path: Path) -> None:
    path.write_text('product_id,title\n1,"' + "an open quote, and more\n" * 1_000_000)


def _write_long_line(path: Path) -> None:
    path.write_bytes(b'{"product_id":"p","title":"' + b"x" * (20 * MB) + b'"}\n{"product_id":"q"}\n')


def _write_levels(path: Path) -> None:
    path.write_bytes(
        b'{"product_id":"p","images":' + b"[" * 100_000 + b"]" * 100_000 + b'}\n{"product_id":"q"}\n'
    )


def _write_digits(path: Path) -> None:
    path.write_bytes(b'{"product_id":"p","price":' + b"9" * 5_000_000 + b'}\n{"product_id":"q"}\n')


@pytest.mark.parametrize(
    ("suffix", "write", "accepted"),
    [
        (".csv", _write_columns, None), (".csv", _write_open_quote, 999), (".jsonl", _write_long_line, 1),
        (".jsonl", _write_levels, 1), (".jsonl", _write_digits, 1),
    ],
)  # fmt: skip
def test_a_hostile_file_is_refused_or_its_bad_rows_are(tmp_path: Path, suffix: str, write, accepted) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / f"products{suffix}"
    write(path)
    began_s = time.monotonic()
    if accepted is None:
        with pytest.raises(KioskError):
            _preview(path)
    else:
        report = _preview(path)
        assert report.accepted == accepted
        assert report.refused >= 1
        assert all(reason.text and len(reason.example) < 10_000 for reason in report.reasons)
    assert time.monotonic() - began_s < WITHIN_S


def test_500_rules_that_copy_one_long_column_make_refused_rows_and_no_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "products.jsonl"
    row = orjson.dumps({"id": "p", "text": "x" * 9_000})
    path.write_bytes(b"\n".join([row] * 300))
    mapping = ("product_id=id", *(f"custom_attributes.a{at}=text" for at in range(500)))
    began_s = time.monotonic()
    report = _preview(path, mapping)
    assert (report.accepted, report.refused) == (0, 300)
    assert report.reasons[0].text == f"The record should have at most {MAX_RECORD_BYTES} bytes."
    assert time.monotonic() - began_s < WITHIN_S


_READ_SCRIPT = """
import json, resource, sys
from jobs.ingest.pipeline import IngestSpec
from jobs.ingest.preview import preview_ingest
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
report = preview_ingest(IngestSpec(sys.argv[1], "product", "shop", limit=1_000), now_ms=1_772_442_930_250)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([report.accepted, report.refused, report.reasons[0].text, (after - before) // 1024]))
"""


def test_a_bomb_of_1000_long_titles_is_refused_row_by_row(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    titles = pa.DictionaryArray.from_arrays(np.zeros(1_000, np.int32), pa.array(["x" * 100_000]))
    ids = pa.array([f"p{at:04}" for at in range(1_000)])
    pq.write_table(
        pa.table({"product_id": ids, "title": titles}), path, store_schema=False, compression="zstd"
    )
    assert path.stat().st_size < 10_000
    done = subprocess.run(
        [sys.executable, "-c", _READ_SCRIPT, str(path)], capture_output=True, check=True, text=True
    )
    accepted, refused, reason, took_mb = json.loads(done.stdout)
    assert (accepted, refused) == (0, 1_000)
    assert "at most 2000 characters" in reason
    assert took_mb < 400  # of 100 MB of titles and their copies
