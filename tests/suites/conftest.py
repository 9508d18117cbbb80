"""Stores as the product opens them, in memory, over Redis, and over a Redis server that a test may hurt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from cluster.store.connect import OpenStores, open_stores
from cluster.store.stores import Stores
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_topologies import ClusterTopology
from tests.suites.store_kinds import ALL_KINDS, PASSWORD, SMALLEST_RIGHTS, USER, open_store_kind


@pytest.fixture(params=ALL_KINDS)
async def stores(request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    """Empty stores of each kind."""
    async with open_store_kind(request) as stores:
        yield stores


@pytest.fixture(scope="session")
def limited_server() -> Iterator[RedisProcess]:
    """A server that has a user with the smallest rights."""
    server = RedisProcess()
    try:
        server.start()
        assert server.say(*SMALLEST_RIGHTS) == b"+OK\r\n"
        yield server
    finally:
        server.stop()


@pytest.fixture
def limited_server_url(limited_server: RedisProcess) -> str:
    """Where it is, for this user and emptied."""
    assert limited_server.say("FLUSHALL") == b"+OK\r\n"
    return limited_server.url.replace("unix://", f"unix://{USER}:{PASSWORD}@")


@pytest.fixture(scope="session")
def limited_cluster() -> Iterator[ClusterTopology]:
    """A cluster of three masters that have a user with the smallest rights."""
    cluster = ClusterTopology()
    try:
        for node in cluster.masters:
            node.say(*SMALLEST_RIGHTS)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def limited_cluster_url(limited_cluster: ClusterTopology) -> str:
    """Where it is, for this user and emptied."""
    for node in limited_cluster.masters:
        node.say("FLUSHALL")
    return limited_cluster.url.replace("://", f"://{USER}:{PASSWORD}@")


@pytest.fixture
async def strict_stores(private_server: RedisProcess) -> AsyncIterator[OpenStores]:
    """Stores over the test's own server with the deadlines of the product."""
    async with open_stores(private_server.url) as stores:
        yield stores
