"""Millions of interactions leave in bounded memory: what an export takes does not grow with the app."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from cluster.artifacts.compaction import MergeRules
from cluster.artifacts.segment_format import INTERACTIONS
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from tests.fakes import generated_market

pytestmark = [pytest.mark.drill, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
A_BATCH = 100_000
A_PIECE = 16 << 20
"Segments are merged up to this size here, so that both apps have as large ones."
MOST_MORE_MB = 60
"What three times as many rows may take beyond what a third of them takes."
LEAST_ROWS_PER_S = {"parquet": 10_000, "jsonl": 40_000, "csv": 8_000}

EXPORT = """
import asyncio, json, re, sys, time
from pathlib import Path
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.records.apps import (App)
from tests.fakes.stores.memory import memory_stores
from jobs.export.file_export import ExportSpec, export_to_file

async def main(folder, out, form):
    stores = memory_stores()
    await stores.access.put_app(App(app_id="market", environment="development", created_at=0))
    began = time.monotonic()
    summary = await export_to_file(ExportSpec("market", "interactions", out, form), stores, ArtifactStore.open(folder))
    # not `ru_maxrss`, which a new process has from its parent
    peak_mb = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
    print(json.dumps([summary.rows, peak_mb, time.monotonic() - began]))

asyncio.run(main(*sys.argv[1:]))
"""


def settle(folder: Path, batches: int) -> None:
    """Put batches of interactions with their JSON in the artifact store, as settling would."""
    segments = SegmentStore(ArtifactStore.open(folder), rules=MergeRules(piece_bytes=A_PIECE))
    for batch in range(batches):
        made = generated_market.table(A_BATCH, 20_000, 5_000, seed=batch)
        jsons = [
            b'{"type":"%s","user_id":"%s","product_ids":["%s"],"timestamp":"2026-03-01T09:15:30.250Z"}'
            % (kind.encode(), user_key[2:].encode(), products[0].encode())
            for kind, user_key, products in zip(
                made["type"].to_pylist(),
                made["reader"].to_pylist(),
                made["product_ids"].to_pylist(),
                strict=True,
            )
        ]
        offsets = pa.array(
            [f"{generated_market.END_MS + batch}-{number // 500}" for number in range(A_BATCH)]
        )
        made = made.set_column(made.column_names.index("json"), "json", pa.array(jsons, pa.binary()))
        made = made.set_column(made.column_names.index("offset"), "offset", offsets).cast(INTERACTIONS)
        first, last = f"{generated_market.END_MS + batch}-0", f"{generated_market.END_MS + batch}-{A_BATCH}"
        segments.append(generated_market.APP, "interaction", made, first=first, last=last)
        segments.compact(generated_market.APP, "interaction")


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    peaks: dict[tuple[str, int], float] = {}
    for batches in (3, 9):
        folder = tmp_path / str(batches)
        settle(folder, batches)
        for form, least in LEAST_ROWS_PER_S.items():
            out = tmp_path / f"out.{form}"
            done = subprocess.run(
                [sys.executable, "-c", EXPORT, str(folder), str(out), form],
                env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600, check=True,
            )  # fmt: skip
            rows, peak_mb, took_s = json.loads(done.stdout.splitlines()[-1])
            print(f"{form}: {rows:,} rows, {peak_mb:.0f} MB, {rows / took_s:,.0f} rows/s")
            assert rows == batches * A_BATCH
            assert rows / took_s > least
            peaks[form, batches] = peak_mb
            out.unlink()
    for form in LEAST_ROWS_PER_S:
        assert peaks[form, 9] - peaks[form, 3] < MOST_MORE_MB, peaks
