"""The intake is killed with signal 9 a hundred times while it applies and settles."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import orjson
import pytest

from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.ids import new_task_id
from cluster.records.apps import App
from cluster.store.connect import OpenStores, open_stores
from tests.suites.redis_process import RedisProcess

pytestmark = [pytest.mark.redis, pytest.mark.timeout(600)]
KILLS = 100
CLOCK = SystemClock()


class IntakeProcess:
    """Intakes in processes of their own."""

    def __init__(self, url: str, artifacts: Path) -> None:
        command = [sys.executable, "-m", "tests.drills.intake_process", url, str(artifacts)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._child = 0

    def start(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._child = int(self._process.stdout.readline())

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def redis() -> Iterator[RedisProcess]:
    server = RedisProcess(durable=True)
    try:
        yield server.start()
    finally:
        server.stop()


async def _ended(stores: OpenStores, noun: str, task_id: str) -> str:
    until_s = CLOCK.monotonic_s() + 30
    while CLOCK.monotonic_s() < until_s:
        task = await stores.tasks.get("shop", noun, task_id)  # type: ignore[arg-type]
        assert task is not None
        if task.status in ("finished", "failed"):
            return task.status
        await asyncio.sleep(0.02)
    raise AssertionError("a task was not terminal within 30 s")


async def test_killed_a_hundred_times_nothing_is_lost_or_done_twice(
    redis: RedisProcess, tmp_path: Path
) -> None:
    rng = Random(66)
    nursery = IntakeProcess(redis.url, tmp_path)
    tasks: list[str] = []
    latest: dict[str, int] = {}
    clicks = 0
    try:
        async with open_stores(redis.url, hot_s=5.0, slow_s=10.0) as stores:
            await stores.access.put_app(App(app_id="shop", environment="development", created_at=0))
            for _ in range(KILLS):
                nursery.start()
                until_s = CLOCK.monotonic_s() + rng.uniform(0.05, 0.9)
                while CLOCK.monotonic_s() < until_s:
                    batch = [f"p{rng.randint(0, 300)}" for _ in range(rng.randint(1, 40))]
                    records = [
                        {"product_id": product_id, "title": f"thing {product_id}", "price": len(tasks)}
                        for product_id in batch
                    ]
                    task_id, now_ms = new_task_id(), CLOCK.now_ms()
                    payload, total = orjson.dumps(records), len(records)
                    await stores.intake.accept(
                        "shop", "product", "put", payload, task_id=task_id, total=total, now_ms=now_ms
                    )
                    latest.update(dict.fromkeys(batch, len(tasks)))
                    tasks.append(task_id)
                    await _click(stores, clicks)
                    clicks += 1
                    await asyncio.sleep(rng.uniform(0, 0.02))
                nursery.kill()
            nursery.start()
            started_s = CLOCK.monotonic_s()
            outcomes = Counter([await _ended(stores, "product", task_id) for task_id in tasks])
            took_s = CLOCK.monotonic_s() - started_s
            assert outcomes == {"finished": len(tasks)}
            assert await stores.intake.depth("shop") == 0
            for product_id, price in latest.items():
                record = orjson.loads(await stores.records.get("shop", "product", product_id) or b"{}")
                assert record["price"] == price
            await _settled(stores)
            state = SegmentStore(ArtifactStore.open(tmp_path)).load("shop")
            stored = {
                orjson.loads(product.json)["product_id"]: orjson.loads(product.json)["price"]
                for product in state.products
            }
            assert stored == latest
            interactions = Counter(row[0] for row in state.interactions["product_ids"].to_pylist())
            assert interactions == {f"c{n}": 1 for n in range(clicks)}
    finally:
        nursery.close()
    print(f"R6: {KILLS} kills over {len(tasks)} batches and {clicks} interactions: none lost, none twice")
    print(f"R6: the last tasks were terminal {took_s:.1f} s after the last kill")


async def _click(stores: OpenStores, number: int) -> None:
    item = {
        "type": "click",
        "user_id": "u",
        "product_ids": [f"c{number}"],
        "timestamp": "2026-03-02T09:15:30.250Z",
    }
    await stores.interactions.append("shop", orjson.dumps([item]), [])


async def _settled(stores: OpenStores) -> None:
    until_s = CLOCK.monotonic_s() + 30
    while CLOCK.monotonic_s() < until_s:
        waiting = await stores.changes.read("shop", {"product": "0", "interaction": "0"}, count=1, block_ms=0)
        if not waiting:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the log was not settled within 30 s")
