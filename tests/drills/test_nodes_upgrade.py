"""A rolling upgrade of three nodes to the next release and back, by the documented words, behind a load balancer.

Each node is drained, its Ray stopped and started with the other release, while the other nodes answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.nodes.cluster import HEAD, UP, WORKER, NodeCluster, running_cluster, wait
from tests.cluster.nodes.machine import ROOT
from tests.cluster.nodes.traffic import Traffic
from tests.drills.next_release import copy_next_release

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(1800)]
NODE = 'eval "$(kiosk node env)"\n'
THIS, NEXT = "0+checkout", "1+next"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """Three nodes that serve."""
    with running_cluster(tmp_path_factory.mktemp("nodes")) as running:
        yield running


def test_three_nodes_are_upgraded_and_go_back(cluster: NodeCluster) -> None:
    next_release = copy_next_release(cluster.folder / "next")
    with Traffic(cluster, is_balanced=True) as traffic:
        time.sleep(5)
        for release, root in ((NEXT, next_release), (THIS, ROOT)):
            began_s = time.monotonic()
            for place in (1, 2, 0):
                replace_release(cluster, place, root)
                print(f"\n{release} on machine {place} after {time.monotonic() - began_s:.0f} s: {traffic}")
            type_in(cluster, 0, root, UP)
            print(f"all on {release} after {time.monotonic() - began_s:.0f} s: {traffic}")
            running = type_in(cluster, 0, root, f"{NODE}kiosk cluster status --json")
            assert release in running
        time.sleep(5)
    missing, late_s = traffic.missing_users()
    print(
        f"\n{traffic}; {len(missing)} of {len(traffic.users)} uploads missing, all others after {late_s:.1f} s"
    )
    assert missing == []
    assert traffic.failed == []


def replace_release(cluster: NodeCluster, place: int, root: Path) -> None:
    """Take a node out of service, and start it with the other release."""
    machine = cluster.machines[place]
    before = Path(machine.environment.get("PYTHONPATH", str(ROOT)))
    type_in(cluster, place, before, f"{NODE}python -m cluster.runtime.drain 90")
    time.sleep(3)
    type_in(cluster, place, before, "ray stop --grace-period 10")
    type_in(cluster, place, root, WORKER if place else HEAD)
    wait(lambda: cluster.is_healthy(place), 180)
    time.sleep(3)


def type_in(cluster: NodeCluster, place: int, root: Path, lines: str) -> str:
    """Type lines on a node in the folder of a release."""
    machine = cluster.machines[place]
    machine.environment["PYTHONPATH"] = str(root)
    return cluster.shell(machine, f"cd {root}\n{lines}", timeout_s=180)
