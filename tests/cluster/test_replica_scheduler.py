"""Replicas of Serve on three real nodes of one machine: where they start, and where they go when a node returns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.runtime.node_environment import SPREAD
from cluster.runtime.replica_placement import SETTLED_S

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, os, signal, sys, time
from collections import Counter

import ray
from ray import serve
from ray.cluster_utils import Cluster
from ray.serve.context import _get_global_client

WITHIN_S = float(sys.argv[1])

@serve.deployment(
    name="api", num_replicas=3, max_replicas_per_node=3, ray_actor_options={"num_cpus": 0.5},
    graceful_shutdown_timeout_s=1, health_check_period_s=1,
)
class Replica:
    pass

def running():
    deployment = _get_global_client().get_serve_details()["applications"]["api"]["deployments"]["api"]
    return {row["pid"]: row["node_id"] for row in deployment["replicas"] if row["state"] == "RUNNING"}

def wait(counts, absent=0):
    until, seen = time.monotonic() + WITHIN_S, {}
    while sorted(Counter(seen.values()).values()) != counts or absent in seen:
        if time.monotonic() > until:
            break
        time.sleep(0.2)
        seen = running()
    return sorted(Counter(seen.values()).values())

cluster = Cluster()
add = lambda: cluster.add_node(num_cpus=2, object_store_memory=80 << 20, include_dashboard=False)
nodes = [add() for _ in range(3)]
ray.init(cluster.address, log_to_driver=False)
serve.start(proxy_location="Disabled")
serve.run(Replica.bind(), name="api", route_prefix=None)
steps = {"started": wait([1, 1, 1])}
for number in range(3):
    pid = list(running())[number]
    os.kill(pid, signal.SIGKILL)
    steps[f"killed {number}"] = wait([1, 1, 1], absent=pid)
cluster.remove_node(nodes[2], allow_graceful=False)
steps["node lost"] = wait([1, 2])
add()
began_s = time.monotonic()
steps["node returned"] = wait([1, 1, 1])
steps["seconds"] = round(time.monotonic() - began_s, 1)
print(json.dumps(steps))
"""


def test_replicas_spread_over_nodes_and_one_moves_to_a_node_that_returns() -> None:
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith(("RAY_", "KIOSK_"))},
        "RAY_SERVE_CONTROLLER_CALLBACK_IMPORT_PATH": SPREAD,
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(SETTLED_S + 60)],
        env=environment, capture_output=True, text=True, timeout=580, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    steps = json.loads(done.stdout.splitlines()[-1])
    print(f"\n{steps}")
    assert steps.pop("seconds") < SETTLED_S + 60
    assert steps.pop("node lost") == [1, 2]
    assert list(steps.values()) == [[1, 1, 1]] * 5
