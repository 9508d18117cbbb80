"""The client suite over a host in this process, on memory stores and on a real Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from actors.serving.client import RecommenderClient
from actors.serving.host import EngineHost
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from tests.fakes.corner_shop import furnish
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.suites.recommender_client import ClientSuite


class _Local(ClientSuite):
    @pytest.fixture
    async def client(self, stores: Stores) -> AsyncIterator[RecommenderClient]:
        await furnish(stores)
        host = EngineHost(stores, None, SystemClock(), SilentMeter())
        await host.start()
        yield LocalRecommenderClient(host)
        await host.close()


class TestOverMemory(_Local):
    @pytest.fixture
    def stores(self, memory_stores: Stores) -> Stores:
        return memory_stores


@pytest.mark.redis
class TestOverRedis(_Local):
    @pytest.fixture
    def stores(self, redis_stores: OpenStores) -> Stores:
        return redis_stores
