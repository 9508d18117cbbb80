"""State machines over stores: a loop for their steps, stores for each run, and one way to let them run."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import hypothesis
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from cluster.store.connect import open_stores
from cluster.store.stores import Stores
from tests.fakes.request_handler import StillClock
from tests.fakes.stores.memory import memory_stores
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_waiting import EASY

Result = TypeVar("Result")
SEED = random.randrange(2**32) if os.environ.get("HOUSE_FREE_SEED") else 20_261_121
"`HOUSE_FREE_SEED=1` draws a new one each run."


class StoreMachine(RuleBasedStateMachine):
    """A machine whose steps wait for stores; in memory, unless `over_redis` says otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._clock = StillClock()
        self._stores, self._close = self._do(self.open())

    async def open(self) -> tuple[Stores, Callable[[], Awaitable[None]]]:
        """Open empty stores, and say how they are closed."""

        async def close() -> None:
            return None

        return memory_stores(self._clock), close

    def teardown(self) -> None:
        """Close them."""
        self._do(self._close())
        self._loop.close()

    def _do(self, work: Awaitable[Result]) -> Result:
        async def run() -> Result:
            return await work

        return self._loop.run_until_complete(run())


def over_redis(machine: type[StoreMachine], server: RedisProcess) -> type[StoreMachine]:
    """Let a machine open its stores over a server, which it empties."""

    async def opened(self: StoreMachine) -> tuple[Stores, Callable[[], Awaitable[None]]]:
        assert server.say("FLUSHALL") == b"+OK\r\n"
        stores = await open_stores(server.url, **EASY)
        return stores, stores.close

    return type(f"{machine.__name__}OverRedis", (machine,), {"open": opened})


def run_machine(machine: type[RuleBasedStateMachine], *, sequences: int, steps: int) -> None:
    """Run sequences of steps; `HOUSE_SEQUENCES` says how many instead."""
    sequences = int(os.environ.get("HOUSE_SEQUENCES", sequences))
    print(f"\n{machine.__name__}: {sequences} sequences, seed {SEED}")
    run_state_machine_as_test(
        hypothesis.seed(SEED)(machine),
        settings=settings(
            max_examples=sequences,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
