"""A stand-by on a second Ray node takes over when the first node dies."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.runtime.actors.actor_roles import STANDBY, ActorRole
from cluster.store.connect import OpenStores, open_stores
from tests.cluster.on_ray.test_intake_actor import KIND, ended, private_server, stores, upload
from tests.cluster.roster_watch import RELEASE, read_health
from tests.suites.redis_process import RedisProcess
from tests.suites.waiting import until

__all__ = ["private_server", "stores"]
pytestmark = [pytest.mark.ray, pytest.mark.redis]
TAKEOVER_S = 10.0


@pytest.fixture
def two_nodes() -> Iterator[Any]:
    """A Ray cluster of a head without work and two workers."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "resources": {}})
    workers = [cluster.add_node(num_cpus=1, resources={"first": float(not n)}) for n in range(2)]
    cluster.wait_for_nodes()
    ray.init(cluster.address, namespace="kiosk", log_to_driver=False)
    yield workers
    ray.shutdown()
    cluster.shutdown()


async def test_a_standby_of_the_intake_takes_over_within_ten_seconds(
    two_nodes: Any, stores: OpenStores, private_server: RedisProcess, tmp_path: Path
) -> None:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from cluster.runtime.actors import named_actors
    from cluster.runtime.actors.standbys import StandbyKeeper

    workers = two_nodes
    arguments = (
        partial(open_stores, private_server.url, slow_s=10.0),
        partial(ArtifactStore.open, str(tmp_path)),
    )
    first = NodeAffinitySchedulingStrategy(workers[0].node_id, soft=False)
    named_actors.find_or_create("intake", RELEASE, KIND, *arguments, placement=first)
    await until(lambda: "intake" in named_actors.locate_actors(RELEASE), 60.0)
    keeper = StandbyKeeper([ActorRole("intake", KIND, arguments)], RELEASE)
    assert [step.kind for step in await keeper.keep()] == ["create"]
    await until(lambda: "intake" + STANDBY in named_actors.locate_actors(RELEASE), 60.0)
    places = named_actors.locate_actors(RELEASE)
    assert places["intake"] == workers[0].node_id != places["intake" + STANDBY]
    assert await keeper.keep() == []
    await ended(stores, await upload(stores, "ann"))

    handle = named_actors.find_actor("intake" + STANDBY, RELEASE)
    assert handle is not None
    assert (await handle.health.remote())["working"] is False
    working = await read_health("intake", RELEASE)
    assert working is not None
    started_s = time.monotonic()
    workers[0].kill_raylet()
    os.kill(working["pid"], signal.SIGKILL)  # a dead raylet alone leaves the actor some seconds
    await asyncio.wait_for(ended(stores, await upload(stores, "bea")), 30)
    took_s = time.monotonic() - started_s
    print(f"stand-by of the intake: an upload is applied {took_s:.1f} s after the node of the intake died")
    assert took_s < TAKEOVER_S
    assert (await read_health("intake", RELEASE) or {})["working"] is True
