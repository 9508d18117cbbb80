"""The state machine of runs over both stores. `HOUSE_FREE_SEED=1` draws a new seed each run."""

from __future__ import annotations

import pytest

from tests.suites.machines import over_redis, run_machine
from tests.suites.redis_process import RedisProcess
from tests.suites.run_machine import RunMachine

SEQUENCES, STEPS = 100, 25


def test_runs_in_memory_follow_the_model() -> None:
    run_machine(RunMachine, sequences=SEQUENCES, steps=STEPS)


@pytest.mark.redis
def test_runs_in_redis_follow_the_model(redis_server: RedisProcess) -> None:
    run_machine(over_redis(RunMachine, redis_server), sequences=SEQUENCES, steps=STEPS)
