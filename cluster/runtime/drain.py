"""`python -m cluster.runtime.drain SECONDS`: take this node out of service before it ends.

Ray marks the node as draining. Its proxy fails its health check, so that balancers stop sending requests to
it. Serve starts replicas on other nodes before it stops those of this node. The command ends when this node
has no replica left, or after SECONDS. Kubernetes runs it before it ends a pod.

Serve never drains the proxy of the head, so this command tells that proxy itself.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from typing import Any

import psutil
import structlog

from cluster.errors import Invalid, KioskError, Unavailable
from cluster.log import set_up_logging
from cluster.runtime.start_plan import PROXIES

REPLICA = "ray::ServeReplica"
"Beginning of the title of a replica's process."
POLL_S = 1.0
SETTLE_S = 5.0
"Seconds in which balancers notice a failed health check, even when this node runs no replica."
PROXY_S = 30.0
"Seconds in which a proxy starts HAProxy with another answer."


def main(arguments: list[str]) -> int:
    """Drain this node; return 0, or 1 when Ray does not answer, or 2 for wrong arguments."""
    set_up_logging()
    log = structlog.get_logger()
    try:
        seconds = parse_seconds(arguments)
        until = time.monotonic() + seconds
        drain_node(os.environ.get("RAY_ADDRESS", ""), seconds)
    except KioskError as error:
        log.error("not_drained", reason=error.message)
        return 2 if isinstance(error, Invalid) else 1
    # Waited for even without a replica: requests still arrive until balancers see the failed check.
    time.sleep(min(SETTLE_S, seconds))
    while (left := count_replicas(_titles())) and time.monotonic() < until:
        time.sleep(POLL_S)
    log.info("drained", replicas_left=left)
    return 0


def parse_seconds(arguments: list[str]) -> int:
    """Return the time that the command line allows.

    Errors:
        Invalid: it is no whole number of seconds
    """
    if len(arguments) != 1 or not arguments[0].isdecimal():
        raise Invalid("say how many seconds a drain may take: python -m cluster.runtime.drain 120")
    return int(arguments[0])


def count_replicas(titles: Iterable[str]) -> int:
    """Return how many of these processes are replicas of Serve that move to other nodes.

    The one that keeps this node's proxy has no other place, so Serve leaves it until the time is over.
    """
    replicas = [title for title in titles if title.startswith(REPLICA)]
    return sum(not title.startswith(f"{REPLICA}:{PROXIES}:") for title in replicas)


def find_node(nodes: Iterable[dict[str, Any]], addresses: set[str]) -> dict[str, Any]:
    """Return the living node that has one of these addresses.

    Errors:
        Unavailable: there is none
    """
    for node in nodes:
        if node["Alive"] and node["NodeManagerAddress"] in addresses:
            return node
    raise Unavailable("no living Ray node runs at this machine's addresses")


def drain_node(address: str, seconds: int) -> None:
    """Ask Ray to take this machine's node out of service within some seconds.

    Errors:
        Unavailable: Ray does not answer, or refuses
    """
    import ray
    from ray._private import services
    from ray.core.generated import autoscaler_pb2

    try:
        address = services.canonicalize_bootstrap_address_or_die(address or "auto")
        client = ray._raylet.GcsClient(address=address)
        nodes = [
            {
                # 0 is ALIVE in Ray's `GcsNodeInfo`.
                "Alive": info.state == 0,
                "NodeManagerAddress": info.node_manager_address,
                "NodeID": node_id.hex(),
                "IsHead": info.is_head_node,
            }
            for node_id, info in client.get_all_node_info(timeout=10).items()
        ]
        node = find_node(nodes, _addresses())
        accepted, reason = client.drain_node(
            # Unlike the drain of an idle node, a preemption is not refused while the node works.
            node["NodeID"],
            autoscaler_pb2.DrainNodeReason.DRAIN_NODE_REASON_PREEMPTION,
            "the pod is being deleted",
            # A point in time and not a span: Ray expects milliseconds since 1970.
            int(time.time() * 1000) + seconds * 1000,
        )
        # Other nodes' proxies are drained by Serve itself.
        if accepted and node["IsHead"]:
            _fail_health_check(address, node["NodeID"])
    # SystemExit: `canonicalize_bootstrap_address_or_die` ends the process when it finds no cluster.
    except (ray.exceptions.RayError, RuntimeError, OSError, SystemExit) as error:
        raise Unavailable(f"Ray's control store at {address!r} does not answer: {error}") from error
    if not accepted:
        raise Unavailable(f"Ray does not drain this node: {reason}")


def _fail_health_check(address: str, node_id: str) -> None:
    """Let the proxy of a node fail its health check."""
    import ray
    from ray.serve._private.constants import SERVE_NAMESPACE, SERVE_PROXY_NAME

    ray.init(address=address, namespace=SERVE_NAMESPACE, log_to_driver=False, configure_logging=False)
    try:
        proxy = ray.get_actor(f"{SERVE_PROXY_NAME}-{node_id}")
    except ValueError:
        return  # this node has none
    ray.get(proxy.update_draining.remote(True), timeout=PROXY_S)


def _addresses() -> set[str]:
    return {entry.address for entries in psutil.net_if_addrs().values() for entry in entries}


def _titles() -> Iterable[str]:
    for process in psutil.process_iter(["cmdline"]):
        yield " ".join(process.info["cmdline"] or [])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
