"""Files of millions for a run, `kiosk ingest` on them, and counting what came of it.

Products stand in clusters and have few popular ones among them; users keep to some clusters. Made with a fixed
seed, in columns, so that a million rows take seconds.

`python -m tests.benchmarks.bulk APP` (in the environment of an installation) counts an app's interactions.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks.data import BRANDS, NOUNS, TRAITS
from tests.benchmarks.stack import KIOSK, ROOT, Stack

USERS = 50_000
DAY_MS = 86_400_000
_KINDS = ("product_detail_page_view", "click", "add_to_cart", "checkout")
_SUMMARY = re.compile(r"([\d,]+) accepted, ([\d,]+) refused, ([\d,]+) failed; ([\d,]+) rows in ([\d.]+) s")


@dataclass(frozen=True)
class Ingested:
    """What one run of `kiosk ingest` said and took."""

    accepted: int
    refused: int
    seconds: float
    "As it says itself, without starting Python."
    peak_mb: float
    "Largest memory of its process, MiB."

    @property
    def per_second(self) -> float:
        """Rows accepted a second."""
        return self.accepted / self.seconds


def write_products(path: Path, count: int, seed: int = 7) -> None:
    """Write products as JSON Lines."""
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, 1 << 30, (count, 4))
    with path.open("wb") as stream:
        for number, (noun, trait, other, brand) in enumerate(draws.tolist()):
            cluster = (number * 2_654_435_761 % 1_000_003) % max(count // 50, 2)
            noun, trait, other = NOUNS[cluster % 10], TRAITS[trait % 10], TRAITS[other % 10]
            stream.write(
                orjson.dumps(
                    {
                        "product_id": f"p{number}",
                        "product_group_id": f"g{number // 2}" if number % 10 < 2 else f"s{number}",
                        "title": f"{trait.title()} {noun} of line {cluster}, number {number}",
                        "description": f"A {trait}, {other} {noun} for every day.",
                        "brand": f"{BRANDS[brand % 8]} {cluster % 12}",
                        "categories": [["Shop", f"Aisle {cluster % 12}", f"Shelf {cluster % 120}"]],
                        "tags": [trait, other],
                        "price": float(number % 200) + 0.99,
                        "rating": (number % 50) / 10,
                        "type": "product",
                    }
                )
                + b"\n"
            )


def write_interactions(path: Path, count: int, products: int, newest_ms: int, seed: int = 11) -> None:
    """Write interactions of the last 30 days as Parquet."""
    rng = np.random.default_rng(seed)
    users = (USERS * rng.random(count) ** 1.5).astype(np.int64)
    items = (products * rng.random(count) ** 2).astype(np.int64)
    preferred = (users * 7_919 + (40 * rng.standard_exponential(count)).astype(np.int64)) % products
    items = np.where(rng.random(count) < 0.6, preferred, items)
    kinds = np.array(_KINDS)[rng.choice(4, count, p=(0.55, 0.3, 0.1, 0.05))]
    at_ms = newest_ms - np.sort(rng.integers(0, 30 * DAY_MS, count))[::-1]
    table = pa.table(
        {
            "type": kinds,
            "user_id": [f"u{user}" for user in users.tolist()],
            "product_ids": [[f"p{item}"] for item in items.tolist()],
            "timestamp": pa.array(at_ms, pa.timestamp("ms", "UTC")),
        }
    )
    pq.write_table(table, path, row_group_size=100_000)


def start_ingest(stack: Stack, path: Path, noun: str, *options: str) -> subprocess.Popen[bytes]:
    """Start `kiosk ingest`."""
    command = [*KIOSK, "ingest", str(path), "--noun", noun, "--app", "development", *options]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "KIOSK_DATA_DIR": str(stack.data_dir)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def ingest(stack: Stack, path: Path, noun: str, *options: str) -> Ingested:
    """Run `kiosk ingest` to its end and watch its memory."""
    process = start_ingest(stack, path, noun, *options)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(memory_of(process)))
        time.sleep(0.2)
    output = (process.stdout.read() if process.stdout else b"").decode()
    match = _SUMMARY.search(output)
    if process.returncode or match is None:
        raise RuntimeError(f"kiosk ingest ended with {process.returncode}: {output[-2000:]}")
    accepted, refused, _, _, seconds = (float(group.replace(",", "")) for group in match.groups())
    return Ingested(int(accepted), int(refused), seconds, peak / 2**20)


def workers_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Find the processes of a command that do the work; the command itself only waits for them."""
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.Error:
        return []


def memory_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Say what the working processes of a command hold."""
    sizes = []
    for worker in workers_of(process):
        try:
            sizes.append(worker.memory_info().rss)
        except psutil.Error:
            continue
    return sizes


def counted(stack: Stack, app: str = "development") -> int:
    """Count an app's interactions: settled ones and those still in the log."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.bulk", app],
        cwd=ROOT,
        env={**os.environ, "KIOSK_DATA_DIR": str(stack.data_dir)},
        capture_output=True,
        check=True,
        timeout=120,
    )
    return int(done.stdout)


async def _count(app: str) -> int:
    from cluster.artifacts.segments import SegmentStore
    from cluster.artifacts.storage.artifact_store import ArtifactStore
    from deployments.cli.framework.installation import Installation

    installation = Installation()
    segments = SegmentStore(ArtifactStore.open(installation.settings.artifacts_address))
    async with installation.open_stores() as stores:
        state = segments.load(app)
        count = state.interactions.num_rows
        cursor = state.offsets.get("interaction", "0")
        while changes := await stores.changes.read(app, {"interaction": cursor}, count=200, block_ms=0):
            count += sum(len(orjson.loads(change.payload)) for change in changes if change.op == "put")
            cursor = changes[-1].offset
    return int(count)


if __name__ == "__main__":
    print(asyncio.run(_count(sys.argv[1])))
