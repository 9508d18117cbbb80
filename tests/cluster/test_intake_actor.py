"""The intake on a real Ray: found by name, restarted when killed, losing and repeating nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from cluster.clock import SystemClock
from cluster.ids import new_task_id
from cluster.records.access import App
from cluster.store.connect import OpenStores, open_stores
from tests.suites.redis_process import RedisProcess

pytestmark = [pytest.mark.ray, pytest.mark.redis]
RELEASE = "test"
KIND = "actors.intake.host:IntakeHost"


@pytest.fixture(scope="module")
def ray_here() -> Iterator[None]:
    """A small Ray of this machine, unless the session has one already."""
    import ray

    if ray.is_initialized():
        yield
        return
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def redis() -> Iterator[RedisProcess]:
    server = RedisProcess(durable=True)
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
async def stores(redis: RedisProcess) -> AsyncIterator[OpenStores]:
    async with open_stores(redis.url, hot_s=5.0, slow_s=10.0) as found:
        await found.access.put_app(App(app_id="shop", environment="development", created_at=0))
        yield found


async def upload(stores: OpenStores, *user_ids: str) -> str:
    task_id = new_task_id()
    payload = orjson.dumps([{"user_id": user_id} for user_id in user_ids])
    now_ms, total = SystemClock().now_ms(), len(user_ids)
    await stores.intake.accept("shop", "user", "put", payload, task_id=task_id, total=total, now_ms=now_ms)
    return task_id


async def ended(stores: OpenStores, task_id: str, within_s: float = 30.0) -> float:
    """Wait for a task to finish; return the seconds it took."""
    clock = SystemClock()
    started_s = clock.monotonic_s()
    while clock.monotonic_s() - started_s < within_s:
        task = await stores.tasks.get("shop", "user", task_id)
        if task is not None and task.status == "finished":
            return clock.monotonic_s() - started_s
        await asyncio.sleep(0.02)
    raise AssertionError(f"the task was not finished within {within_s} s")


async def pid_of(known: Callable[[int], bool]) -> int:
    """Ask the actor for its process until it is one we want."""
    from cluster.runtime import roster

    for _ in range(300):
        found = await roster.health("intake", RELEASE)
        if found is not None and found["alive"] and known(found["pid"]):
            return int(found["pid"])
        await asyncio.sleep(0.1)
    raise AssertionError("the actor did not say how it is")


@pytest.mark.usefixtures("ray_here")
async def test_the_intake_applies_settles_and_outlives_being_killed(
    stores: OpenStores, redis: RedisProcess, tmp_path: Path
) -> None:
    from cluster.runtime import roster

    connect = partial(open_stores, redis.url, slow_s=10.0)
    made: list[Any] = [
        roster.find_or_create("intake", RELEASE, KIND, connect, str(tmp_path)) for _ in range(2)
    ]
    try:
        assert made[0] == made[1]
        first = await ended(stores, await upload(stores, "ann"))
        took: list[float] = []
        pid = await pid_of(lambda pid: True)
        for round_number in range(3):
            tasks = [await upload(stores, f"u{round_number}-{n}") for n in range(20)]
            os.kill(pid, signal.SIGKILL)
            tasks += [await upload(stores, f"v{round_number}-{n}") for n in range(5)]
            took.append(max([await ended(stores, task) for task in tasks]))
            pid = await pid_of(lambda new, old=pid: new != old)  # type: ignore[misc]
        changes = await stores.changes.read("shop", {"user": "0"}, count=1000, block_ms=0)
        logged = [record["user_id"] for change in changes for record in orjson.loads(change.payload)]
        assert len(logged) == len(set(logged)) == 76
        assert max(took) < 30
        await stores.interactions.erase("shop", ["nobody"])  # makes settling urgent
        for _ in range(200):
            if (await stores.changes.settled("shop")).get("interaction"):
                break
            await asyncio.sleep(0.05)
        assert list((tmp_path / "shop" / "segments").glob("manifest-*.json"))
        print(f"intake actor: first task after {first:.1f} s")
        print(f"intake actor: killed three times, all tasks ended within {max(took):.1f} s")
    finally:
        assert roster.sweep("intake") == [f"intake@{RELEASE}"]
    for _ in range(100):
        if roster.find("intake", RELEASE) is None:
            break
        await asyncio.sleep(0.05)
    assert roster.find("intake", RELEASE) is None
