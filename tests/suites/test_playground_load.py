"""Loading the playground over memory and over a real Redis: complete, once, whatever dies on the way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import orjson
import pytest

from actors.intake.applier import BatchApplier
from actors.intake.loop import CONSUMER, LEASE, IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from cluster.clock import SystemClock
from cluster.ids import DEFAULT_ENGINE, new_task_id
from cluster.meter import SilentMeter
from cluster.records.apps import App
from cluster.records.interaction import RecentEvent
from cluster.store.stores import Stores
from jobs.playground.loader import (
    EDITION_RECORD_ID,
    LoadResult,
    SampleData,
    build_sample,
    load_playground,
    read_edition,
)
from tests.fakes.dying_shelf import Killed
from tests.fakes.dying_stores import Life, mortal
from tests.fakes.stores.memory import memory_stores
from tests.suites.store_kinds import STORE_KINDS, open_store_kind

pytestmark = pytest.mark.redis
APP = "playground"
NOW_MS = 1_772_442_930_250


@pytest.fixture(params=STORE_KINDS)
async def stores(request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    async with open_store_kind(request) as stores:
        yield stores


@pytest.fixture(scope="module")
def whole() -> SampleData:
    return build_sample(NOW_MS)


@pytest.fixture(scope="module")
def few(whole: SampleData) -> SampleData:
    """Some of each, small enough to be loaded dozens of times."""
    users = whole.users[:36]
    signed_in = {user["user_id"] for user in users}
    visitors = {
        entry["anonymous_id"]
        for entry in whole.interactions
        if "anonymous_id" in entry and entry.get("user_id") in signed_in
    }
    assert visitors
    theirs = [
        entry
        for entry in whole.interactions
        if entry.get("user_id") in signed_in or entry.get("anonymous_id") in visitors
    ]
    return SampleData(whole.products[::20], users, theirs)


class TurnedClock(SystemClock):
    """The machine's clock, moved forward by hand."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


async def load(stores: Stores, whole: SampleData | None = None) -> LoadResult:
    return await load_playground(stores, now_ms=NOW_MS, embedder=HashingEmbedder(), whole=whole)


async def logged(stores: Stores) -> Counter[bytes]:
    """Read the interactions that are in force, as a follower of the log sees them."""
    counts: Counter[bytes] = Counter()
    offset = "0"
    while changes := await stores.changes.read(APP, {"interaction": offset}, count=500, block_ms=0):
        for change in changes:
            items = orjson.loads(change.payload)
            if change.op == "erase":
                counts = Counter({item: n for item, n in counts.items() if _reader(item) not in items})
            else:
                counts.update(orjson.dumps(item) for item in items)
        offset = changes[-1].offset
    return counts


def _reader(item: bytes) -> str:
    entry = orjson.loads(item)
    return f"u:{entry['user_id']}" if "user_id" in entry else f"a:{entry['anonymous_id']}"


async def offsets(stores: Stores) -> list[str]:
    return [await stores.changes.last(APP, noun) for noun in ("product", "user", "interaction")]


async def test_the_whole_playground_is_there_after_one_load(stores: Stores, whole: SampleData) -> None:
    loaded = await load(stores)
    assert loaded.fresh
    assert await stores.records.ids(APP, "product") == sorted(
        product["product_id"] for product in whole.products
    )
    assert set(await stores.records.ids(APP, "user")) == {user["user_id"] for user in whole.users} | {
        EDITION_RECORD_ID
    }
    record = await stores.records.get(APP, "product", "tugboat")
    assert record is not None
    assert orjson.loads(record)["title"] == "Red tugboat with three corks"
    assert await stores.engines.get(APP, DEFAULT_ENGINE) is not None
    assert await logged(stores) == Counter(orjson.dumps(entry) for entry in whole.interactions)
    books = await stores.records.ids(APP, "product", "book")
    assert books == sorted(product["product_id"] for product in whole.products if product["type"] == "book")


async def test_products_travel_with_their_vectors(stores: Stores, few: SampleData) -> None:
    await load(stores, few)
    changes = await stores.changes.read(APP, {"product": "0"}, count=100, block_ms=0)
    embedder = HashingEmbedder()
    for change in changes:
        assert change.embedder == embedder.version
        assert len(change.vectors) == len(orjson.loads(change.payload)) * embedder.dimensions * 2


async def test_a_reader_finds_what_was_done_before_signing_in(stores: Stores, whole: SampleData) -> None:
    await load(stores)
    linked = next(entry for entry in whole.interactions if "user_id" in entry and "anonymous_id" in entry)
    before = {
        product_id
        for entry in whole.interactions
        if entry.get("anonymous_id") == linked["anonymous_id"] and entry["type"] != "impression"
        for product_id in entry.get("product_ids", ())
    }
    packed = await stores.interactions.recent(APP, [f"u:{linked['user_id']}"])
    seen = {product_id for event in packed for product_id in RecentEvent.unpack(event).product_ids}
    assert before
    assert before <= seen


async def test_a_second_load_writes_nothing(stores: Stores, few: SampleData) -> None:
    first = await load(stores, few)
    before = await offsets(stores)
    second = await load(stores, few)
    assert (first.fresh, second.fresh) == (True, False)
    assert second.edition == first.edition == await read_edition(stores, APP)
    assert await offsets(stores) == before


async def test_a_load_that_was_killed_anywhere_is_completed_by_the_next(few: SampleData) -> None:
    counting = Life()
    await load(mortal(memory_stores(), counting), few)
    assert counting.lived > 40
    for left in range(counting.lived):
        clock = TurnedClock()
        stores = memory_stores(clock)
        with pytest.raises(Killed):
            await load(mortal(stores, Life(left)), few)
        clock.ahead_s = 10  # the lease of the dead lapses
        await load(stores, few)
        assert await logged(stores) == Counter(orjson.dumps(entry) for entry in few.interactions), left
        assert len(await stores.records.ids(APP, "product")) == len(few.products), left
        assert await read_edition(stores, APP), left


async def test_another_edition_replaces_the_old_one(
    stores: Stores, few: SampleData, whole: SampleData
) -> None:
    await load(stores, few)
    await put_user(stores, {"user_id": EDITION_RECORD_ID, "custom_attributes": {"edition": "0-older"}})
    other = SampleData(whole.products[1::20], whole.users[18:48], [])
    assert (await load(stores, other)).fresh
    assert await stores.records.ids(APP, "product") == sorted(
        product["product_id"] for product in other.products
    )
    expected = {user["user_id"] for user in other.users} | {EDITION_RECORD_ID}
    assert set(await stores.records.ids(APP, "user")) == expected
    assert await logged(stores) == Counter()
    assert await stores.interactions.recent(APP, [f"u:{few.users[0]['user_id']}"]) == []


async def put_user(stores: Stores, user: dict[str, object]) -> None:
    payload = orjson.dumps([user])
    await stores.intake.accept(APP, "user", "put", payload, task_id=new_task_id(), total=1, now_ms=NOW_MS)
    (batch,) = await stores.intake.claim(CONSUMER, [APP], count=1, block_ms=0)
    applier = BatchApplier(stores.intake, HashingEmbedder(), SystemClock(), SilentMeter())
    assert await applier.apply(batch) == "applied"


async def test_a_running_intake_applies_what_the_load_queues(stores: Stores, few: SampleData) -> None:
    await stores.access.put_app(App(app_id=APP, environment="playground", created_at=0))
    loop = IntakeLoop(stores, None, HashingEmbedder(), SystemClock(), SilentMeter(), owner="actor")
    assert await stores.leases.hold(LEASE, "actor", 6_000)  # the loop renews it as its own
    running = asyncio.create_task(loop.run())
    try:
        await load(stores, few)
    finally:
        loop.stop()
        await running
    assert loop.state().applied >= 3
    assert len(await stores.records.ids(APP, "product")) == len(few.products)
    assert sum((await logged(stores)).values()) == len(few.interactions)
