from __future__ import annotations

import asyncio
import time

import pytest

from actors.recommender.messages import RecommendationResult, UserQuery
from cluster.errors import NotFound, TooMany, Unavailable
from cluster.records.apps import App
from cluster.store.stores import Stores
from deployments.api.http.warmup import LATELY_MS, load_busy_engines, preload_newly_written_apps
from tests.fakes.request_handler import StillClock, open_corner
from tests.fakes.stores.memory import memory_stores
from tests.suites.waiting import until


class RecordingEngine:
    """Remembers who was asked."""

    def __init__(self) -> None:
        self.names: list[tuple[str, str]] = []
        self.error: Exception | None = None
        self.silent = False

    async def answer(self, query: UserQuery) -> RecommendationResult:
        self.names.append((query.app_id, query.engine_id))
        if self.silent:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return RecommendationResult()


@pytest.fixture
async def stores(clock: StillClock) -> Stores:
    stores = memory_stores(clock)
    for name in ("shop", "news"):
        await stores.access.put_app(App(app_id=name, environment="development", created_at=1))
    await stores.engine_activity.add_requests(
        "shop", {("door", "default"): 5, ("own", "big"): 50}, clock.now_ms()
    )
    await stores.engine_activity.add_requests("news", {("door", "default"): 20}, clock.now_ms())
    return stores


async def test_warmup_loads_the_busiest_engines_first(stores: Stores, clock: StillClock) -> None:
    engine = RecordingEngine()
    assert await load_busy_engines(stores, engine, clock) == 3
    assert engine.names == [("shop", "big"), ("news", "default"), ("shop", "default")]


async def test_warmup_skips_engines_without_recent_queries(stores: Stores, clock: StillClock) -> None:
    clock.pass_ms(LATELY_MS + 1)
    engine = RecordingEngine()
    assert await load_busy_engines(stores, engine, clock) == 0
    assert engine.names == []


@pytest.mark.parametrize("error", [NotFound("engine is not found"), Unavailable("away", retry_after_s=1)])
async def test_an_engine_that_refuses_keeps_no_replica_from_starting(
    stores: Stores, clock: StillClock, error: Exception
) -> None:
    engine = RecordingEngine()
    engine.error = error
    assert await load_busy_engines(stores, engine, clock) == 0
    assert len(engine.names) == 3


async def test_a_silent_engine_is_not_waited_for_long(stores: Stores, clock: StillClock) -> None:
    engine = RecordingEngine()
    engine.silent = True
    assert await load_busy_engines(stores, engine, clock, within_s=0.01) == 0


class SlowToLoad:
    """Answers the third time it is asked, or refuses at once; meanwhile others are asked."""

    def __init__(self, stores: Stores, clock: StillClock, others: bool, refusal: Exception | None) -> None:
        self.tries = 0
        self._stores, self._clock, self._others = stores, clock, others
        self._refusal = refusal

    async def answer(self, query: UserQuery) -> RecommendationResult:
        self.tries += 1
        self._clock.pass_ms(20_000)
        if self._others:
            await self._stores.engine_activity.add_requests(
                query.app_id, {("door", query.engine_id): 1}, self._clock.now_ms()
            )
        if self._refusal is not None:
            raise self._refusal
        if self.tries < 3:
            raise Unavailable("the engine is still loading", retry_after_s=2)
        return RecommendationResult()


@pytest.mark.parametrize(
    ("others", "refusal", "tries", "warm"),
    [
        (True, None, 3, 1),
        (False, None, 1, 0),
        (True, NotFound("no products"), 1, 0),
        (True, TooMany("busy", retry_after_s=1), 1, 0),
    ],
)
async def test_a_large_engine_is_waited_for_while_others_answer(
    clock: StillClock, others: bool, refusal: Exception | None, tries: int, warm: int
) -> None:
    stores = memory_stores(clock)
    await stores.access.put_app(App(app_id="shop", environment="development", created_at=1))
    await stores.engine_activity.add_requests("shop", {("door", "default"): 5}, clock.now_ms())
    slow = SlowToLoad(stores, clock, others, refusal)
    begun_s = time.monotonic()
    assert await load_busy_engines(stores, slow, clock, retry_s=0.02) == warm
    assert slow.tries == tries
    assert time.monotonic() - begun_s >= 0.02 * (tries - 1)


async def test_an_app_that_is_written_is_loaded_once_before_somebody_asks() -> None:
    corner = await open_corner()
    engine = RecordingEngine()
    watching = asyncio.create_task(
        preload_newly_written_apps(corner.stores, engine, lambda: ("other", "shop"), every_s=0.01)
    )
    await asyncio.sleep(0.05)
    assert engine.names == []
    for _ in range(3):
        products = {"data": [{"product_id": "hoe-11"}]}
        await corner.send("POST", "/v1/products", json=products)
        await corner.apply()
        await until(lambda: len(engine.names) > 0)
        await asyncio.sleep(0.05)
    assert engine.names == [("shop", "default")]
    watching.cancel()


async def test_an_app_that_can_not_be_loaded_yet_is_tried_again() -> None:
    corner = await open_corner()
    engine = RecordingEngine()
    engine.error = NotFound("engine is not found")
    watching = asyncio.create_task(
        preload_newly_written_apps(corner.stores, engine, lambda: ("shop",), every_s=0.01)
    )
    await asyncio.sleep(0.03)
    products = {"data": [{"product_id": "hoe-11"}]}
    await corner.send("POST", "/v1/products", json=products)
    await corner.apply()
    await until(lambda: len(engine.names) > 1)
    engine.error = RuntimeError("broken")
    refused = len(engine.names)
    await until(lambda: len(engine.names) > refused)
    engine.error = None
    broken = len(engine.names)
    await until(lambda: len(engine.names) > broken)
    await asyncio.sleep(0.1)
    assert len(engine.names) == broken + 1
    watching.cancel()
