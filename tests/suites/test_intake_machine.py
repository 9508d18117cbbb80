"""The state machine of tasks and batches over both stores. `HOUSE_FREE_SEED=1` draws a new seed each run."""

from __future__ import annotations

import asyncio
import os
import random

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from cluster.store.connect import open_stores
from cluster.store.memory import memory_stores
from tests.suites.intake_machine import IntakeMachine, Opened
from tests.suites.manual_clock import ManualClock
from tests.suites.redis_process import RedisProcess

SEED = random.randrange(2**32) if os.environ.get("HOUSE_FREE_SEED") else 20_260_302
EXAMPLES = int(os.environ.get("HOUSE_SEQUENCES", "100"))


class MemoryMachine(IntakeMachine):
    async def open(self) -> Opened:
        clock = ManualClock()

        async def pause() -> None:
            clock.advance(2)

        async def close() -> None:
            return None

        return Opened(memory_stores(clock, idle_ms=1), pause, close)


def _machine_over(server: RedisProcess) -> type[IntakeMachine]:
    class RedisMachine(IntakeMachine):
        async def open(self) -> Opened:
            assert server.say("FLUSHALL") == b"+OK\r\n"
            stores = await open_stores(server.url, hot_s=5.0, slow_s=10.0, idle_ms=1)

            async def pause() -> None:
                await asyncio.sleep(0.002)

            return Opened(stores, pause, stores.close)

    return RedisMachine


def _run(machine: type[IntakeMachine], examples: int) -> None:
    print(f"\n{machine.__name__}: {examples} sequences, seed {SEED}")
    with_seed = hypothesis.seed(SEED)(machine)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        with_seed,
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_tasks_and_batches_in_memory_live_as_the_model_says() -> None:
    _run(MemoryMachine, EXAMPLES)


@pytest.mark.redis
def test_tasks_and_batches_in_redis_live_as_the_model_says(redis_server: RedisProcess) -> None:
    _run(_machine_over(redis_server), EXAMPLES)
