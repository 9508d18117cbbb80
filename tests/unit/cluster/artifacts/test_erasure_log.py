"""Erasures noted in the segments: what was read or learned before one is out of date, and only that."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from cluster.artifacts.erasure_log import MOST, ErasureLog
from cluster.artifacts.segment_format import INTERACTIONS
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore

ALL = {"interaction": "900-0", "user": "900-0"}


def test_only_rows_that_were_read_make_it_out_of_date() -> None:
    log = ErasureLog().add("interaction", "100-0", 1).add("user", "200-5", 2).add("interaction", "300-0", 3)
    assert log.since(0, ALL) == 3
    assert log.since(2, ALL) == 1
    assert log.since(3, ALL) == 0
    assert log.since(0, {"interaction": "100-0"}) == 1
    assert log.since(0, {"interaction": "99-9", "user": "200-4"}) == 0
    assert ErasureLog.of({"erasures": log.to_dict()}) == log
    assert ErasureLog.of({}) == ErasureLog()


def test_what_is_not_listed_any_more_counts_in_any_case() -> None:
    log = ErasureLog()
    for number in range(MOST + 3):
        log = log.add("interaction", f"{number + 1}-0", number)
    assert (log.count, len(log.listed)) == (MOST + 3, MOST)
    assert log.since(0, {}) == 3
    assert log.since(2, {}) == 1
    assert log.since(3, {}) == 0


def test_the_segments_remember_erasures_over_every_other_commit(tmp_path: Path) -> None:
    segments = SegmentStore(ArtifactStore.open(tmp_path))
    row = {"reader": ["u:a", "u:b"], "type": ["click"] * 2, "at_ms": [1, 2], "product_ids": [["p"]] * 2}
    columns = {**row, "value": [0.0] * 2, "offset": ["5-0", "6-0"], "json": [b'{"n":1}', b'{"n":2}']}
    segments.append("shop", "interaction", pa.table(columns, schema=INTERACTIONS), first="5-0", last="6-0")
    assert segments.erasures("shop").count == 0
    assert segments.read_rows_of_ids("shop", "interaction", ["u:b"]) == [b'{"n":2}']
    assert segments.erase("shop", "interaction", ["u:nobody"]) == 0
    assert segments.erase("shop", "interaction", ["u:b"]) == 1
    log = segments.erasures("shop")
    assert (log.count, log.listed[0][:2]) == (1, ("interaction", "6-0"))
    segments.append("shop", "interaction", INTERACTIONS.empty_table(), first="7-0", last="7-0")
    segments.compact("shop", "interaction", whole=True)
    assert segments.erasures("shop") == log
    assert segments.load("shop").erasures == 1
