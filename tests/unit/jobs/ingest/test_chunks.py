"""Chunks by rows and bytes, the bytes of rows in columns, and the bound on decoded bytes."""

from __future__ import annotations

import json
import resource
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.errors import Invalid
from jobs.ingest.files.chunks import ReadBounds, cut_batches, cut_rows, measure_rows
from jobs.ingest.files.sources import _read_batches, find_files, read_row_chunks
from jobs.ingest.mappings.mapping import FieldMap

BOUNDS = ReadBounds(chunk_bytes=1_000)


def _rows(path: Path, size: int, bounds: ReadBounds, skip: int = 0) -> list[tuple[int, int]]:
    (source,) = find_files(str(path))
    return [(first, len(rows)) for first, rows in read_row_chunks(source, size, skip, bounds)]


def _write(path: Path, texts: list[str]) -> Path:
    rows = [{"product_id": f"p{at}", "title": text} for at, text in enumerate(texts)]
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        path.write_text(
            "product_id,title\n" + "".join(f"{row['product_id']},{row['title']}\n" for row in rows)
        )
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_chunk_ends_by_bytes_and_a_continued_read_cuts_the_same_chunks(tmp_path: Path, suffix: str) -> None:
    lengths = np.random.default_rng(7).integers(1, 400, 60).tolist()
    path = _write(tmp_path / f"products{suffix}", ["x" * length for length in lengths])
    chunks = _rows(path, 20, BOUNDS)
    assert sum(count for _, count in chunks) == 60
    assert 1 < max(count for _, count in chunks) < 20
    for first, count in chunks:
        assert sum(lengths[first : first + count - 1]) < 1_000
    for at, (first, _) in enumerate(chunks):
        assert _rows(path, 20, BOUNDS, first) == chunks[at:]
    assert [count for _, count in _rows(path, 20, ReadBounds())] == [20, 20, 20]


def test_rows_and_batches_are_cut_alike() -> None:
    sizes = np.random.default_rng(8).integers(0, 600, 200).tolist()
    batches = pa.table({"text": ["x" * size for size in sizes]}).to_batches(max_chunksize=17)
    for skip in (0, 3, 17, 50):
        by_row = [len(rows) for rows in cut_rows(((size, {}) for size in sizes), 6, BOUNDS, skip)]
        assert [table.num_rows for table in cut_batches(iter(batches), 6, BOUNDS, skip)] == by_row


@pytest.mark.parametrize(
    ("values", "sizes"),
    [
        (pa.array(["ab", None, "é"]), [2, 0, 2]),
        (pa.array(["abc", "abc", None]).dictionary_encode(), [3, 3, 0]),
        (pa.array([["a", "bcd"], None, []]), [20, 0, 0]),
        (pa.array([{"a": "xy", "b": 1}, {"a": None, "b": 2}, None]), [10, 8, 8]),
        (pa.array([[("k", "value")], [], None], pa.map_(pa.string(), pa.string())), [14, 0, 0]),
        (pa.array([1, 2, None]), [8, 8, 8]),
        (pa.array(["abc", None, "é"], pa.string_view()), [3, 0, 2]),
        (pa.array([["a", "bcd"], None, ["", "x"]], pa.list_(pa.string(), 2)), [20, 0, 17]),
        (pa.array([["a", "bcd"], None, ["x"]], pa.list_view(pa.string())), [20, 0, 9]),
        (pa.array([b"x" * 100, None], pa.binary(100)), [100, 100]),
        (pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(['{"a": 1}', None])), [8, 0]),
    ],
)
def test_the_bytes_of_a_row_are_those_of_its_decoded_texts(values: Any, sizes: list[int]) -> None:
    whole = pa.record_batch([values], ["x"])
    assert measure_rows(whole).tolist() == sizes
    assert measure_rows(whole.slice(1)).tolist() == sizes[1:]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_file_that_decodes_to_more_than_its_bound_is_refused_while_it_is_read(
    tmp_path: Path, suffix: str
) -> None:
    path = _write(tmp_path / f"products{suffix}", ["x" * 900_000] * 6)
    assert len(_rows(path, 500, ReadBounds(1_000, 8 << 20))) > 1
    (source,) = find_files(str(path))
    chunks = read_row_chunks(source, 500, 0, ReadBounds(1_000, 3 << 20))
    with pytest.raises(Invalid, match="holds more than 3 MB of data after decoding"):
        list(chunks)


@pytest.mark.parametrize("form", ["map", "fixed list", "extension", "view"])
def test_a_dictionary_within_another_type_is_decoded_in_small_parts(tmp_path: Path, form: str) -> None:
    """The schema that Arrow keeps in the file restores such types."""
    text, count = "x" * 200_000, 2_000
    plain = pa.array([text] * count)
    column = {
        "map": lambda: pa.array([[("k", text)]] * count, pa.map_(pa.string(), pa.string())),
        "fixed list": lambda: pa.array([[text]] * count, pa.list_(pa.string(), 1)),
        "extension": lambda: pa.ExtensionArray.from_storage(pa.json_(pa.string()), plain),
        "view": lambda: plain.cast(pa.string_view()),
    }[form]()
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"product_id": [str(at) for at in range(count)], "custom": column}), path)
    (source,) = find_files(str(path))
    sizes = [int(measure_rows(batch).sum()) for batch in _read_batches(source, 2_000)]
    assert sum(sizes) >= count * len(text)
    assert max(sizes) <= 80 << 20
    with pytest.raises(Invalid, match="after decoding"):
        list(read_row_chunks(source, 500, 0, ReadBounds(4 << 20, 100 << 20)))


def test_a_dictionary_of_one_long_text_is_decoded_in_small_parts(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    titles = pa.DictionaryArray.from_arrays(np.zeros(20_000, np.int32), pa.array(["x" * 100_000]))
    pq.write_table(
        pa.table({"product_id": [str(at) for at in range(20_000)], "title": titles}), path, store_schema=False
    )
    assert path.stat().st_size < 200_000
    (source,) = find_files(str(path))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    chunks = read_row_chunks(source, 500, 0, ReadBounds(4 << 20, 1 << 30))
    rows = sum(len(list(rows)) for (_, rows), _ in zip(chunks, range(100), strict=False))
    assert rows == 100 * 42
    with pytest.raises(Invalid, match="holds more than 1,024 MB"):
        deque(chunks, maxlen=0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10  # of 2 GB, in KiB


def test_rules_that_copy_or_add_much_text_make_chunks_smaller() -> None:
    assert FieldMap.parse(["title=a"]).compute_chunk_limits(500, 4 << 20) == (500, 4 << 20)
    copied = FieldMap.parse([f"custom_attributes.a{at}=a" for at in range(500)])
    assert copied.compute_chunk_limits(500, 4 << 20) == (500, (4 << 20) // 500)
    added = FieldMap.parse([f"custom_attributes.a{at}:=" + "x" * 4_000 for at in range(100)])
    assert added.compute_chunk_limits(500, 4 << 20) == ((4 << 20) // 400_000, 4 << 20)
