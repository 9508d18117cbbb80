"""Reading from an object store that is slow, fails, or cuts bodies short: every row once, or a clear refusal."""

from __future__ import annotations

import gzip
import io
import random
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.artifacts.storage.artifact_store import RetryPolicy
from cluster.errors import Invalid, Unavailable
from jobs.ingest.files.sources import ReadRetry, find_files_in, read_row_chunks, read_rows
from jobs.ingest.files.unreadable_row import UnreadableRow
from tests.fakes.bucket import Bucket

ROWS = [{"n": n, "t": f"text {n * 7919}"} for n in range(30_000)]


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def asking(pauses: list[float]) -> ReadRetry:
    return ReadRetry(RetryPolicy(attempts=4), sleep=pauses.append, rng=random.Random(1))


@pytest.fixture
def bucket() -> Bucket:
    bucket = Bucket()
    lines = b"\n".join(orjson.dumps(row) for row in ROWS)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(ROWS), sink, row_group_size=1_000)
    bucket.objects = {
        "in/a.jsonl": lines,
        "in/b.jsonl.gz": gzip.compress(lines),
        "in/c.csv": b"n,t\n" + b"\n".join(b"%d,%s" % (row["n"], row["t"].encode()) for row in ROWS),
        "in/d.parquet": sink.getvalue().to_pybytes(),
    }
    return bucket


def read(bucket: Bucket, asking: ReadRetry, name: str) -> list[Any]:
    (source,) = find_files_in(bucket.filesystem(), f"in/{name}", f"fake://in/{name}", asking=asking)
    return [{**row, "n": int(row["n"])} if isinstance(row, dict) else row for row in read_rows(source)]


NAMES = ("a.jsonl", "b.jsonl.gz", "c.csv", "d.parquet")


@pytest.mark.parametrize("name", NAMES)
def test_refused_reads_are_retried_with_growing_pauses(
    bucket: Bucket, asking: ReadRetry, pauses: list[float], name: str
) -> None:
    failures = iter(["500", "503", "timed out"])

    def fault(verb: str, path: str) -> None:
        if (what := next(failures, "")) and verb in ("read", "size"):
            raise OSError(what)

    bucket.fault = fault
    assert read(bucket, asking, name) == ROWS
    assert len(pauses) == 3
    assert 0.1 <= pauses[0] <= 0.3
    assert 0.4 <= pauses[2] <= 1.2


def test_lots_of_columns_are_gone_on_with_behind_those_that_were_given(
    bucket: Bucket, asking: ReadRetry, pauses: list[float]
) -> None:
    breaking = Breaking()
    breaking.objects = bucket.objects
    (source,) = find_files_in(breaking.filesystem(), "in/d.parquet", "fake://in/d.parquet", asking=asking)
    batches = list(read_row_chunks(source, 700, 1_400))
    assert [first for first, _ in batches] == list(range(1_400, 30_000, 700))
    assert [row for _, batch in batches for row in batch] == ROWS[1_400:]
    assert len(pauses) == 3
    assert breaking.largest < len(bucket.objects["in/d.parquet"]) / 4  # never the whole file at once


class Breaking(Bucket):
    """A store that breaks off in the middle of three bodies."""

    def __init__(self) -> None:
        super().__init__()
        self.breaks = [5, 25, 60]
        "Reads of a body that still go well."
        self.largest = 0

    def open_input_file(self, path: str) -> Any:
        return pa.PythonFile(
            Body(self, self.objects[path], self.breaks.pop(0) if self.breaks else None), mode="r"
        )


class Body(io.BytesIO):
    def __init__(self, store: Breaking, data: bytes, left: int | None) -> None:
        super().__init__(data)
        self._store = store
        self._left = left

    def read(self, size: int | None = -1) -> bytes:
        self._store.largest = max(self._store.largest, size or 0)
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise OSError("reset by peer")
        return super().read(size)


@pytest.mark.parametrize("name", NAMES[:3])
def test_bodies_cut_short_are_gone_on_with_and_no_row_comes_twice(
    bucket: Bucket, asking: ReadRetry, pauses: list[float], name: str
) -> None:
    size = len(bucket.objects[f"in/{name}"])
    bucket.cut = [size // 7, size // 3, size - 1]
    assert read(bucket, asking, name) == ROWS
    assert len(pauses) == 3


def test_a_store_that_never_returns_the_whole_body_fails_with_its_address(
    bucket: Bucket, asking: ReadRetry, pauses: list[float]
) -> None:
    bucket.cut = [1 << 20] * 50
    bucket.objects["in/a.jsonl"] *= 3
    (source,) = find_files_in(bucket.filesystem(), "in/a.jsonl", "fake://in/a.jsonl", asking=asking)
    got: list[Any] = []
    with pytest.raises(Unavailable, match=r"a\.jsonl can't be read behind row [\d,]+: it ended after"):
        got.extend(row for row in read_rows(source))
    assert len(pauses) == 3


def test_a_store_that_does_not_answer_is_given_up(bucket: Bucket, asking: ReadRetry) -> None:
    def fault(verb: str, path: str) -> None:
        raise OSError("503 slow down")

    bucket.fault = fault
    with pytest.raises(Unavailable, match="503 slow down"):
        find_files_in(bucket.filesystem(), "in", "fake://in", asking=asking)


def test_a_folder_of_a_bucket_gives_its_files_and_an_empty_one_is_refused(
    bucket: Bucket, asking: ReadRetry
) -> None:
    sources = find_files_in(bucket.filesystem(), "in", "fake://in", asking=asking)
    assert [source.name for source in sources] == list(NAMES)
    with pytest.raises(Invalid, match="no file of a known kind"):
        find_files_in(bucket.filesystem(), "out", "fake://out", asking=asking)


def test_rows_read_before_a_break_are_not_marked_unreadable(bucket: Bucket, asking: ReadRetry) -> None:
    size = len(bucket.objects["in/a.jsonl"])
    bucket.cut = [size // 2]
    assert not any(isinstance(row, UnreadableRow) for row in read(bucket, asking, "a.jsonl"))
