"""100,000 products: trained under writes, promoted, a replica replaced and one added; all answer the same bytes.

`HOUSE_PRODUCTS` is another number.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from actors.hosting import loaded_apps
from actors.serving import renewal
from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.clock import SystemClock
from cluster.store.data.change_log import find_differing
from tests.fakes.counting_meter import CountingMeter
from tests.fakes.stores.memory import memory_stores
from tests.suites.replicas import APP, ReplicatedShop, equal_shares, lists, queries
from tests.suites.waiting import until

pytestmark = [pytest.mark.drill, pytest.mark.timeout(1_500)]

PRODUCTS = int(os.environ.get("HOUSE_PRODUCTS", "100000"))
INTERACTIONS, LISTS = PRODUCTS * 2 // 5, 60
PATIENCE_S = 900.0


@pytest.mark.usefixtures("allow_world")
async def test_replicas_of_a_large_app_answer_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal, "_SHARE", 1)
    monkeypatch.setattr(loaded_apps, "_LOAD_WAIT_S", PATIENCE_S)
    clock = SystemClock()
    shop = ReplicatedShop(memory_stores(clock), tmp_path, clock, 1, PRODUCTS)
    await shop.open()
    await shop.upload(range(PRODUCTS))
    await shop.promote("")
    hosts: list[EngineHost] = []

    def add(meter: CountingMeter) -> EngineHost:
        models = SnapshotLoader(shop.snapshots)
        hosts.append(EngineHost(shop.stores, shop.segments, clock, meter, models=models))
        return hosts[-1]

    meters = [CountingMeter(), CountingMeter()]
    user_queries = queries(shop, LISTS)
    try:
        old, other = (add(meter) for meter in meters)
        await lists(old, user_queries[:4])
        await lists(other, user_queries[:4])
        await shop.interact(INTERACTIONS)
        await shop.compact()
        training = asyncio.create_task(asyncio.to_thread(shop.train))
        while not training.done():
            await shop.upload([shop.random_product() for _ in range(20)])
            await shop.interact(20)
            await asyncio.sleep(0.5)
        await shop.promote(await training)
        await shop.interact(200)
        await asyncio.sleep(5.0)
        following = await lists(old, user_queries)
        await shop.compact()
        written_s = time.monotonic()
        renewed = "kiosk_recommender_renewals_total"
        ready = lambda: all(  # noqa: E731
            meter.counts.get(renewed, 0) and host.loaded[0][1].is_as_loaded
            for meter, host in zip(meters, hosts, strict=True)
        )
        await until(ready, PATIENCE_S)
        print(f"both replicas were renewed {time.monotonic() - written_s:.0f} s after the last compaction")
        expected = await lists(old, user_queries)
        print("while it followed, against renewed:", equal_shares(user_queries, following, expected))
        await other.close()
        for replica in (add(CountingMeter()), add(CountingMeter())):
            served = await lists(replica, user_queries)
            assert served == expected, equal_shares(user_queries, expected, served)
        print("replaced and added replica:", equal_shares(user_queries, expected, served))
        assert find_differing(await shop.stores.changes.list_followers(APP), clock.now_ms()) == []
    finally:
        for host in hosts:
            await host.close()
