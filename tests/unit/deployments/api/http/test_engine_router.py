from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.recommender.messages import RecommendationResult, UserQuery
from cluster.errors import NotFound, TooMany, Unavailable
from cluster.records.engine import Engine
from cluster.store.refreshing_cache import EngineRecordsCache
from deployments.api.http.engine_router import EngineRouter
from tests.fakes.request_handler import StillClock
from tests.fakes.stores.memory import memory_stores


class Gone(Exception):
    """What a dead deployment raises."""


class Crowded(Gone):
    """What a deployment raises for which too many wait."""


class Named:
    """A recommender that signs its answers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.error: Exception | None = None

    async def answer(self, query: UserQuery) -> RecommendationResult:
        if self.error is not None:
            raise self.error
        return RecommendationResult(served_by=self.name)


class Scene:
    """One engine, two places."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.engines: Any = memory_stores(self.clock).engines
        self.local, self.remote = Named("local"), Named("remote")
        self.reached: list[tuple[str, str]] = []
        self.placed = EngineRouter(
            EngineRecordsCache(self.engines, self.clock), self.local, self._reach, self.clock,
            away=(Gone,), overloaded=(Crowded,),
        )  # fmt: skip

    async def _reach(self, app_id: str, engine_id: str) -> Named:
        self.reached.append((app_id, engine_id))
        if self.remote.error is not None:
            raise self.remote.error
        return self.remote

    async def ask(self, engine_id: str = "default") -> str:
        query = UserQuery(kind="user_to_products", app_id="shop", engine_id=engine_id)
        return (await self.placed.answer(query)).served_by


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_query_reaches_the_engine_at_its_placement(scene: Scene) -> None:
    await scene.engines.put(Engine(app_id="shop", engine_id="default"))
    await scene.engines.put(Engine(app_id="shop", engine_id="big", placement="own"))
    assert [await scene.ask(), await scene.ask("big"), await scene.ask("big")] == [
        "local",
        "remote",
        "remote",
    ]
    assert scene.reached == [("shop", "big")]


async def test_an_engine_moves_without_a_restart(scene: Scene) -> None:
    await scene.engines.put(Engine(app_id="shop", engine_id="default"))
    assert await scene.ask() == "local"
    await scene.engines.put(Engine(app_id="shop", engine_id="default", placement="own"))
    scene.clock.pass_ms(1100)
    assert await scene.ask() == "remote"


async def test_an_unknown_engine_is_the_local_hosts_to_refuse(scene: Scene) -> None:
    scene.local.error = NotFound("engine is not found")
    with pytest.raises(NotFound):
        await scene.ask("nobody")


async def test_an_absent_store_does_not_stop_cached_engines(scene: Scene) -> None:
    await scene.engines.put(Engine(app_id="shop", engine_id="big", placement="own"))
    assert await scene.ask("big") == "remote"

    async def away(*_: Any) -> None:
        raise Unavailable("away")

    scene.engines.all = away
    scene.clock.pass_ms(5000)
    assert await scene.ask("big") == "remote"
    assert await scene.ask("never seen") == "local"


async def test_a_crowded_deployment_answers_too_many_and_stays_cached(scene: Scene) -> None:
    await scene.engines.put(Engine(app_id="shop", engine_id="big", placement="own"))
    assert await scene.ask("big") == "remote"
    scene.remote.error = Crowded()
    with pytest.raises(TooMany) as refused:
        await scene.ask("big")
    assert refused.value.facts == {"retry_after_s": 1}
    scene.remote.error = None
    assert await scene.ask("big") == "remote"
    assert scene.reached == [("shop", "big")]


async def test_a_dead_deployment_is_unavailable_and_reached_anew(scene: Scene) -> None:
    await scene.engines.put(Engine(app_id="shop", engine_id="big", placement="own"))
    assert await scene.ask("big") == "remote"
    scene.remote.error = Gone()
    for _ in range(2):
        with pytest.raises(Unavailable):
            await scene.ask("big")
    scene.remote.error = None
    assert await scene.ask("big") == "remote"
    assert len(scene.reached) == 3


async def test_a_returning_engine_answers_remotely_until_it_is_loaded_locally(scene: Scene) -> None:
    await scene.engines.put(Engine(app_id="shop", engine_id="big", placement="own"))
    assert await scene.ask("big") == "remote"
    loaded = asyncio.Event()
    answer = scene.local.answer

    async def slow(query: UserQuery) -> RecommendationResult:
        await loaded.wait()
        return await answer(query)

    scene.local.answer = slow  # type: ignore[method-assign]
    await scene.engines.put(Engine(app_id="shop", engine_id="big", placement="door"))
    for _ in range(3):
        scene.clock.pass_ms(1100)
        assert await scene.ask("big") == "remote"
    loaded.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    scene.clock.pass_ms(1100)
    assert await scene.ask("big") == "local"


async def test_a_returning_engine_gone_remotely_answers_locally(scene: Scene) -> None:
    await scene.engines.put(Engine(app_id="shop", engine_id="big", placement="own"))
    assert await scene.ask("big") == "remote"
    await scene.engines.put(Engine(app_id="shop", engine_id="big", placement="door"))
    scene.clock.pass_ms(1100)
    assert await scene.ask("big") == "remote"
    scene.remote.error = Gone()
    assert await scene.ask("big") == "local"


async def test_an_engine_that_is_not_reachable_yet_answers_at_its_old_placement(scene: Scene) -> None:
    await scene.engines.put(Engine(app_id="shop", engine_id="big"))
    assert await scene.ask("big") == "local"
    scene.remote.error = Gone()
    await scene.engines.put(Engine(app_id="shop", engine_id="big", placement="own"))
    scene.clock.pass_ms(1100)
    assert await scene.ask("big") == "local"
    scene.remote.error = None
    scene.clock.pass_ms(1100)
    assert await scene.ask("big") == "remote"


async def test_queries_are_counted_by_engine_and_place(scene: Scene) -> None:
    await scene.engines.put(Engine(app_id="shop", engine_id="default"))
    await scene.engines.put(Engine(app_id="shop", engine_id="big", placement="own"))
    for engine_id in ("big", "default", "big", "big"):
        await scene.ask(engine_id)
    assert scene.placed.take_counts() == {"shop": {("door", "default"): 1, ("own", "big"): 3}}
    assert scene.placed.take_counts() == {}


async def test_one_looks_where_an_engine_is_and_the_others_go_on(scene: Scene) -> None:
    await scene.engines.put(Engine(app_id="shop", engine_id="default"))
    await scene.ask()
    looks = 0
    read_all = scene.engines.all

    async def counted(*names: str) -> Any:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0)
        return await read_all(*names)

    scene.engines.all = counted
    scene.clock.pass_ms(1100)
    assert await asyncio.gather(*(scene.ask() for _ in range(20))) == ["local"] * 20
    assert looks == 1
