"""The client suite over a host in this process, on memory stores and on a real Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from actors.serving.client import RecommenderClient
from actors.serving.host import EngineHost
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.store.stores import Stores
from tests.fakes.corner_shop import furnish
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.suites.recommender_client import ClientSuite
from tests.suites.store_kinds import STORE_KINDS, open_store_kind


class TestLocalClient(ClientSuite):
    @pytest.fixture(params=STORE_KINDS)
    async def stores(self, request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
        async with open_store_kind(request) as stores:
            yield stores

    @pytest.fixture
    async def client(self, stores: Stores) -> AsyncIterator[RecommenderClient]:
        await furnish(stores)
        host = EngineHost(stores, None, SystemClock(), SilentMeter())
        await host.start()
        yield LocalRecommenderClient(host)
        await host.close()
