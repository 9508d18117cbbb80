from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from deployments.hosts.scaling import UnderWay, replicas_wanted


def _context(load: dict[str, float] | None) -> Any:
    metrics = None if load is None else {"load": load}
    return cast(Any, SimpleNamespace(aggregated_metrics=metrics, target_num_replicas=3))


def test_the_loads_of_all_replicas_add_up_to_the_replicas_wanted() -> None:
    assert replicas_wanted(_context({"one": 1.4, "two": 1.1}))[0] == pytest.approx(2.5)
    assert replicas_wanted(_context({"one": 0.0}))[0] == 1


def test_as_many_stay_as_there_are_while_nobody_reports() -> None:
    assert replicas_wanted(_context(None))[0] == 3
    assert replicas_wanted(_context({}))[0] == 3


def test_load_is_the_mean_of_what_is_under_way_beside_the_target() -> None:
    now = {"at_s": 10.0, "busy_s": 0.0}
    under_way = UnderWay(lambda: now["at_s"], lambda: now["busy_s"])
    now.update(at_s=12.0, busy_s=16.0)
    assert under_way.load(target=4) == 2.0
    now.update(at_s=12.05, busy_s=100.0)
    assert under_way.load(target=4) == 2.0, "two readings at once say the same"
    assert under_way.load(target=8) == 1.0
    now.update(at_s=22.0, busy_s=100.0)
    assert under_way.load(target=4) == pytest.approx(2.1)
