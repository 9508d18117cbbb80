"""The order of compacted records: that of their last writes, however segments were merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from cluster.artifacts.compaction import order_by_offset
from cluster.artifacts.segment_format import RECORDS
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore


def table(*rows: tuple[str, str]) -> Any:
    """Make a table of offsets and ids."""
    return pa.table({"offset": [offset for offset, _ in rows], "id": [name for _, name in rows]})


def names(tables: list[Any]) -> list[str]:
    return [name for table in tables for name in table["id"].to_pylist()]


def test_tables_in_order_are_not_copied() -> None:
    tables = [table(("1-0", "a"), ("9-0", "b")), table(("10-0", "c"), ("10-1", "d"))]
    ordered = order_by_offset(tables)
    assert [left is right for left, right in zip(ordered, tables, strict=True)] == [True, True]


def test_tables_that_were_merged_newest_first_come_in_the_order_of_the_log() -> None:
    merged = table(("10-1", "d"), ("10-1", "e"), ("9-0", "b"), ("9-0", "c"))
    assert names(order_by_offset([merged, table(("1-0", "a"))])) == ["a", "b", "c", "d", "e"]


def test_numbers_of_offsets_are_compared_and_not_their_texts() -> None:
    assert names(order_by_offset([table(("10-2", "b"), ("10-10", "c"), ("9-99", "a"))])) == ["a", "b", "c"]


def test_no_tables_have_an_order_too() -> None:
    assert order_by_offset([]) == []


def test_records_that_contain_some_bytes_are_loaded_without_the_others(tmp_path: Path) -> None:
    segments = SegmentStore(ArtifactStore.open(tmp_path))
    rows = [
        {"offset": f"{at}-0", "id": name, "gone": False, "json": record}
        for at, (name, record) in enumerate([("a", b'{"access":"gold"}'), ("b", b"{}")], 1)
    ]
    segments.append("news", "product", pa.Table.from_pylist(rows, RECORDS), first="1-0", last="2-0")
    assert segments.load_records_since("news", "product", "0", containing=b'"access"').puts == [
        rows[0]["json"]
    ]
    assert len(segments.load_records_since("news", "product", "0").puts) == 2
