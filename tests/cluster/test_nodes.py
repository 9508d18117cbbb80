"""Kiosk on three nodes: brought up by the documented words, hurt and changed under load.

The long drills stand in `tests/drills/test_nodes.py`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.nodes.cluster import NodeCluster, running_cluster, wait
from tests.cluster.nodes.traffic import Traffic

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.alone, pytest.mark.timeout(400)]
ROOT = Path(__file__).resolve().parents[2]
ACTORS = {"intake", "engines", "trainer", "assigner", "tracker"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """Three nodes that serve."""
    with running_cluster(tmp_path_factory.mktemp("nodes")) as running:
        print(f"\nfrom the first word to three proxies: {running.start_s:.1f} s")
        yield running


def test_every_node_answers_and_shows_nothing_else(cluster: NodeCluster) -> None:
    assert [cluster.is_healthy(place) for place in range(3)] == [True, True, True]
    names = cluster.shell(
        cluster.machines[0],
        'eval "$(kiosk node env)"\npython -c "import ray; ray.init(\'auto\', log_to_driver=False); '
        "print([one['name'] for one in ray.util.list_named_actors(all_namespaces=True)])\"",
    )
    assert {role for role in ACTORS if f"'{role}@" in names} == ACTORS
    for machine in cluster.machines[1:]:
        for port in (9101, 8404):
            code = f"import socket; print(socket.socket().connect_ex(('{machine.address}', {port})))"
            assert int(cluster.machines[0].run("python", "-c", code).stdout) != 0, port


def test_a_killed_haproxy_is_back_within_five_seconds(cluster: NodeCluster) -> None:
    with Traffic(cluster, places=(1,)) as traffic:
        time.sleep(2)
        (haproxy,) = cluster.machines[1].processes("bin/haproxy -db")
        os.kill(haproxy, signal.SIGKILL)
        time.sleep(10)
    print(f"\nHAProxy killed: {traffic}")
    late = [answer.at_s for answer in traffic.failed]
    assert not late or max(late) - min(late) < 5.0


def test_a_worker_without_power(cluster: NodeCluster) -> None:
    with Traffic(cluster, places=(0, 2)) as traffic:
        time.sleep(2)
        cluster.machines[1].cut_power()
        time.sleep(12)
    missing, _ = traffic.missing_users()
    print(f"\nworker without power: {traffic}; {len(missing)} of {len(traffic.users)} uploads missing")
    assert missing == []
    assert len(traffic.failed) <= 6


def test_a_changed_serve_configuration_loses_no_request(cluster: NodeCluster) -> None:
    """Serve empties the list of every HAProxy until it has built the application again."""
    config = yaml.safe_load((ROOT / "cluster" / "serve" / "production.yaml").read_text())
    (api,) = [one for one in config["applications"] if one["name"] == "api"]
    api["args"] |= {"replicas_min": 2, "replicas_max": 2, "num_cpus": 0.5, "memory_budget_mb": 600}
    changed = cluster.folder / "changed.yaml"
    changed.write_text(yaml.safe_dump(config))
    before = _api_replicas(cluster)
    with Traffic(cluster, places=(0, 2)) as traffic:
        time.sleep(1)
        cluster.shell(
            cluster.machines[0],
            f'eval "$(kiosk node env)"\nserve deploy --address http://head:8265 {changed}',
        )
        wait(lambda: bool(_api_replicas(cluster) - before), 120)
        time.sleep(3)
    print(f"\nserve deploy of a changed configuration: {traffic}")
    assert traffic.failed == []


def _api_replicas(cluster: NodeCluster) -> set[int]:
    nodes = [machine for machine in cluster.machines if machine.is_on]
    return {pid for machine in nodes for pid in machine.processes("ServeReplica:api")}
