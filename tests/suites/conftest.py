"""A Redis server a test may hurt, and stores over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from cluster.store.connect import OpenStores, open_stores
from tests.suites.own_redis import EASY
from tests.suites.redis_process import RedisProcess


@pytest.fixture
def own_server() -> Iterator[RedisProcess]:
    """A server this test may hurt."""
    server = RedisProcess()
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
async def easy_stores(own_server: RedisProcess) -> AsyncIterator[OpenStores]:
    """Stores over it with long deadlines."""
    async with open_stores(own_server.url, **EASY) as stores:
        yield stores


@pytest.fixture
async def strict_stores(own_server: RedisProcess) -> AsyncIterator[OpenStores]:
    """Stores over it with the deadlines of the product."""
    async with open_stores(own_server.url) as stores:
        yield stores
