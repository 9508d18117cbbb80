"""The state machine of runs over both stores. `HOUSE_FREE_SEED=1` draws a new seed each run."""

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
from tests.suites.redis_process import RedisProcess
from tests.suites.run_machine import RunMachine

SEED = random.randrange(2**32) if os.environ.get("HOUSE_FREE_SEED") else 20_261_121
EXAMPLES = int(os.environ.get("HOUSE_SEQUENCES", "100"))


class MemoryMachine(RunMachine):
    async def open(self) -> tuple[Stores, Callable[[], Awaitable[None]]]:
        async def close() -> None:
            return None

        return memory_stores(), close


def _machine_over(server: RedisProcess) -> type[RunMachine]:
    class RedisMachine(RunMachine):
        async def open(self) -> tuple[Stores, Callable[[], Awaitable[None]]]:
            assert server.say("FLUSHALL") == b"+OK\r\n"
            stores = await open_stores(server.url, hot_s=5.0, slow_s=10.0)
            return stores, stores.close

    return RedisMachine


def _run(machine: type[RunMachine], examples: int) -> None:
    print(f"\n{machine.__name__}: {examples} sequences, seed {SEED}")
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        hypothesis.seed(SEED)(machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_runs_in_memory_live_as_the_model_says() -> None:
    _run(MemoryMachine, EXAMPLES)


@pytest.mark.redis
def test_runs_in_redis_live_as_the_model_says(redis_server: RedisProcess) -> None:
    _run(_machine_over(redis_server), EXAMPLES)
