"""A cache that refreshes itself keeps the last good value, shares refreshes and reports its age."""

from __future__ import annotations

import asyncio
import math

import pytest
import structlog

from cluster.errors import Unavailable
from cluster.store.refreshing_cache import RefreshingCache
from tests.suites.waiting import until


class _Clock:
    at_s = 100.0

    def now_ms(self) -> int:
        return int(self.at_s * 1000)

    def monotonic_s(self) -> float:
        return self.at_s


class _Store:
    """Values with a version; counts how often it is asked."""

    def __init__(self) -> None:
        self.value = "one"
        self.away = False
        self.requests = 0
        self.gate: asyncio.Event | None = None

    async def load(self, key: str, last: str | None) -> str:
        self.requests += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.away:
            raise Unavailable("away")
        value = f"{key} {self.value}"
        return last if last == value else value


@pytest.fixture
def store() -> _Store:
    return _Store()


async def test_a_value_is_read_once_while_it_is_fresh(store: _Store) -> None:
    clock = _Clock()
    cache = RefreshingCache(store.load, clock, keep_s=0.5)
    assert cache.get("shop") is None
    assert cache.age_s("shop") == math.inf
    assert [await cache.read("shop"), await cache.read("shop")] == ["shop one"] * 2
    assert store.requests == 1
    clock.at_s += 0.25
    assert cache.age_s("shop") == 0.25
    clock.at_s += 0.25
    store.value = "two"
    assert await cache.read("shop") == "shop two" == cache.get("shop")
    assert await cache.read("other") == "other two"


async def test_the_last_good_value_stays_while_the_store_is_away(store: _Store) -> None:
    clock = _Clock()
    cache = RefreshingCache(store.load, clock, keep_s=0.5)
    store.away = True
    with pytest.raises(Unavailable):
        await cache.read("shop")
    store.away = False
    await cache.read("shop")
    store.away = True
    clock.at_s += 2
    assert [await cache.read("shop"), await cache.read("shop")] == ["shop one"] * 2
    assert store.requests == 3
    assert cache.age_s("shop") == 2
    with pytest.raises(Unavailable):
        await cache.refresh("shop")
    assert cache.get("shop") == "shop one"


async def test_callers_share_a_refresh_or_take_the_last_value(store: _Store) -> None:
    clock = _Clock()
    cache = RefreshingCache(store.load, clock, keep_s=0.5)
    store.gate = asyncio.Event()
    tasks = [asyncio.create_task(cache.read("shop")) for _ in range(3)]
    await asyncio.sleep(0)
    store.gate.set()
    assert await asyncio.gather(*tasks) == ["shop one"] * 3
    assert store.requests == 1
    store.value, store.gate = "two", asyncio.Event()
    clock.at_s += 1
    first = asyncio.create_task(cache.read("shop"))
    await asyncio.sleep(0)
    assert await cache.read("shop", wait=False) == "shop one"
    store.gate.set()
    assert await first == "shop two"
    await cache.close()


async def test_a_followed_value_changes_by_itself_and_an_outage_is_logged_once(store: _Store) -> None:
    cache = RefreshingCache(store.load)
    runs = 0

    async def after() -> None:
        nonlocal runs
        runs += 1

    with structlog.testing.capture_logs() as lines:
        await cache.follow(
            "all", 0.005, away_event="values_not_followed", back_event="values_followed", after=after
        )
        assert cache.is_following("all")
        assert cache.get("all") == "all one"
        store.away = True
        before = store.requests
        await until(lambda: store.requests > before + 3)
        store.away, store.value = False, "two"
        await until(lambda: cache.get("all") == "all two" and runs > 0)
        await until(lambda: "values_followed" in [line["event"] for line in lines])
        await cache.close()
    assert not cache.is_following("all")
    assert [line["event"] for line in lines] == ["values_not_followed", "values_followed"]
