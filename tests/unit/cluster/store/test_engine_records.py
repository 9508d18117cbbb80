from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.errors import Unavailable
from cluster.records.engine import Engine
from cluster.store.refreshing_cache import ENGINE_RECORDS_KEEP_S, EngineRecordsCache
from tests.fakes.request_handler import StillClock
from tests.fakes.stores.memory import memory_stores


class CountingEngines:
    """An engine store that counts its reads and can be unreachable."""

    def __init__(self, clock: StillClock) -> None:
        self.inner = memory_stores(clock).engines
        self.reads = 0
        self.unreachable = False

    async def all(self, app_id: str) -> list[Engine]:
        self.reads += 1
        await asyncio.sleep(0)
        if self.unreachable:
            raise Unavailable("the store is away")
        return await self.inner.all(app_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def engines(clock: StillClock) -> CountingEngines:
    return CountingEngines(clock)


@pytest.fixture
def records(engines: CountingEngines, clock: StillClock) -> EngineRecordsCache:
    return EngineRecordsCache(engines, clock)  # type: ignore[arg-type]


async def test_one_read_serves_all_engines_of_an_app_for_three_quarters_of_a_second(
    engines: CountingEngines, records: EngineRecordsCache, clock: StillClock
) -> None:
    assert ENGINE_RECORDS_KEEP_S == 0.75
    for engine_id in ("default", "big"):
        await engines.inner.put(Engine(app_id="shop", engine_id=engine_id))
    assert records.find("shop", "default") is None
    read = await asyncio.gather(
        *(records.read_engine("shop", engine_id) for engine_id in ("default", "big", "default"))
    )
    assert [engine.engine_id for engine in read if engine] == ["default", "big", "default"]
    assert engines.reads == 1
    clock.pass_ms(749)
    assert records.find("shop", "big") is read[1]
    clock.pass_ms(1)
    assert records.find("shop", "big") is None
    assert await records.read_engine("shop", "big") is read[1], "an equal record stays the same object"
    assert engines.reads == 2


async def test_a_changed_record_is_a_new_object_and_the_others_stay(
    engines: CountingEngines, records: EngineRecordsCache, clock: StillClock
) -> None:
    for engine_id in ("default", "big"):
        await engines.inner.put(Engine(app_id="shop", engine_id=engine_id))
    default, big = await records.read_engine("shop", "default"), await records.read_engine("shop", "big")
    await engines.inner.put(Engine(app_id="shop", engine_id="big", placement="own"))
    clock.pass_ms(800)
    moved = await records.read_engine("shop", "big")
    assert moved is not big
    assert moved is not None
    assert moved.placement == "own"
    assert records.find("shop", "default") is default


async def test_a_new_engine_counts_at_once_and_the_store_confirms_an_unknown_one(
    engines: CountingEngines, records: EngineRecordsCache
) -> None:
    await engines.inner.put(Engine(app_id="shop", engine_id="default"))
    await records.read_engine("shop", "default")
    assert await records.read_engine("shop", "late") is None
    await engines.inner.put(Engine(app_id="shop", engine_id="late"))
    assert await records.read_engine("shop", "late") is not None


async def test_the_last_good_record_counts_while_the_store_is_unreachable(
    engines: CountingEngines, records: EngineRecordsCache, clock: StillClock
) -> None:
    await engines.inner.put(Engine(app_id="shop", engine_id="default"))
    good = await records.read_engine("shop", "default")
    engines.unreachable = True
    clock.pass_ms(60_000)
    assert await records.read_engine("shop", "default") is good
    with pytest.raises(Unavailable):
        await records.read_engine("shop", "unknown")
    with pytest.raises(Unavailable):
        await records.read_engine("other", "default")
