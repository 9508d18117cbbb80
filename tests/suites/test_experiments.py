"""The store of experiments over dictionaries and over a real Redis."""

from __future__ import annotations

import pytest

from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from tests.fakes.stores.memory import memory_stores
from tests.suites.experiments import ExperimentSuite


class TestInMemory(ExperimentSuite):
    @pytest.fixture
    def stores(self) -> Stores:
        return memory_stores()


@pytest.mark.redis
class TestOverRedis(ExperimentSuite):
    @pytest.fixture
    def stores(self, redis_stores: OpenStores) -> Stores:
        return redis_stores
