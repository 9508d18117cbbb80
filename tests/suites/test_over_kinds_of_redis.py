"""The store suites over redis-py and over a real Redis Cluster, each as a user with the smallest rights."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest

from cluster.store.client.acl import acl_rules
from cluster.store.connect import OpenStores, open_stores
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_topologies import ClusterTopology
from tests.suites.redis_waiting import EASY
from tests.suites.test_over_redis import *  # noqa: F403 - the suites run here anew, over the fixtures below
from tests.suites.test_over_redis import OpenMore

pytestmark = [pytest.mark.redis, pytest.mark.slow]

KINDS = ("server, redis-py", "cluster, multiplexed", "cluster, redis-py")
USER, PASSWORD = "kiosk", "right-horse"
RULES = ("ACL", "SETUSER", USER, "on", f">{PASSWORD}", *acl_rules())


@pytest.fixture(scope="module")
def limited_server() -> Iterator[RedisProcess]:
    """A server that knows our user."""
    server = RedisProcess()
    try:
        server.start()
        assert server.say(*RULES) == b"+OK\r\n"
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def limited_cluster() -> Iterator[ClusterTopology]:
    """A cluster of three masters that know our user."""
    cluster = ClusterTopology()
    try:
        for node in cluster.masters:
            node.say(*RULES)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(params=KINDS)
def open_more(request: pytest.FixtureRequest) -> OpenMore:
    """Open stores over an emptied Redis of one kind, by one of the clients."""
    place, _, client = request.param.partition(", ")
    if place == "server":
        server = request.getfixturevalue("limited_server")
        assert server.say("FLUSHALL") == b"+OK\r\n"
        url = server.url.replace("unix://", f"unix://{USER}:{PASSWORD}@")
    else:
        cluster = request.getfixturevalue("limited_cluster")
        for node in cluster.masters:
            node.say("FLUSHALL")
        url = cluster.url.replace("://", f"://{USER}:{PASSWORD}@")
    easy: dict[str, Any] = dict(EASY)
    return partial(open_stores, url, **easy, is_serving=client == "multiplexed")


@pytest.fixture
async def redis_stores(open_more: OpenMore) -> AsyncIterator[OpenStores]:
    """Stores of the kind that is tested."""
    async with open_more() as stores:
        yield stores
