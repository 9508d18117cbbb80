"""A rolling upgrade of three nodes to the next release, and a way back, by the documented words, behind a balancer.

Each node is drained, its Ray stopped and started with the other release, while the other nodes answer. The next
release has one more field in records, messages and manifests.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.build_info import installed_version
from cluster.records.interaction import RecentEvent
from cluster.store import keys
from cluster.store.connect import open_stores
from tests.cluster.nodes.cluster import APP, HEAD, UP, WORKER, NodeCluster, running_cluster, wait
from tests.cluster.nodes.machine import ROOT
from tests.cluster.nodes.traffic import Traffic
from tests.drills.next_release import copy_next_release
from tests.drills.releases import stored

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(1800)]
NODE = 'eval "$(kiosk node env)"\n'
NEXT = "1+next"
COLOUR = """
import asyncio
from cluster.process.store_connections import connect
from cluster.settings import Settings

async def main():
    async with connect(Settings()) as stores:
        await stores.engines.change("development", "default", lambda one: one.model_copy(update={"colour": "red"}))

asyncio.run(main())
"""
"Writes the field that only the next release knows."


@contextmanager
def three_nodes(folder: Path, *, is_next: bool) -> Iterator[tuple[NodeCluster, Path]]:
    """Yield three nodes that serve with one release, and the folder of the next one."""
    next_release = copy_next_release(folder / "next")

    def install(cluster: NodeCluster) -> None:
        for machine in cluster.machines:
            cluster.install(machine, next_release if is_next else ROOT)

    with running_cluster(folder, install) as cluster:
        yield cluster, next_release


def test_three_nodes_are_upgraded_without_a_failed_request(tmp_path: Path) -> None:
    with three_nodes(tmp_path, is_next=False) as (cluster, next_release):
        replace_releases(cluster, next_release, NEXT)
        cluster.shell(cluster.machines[0], f"{NODE}python -c '{COLOUR}'")
        assert asyncio.run(read_engine(cluster))["colour"] == "red"


def test_three_nodes_go_back_without_a_failed_request(tmp_path: Path) -> None:
    with three_nodes(tmp_path, is_next=True) as (cluster, _):
        cluster.shell(cluster.machines[0], f"{NODE}python -c '{COLOUR}'")
        replace_releases(cluster, ROOT, installed_version())
        cluster.kiosk(f"engines scale {APP} default --replicas 1:2", place=1)
        engine = asyncio.run(read_engine(cluster))
        assert (engine["colour"], engine["scaling"]["replicas_max"]) == ("red", 2)


def replace_releases(cluster: NodeCluster, root: Path, release: str) -> None:
    """Replace the release of all nodes, one after the other, under load; nothing fails and nothing is lost."""
    before = asyncio.run(count_clicks(cluster))
    with Traffic(cluster, is_balanced=True) as traffic:
        time.sleep(3)
        began_s = time.monotonic()
        for place in (1, 2, 0):
            replace_release(cluster, place, root)
            print(f"\n{release} on machine {place} after {time.monotonic() - began_s:.0f} s: {traffic}")
        cluster.shell(cluster.machines[0], UP)
        took_s = time.monotonic() - began_s
        time.sleep(3)
    status = cluster.shell(cluster.machines[0], f"{NODE}kiosk cluster status --json || true")
    releases = [row["release"] for row in json.loads(status)["releases"]]
    missing, late_s = traffic.missing_users()
    clicks = Counter(answer.kind for answer in traffic.answers if answer.status == 200)["click"]
    print(
        f"\nall on {release} after {took_s:.0f} s: {traffic}; {len(missing)} of {len(traffic.users)} uploads missing, "
        f"all others after {late_s:.1f} s; {clicks} clicks; releases {releases}"
    )
    assert release in releases
    assert missing == []
    assert asyncio.run(count_clicks(cluster)) - before >= clicks
    assert asyncio.run(count_products(cluster)) == 300
    assert traffic.failed == []


def replace_release(cluster: NodeCluster, place: int, root: Path) -> None:
    """Take a node out of service, and start it with the other release."""
    machine, began_s = cluster.machines[place], time.monotonic()
    cluster.shell(machine, f"{NODE}python -m cluster.runtime.drain 90")
    drained_s = time.monotonic() - began_s
    assert not cluster.is_healthy(place), "a drained node must fail its health check"
    cluster.shell(machine, "ray stop --grace-period 10")
    cluster.install(machine, root)
    cluster.shell(machine, WORKER if place else HEAD, timeout_s=120)
    wait(lambda: cluster.is_healthy(place), 180)
    print(f"\nmachine {place}: drained in {drained_s:.0f} s, back after {time.monotonic() - began_s:.0f} s")


async def read_engine(cluster: NodeCluster) -> dict[str, Any]:
    """Return the record of the engine as it is stored."""
    async with open_stores(cluster.redis_url) as stores:
        return await stored(stores, keys.engine(APP), "default")


async def count_products(cluster: NodeCluster) -> int:
    """Return the number of stored products."""
    async with open_stores(cluster.redis_url, slow_s=20.0) as stores:
        return len(await stores.records.ids(APP, "product"))


async def count_clicks(cluster: NodeCluster) -> int:
    """Return the number of stored clicks of the users whose clicks the traffic sends."""
    async with open_stores(cluster.redis_url, slow_s=20.0) as stores:
        recent = [await stores.interactions.recent(APP, [f"u:u{number}"]) for number in range(90)]
    return sum(RecentEvent.unpack(event).type == "click" for events in recent for event in events)
