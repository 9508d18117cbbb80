"""The state machine of experiments over both stores. `HOUSE_FREE_SEED=1` draws a new seed each run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from cluster.store.connect import open_stores
from cluster.store.stores import Stores
from tests.fakes.stores.memory import memory_stores
from tests.suites.experiment_machine import ExperimentMachine
from tests.suites.machines import run_machine
from tests.suites.redis_process import RedisProcess

pytestmark = pytest.mark.slow

SEQUENCES, STEPS = 200, 40


class MemoryMachine(ExperimentMachine):
    async def open(self) -> tuple[Stores, Callable[[], Awaitable[None]]]:
        async def close() -> None:
            return None

        return memory_stores(self._clock), close


def _machine_over(server: RedisProcess) -> type[ExperimentMachine]:
    class RedisMachine(ExperimentMachine):
        async def open(self) -> tuple[Stores, Callable[[], Awaitable[None]]]:
            assert server.say("FLUSHALL") == b"+OK\r\n"
            stores = await open_stores(server.url, hot_s=5.0, slow_s=10.0)
            return stores, stores.close

    return RedisMachine


def test_experiments_in_memory_match_the_model() -> None:
    run_machine(MemoryMachine, sequences=SEQUENCES, steps=STEPS)


@pytest.mark.redis
def test_experiments_in_redis_match_the_model(redis_server: RedisProcess) -> None:
    run_machine(_machine_over(redis_server), sequences=SEQUENCES, steps=STEPS)
