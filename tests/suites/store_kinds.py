"""Stores in memory or over Redis for one fixture: `@pytest.fixture(params=STORE_KINDS)`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cluster.clock import Clock
from cluster.store.connect import open_stores
from cluster.store.stores import Stores
from tests.fakes.stores.memory import memory_stores

STORE_KINDS = ["memory", "redis"]


@asynccontextmanager
async def open_store_kind(
    request: pytest.FixtureRequest, clock: Clock | None = None
) -> AsyncIterator[Stores]:
    """Open empty stores of the kind that the parameter of the fixture names."""
    if request.param == "memory":
        yield memory_stores(clock)
        return
    server = request.getfixturevalue("redis_server")
    assert server.say("FLUSHALL") == b"+OK\r\n"
    async with open_stores(server.url, hot_s=5.0, slow_s=10.0) as stores:
        yield stores
