"""The state machine of threads, and the histories of their clients, over both stores.

`HOUSE_FREE_SEED=1` draws a new seed each run, `HOUSE_SEQUENCES` and `HOUSE_HISTORIES` say how many.
"""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import replace
from typing import Any

import pytest

from actors.history import threads as rules
from cluster.records.thread import UserThreads
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from tests.fakes.request_handler import NOW_MS
from tests.fakes.stores.memory import memory_stores
from tests.suites.machines import SEED, over_redis, run_machine
from tests.suites.redis_process import RedisProcess
from tests.suites.thread_histories import KILLED, Call, Clients, explained, seen
from tests.suites.thread_machine import ThreadMachine

pytestmark = pytest.mark.slow

SEQUENCES, STEPS = 200, 25
HISTORIES = int(os.environ.get("HOUSE_HISTORIES", "150"))


def test_threads_in_memory_follow_the_model() -> None:
    run_machine(ThreadMachine, sequences=SEQUENCES, steps=STEPS)


@pytest.mark.redis
def test_threads_in_redis_follow_the_model(redis_server: RedisProcess) -> None:
    run_machine(over_redis(ThreadMachine, redis_server), sequences=SEQUENCES, steps=STEPS)


async def _histories(stores: Stores) -> None:
    killed = 0
    for number in range(HISTORIES):
        clients = Clients(stores, SEED + number)
        begin = await clients.play()
        killed += sum(call.answer is KILLED for call in clients.calls)
        assert explained(begin, clients.calls, NOW_MS), (SEED + number, clients.calls)
    print(f"\nhistories: {HISTORIES} of {CLIENTS_TEXT}, {killed} calls killed, 0 violations, seed {SEED}")
    assert killed > HISTORIES / 4


CLIENTS_TEXT = "4 clients with 3 calls each"


class Interrupted:
    """A store whose callers are interrupted before and after every call, as a network does."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._chance = random.Random(SEED)

    def __getattr__(self, name: str) -> Any:
        async def called(*args: Any) -> Any:
            for _ in range(self._chance.randrange(3)):
                await asyncio.sleep(0)
            result = await getattr(self._store, name)(*args)
            for _ in range(self._chance.randrange(3)):
                await asyncio.sleep(0)
            return result

        return called


async def test_calls_at_once_in_memory_are_explained_by_one_order() -> None:
    stores = memory_stores()
    await _histories(replace(stores, threads=Interrupted(stores.threads)))


@pytest.mark.redis
async def test_calls_at_once_in_redis_are_explained_by_one_order(redis_stores: OpenStores) -> None:
    await _histories(redis_stores)


def test_the_search_finds_a_dismissal_that_came_back() -> None:
    threads = rules.set_subscription(rules.add_question(UserThreads(), "q0", "q0", None, 1), "q0", on=True)
    begin = rules.append_update(threads, "q0", "q0-u1", "1-0", NOW_MS)
    dismissed = Call("dismiss_overall", "q0", 1, 2.0, None)
    assert explained(begin, [dismissed, Call("poll", "q0", 3, 4.0, False)], NOW_MS)
    assert not explained(begin, [dismissed, Call("poll", "q0", 3, 4.0, True)], NOW_MS)
    assert explained(begin, [dismissed, Call("poll", "q0", 1, 4.0, True)], NOW_MS)
    lost = Call("delete_all", "q0", 1, float("inf"), KILLED)
    for answer in (seen(begin), frozenset()):
        assert explained(begin, [lost, Call("list", "q0", 3, 4.0, answer)], NOW_MS)
