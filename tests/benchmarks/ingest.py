"""`kiosk bench ingest`: files of millions into a fresh installation; memory, rate, and being killed on the way."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks import bulk
from tests.benchmarks.scenarios import Line
from tests.benchmarks.stack import Stack
from tests.benchmarks.unmeasured import guarded

INTERACTIONS = 1_000_000
PRODUCTS = 100_000
KILLED_ROWS = 200_000
KILLS = 4
FANNED_ROWS = 200_000


def lines(stack: Stack, *, products: int = PRODUCTS, interactions: int = INTERACTIONS) -> Iterator[Line]:
    """Measure an installation whose development app is empty."""
    with tempfile.TemporaryDirectory(prefix="kiosk-bulk-") as folder:
        files = Path(folder)
        bulk.write_products(files / "products.jsonl", products)
        newest_ms = int(time.time() * 1000) - 60_000
        bulk.write_interactions(files / "events.parquet", interactions, products, newest_ms)
        bulk.write_interactions(files / "few.parquet", KILLED_ROWS, products, newest_ms, seed=12)
        ingested = bulk.ingest(stack, files / "events.parquet", "interaction")
        yield _rate(f"{interactions:,} interactions from Parquet", ingested, 30_000)
        yield Line("their ingest: memory at its peak", ingested.peak_mb, "MiB", 400)
        ingested = bulk.ingest(stack, files / "products.jsonl", "product")
        yield _rate(f"{products:,} products from JSON Lines, applied", ingested, None)
        yield Line("their ingest: memory at its peak", ingested.peak_mb, "MiB", 500)
        yield from guarded("several files at once", lambda: [_at_once(stack, files, products, newest_ms)])
        yield from guarded(
            "a killed ingest", lambda: _killed(stack, files / "few.parquet", interactions + FANNED_ROWS)
        )


def _at_once(stack: Stack, files: Path, products: int, newest_ms: int) -> Line:
    """Ingest four files at once, as tasks on the installation's Ray."""
    folder = files / "several"
    folder.mkdir()
    for part in range(4):
        path = folder / f"{part}.parquet"
        bulk.write_interactions(path, FANNED_ROWS // 4, products, newest_ms, seed=20 + part)
    ingested = bulk.ingest(stack, folder, "interaction", "--at-once", "4")
    return _rate(f"{FANNED_ROWS:,} interactions from 4 files at once, as Ray tasks", ingested, None)


def _killed(stack: Stack, path: Path, before: int) -> Iterator[Line]:
    """Kill an ingest of interactions at random moments, go on each time, and count."""
    rng = random.Random(5)
    kills = 0
    process = bulk.start_ingest(stack, path, "interaction")
    while kills < KILLS:
        time.sleep(rng.uniform(1.0, 1.6))
        if process.poll() is not None:  # a machine faster than the kills
            break
        for worker in bulk.workers_of(process):
            os.kill(worker.pid, signal.SIGKILL)
        process.wait(30)
        kills += 1
        process = bulk.start_ingest(stack, path, "interaction")
    process.wait(300)
    extra = bulk.counted(stack) - before - KILLED_ROWS
    note = f"{extra:+,} of {KILLED_ROWS:,} rows"
    yield Line(f"killed {kills} times: rows too many or too few", abs(extra), "", 0, note=note)


def _rate(name: str, ingested: bulk.Ingested, bound: float | None) -> Line:
    note = f"{ingested.accepted:,} in {ingested.seconds:.1f} s, {ingested.refused:,} refused"
    return Line(name, ingested.per_second, "/s", bound, at_most=False, note=note)
