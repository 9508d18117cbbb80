"""Numbers of API replicas on a cluster."""

from __future__ import annotations

import pytest

from cluster.runtime.replica_resources import replica_arguments, reserved_bytes


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
    arguments = replica_arguments(cpus, {"replicas_min": 0, "memory_budget_mb": 0})
    assert (arguments["replicas_min"], arguments["replicas_max"]) == (low, high)
    assert (arguments["max_replicas_per_node"], arguments["num_cpus"]) == (each, share)
    assert "memory_budget_mb" not in arguments


def test_what_is_given_stays() -> None:
    arguments = replica_arguments([2, 2, 2], {"replicas_min": 4, "replicas_max": 9, "memory_budget_mb": 1024})
    assert (arguments["replicas_min"], arguments["replicas_max"], arguments["max_replicas_per_node"]) == (
        4,
        9,
        4,
    )
    assert arguments["memory_budget_mb"] == 1024


def test_a_replica_reserves_what_a_full_one_was_measured_to_take() -> None:
    assert reserved_bytes(512) == 1168 << 20 > 1093 << 20
    assert reserved_bytes(1024) - reserved_bytes(512) == 512 << 20


@pytest.mark.filterwarnings("ignore:Using extra keyword arguments on `Field`", "ignore:.*look_back_period_s")
@pytest.mark.parametrize(
    ("setting", "option", "budget_mb"), [("", 0, 512), ("900", 0, 900), ("900", 700, 700)]
)
def test_the_budget_and_the_reservation_follow_the_setting_or_the_option(
    setting: str, option: int, budget_mb: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deployments.front.app import build

    if setting:
        monkeypatch.setenv("KIOSK_MEMORY_MB", setting)
    monkeypatch.setenv("KIOSK_RESERVE_MEMORY", "1")
    deployment = build(replica_arguments([2], {"memory_budget_mb": option}))._bound_deployment
    assert deployment.init_args == ({"memory_budget_mb": budget_mb},)
    assert deployment.ray_actor_options["memory"] == reserved_bytes(budget_mb)
    monkeypatch.delenv("KIOSK_RESERVE_MEMORY")
    assert "memory" not in build({})._bound_deployment.ray_actor_options
