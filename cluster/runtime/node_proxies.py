"""Deploy the application that keeps a proxy on every node, and let it grow with the cluster."""

from __future__ import annotations

import importlib
from typing import Any

import ray
import structlog
from ray import serve

from cluster.runtime.start_plan import PROXIES

_log = structlog.get_logger()


def deploy_node_proxies(build: str, nodes: int) -> None:
    """Submit the application with one replica for each node; running replicas stay.

    `build` is the import path of its builder.
    """
    module, _, function = build.partition(":")
    application = getattr(importlib.import_module(module), function)({"nodes": nodes})
    targets = [serve.RunTarget(target=application, name=PROXIES, route_prefix=None)]
    serve.run_many(targets, wait_for_applications_running=False)


def add_missing_proxies(build: str) -> int:
    """Add replicas for nodes that joined since `kiosk cluster up`; return how many were added.

    The number never falls: the replica of a node that is away waits for it.

    Cost:
        two calls to Ray on several nodes, one on a single node
    """
    nodes = sum(bool(node["Alive"]) for node in ray.nodes())
    deployed = _count_deployed() if nodes > 1 else 0
    # 0: no such application runs here, so none is grown.
    if not 0 < deployed < nodes:
        return 0
    deploy_node_proxies(build, nodes)
    _log.info("proxies_added", nodes=nodes, before=deployed)
    return nodes - deployed


def _count_deployed() -> int:
    """Return for how many nodes the application was deployed; 0 without it."""
    from ray.serve.context import _get_global_client

    # Without Serve there is nothing to count, which is no error here.
    client = _get_global_client(raise_if_no_controller_running=False)
    applications: dict[str, Any] = client.get_serve_details()["applications"] if client else {}
    deployments = applications.get(PROXIES, {}).get("deployments", {}).values()
    return max((int(deployment["target_num_replicas"]) for deployment in deployments), default=0)
