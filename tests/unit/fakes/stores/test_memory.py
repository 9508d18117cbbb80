"""What passes with time, over the ports in dictionaries and a clock that can be moved."""

from __future__ import annotations

import pytest

from cluster.store.data.idempotency import IdempotencyState
from cluster.store.stores import Stores
from tests.fakes.stores.memory import memory_stores
from tests.suites.doing import APP, accept, claim_one
from tests.suites.manual_clock import ManualClock

MINUTE = 60_000
DAY = 24 * 60 * MINUTE


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def stores(clock: ManualClock) -> Stores:
    return memory_stores(clock)


async def test_a_task_is_forgotten_after_a_day(stores: Stores, clock: ManualClock) -> None:
    await accept(stores, "t1")
    clock.advance(DAY - 1)
    assert await stores.tasks.get(APP, "product", "t1") is not None
    clock.advance(1)
    assert await stores.tasks.get(APP, "product", "t1") is None


async def test_the_day_counts_from_the_end_of_a_task(stores: Stores, clock: ManualClock) -> None:
    await accept(stores, "t1")
    clock.advance(DAY - 1)
    await stores.intake.give_up(await claim_one(stores), "poison", now_ms=clock.now_ms())
    clock.advance(DAY - 1)
    assert await stores.tasks.get(APP, "product", "t1") is not None


async def test_a_write_in_flight_is_taken_for_dead_after_a_minute(stores: Stores, clock: ManualClock) -> None:
    await stores.idempotency.begin(APP, "token", "body")
    clock.advance(MINUTE - 1)
    assert await stores.idempotency.begin(APP, "token", "body") == IdempotencyState("flying")
    clock.advance(1)
    assert await stores.idempotency.begin(APP, "token", "body") == IdempotencyState("new")


async def test_an_answer_is_repeated_for_a_day(stores: Stores, clock: ManualClock) -> None:
    await stores.idempotency.begin(APP, "token", "body")
    await stores.idempotency.finish(APP, "token", 200, b"{}")
    clock.advance(DAY - 1)
    assert (await stores.idempotency.begin(APP, "token", "body")).state == "done"
    clock.advance(1)
    assert (await stores.idempotency.begin(APP, "token", "body")).state == "new"


async def test_a_page_is_forgotten_after_thirty_idle_minutes(stores: Stores, clock: ManualClock) -> None:
    await stores.shown_products.record(APP, "u:1", "page", ["a"])
    clock.advance(29 * MINUTE)
    await stores.shown_products.record(APP, "u:1", "page", ["b"])
    clock.advance(29 * MINUTE)
    assert await stores.shown_products.read(APP, "u:1", "page") == ["a", "b"]
    clock.advance(MINUTE)
    assert await stores.shown_products.read(APP, "u:1", "page") == []


async def test_a_dead_consumer_loses_its_batch_after_ten_seconds(stores: Stores, clock: ManualClock) -> None:
    await accept(stores, "t1")
    await claim_one(stores, "dead")
    clock.advance(9_999)
    assert await stores.intake.claim("living", [APP], count=1, block_ms=0) == []
    clock.advance(1)
    assert (await claim_one(stores, "living")).task_id == "t1"


async def test_a_clock_set_back_never_turns_offsets_back(stores: Stores, clock: ManualClock) -> None:
    before = await stores.interactions.append(APP, b"[1]", [])
    clock.advance(-60 * MINUTE)
    after = await stores.interactions.append(APP, b"[2]", [])
    (change,) = await stores.changes.read(APP, {"interaction": before}, count=5, block_ms=0)
    assert change.offset == after
