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

from tests.cluster.nodes.cluster import RECOMMEND, NodeCluster, running_cluster, wait
from tests.cluster.nodes.machine import Machine
from tests.cluster.nodes.traffic import Traffic

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.alone, pytest.mark.timeout(400)]
ROOT = Path(__file__).resolve().parents[2]
ACTORS = {"intake", "engines", "trainer", "assigner", "tracker"}
NODE = 'eval "$(kiosk node env)"\n'
START_REPLICAS = """
import asyncio, os, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ray.init("auto", namespace="kiosk", log_to_driver=False)
(node,) = [one["NodeID"] for one in ray.nodes() if one["NodeManagerAddress"] == "{address}"]

@ray.remote(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
def start(absent):
    from deployments.front.gateway import Gateway
    for name in absent:
        del os.environ[name]
    try:
        asyncio.run(Gateway(dict()).__serve_build_asgi_app__())
    except Exception as error:
        return str(error)

print(*ray.get([start.remote([]), start.remote(["KIOSK_MASTER_KEY_FILE"])]), sep="\\n")
"""
"Starts API replicas on the node with an address, one of them without the master key; prints why they did not start."


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


def test_a_node_that_joins_later_has_a_proxy_but_no_replica_with_another_data_folder(
    cluster: NodeCluster,
) -> None:
    """It was given the token of Ray, or Ray would refuse it."""
    folders = {
        "KIOSK_DATA_DIR": str(cluster.folder / "other"),
        "RAY_AUTH_TOKEN_PATH": str(cluster.folder / "data" / "ray.token"),
    }
    (cluster.folder / "other").mkdir()
    joined = cluster.network.machine(5, shared=(cluster.folder,), environment=cluster.settings | folders)
    cluster.machines.append(joined)
    cluster.start_node(joined)
    took_s = wait(lambda: cluster.is_healthy(3), 60)
    print(f"\na node that joined has its proxy {took_s:.1f} s after `ray start` ended")
    no_store, no_key = _start_replicas(cluster, joined).splitlines()
    assert "has no installation.json, but this Redis belongs to installation" in no_store
    assert "the master key is missing, and this Redis belongs to installation" in no_key
    refused = _refusal(cluster, joined, "kiosk cluster up")
    assert "has no installation.json, but this Redis belongs to installation" in refused
    refused = _refusal(cluster, joined, "unset KIOSK_MASTER_KEY_FILE\nkiosk apps create acme")
    assert "code 2" in refused
    assert "the master key is missing, and this Redis belongs to installation" in refused
    assert not list((cluster.folder / "other").glob("*.key"))
    replies = [
        cluster.call("POST", RECOMMEND, {"user_id": "u1", "rows": 10}, place=place) for place in range(4)
    ]
    assert [status for status, _ in replies] == [200] * 4
    assert not joined.processes("ServeReplica:api")
    cluster.shell(joined, "ray stop --grace-period 5")
    joined.cut_power()
    cluster.machines.remove(joined)


def test_a_worker_without_power(cluster: NodeCluster) -> None:
    """The intake runs elsewhere; `tests/drills/test_nodes.py` cuts its power too."""
    gone = cluster.worker_place(with_intake=False)
    with Traffic(cluster, places=(0, 3 - gone)) as traffic:
        time.sleep(2)
        cluster.machines[gone].cut_power()
        time.sleep(12)
    missing, _ = traffic.missing_users()
    print(f"\nworker without power: {traffic}; {len(missing)} of {len(traffic.users)} uploads missing")
    assert missing == []
    assert len(traffic.failed) <= 6


def test_every_node_has_an_api_replica_again(cluster: NodeCluster) -> None:
    """The one that was away gets one back, and a killed replica's successor starts on the same node."""
    wait(lambda: sorted(len(_api_replicas(cluster, place)) for place in range(3)) == [0, 1, 2], 120)
    (returned,) = [machine for machine in cluster.machines if not machine.is_on]
    returned.switch_on()
    cluster.start_node(returned)
    wait(lambda: all(cluster.is_healthy(place) for place in range(3)), 90)
    with Traffic(cluster) as traffic:
        moved_s = wait(lambda: _is_even(cluster), 120)
    print(f"\nan API replica on every node {moved_s:.0f} s after the return: {traffic}")
    assert traffic.failed == []
    for place in (0, 2):
        (killed,) = _api_replicas(cluster, place)
        with Traffic(cluster) as traffic:
            os.kill(killed, signal.SIGKILL)
            back_s = wait(lambda killed=killed: _is_even(cluster, but=killed), 60)  # type: ignore[misc]
        print(f"\nkilled on machine {place}, back there after {back_s:.0f} s: {traffic}")
        assert len(traffic.failed) <= 2


def test_a_changed_serve_configuration_loses_no_request(cluster: NodeCluster) -> None:
    """Serve empties the list of every HAProxy until it has built the application again."""
    config = yaml.safe_load((ROOT / "cluster" / "serve" / "production.yaml").read_text())
    (api,) = [application for application in config["applications"] if application["name"] == "api"]
    api["args"] |= {"replicas_min": 2, "replicas_max": 2, "num_cpus": 0.5, "memory_budget_mb": 600}
    changed = cluster.folder / "changed.yaml"
    changed.write_text(yaml.safe_dump(config))
    before = _api_replicas(cluster)
    places = [place for place in range(3) if cluster.machines[place].is_on]
    with Traffic(cluster, places=places) as traffic:
        time.sleep(1)
        cluster.shell(
            cluster.machines[0],
            f'eval "$(kiosk node env)"\nserve deploy --address http://head:8265 {changed}',
        )
        wait(lambda: bool(_api_replicas(cluster) - before), 120)
        time.sleep(3)
    print(f"\nserve deploy of a changed configuration: {traffic}")
    assert traffic.failed == []


def _start_replicas(cluster: NodeCluster, machine: Machine) -> str:
    program = START_REPLICAS.format(address=machine.address)
    return cluster.shell(cluster.machines[0], f"{NODE}python -c '{program}'", timeout_s=90)


def _refusal(cluster: NodeCluster, machine: Machine, lines: str) -> str:
    """Return how lines fail, without line breaks."""
    with pytest.raises(RuntimeError) as refused:
        cluster.shell(machine, NODE + lines, timeout_s=90)
    return " ".join(str(refused.value).split())


def _api_replicas(cluster: NodeCluster, *places: int) -> set[int]:
    """Return the pids of the API replicas of some nodes, by default of all."""
    nodes = [cluster.machines[place] for place in places or range(3)]
    return {pid for machine in nodes if machine.is_on for pid in machine.processes("ServeReplica:api")}


def _is_even(cluster: NodeCluster, *, but: int = 0) -> bool:
    """Return whether every node has exactly one API replica, and none has this pid."""
    pids = [_api_replicas(cluster, place) for place in range(3)]
    return [len(some) for some in pids] == [1, 1, 1] and {but} not in pids
