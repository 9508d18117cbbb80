from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from deployments.edge.scaling import LoadMeter, compute_replicas
from tests.fakes.request_handler import StillClock


def test_the_higher_load_of_cpu_and_waiting_requests_counts() -> None:
    clock, facts = StillClock(), {"busy": 0.0, "cpu_s": 5.0}
    load = LoadMeter(clock, lambda: facts["busy"], lambda: facts["cpu_s"])
    clock.pass_ms(1000)
    facts["cpu_s"] += 0.7
    assert load.read() == pytest.approx(1.0)
    clock.pass_ms(2000)
    facts["busy"] += 32.0
    assert load.read() == pytest.approx(2.0)
    clock.pass_ms(10_000)
    assert load.read() == 0.0


def test_two_readings_at_once_agree() -> None:
    clock, cpu_s = StillClock(), [0.0]
    load = LoadMeter(clock, lambda: 0.0, lambda: cpu_s[0])
    clock.pass_ms(1000)
    cpu_s[0] = 0.35
    first = load.read()
    cpu_s[0] = 0.9
    clock.pass_ms(50)
    assert load.read() == first == pytest.approx(0.5)


def test_load_counts_beside_as_many_in_flight_as_are_enough_now() -> None:
    clock, facts = StillClock(), {"busy": 0.0, "target": 4.0}
    load = LoadMeter(clock, lambda: facts["busy"], lambda: 0.0, full_in_flight=lambda: facts["target"])
    clock.pass_ms(2000)
    facts["busy"] = 16.0
    assert load.read() == pytest.approx(2.0)
    clock.pass_ms(2000)
    facts.update(busy=32.0, target=8.0)
    assert load.read() == pytest.approx(1.0)


def _context(load: dict[str, float] | None) -> Any:
    metrics = None if load is None else {"load": load}
    return cast(Any, SimpleNamespace(aggregated_metrics=metrics, target_num_replicas=3))


def test_the_loads_of_all_replicas_sum_to_the_required_replicas() -> None:
    assert compute_replicas(_context({"first": 1.4, "second": 1.1}))[0] == pytest.approx(2.5)
    assert compute_replicas(_context({"first": 0.0}))[0] == 1


def test_as_many_stay_as_there_are_while_nobody_reports() -> None:
    assert compute_replicas(_context(None))[0] == 3
    assert compute_replicas(_context({}))[0] == 3
