"""The state machine of tasks and batches over both stores. `HOUSE_FREE_SEED=1` draws a new seed each run."""

from __future__ import annotations

import asyncio

import pytest

from cluster.store.connect import open_stores
from tests.fakes.stores.memory import memory_stores
from tests.suites.intake_machine import IntakeMachine, Opened
from tests.suites.machines import run_machine
from tests.suites.manual_clock import ManualClock
from tests.suites.redis_process import RedisProcess

SEQUENCES, STEPS = 100, 20


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


def test_tasks_and_batches_in_memory_match_the_model() -> None:
    run_machine(MemoryMachine, sequences=SEQUENCES, steps=STEPS)


@pytest.mark.redis
def test_tasks_and_batches_in_redis_match_the_model(redis_server: RedisProcess) -> None:
    run_machine(_machine_over(redis_server), sequences=SEQUENCES, steps=STEPS)
