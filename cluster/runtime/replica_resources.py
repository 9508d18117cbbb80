"""How many API replicas a cluster gets by default, and where. Plain Python without Ray."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.store.installation.replica_memory import ABOVE_BUDGET_MB

PROCESS_MB = 400
"MiB of an API replica or a dedicated engine without apps: code, libraries, connections. Measured: 320 to 400."


def replica_arguments(node_cpus: Sequence[float], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the API's builder: one replica for each node at rest, half of the processors under load.

    Dedicated engines and trainings get the remaining processors. A node takes at most its equal share of the
    replicas and one more, because an update starts a new replica before an old one ends. Given arguments stay
    unchanged; without a `memory_budget_mb` the builder takes `KIOSK_MEMORY_MB`.
    """
    sizes = [cpus for cpus in node_cpus if cpus > 0] or [1.0]
    nodes = len(sizes)
    at_rest = int(given.get("replicas_min") or nodes)
    most = int(given.get("replicas_max") or max(at_rest, sum(int(cpus) // 2 for cpus in sizes)))
    return {
        "replicas_min": min(at_rest, most),
        "replicas_max": most,
        "max_replicas_per_node": math.ceil(most / nodes) + 1,
        "num_cpus": min(1.0, min(sizes) / 2),
        **{name: value for name, value in given.items() if value},
    }


def reserved_bytes(budget_mb: int) -> int:
    """Return the bytes that Ray reserves on a node for a replica with this memory budget."""
    return (budget_mb + PROCESS_MB + ABOVE_BUDGET_MB) << 20
