"""The suite of stored boost rules over both stores."""

from __future__ import annotations

import pytest

from cluster.store import keys
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from tests.suites.doing import APP
from tests.suites.rules import RuleSuite, a_rule


class TestOverMemory(RuleSuite):
    @pytest.fixture
    def stores(self, memory_stores: Stores) -> Stores:
        return memory_stores


@pytest.mark.redis
class TestOverRedis(RuleSuite):
    @pytest.fixture
    def stores(self, redis_stores: OpenStores) -> Stores:
        return redis_stores

    async def test_a_damaged_rule_is_set_aside_and_the_others_read(self, redis_stores: OpenStores) -> None:
        await redis_stores.boost_rules.put(APP, [a_rule("a"), a_rule("b")])
        key = keys.boost_rule(APP)
        await redis_stores.server.execute_slow("HSET", key, "default\x1fa", b"damaged")
        assert await redis_stores.boost_rules.all(APP) == [a_rule("b")]
        assert await redis_stores.server.execute_slow("HLEN", key) == 1
