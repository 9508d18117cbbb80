from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cluster.errors import TooMany, Unavailable
from cluster.records.apps import App, AppSettings
from cluster.records.apps import Limits as AppLimits
from cluster.store.installation.rate_limits import LimitStore, RateLimitGrant
from deployments.edge.http.credentials import Credential
from deployments.edge.limits.leased_buckets import RateLimiter
from tests.fakes.request_handler import StillClock
from tests.fakes.stores.memory import memory_stores
from tests.suites.waiting import until


class Watched:
    """A shared bucket that counts how often it is asked, and can be away."""

    def __init__(self, store: LimitStore) -> None:
        self._store = store
        self.requests = 0
        self.grants = 0
        self.away = False

    async def take(
        self, app_id: str, key_id: str, bucket: str, *, rate: float, burst: int, want: int, now_ms: int
    ) -> RateLimitGrant:
        self.requests += 1
        await asyncio.sleep(0)
        if self.away:
            raise Unavailable("away")
        grant = await self._store.take(
            app_id, key_id, bucket, rate=rate, burst=burst, want=want, now_ms=now_ms
        )
        self.grants += 1
        return grant


def credential(key_id: str = "key-1", **limits: float) -> Credential:
    settings = AppSettings(limits=AppLimits(**limits))
    app = App(app_id="shop", environment="development", settings=settings, created_at=0)
    return Credential(app, key_id, "secret", "text", (b"text",))


async def spent(spend: Callable[[], Awaitable[None]], tries: int) -> int:
    done = 0
    for _ in range(tries):
        try:
            await spend()
        except TooMany:
            continue
        done += 1
    return done


@pytest.fixture
def store(clock: StillClock) -> Watched:
    return Watched(memory_stores(clock).limits)


async def test_a_burst_passes_and_the_next_request_waits_the_stated_time(
    store: Watched, clock: StillClock
) -> None:
    limits, caller = RateLimiter(store, clock), credential(queries_per_s=50, query_burst=100)
    assert await spent(lambda: limits.spend(caller, "query"), 300) == 100
    with pytest.raises(TooMany) as refused:
        await limits.spend(caller, "query")
    assert refused.value.message == "Too many requests."
    assert refused.value.facts["retry_after_s"] == 1
    clock.pass_ms(1000)
    assert await spent(lambda: limits.spend(caller, "query"), 300) == 50


async def test_most_requests_ask_nobody_and_refusals_even_less(store: Watched, clock: StillClock) -> None:
    limits, caller = RateLimiter(store, clock), credential(queries_per_s=1000, query_burst=1000)
    await spent(lambda: limits.spend(caller, "query"), 1000)
    assert store.requests <= 20
    before = store.requests
    await spent(lambda: limits.spend(caller, "query"), 1000)
    assert store.requests <= before + 1


async def test_writes_have_a_separate_stricter_bucket(store: Watched, clock: StillClock) -> None:
    limits, caller = RateLimiter(store, clock), credential()
    assert await spent(lambda: limits.spend(caller, "write"), 100) == 20
    assert await spent(lambda: limits.spend(caller, "query"), 200) == 100


async def test_keys_do_not_spend_each_others_tokens(store: Watched, clock: StillClock) -> None:
    limits = RateLimiter(store, clock)
    first, second = credential("key-1"), credential("key-2")
    assert await spent(lambda: limits.spend(first, "write"), 50) == 20
    assert await spent(lambda: limits.spend(second, "write"), 50) == 20


async def test_two_doors_share_one_bucket(store: Watched, clock: StillClock) -> None:
    caller = credential(queries_per_s=10, query_burst=40)
    limiters = [RateLimiter(store, clock), RateLimiter(store, clock)]
    counts = [
        await spent(lambda limiter=limiter: limiter.spend(caller, "query"), 100)  # type: ignore[misc]
        for limiter in limiters
    ]
    assert sum(counts) == 40


async def test_many_at_once_wait_for_one_answer(store: Watched, clock: StillClock) -> None:
    limits, caller = RateLimiter(store, clock), credential(queries_per_s=50, query_burst=100)
    outcomes = await asyncio.gather(
        *(limits.spend(caller, "query") for _ in range(150)), return_exceptions=True
    )
    assert sum(outcome is None for outcome in outcomes) == 100
    assert store.requests <= 25


async def test_a_caller_that_goes_away_takes_nothing_from_the_others(
    store: Watched, clock: StillClock
) -> None:
    limits, caller = RateLimiter(store, clock), credential()
    first = asyncio.ensure_future(limits.spend(caller, "query"))
    second = asyncio.ensure_future(limits.spend(caller, "query"))
    await asyncio.sleep(0)
    first.cancel()
    await second
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_while_the_store_is_away_a_door_goes_on_at_the_same_rate(
    store: Watched, clock: StillClock
) -> None:
    limits, caller = RateLimiter(store, clock), credential(queries_per_s=50, query_burst=100)
    store.away = True
    passed = await spent(lambda: limits.spend(caller, "query"), 500)
    assert 1 <= passed <= 100
    total = passed
    for _ in range(100):
        clock.pass_ms(100)
        total += await spent(lambda: limits.spend(caller, "query"), 50)
    assert 450 <= total <= 510 + 100
    assert store.requests <= 30


async def test_a_store_that_is_back_decides_again(store: Watched, clock: StillClock) -> None:
    limits, caller = RateLimiter(store, clock), credential(queries_per_s=50, query_burst=100)
    store.away = True
    await spent(lambda: limits.spend(caller, "query"), 5)
    store.away = False
    before = store.grants
    clock.pass_ms(1500)
    await limits.spend(caller, "query")
    await until(lambda: store.grants > before)
    assert await spent(lambda: limits.spend(caller, "query"), 300) <= 100


async def test_purses_of_dead_keys_are_dropped(store: Watched, clock: StillClock) -> None:
    limits = RateLimiter(store, clock)
    await limits.spend(credential("key-1"), "query")
    await limits.spend(credential("key-2"), "query")
    limits.prune(frozenset({"key-2"}))
    before = store.requests
    await limits.spend(credential("key-2"), "query")
    await limits.close()
    assert store.requests <= before + 1


async def test_new_limits_of_an_app_hold_at_once(store: Watched, clock: StillClock) -> None:
    limits = RateLimiter(store, clock)
    await spent(lambda: limits.spend(credential(), "query"), 200)
    wide = credential(queries_per_s=1e6, query_burst=1_000_000)
    clock.pass_ms(10)
    assert await spent(lambda: limits.spend(wide, "query"), 500) == 500
