from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.intake.compaction import ChangeLogCompactor, SegmentRebuilder
from actors.language.hashing_embedder import HashingEmbedder
from cluster.artifacts import replaced_products
from cluster.artifacts.compaction import MergeRules
from cluster.artifacts.replaced_products import KEEP_MS, ReplacedProducts, read_versions, select_replaced
from cluster.artifacts.segment_format import RECORDS
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.meter import SilentMeter
from tests.fakes.dying_shelf import DyingArtifactStore, Killed
from tests.fakes.stores.memory import memory_stores
from tests.suites.manual_clock import ManualClock

NOW = 1_800_000_000_000


def rows(offset: str, *ids: str) -> Any:
    row = {"gone": False, "offset": offset, "product_type": "book", "json": b"{}"}
    return pa.Table.from_pylist([{"id": product_id, **row} for product_id in ids], schema=RECORDS)


async def test_a_former_version_is_dropped_in_time_also_without_further_changes(tmp_path: Path) -> None:
    artifacts, stores, clock = ArtifactStore.open(tmp_path), memory_stores(), ManualClock(NOW)
    segments = SegmentStore(artifacts, clock)
    for step in range(1, 3):
        segments.append("shop", "product", rows(f"{step}-0", "secret"), first=f"{step}-0", last=f"{step}-0")
    segments.compact("shop", "product", whole=True)
    assert read_versions(artifacts, "shop")["offset"].to_pylist() == ["1-0", "2-0"]
    rebuilder = SegmentRebuilder(stores, segments, HashingEmbedder(), clock)
    compactor = ChangeLogCompactor(stores.changes, segments, rebuilder, clock, SilentMeter())
    await compactor.run_once(["shop"])
    assert read_versions(artifacts, "shop")["offset"].to_pylist() == ["1-0", "2-0"]
    clock.advance(KEEP_MS + 1)
    await compactor.run_once(["shop"])
    assert read_versions(artifacts, "shop")["offset"].to_pylist() == ["2-0"]


def test_the_versions_of_an_app_have_a_bound_and_the_oldest_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts, clock = ArtifactStore.open(tmp_path), ManualClock(NOW)
    for step in range(1, 5):
        replaced = ReplacedProducts(artifacts, clock)
        replaced.write("shop", select_replaced(rows(f"{step}-0", "p"), pa.array([], pa.int32())))
        replaced.append("shop", [], ())
        clock.advance(1_000)
    size = max(entry.size for entry in ReplacedProducts(artifacts).commit("shop").files)
    monkeypatch.setattr(replaced_products, "MOST_BYTES", 2 * size)
    ReplacedProducts(artifacts, clock).drop_old("shop")
    assert ReplacedProducts(artifacts).read("shop", 0)["offset"].to_pylist() == ["3-0", "4-0"]


def test_a_merge_holds_the_versions_of_one_segment_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = SegmentStore(ArtifactStore.open(tmp_path), ManualClock(NOW), MergeRules(piece_bytes=400))
    for step in range(1, 6):
        segments.append("shop", "product", rows(f"{step}-0", "a", "b"), first=f"{step}-0", last=f"{step}-0")
    written: list[int] = []
    write = ReplacedProducts._write

    def count(self: ReplacedProducts, app_id: str, day: str, table: Any) -> Any:
        written.append(table.num_rows)
        return write(self, app_id, day, table)

    monkeypatch.setattr(ReplacedProducts, "_write", count)
    segments.compact("shop", "product", whole=True)
    assert written == [2, 2, 2, 2]


def test_a_merge_that_is_killed_at_any_step_stores_no_version_twice(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    steps = 0
    lives = 0
    while not lives or lives > steps:
        folder = tmp_path / str(steps)
        folder.mkdir()
        artifacts = ArtifactStore.open(folder)
        dying = DyingArtifactStore(artifacts)
        segments = SegmentStore(dying, clock)
        _append(segments, 1, "a", "b", "a")
        _append(segments, 2, "a", "b")
        segments.compact("shop", "product", whole=True)
        _append(segments, 3, "b", "c", "b")
        _append(segments, 4, "c")
        before = read_versions(artifacts, "shop")
        dying.life = steps
        try:
            segments.compact("shop", "product", whole=True)
        except Killed:
            lives = steps + 2
        assert read_versions(artifacts, "shop").equals(before), steps
        again = SegmentStore(artifacts, clock)
        again.compact("shop", "product", whole=True)
        assert read_versions(artifacts, "shop").equals(before), steps
        _append(again, 5, "a", "b", "c")
        again.compact("shop", "product", whole=True)
        everything = read_versions(artifacts, "shop")
        assert everything["offset"].to_pylist() == [*before["offset"].to_pylist(), "5-0", "5-0", "5-0"]
        stored = ReplacedProducts(artifacts).read("shop", 0)
        assert stored.num_rows == everything.num_rows - 3, "each former version is stored once"
        steps += 1
    assert steps >= 8, "the merge took no step that could be interrupted"


def _append(segments: SegmentStore, step: int, *ids: str) -> None:
    segments.append("shop", "product", rows(f"{step}-0", *ids), first=f"{step}-0", last=f"{step}-0")
