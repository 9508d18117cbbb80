"""What a host holds: loaded once, let go least recently used first."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from actors.hosting.loaded_apps import LoadedAppLabels, LoadedApps
from actors.hosting.memory_budget import MemoryBudget
from cluster.errors import Fault
from cluster.store.installation.replica_memory import ReplicaMemory
from tests.fakes.counting_meter import CountingMeter
from tests.suites.manual_clock import ManualClock

WORDS = LoadedAppLabels("it is still loading", "app_left", "kiosk_test_bytes")


@pytest.fixture(autouse=True)
def frozen_objects() -> Iterator[None]:
    """Leave the objects of other tests out of the collections after evictions, as a replica does at its start."""
    gc.freeze()
    yield
    gc.unfreeze()


class Room:
    """Takes ten bytes, loads when it is let, and says whether it was closed."""

    def __init__(self, error: Exception | None = None) -> None:
        self.nbytes = 10
        self.closed = False
        self._error = error

    async def start(self) -> None:
        await asyncio.sleep(0)
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        self.closed = True


async def test_all_who_come_at_once_wait_for_one_load() -> None:
    made: list[str] = []

    def make(app_id: str) -> Room:
        made.append(app_id)
        return Room()

    apps = LoadedApps(make, MemoryBudget(100), WORDS)
    rooms = await asyncio.gather(*(apps.get("shop") for _ in range(5)))
    assert made == ["shop"]
    assert len(set(map(id, rooms))) == 1
    await apps.close()
    assert rooms[0].closed


async def test_the_least_recently_used_app_is_evicted_first() -> None:
    apps = LoadedApps(lambda app_id: Room(), MemoryBudget(20), WORDS)
    first, second = await apps.get("first"), await apps.get("second")
    await apps.get("first")
    third = await apps.get("third")
    assert [first.closed, second.closed, third.closed] == [False, True, False]
    assert await apps.get("second") is not second
    await apps.close()


def _of_clock(clock: ManualClock, load_ms: dict[str, int], budget: MemoryBudget) -> LoadedApps[Room]:
    class SlowRoom(Room):
        def __init__(self, app_id: str) -> None:
            super().__init__()
            self.load_ms = load_ms.get(app_id, 0)

        async def start(self) -> None:
            await super().start()
            clock.advance(self.load_ms)

    return LoadedApps(SlowRoom, budget, WORDS, clock)


async def test_an_app_that_grew_after_its_load_is_evicted_without_another_load() -> None:
    clock = ManualClock()
    budget = MemoryBudget(25, clock=clock)
    loaded = _of_clock(clock, {}, budget)
    first = await loaded.get("first")
    clock.advance(1_000)
    second = await loaded.get("second")
    assert await budget.evict() == 20
    second.nbytes = 20
    assert await budget.evict() == 20
    assert [first.closed, second.closed] == [True, False]
    second.nbytes = 100  # alone it stays, larger than the budget
    assert await budget.evict() == 100
    assert not second.closed
    await loaded.close()


async def test_an_app_whose_load_takes_seconds_stays_longer_than_a_cheap_one() -> None:
    clock = ManualClock()
    loaded = _of_clock(clock, {"expensive": 5_000}, MemoryBudget(20, clock=clock))
    expensive = await loaded.get("expensive")
    clock.advance(60_000)
    cheap = await loaded.get("cheap")
    clock.advance(1_000)
    await loaded.get("third")
    assert [expensive.closed, cheap.closed] == [False, True]
    clock.advance(200_000)
    await loaded.get("third")
    await loaded.get("cheap")
    assert expensive.closed
    await loaded.close()


async def test_more_busy_apps_than_fit_do_not_all_take_turns() -> None:
    clock = ManualClock()
    loads: list[str] = []

    class CountedRoom(Room):
        def __init__(self, app_id: str) -> None:
            super().__init__()
            loads.append(app_id)

        async def start(self) -> None:
            await super().start()
            clock.advance(3_000)

    loaded = LoadedApps(CountedRoom, MemoryBudget(50, clock=clock), WORDS, clock)
    apps = [f"app{at}" for at in range(10)]
    for _ in range(5):
        for app_id in apps:
            clock.advance(1_000)
            await loaded.get(app_id)
    # by last use alone, each of the 50 requests would load
    assert len(loads) <= 10 + 4 * 6
    await loaded.close()


async def test_engines_and_archives_share_one_budget() -> None:
    clock = ManualClock()
    budget = MemoryBudget(35, clock=clock)
    engines = _of_clock(clock, {}, budget)
    archives = _of_clock(clock, {}, budget)
    first = await engines.get("shop")
    clock.advance(1_000)
    passages = await archives.get("news")
    clock.advance(1_000)
    second = await engines.get("toys")
    assert budget.describe_use("api-1", 7) == ReplicaMemory("api-1", 7, 35, 30, 3, {}, {})
    passages.nbytes = 20
    assert await budget.evict() == 30
    assert [first.closed, passages.closed, second.closed] == [True, False, False]
    clock.advance(1_000)
    await engines.get("shop")
    assert [passages.closed, second.closed] == [True, False]
    # an app that alone is too large is served, and reported
    second.nbytes = 40
    clock.advance(1_000)
    await engines.get("toys")
    assert await budget.evict() == 40
    assert budget.describe_use("api-1", 7) == ReplicaMemory("api-1", 7, 35, 40, 1, {"toys": 40}, {"shop": 1})
    clock.advance(600_001)
    assert budget.describe_use("api-1", 7).reloads == {}
    await asyncio.gather(engines.close(), archives.close())


async def test_an_app_larger_than_the_budget_alone_is_served_and_named_until_it_fits_or_leaves() -> None:
    clock, meter = ManualClock(), CountingMeter()
    budget = MemoryBudget(20, meter, clock)
    loaded = _of_clock(clock, {}, budget)
    shop = await loaded.get("shop")
    clock.advance(1_000)
    grown = await loaded.get("grown")
    grown.nbytes = 50
    with capture_logs() as lines:
        assert await budget.evict() == 50
        assert await budget.evict() == 50
    assert [(line["event"], line["app"]) for line in lines if "budget" in line["event"]] == [
        ("app_larger_than_budget", "grown")
    ]
    over_budget = "kiosk_memory_over_budget", "grown"
    assert (shop.closed, grown.closed, meter.gauges[over_budget]) == (True, False, 2.5)
    assert budget.describe_use("api-1", 7).large_apps == {"grown": 50}
    grown.nbytes = 20
    await budget.evict()
    assert (budget.describe_use("api-1", 7).large_apps, over_budget in meter.gauges) == ({}, False)
    grown.nbytes = 50
    await budget.evict()
    clock.advance(1_000)
    await loaded.get("shop")
    assert (grown.closed, over_budget in meter.gauges) == (True, False)
    await loaded.close()


async def test_only_an_app_that_returns_within_ten_minutes_counts_as_reloaded() -> None:
    clock, meter = ManualClock(), CountingMeter()
    loaded = _of_clock(clock, {}, MemoryBudget(10, meter, clock))
    for app_id, total in (("shop", 0), ("toys", 0), ("shop", 1), ("toys", 2)):
        clock.advance(1_000)
        await loaded.get(app_id)
        assert meter.counts.get("kiosk_reloads_total", 0) == total
    clock.advance(600_001)
    await loaded.get("shop")
    assert meter.counts["kiosk_reloads_total"] == 2
    await loaded.close()


async def test_the_memory_of_an_evicted_app_is_freed_at_once() -> None:
    class CyclicRoom(Room):
        def __init__(self) -> None:
            super().__init__()
            self.itself = self

    gc.disable()
    try:
        loaded = LoadedApps(lambda app_id: CyclicRoom(), MemoryBudget(10), WORDS)
        first = weakref.ref(await loaded.get("first"))
        assert first() is not None
        await loaded.get("second")
        assert first() is None
        await loaded.close()
    finally:
        gc.enable()


async def test_a_failed_load_is_tried_again() -> None:
    errors: list[Exception | None] = [Fault("damaged"), None]
    apps = LoadedApps(lambda app_id: Room(errors.pop(0)), MemoryBudget(100), WORDS)
    with pytest.raises(Fault):
        await apps.get("shop")
    assert not (await apps.get("shop")).closed
    await apps.close()
