"""Numbers of API replicas on a cluster."""

from __future__ import annotations

import pytest

from cluster.runtime.cluster_plan import replica_arguments, reserved_bytes


@pytest.mark.parametrize(
    ("cpus", "low", "high", "each", "share"),
    [
        ([2, 2, 2], 3, 3, 2, 1.0),
        ([8, 8, 8], 3, 12, 5, 1.0),
        ([0, 16, 16], 2, 16, 9, 1.0),
        ([1], 1, 1, 2, 0.5),
        ([], 1, 1, 2, 0.5),
    ],
)
def test_defaults_follow_from_nodes_and_processors(
    cpus: list[float], low: int, high: int, each: int, share: float
) -> None:
    found = replica_arguments(cpus, {"replicas_min": 0, "memory_budget_mb": 0})
    assert (found["replicas_min"], found["replicas_max"]) == (low, high)
    assert (found["max_replicas_per_node"], found["num_cpus"]) == (each, share)
    assert found["memory_budget_mb"] == 512


def test_what_is_given_stays() -> None:
    found = replica_arguments([2, 2, 2], {"replicas_min": 4, "replicas_max": 9, "memory_budget_mb": 1024})
    assert (found["replicas_min"], found["replicas_max"], found["max_replicas_per_node"]) == (4, 9, 4)
    assert found["memory_budget_mb"] == 1024


def test_a_replica_reserves_more_than_its_budget() -> None:
    assert reserved_bytes(512) == 912 << 20
