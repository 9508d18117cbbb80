"""The store of history threads over dictionaries and over a real Redis."""

from __future__ import annotations

import pytest

from actors.history import threads as rules
from cluster.records.thread import UserThreads
from cluster.store import keys
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from tests.fakes.stores.memory import memory_stores
from tests.suites.doing import APP
from tests.suites.threads import ThreadSuite, ask, change


class TestInMemory(ThreadSuite):
    @pytest.fixture
    def stores(self) -> Stores:
        return memory_stores()


@pytest.mark.redis
class TestOverRedis(ThreadSuite):
    @pytest.fixture
    def stores(self, redis_stores: OpenStores) -> Stores:
        return redis_stores

    async def test_a_flipped_byte_is_set_aside_and_announces_nothing(self, redis_stores: OpenStores) -> None:
        threads = rules.set_subscription(await ask(redis_stores, "ada", "q1"), "q1", on=True)
        await change(redis_stores, "ada", rules.append_update(threads, "q1", "u1", "5-0", 1))
        sealed = await redis_stores.server.execute_slow("HGET", keys.threads(APP), "ada")
        broken = sealed[:-3] + bytes([sealed[-3] ^ 1]) + sealed[-2:]
        await redis_stores.server.execute_slow("HSET", keys.threads(APP), "ada", broken)
        threads_read = await redis_stores.threads.read(APP, "ada")
        assert threads_read == UserThreads(revision=threads_read.revision)
        assert not await redis_stores.threads.has_new(APP, "ada")
        assert await redis_stores.server.execute_slow("XLEN", keys.quarantine(APP)) == 1
        assert list((await ask(redis_stores, "ada", "q2")).threads) == ["q2"]
