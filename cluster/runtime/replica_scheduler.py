"""The scheduler of Serve's controller, with replicas spread over the nodes of a cluster.

Serve's own scheduler takes nodes in turn whatever runs on them, and moves nothing. After a crash or an absence a node
could keep two API replicas while another one had none. Serve has no setting for this; its controller calls `install`
by `RAY_SERVE_CONTROLLER_CALLBACK_IMPORT_PATH`, before it makes its scheduler.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import structlog
from ray.serve._private import default_impl
from ray.serve._private.deployment_scheduler import DeploymentScheduler

from cluster.runtime.replica_placement import ReplicaMover, choose_node
from cluster.runtime.start_plan import API_APPLICATION

_log = structlog.get_logger()


class SpreadScheduler(DeploymentScheduler):  # type: ignore[misc]
    """Starts replicas on the emptiest node, and moves API replicas away from a crowded one."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._movers: dict[Any, ReplicaMover] = {}

    def schedule(self, upscales: Any, downscales: Any) -> dict[Any, Any]:
        """Start pending replicas; return the replicas to stop, by deployment. Serve drains them, then ends them."""
        stopping: dict[Any, Any] = super().schedule(upscales, downscales)
        for deployment in self._deployments:
            if deployment.app_name == API_APPLICATION and deployment not in stopping:
                replica = self._choose_replica(deployment)
                if replica is not None:
                    stopping[deployment] = {replica}
        return stopping

    def _schedule_with_spread_strategy(self) -> None:
        for deployment, pending in self._pending_replicas.items():
            # A copy, because scheduling removes the request from `pending`.
            for request in list(pending.values()):
                # Placement groups choose their nodes themselves.
                is_plain = request.placement_group_bundles is None and request.gang_placement_group is None
                node = self._choose_node(deployment, request.requested_resources) if is_plain else None
                # Ray prefers this node, and takes another one if it is full by now.
                self._schedule_replica(request, default_scheduling_strategy="SPREAD", target_node_id=node)

    def _choose_node(self, deployment: Any, required: Any) -> str | None:
        # Replicas that are starting count, or several at once would all choose the same node.
        launching = (info.target_node_id for info in self._launching_replicas[deployment].values())
        counts = Counter([*self._running_replicas[deployment].values(), *launching])
        return choose_node(counts, self._find_room(deployment, required))

    def _choose_replica(self, deployment: Any) -> Any | None:
        # While replicas start or recover the counts are not final, and a move would be premature.
        if any(
            replicas[deployment]
            for replicas in (self._pending_replicas, self._launching_replicas, self._recovering_replicas)
        ):
            return None
        required = self._deployments[deployment].required_resources
        running = self._running_replicas[deployment]
        replica = self._movers.setdefault(deployment, ReplicaMover()).choose_replica(
            running,
            self._cluster_node_info_cache.get_active_node_ids(),
            time.monotonic(),
            lambda: self._find_room(deployment, required),
        )
        if replica is not None:
            _log.info("replica_moved", replica=str(replica), node=running[replica])
        return replica

    def _find_room(self, deployment: Any, required: Any) -> dict[str, float]:
        """Return the free processors of the nodes with room for a replica."""
        nodes = self._get_available_resources_per_node()
        labels = self._deployments[deployment].label_selector
        if labels:
            by_node = {node: self._cluster_node_info_cache.get_node_labels(node) for node in nodes}
            nodes = self._filter_nodes_by_label_selector(nodes, labels, by_node)
        return {node: free.get("CPU") for node, free in nodes.items() if free.can_fit(required)}


def install() -> None:
    """Let Serve's controller make this scheduler."""
    # Serve has imported the class by name there, so replacing it in its own module would do nothing.
    default_impl.DeploymentScheduler = SpreadScheduler
