"""The assigner on a real Ray: found by name, restarted when killed, and nobody ever gets two variants."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import time
from functools import partial
from typing import Any

import pytest

from actors.experiments.client import ActorExperimentClient, LocalExperimentClient
from actors.experiments.messages import ExperimentEvent
from cluster.clock import SystemClock
from cluster.store.connect import OpenStores, open_stores
from tests.cluster.roster_watch import RELEASE, health_of, read_health
from tests.suites.doing import APP
from tests.suites.redis_process import RedisProcess
from tests.suites.test_experiments import an_experiment

pytestmark = [pytest.mark.ray, pytest.mark.redis]
KIND = "actors.experiments.host:AssignerHost"


@pytest.fixture
async def stores(easy_stores: OpenStores) -> OpenStores:
    assert await easy_stores.experiments.compare_and_set(an_experiment(), 0) is not None
    return easy_stores


@pytest.mark.usefixtures("local_ray")
async def test_the_assigner_answers_by_name_and_its_death_changes_nobodys_variant(
    stores: OpenStores, private_server: RedisProcess
) -> None:
    from ray.exceptions import RayError

    from cluster.runtime.actors import named_actors

    connect = partial(open_stores, private_server.url, slow_s=10.0)
    made: list[Any] = [named_actors.find_or_create("assigner", RELEASE, KIND, connect) for _ in range(2)]
    try:
        assert made[0] == made[1]
        pid = (await health_of("assigner"))["pid"]

        async def find() -> Any:
            return named_actors.find_actor("assigner", RELEASE)

        clock = SystemClock()
        local_client = LocalExperimentClient(stores.experiments, clock)
        client = ActorExperimentClient(find, local_client, clock, lost=(RayError,), patience_s=5.0)
        events = [ExperimentEvent(APP, "one", f"u{n}", f"v{n}") for n in range(100)]
        first = [await client.record(event) for event in events]
        took = []
        for event, expected in zip(events, first, strict=True):
            begun_s = time.perf_counter()
            assert await client.record(event) == expected
            took.append((time.perf_counter() - begun_s) * 1000)
        print(f"\nassigner actor: event p50 {statistics.median(took):.2f} ms, p95 {sorted(took)[94]:.2f} ms")
        os.kill(pid, signal.SIGKILL)
        longest = 0.0
        for event, expected in zip(events, first, strict=True):
            begun_s = time.perf_counter()
            assert await client.record(event) == expected
            longest = max(longest, time.perf_counter() - begun_s)
        print(f"assigner actor: killed, longest answer {longest * 1000:.0f} ms, none failed")
        assert longest < 5.0
        await health_of("assigner", lambda health: health["pid"] != pid)
        await asyncio.sleep(2.1)
        assert [await client.record(event) for event in events] == first
        tally = await read_health("assigner", RELEASE)
        assert tally is not None
        assert tally["recorded"] > 0, "it is asked again"
        await client.close()
    finally:
        assert named_actors.kill_releases("assigner") == [f"assigner@{RELEASE}"]
