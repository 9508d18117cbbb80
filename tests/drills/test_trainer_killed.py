"""`kill -9` the trainer at 20 random points. It goes on within a minute, publishes once, and what serves stays.

In every other round the scheduler dies with its worker, so that only the lease tells that somebody is gone.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cluster.admin.master_keys import ensure_master_key
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.clock import SystemClock
from cluster.process.artifact_access import open_artifact_store
from cluster.records.engine import Engine
from cluster.records.run import Run
from cluster.settings import Settings
from cluster.store.connect import OpenStores, open_stores
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.runs.run_commands import create_run
from jobs.refresh.runs.scheduler import RunScheduler
from tests.fakes import generated_market
from tests.fakes.process_pool import ProcessWorkerPool
from tests.suites.doing import require
from tests.suites.redis_process import RedisProcess

pytestmark = [pytest.mark.redis, pytest.mark.timeout(900)]

ROUNDS = int(os.environ.get("HOUSE_KILLS", "20"))
SEED = int(os.environ.get("HOUSE_SEED", "20261121"))
MOST_S = 60.0


@dataclass
class TrainerProcess:
    """A scheduler with a pool of processes."""

    stores: OpenStores
    pool: ProcessWorkerPool = field(default_factory=ProcessWorkerPool)
    number: int = 0
    dismissed: list[ProcessWorkerPool] = field(default_factory=list)
    "Nobody asks them, but their processes must be waited for."

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Put another scheduler into the place of one that died; it knows of no worker."""
        self.number += 1
        self.dismissed.append(self.pool)
        self.pool = ProcessWorkerPool()
        self.scheduler = RunScheduler(self.stores, self.pool, SystemClock(), owner=f"scheduler {self.number}")


@pytest.fixture
async def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OpenStores]:
    server = RedisProcess()
    try:
        server.start()
        monkeypatch.setenv("KIOSK_REDIS_URL", server.url)
        monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path))
        async with open_stores(server.url, hot_s=5.0, slow_s=10.0) as stores:
            await generated_market.open_market(stores)
            yield stores
    finally:
        server.stop()


async def test_killed_at_random_points_it_goes_on_and_publishes_once(
    stores: OpenStores, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    settings = Settings(data_dir=tmp_path)
    ensure_master_key(settings)
    artifacts = open_artifact_store(settings)
    snapshots = SnapshotStore(artifacts)
    generated_market.settle(SegmentStore(artifacts), generated_market.table(30_000, 2_000, 2_000, topics=40))
    office = TrainerProcess(stores)
    started_s = time.monotonic()
    first, _ = await _until_ended(office, await _ordered(stores))
    whole_s = time.monotonic() - started_s
    assert first.status == "finished"
    await stores.engines.put(Engine(app_id=generated_market.APP, engine_id="default", snapshot="champion"))
    resumed: list[float] = []
    ended: list[float] = []
    stages: Counter[str] = Counter()
    for number in range(3 * ROUNDS):
        if len(ended) == ROUNDS:
            break
        snapshots.remove(generated_market.APP, "default", first.version)
        run = await _ordered(stores)
        pid = await _sent(office, run)
        await _work_for(office, rng.uniform(0.0, whole_s))
        before = await _read(stores, run)
        if before.has_ended:
            stages["(had ended)"] += 1
            assert [version.version for version in snapshots.versions(generated_market.APP, "default")] == [
                first.version
            ]
            continue
        stages[before.stage or "(not begun)"] += 1
        os.kill(pid, signal.SIGKILL)
        killed_s = time.monotonic()
        assert len(snapshots.versions(generated_market.APP, "default")) <= 1
        if number % 2:
            office.start()
        done, resumed_s = await _until_ended(office, run, before.attempt)
        resumed.append(resumed_s - killed_s)
        ended.append(time.monotonic() - killed_s)
        print(
            f"kill {number + 1} in {before.stage or 'the beginning'}: on after {resumed[-1]:.1f} s, {ended[-1]:.1f} s"
        )
        assert (done.status, done.version) == ("finished", first.version)
        assert [version.version for version in snapshots.versions(generated_market.APP, "default")] == [
            first.version
        ]
        engine = require(await stores.engines.get(generated_market.APP, "default"))
        assert engine.snapshot == "champion"
    for pool in (office.pool, *office.dismissed):
        await _all_home(pool)
        pool.close()
    assert len(ended) == ROUNDS
    print(
        f"\nR7: {len(ended)} kills in {dict(stages)} (seed {SEED}; a whole training takes {whole_s:.1f} s): "
        f"another attempt at work after {_summarize_seconds(resumed)} s, ended after {_summarize_seconds(ended)} s; "
        f"every run published exactly one snapshot, the same bytes; the champion served throughout"
    )
    assert max(resumed) <= MOST_S
    left = [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()]
    assert left == []
    assert not (tmp_path / "shelf" / "runs").exists() or not [
        path for path in (tmp_path / "shelf" / "runs").rglob("*") if path.is_file()
    ]


async def _ordered(stores: OpenStores) -> Run:
    recipe = load_recipe_file("fast").model_dump(mode="json")
    return await create_run(
        stores, generated_market.APP, "default", recipe, now_ms=SystemClock().now_ms(), by="a drill"
    )


async def _sent(office: TrainerProcess, run: Run) -> int:
    while run.run_id not in office.pool.pids:
        await office.scheduler.run_once()
        await asyncio.sleep(0.05)
    return office.pool.pids[run.run_id]


async def _work_for(office: TrainerProcess, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await office.scheduler.run_once()
        await asyncio.sleep(0.05)


async def _read(stores: OpenStores, run: Run) -> Run:
    stored = require(await stores.runs.get(generated_market.APP, run.run_id))
    return stored


async def _until_ended(office: TrainerProcess, run: Run, attempt: int = 0) -> tuple[Run, float]:
    """Wait for the end; say also when an attempt after the given one began."""
    begun_s = 0.0
    while True:
        await office.scheduler.run_once()
        now = await _read(office.stores, run)
        if not begun_s and now.attempt > attempt:
            begun_s = time.monotonic()
        if now.has_ended:
            return now, begun_s
        await asyncio.sleep(0.05)


async def _all_home(pool: ProcessWorkerPool, within_s: float = 30.0) -> None:
    for _ in range(int(within_s / 0.05)):
        if not pool.pids:
            return
        await asyncio.sleep(0.05)


def _summarize_seconds(values: list[float]) -> str:
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:.1f} (median), {ordered[-1]:.1f} (longest)"
