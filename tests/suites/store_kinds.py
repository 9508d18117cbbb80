"""The kinds of stores that a test runs over: in memory, and over Redis by each of the clients.

A test that takes the fixture `stores` runs over all kinds; `@over_redis` leaves memory out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cluster.clock import Clock
from cluster.store.client.acl import acl_rules
from cluster.store.connect import open_stores
from cluster.store.stores import Stores
from tests.fakes.stores.memory import memory_stores
from tests.suites.redis_waiting import EASY

USER, PASSWORD = "kiosk", "right-horse"
SMALLEST_RIGHTS = ("ACL", "SETUSER", USER, "on", f">{PASSWORD}", *acl_rules())

REDIS = pytest.param("redis", marks=pytest.mark.redis)
LIMITED_KINDS = [
    pytest.param(kind, marks=[pytest.mark.redis, pytest.mark.slow])
    for kind in ("server, redis-py", "cluster, multiplexed", "cluster, redis-py")
]
STORE_KINDS = ["memory", REDIS]
ALL_KINDS = [*STORE_KINDS, *LIMITED_KINDS]

over_redis = pytest.mark.parametrize("stores", [REDIS, *LIMITED_KINDS], indirect=True)


@asynccontextmanager
async def open_store_kind(
    request: pytest.FixtureRequest, clock: Clock | None = None, **bounds: int
) -> AsyncIterator[Stores]:
    """Open empty stores of the kind that the parameter of the fixture names."""
    if request.param == "memory":
        yield memory_stores(clock, **bounds)
        return
    place, _, client = request.param.partition(", ")
    url = request.getfixturevalue({"redis": "redis_url"}.get(place, f"limited_{place}_url"))
    async with open_stores(url, **EASY, is_serving=client != "redis-py", **bounds) as stores:
        yield stores
