"""Stores as the product opens them, over a Redis server a test may hurt."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cluster.store.connect import OpenStores, open_stores
from tests.suites.redis_process import RedisProcess


@pytest.fixture
async def strict_stores(private_server: RedisProcess) -> AsyncIterator[OpenStores]:
    """Stores over the test's own server with the deadlines of the product."""
    async with open_stores(private_server.url) as stores:
        yield stores
