"""The state machine of codes and grants over both stores. `HOUSE_FREE_SEED=1` draws a new seed each run."""

from __future__ import annotations

import pytest

from tests.suites.grant_machine import GrantMachine
from tests.suites.machines import over_redis, run_machine
from tests.suites.redis_process import RedisProcess

SEQUENCES, STEPS = 60, 40


def test_codes_and_grants_in_memory_follow_the_model() -> None:
    run_machine(GrantMachine, sequences=SEQUENCES, steps=STEPS)


@pytest.mark.redis
def test_codes_and_grants_in_redis_follow_the_model(redis_server: RedisProcess) -> None:
    run_machine(over_redis(GrantMachine, redis_server), sequences=SEQUENCES, steps=STEPS)
