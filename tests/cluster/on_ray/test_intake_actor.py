"""The intake on a real Ray: found by name, restarted when killed, losing and repeating nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.ids import new_task_id
from cluster.records.apps import App
from cluster.store.connect import OpenStores, open_stores
from tests.cluster.roster_watch import RELEASE, health_of
from tests.suites.redis_process import RedisProcess
from tests.suites.waiting import until

pytestmark = [pytest.mark.ray, pytest.mark.redis]
KIND = "actors.intake.host:IntakeHost"


@pytest.fixture
def private_server() -> Iterator[RedisProcess]:
    """A server that keeps what it was told."""
    server = RedisProcess(durable=True)
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
async def stores(easy_stores: OpenStores) -> OpenStores:
    await easy_stores.access.put_app(App(app_id="shop", environment="development", created_at=0))
    return easy_stores


async def upload(stores: OpenStores, *user_ids: str) -> str:
    task_id = new_task_id()
    payload = orjson.dumps([{"user_id": user_id} for user_id in user_ids])
    now_ms, total = SystemClock().now_ms(), len(user_ids)
    await stores.intake.accept("shop", "user", "put", payload, task_id=task_id, total=total, now_ms=now_ms)
    return task_id


async def ended(stores: OpenStores, task_id: str) -> float:
    """Wait for a task to finish; return the seconds it took."""

    async def finished() -> bool:
        task = await stores.tasks.get("shop", "user", task_id)
        return task is not None and task.status == "finished"

    return await until(finished, 30.0)


async def pid_of(other_than: int = 0) -> int:
    """Ask the actor for its process until it is one we want."""
    health = await health_of("intake", lambda health: health["alive"] and health["pid"] != other_than)
    return int(health["pid"])


@pytest.mark.usefixtures("local_ray")
async def test_the_intake_applies_settles_and_outlives_being_killed(
    stores: OpenStores, private_server: RedisProcess, tmp_path: Path
) -> None:
    from cluster.runtime.actors import named_actors

    connect = partial(open_stores, private_server.url, slow_s=10.0)
    made: list[Any] = [
        named_actors.find_or_create(
            "intake", RELEASE, KIND, connect, partial(ArtifactStore.open, str(tmp_path))
        )
        for _ in range(2)
    ]
    try:
        assert made[0] == made[1]
        first = await ended(stores, await upload(stores, "ann"))
        took: list[float] = []
        pid = await pid_of()
        for round_number in range(3):
            tasks = [await upload(stores, f"u{round_number}-{n}") for n in range(20)]
            os.kill(pid, signal.SIGKILL)
            tasks += [await upload(stores, f"v{round_number}-{n}") for n in range(5)]
            took.append(max([await ended(stores, task) for task in tasks]))
            pid = await pid_of(other_than=pid)
        changes = await stores.changes.read("shop", {"user": "0"}, count=1000, block_ms=0)
        logged = [record["user_id"] for change in changes for record in orjson.loads(change.payload)]
        assert len(logged) == len(set(logged)) == 76
        assert max(took) < 30
        await stores.interactions.erase("shop", ["nobody"])  # makes settling urgent

        async def settled() -> bool:
            return bool((await stores.changes.compacted_offsets("shop")).get("interaction"))

        await until(settled)
        assert list((tmp_path / "shop" / "segments").glob("manifest-*.json"))
        print(f"intake actor: first task after {first:.1f} s")
        print(f"intake actor: killed three times, all tasks ended within {max(took):.1f} s")
    finally:
        assert named_actors.kill_releases("intake") == [f"intake@{RELEASE}"]
    await until(lambda: named_actors.find_actor("intake", RELEASE) is None)
