"""Replicas of different age answer the same, byte by byte: the artifact store and the log determine the state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from actors.hosting import log_follower
from actors.recommender.state import cold_start
from actors.serving import app_follower, renewal, replica_comparison
from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.records.intake import Noun
from cluster.store.data.change_log import find_differing
from tests.fakes.counting_meter import CountingMeter
from tests.fakes.stores.memory import memory_stores
from tests.suites.replicas import APP, ReplicatedShop, equal_shares, lists, queries
from tests.suites.waiting import PATIENCE_S, until

PRODUCTS, INTERACTIONS = 600, 400
Opened = Callable[[], EngineHost]


class WatchedMeter(CountingMeter):
    """Keeps the newest value of each gauge, too."""

    def __init__(self) -> None:
        super().__init__()
        self.gauges: dict[str, float] = {}

    def gauge(self, name: str, value: float, **tags: str) -> None:
        self.gauges[name] = value


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_follower, "_REPORT_EVERY_S", 0.1)
    monkeypatch.setattr(app_follower, "_BLOCK_MS", 50)
    # the comparison of cold-start products takes several rounds, as in a large app
    monkeypatch.setattr(cold_start, "_AT_FIRST", 16)
    monkeypatch.setattr(cold_start, "_A_REFRESH", 8)
    monkeypatch.setattr(renewal, "QUIET_S", 1.0)
    monkeypatch.setattr(renewal, "_PAUSE_S", 0.2)
    monkeypatch.setattr(renewal, "_SHARE", 1)


@pytest.fixture
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> ReplicatedShop:
    clock = SystemClock()
    shop = ReplicatedShop(memory_stores(clock), tmp_path, clock, getattr(request, "param", 0), PRODUCTS)
    await shop.open()
    await shop.upload(range(PRODUCTS))
    await shop.promote("")
    return shop


@pytest.fixture
def meter() -> WatchedMeter:
    return WatchedMeter()


@pytest.fixture
async def opened(shop: ReplicatedShop, meter: WatchedMeter) -> AsyncIterator[Opened]:
    hosts: list[EngineHost] = []

    def make() -> EngineHost:
        models = SnapshotLoader(shop.snapshots)
        host_meter = SilentMeter() if hosts else meter
        hosts.append(EngineHost(shop.stores, shop.segments, shop.clock, host_meter, models=models))
        return hosts[-1]

    yield make
    for host in hosts:
        await host.close()


async def live(shop: ReplicatedShop, rng: Random) -> None:
    """Let the app live: new, changed and removed products, interactions, compactions, and trainings under writes."""
    await shop.interact(INTERACTIONS)
    for _ in range(8):
        kind = rng.choice(("change", "grow", "remove", "interact", "compact", "erase"))
        if kind == "change":
            await shop.upload([rng.randrange(shop.products) for _ in range(rng.randrange(1, 60))])
        elif kind == "grow":
            await shop.upload(range(shop.products, shop.products + 20))
            shop.products += 20
        elif kind == "remove":
            await shop.withdraw([rng.randrange(shop.products) for _ in range(5)])
        elif kind == "erase":
            await shop.stores.interactions.erase(APP, [f"u:u{rng.randrange(shop.users)}"])
        elif kind == "interact":
            await shop.interact(rng.randrange(1, 60))
        else:
            await shop.compact()
        await asyncio.sleep(rng.random() / 20)


async def differing(shop: ReplicatedShop) -> list[str]:
    """Return the replicas that differ by what they published."""
    return find_differing(await shop.stores.changes.list_followers(APP), shop.clock.now_ms())


@pytest.mark.usefixtures("allow_world")
@pytest.mark.parametrize("kind", ["records", "lists"])
async def test_a_planted_difference_between_two_replicas_is_reported(
    shop: ReplicatedShop, opened: Opened, meter: WatchedMeter, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(replica_comparison, "_COMPARE_MS", 0)
    await shop.interact(INTERACTIONS)
    await shop.compact()
    left, right = opened(), opened()
    for host in (left, right):
        await lists(host, queries(shop, 1))

    async def are_digested() -> bool:
        followers = await shop.stores.changes.list_followers(APP)
        return len(followers) == 2 and all(follower.digest.get("lists") for follower in followers)

    await until(are_digested)
    assert await differing(shop) == []
    await until(lambda: meter.gauges.get("kiosk_replicas_differ") == 0)
    [(_, follower)] = left.loaded
    overlay = follower.recommender.overlay
    if kind == "records":
        overlay.catalog.put({**shop.product(3), "title": "planted"})
    else:
        row = overlay.catalog.row_of("p000599")
        overlay.counts.add(np.array([row]), np.array([1e6]), np.array([shop.clock.now_ms()]))
        overlay.events_version += 1
        follower._comparison._lists = None, "", ""
    await until(lambda: _differs(shop))
    assert len(await differing(shop)) == 2
    await until(lambda: meter.gauges.get("kiosk_replicas_differ") == 1)


async def _differs(shop: ReplicatedShop) -> bool:
    return bool(await differing(shop))


@pytest.mark.usefixtures("allow_world")
@pytest.mark.parametrize("shop", range(3), indirect=True)
async def test_a_long_running_replica_answers_as_those_that_start_later(
    shop: ReplicatedShop, opened: Opened, meter: WatchedMeter
) -> None:
    rng = Random(shop.seed)
    old = opened()
    user_queries = queries(shop, 15)
    await lists(old, user_queries)
    await live(shop, rng)
    await shop.compact()
    version = await asyncio.to_thread(shop.train)
    await live(shop, rng)
    await shop.promote(version)
    await live(shop, rng)
    await shop.compact()

    async def is_renewed() -> bool:
        loads = meter.counts.get("kiosk_recommender_renewals_total", 0)
        return loads > 0 and all(follower.is_as_loaded for _, follower in old.loaded)

    assert await until(is_renewed) < PATIENCE_S
    replaced, added = opened(), opened()
    before = await lists(old, user_queries)
    for other in (replaced, added):
        after = await lists(other, user_queries)
        assert before == after, equal_shares(user_queries, before, after)


@pytest.mark.usefixtures("allow_world")
@pytest.mark.parametrize("fault", ["away", "damaged"])
async def test_a_state_in_memory_outlives_an_outage_of_the_artifact_store(
    shop: ReplicatedShop, opened: Opened, meter: WatchedMeter, tmp_path: Path, fault: str
) -> None:
    await shop.interact(INTERACTIONS)
    await shop.compact()
    host, user_queries = opened(), queries(shop, 5)
    await lists(host, user_queries)
    await shop.upload(range(100, 200))
    await asyncio.sleep(0.3)
    await shop.compact()
    store, segments = tmp_path / "artifacts", list((tmp_path / "artifacts").rglob("product-*.parquet"))
    whole = {path: path.read_bytes() for path in segments}
    if fault == "away":
        store.rename(tmp_path / "unplugged")
    else:
        for path, data in whole.items():
            path.chmod(0o600)
            path.write_bytes(data[:-40] + b"x" * 40)
    before = await lists(host, user_queries)
    loads = meter.counts["kiosk_recommender_load_ms"]
    failed = "kiosk_follow_failures_total"
    await until(lambda: meter.counts["kiosk_recommender_load_ms"] > loads or meter.counts.get(failed, 0) > 0)
    await asyncio.sleep(1.0)
    assert "kiosk_recommender_renewals_total" not in meter.counts
    assert await lists(host, user_queries) == before
    if fault == "away":
        (tmp_path / "unplugged").rename(store)
    else:
        for path, data in whole.items():
            path.write_bytes(data)
    await until(lambda: meter.counts.get("kiosk_recommender_renewals_total", 0) > 0)
    after, fresh = await lists(host, user_queries), await lists(opened(), user_queries)
    assert after == fresh, equal_shares(user_queries, after, fresh)


@pytest.mark.usefixtures("allow_world")
async def test_a_state_is_renewed_while_writes_go_on(
    shop: ReplicatedShop, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that the active state applies just before the replacement does not cost the whole load."""
    monkeypatch.setattr(renewal, "QUIET_S", 3_600.0)
    host = opened()
    await lists(host, queries(shop, 1))
    [(_, follower)] = host.loaded
    before, changes, writes = follower.recommender, shop.stores.changes, 0
    read_first, renewing = changes.first, asyncio.current_task()

    async def write_and_read(app_id: str, noun: Noun) -> str:
        nonlocal writes
        is_renewal = asyncio.current_task() is renewing  # the loop of the active state asks too
        if is_renewal and noun == "interaction" and writes < 3:
            writes += 1
            await shop.upload([writes])
            last = await changes.last(app_id, "product")
            await until(lambda: follower.recommender.overlay.offsets["product"] == last)
        return await read_first(app_id, noun)

    monkeypatch.setattr(changes, "first", write_and_read)
    await follower._renew(asyncio.Lock())
    assert writes == 3
    assert follower.recommender is not before
