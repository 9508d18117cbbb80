"""The state machine of experiments over both stores. `HOUSE_FREE_SEED=1` draws a new seed each run."""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from cluster.store.connect import open_stores
from cluster.store.memory import memory_stores
from cluster.store.ports import Stores
from tests.suites.experiment_machine import ExperimentMachine
from tests.suites.redis_process import RedisProcess

SEED = random.randrange(2**32) if os.environ.get("HOUSE_FREE_SEED") else 20_261_121
EXAMPLES = int(os.environ.get("HOUSE_SEQUENCES", "200"))


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


def _run(machine: type[ExperimentMachine]) -> None:
    print(f"\n{machine.__name__}: {EXAMPLES} sequences, seed {SEED}")
    with_seed = hypothesis.seed(SEED)(machine)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        with_seed,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_experiments_in_memory_live_as_the_model_says() -> None:
    _run(MemoryMachine)


@pytest.mark.redis
def test_experiments_in_redis_live_as_the_model_says(redis_server: RedisProcess) -> None:
    _run(_machine_over(redis_server))
