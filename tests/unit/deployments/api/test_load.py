from __future__ import annotations

import pytest

from deployments.api.load import Load
from tests.fakes.door import StillClock


def test_the_busier_of_processor_and_waiting_requests_counts() -> None:
    clock, facts = StillClock(), {"busy": 0.0, "processor": 5.0}
    load = Load(clock, lambda: facts["busy"], lambda: facts["processor"])
    clock.pass_ms(1000)
    facts["processor"] += 0.7
    assert load.read() == pytest.approx(1.0)
    clock.pass_ms(2000)
    facts["busy"] += 32.0
    assert load.read() == pytest.approx(2.0)
    clock.pass_ms(10_000)
    assert load.read() == 0.0


def test_two_readings_at_once_agree() -> None:
    clock, processor = StillClock(), [0.0]
    load = Load(clock, lambda: 0.0, lambda: processor[0])
    clock.pass_ms(1000)
    processor[0] = 0.35
    first = load.read()
    processor[0] = 0.9
    clock.pass_ms(50)
    assert load.read() == first == pytest.approx(0.5)
