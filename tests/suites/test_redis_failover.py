"""Redis behind Sentinel and Redis Cluster, under load: a master killed, a slot moved, and what is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

import pytest

from cluster.errors import Unavailable
from cluster.store import keys
from cluster.store.client.routing import slot_of_key
from cluster.store.connect import OpenStores, open_stores
from tests.suites.redis_topologies import ClusterTopology, Node, SentinelTopology
from tests.suites.redis_writers import Journal, count_lost, write_until

pytestmark = [pytest.mark.redis, pytest.mark.slow]

APPS = ("shop", "news", "blog", "wiki")
BACK_S = 30.0
REQUEST_S = 2.0
"The deadline of a write."


@pytest.fixture
def sentinel() -> Iterator[SentinelTopology]:
    topology = SentinelTopology()
    yield topology
    topology.stop()


@pytest.fixture
def cluster() -> Iterator[ClusterTopology]:
    topology = ClusterTopology(replicas=1)
    yield topology
    topology.stop()


async def under_load(stores: OpenStores, hurt: Callable[[], None], back: Callable[[], bool]) -> Journal:
    """Write, hurt, and write on until the store took writes for a second again."""
    stop = asyncio.Event()
    writing = asyncio.create_task(write_until(stores, stop, APPS))
    await asyncio.sleep(1.0)
    await asyncio.to_thread(hurt)
    until = asyncio.get_running_loop().time() + BACK_S
    while not await asyncio.to_thread(back) or not await _takes_writes(stores):
        assert asyncio.get_running_loop().time() < until, "no writes after the failover"
        await asyncio.sleep(0.1)
    await asyncio.sleep(1.0)
    stop.set()
    return await writing


async def _takes_writes(stores: OpenStores) -> bool:
    try:
        for app in APPS:
            await stores.engines.get(app, "default")
            await stores.leases.hold(f"{{{app}}}", "me", 1000)
    except Unavailable:
        return False
    return True


@pytest.mark.parametrize("hurt", ["killed", pytest.param("paused", marks=pytest.mark.drill)])
async def test_a_lost_master_costs_seconds_and_with_wait_no_acknowledged_write(
    sentinel: SentinelTopology, hurt: str
) -> None:
    async with open_stores(f"{sentinel.url}?wait_replicas=1", slow_s=REQUEST_S) as stores:
        act = sentinel.master.kill if hurt == "killed" else sentinel.master.pause
        journal = await under_load(stores, act, sentinel.has_failed_over)
        lost = await count_lost(stores, journal)
    print(f"\nsentinel, master {hurt}, WAIT 1: {journal}, {lost} lost")
    assert not journal.others
    assert journal.refused
    assert lost == 0
    assert journal.slowest_s < REQUEST_S + 5


async def test_redis_py_finds_the_new_master_too(sentinel: SentinelTopology) -> None:
    async with open_stores(sentinel.url, slow_s=REQUEST_S, is_serving=False) as stores:
        journal = await under_load(
            stores, sentinel.master.kill, lambda: sentinel.name_master() != sentinel.master.port
        )
        lost = await count_lost(stores, journal)
    print(f"\nsentinel, master killed, redis-py, without WAIT: {journal}, {lost} lost")
    assert not journal.others
    assert journal.slowest_s < REQUEST_S + 5


async def test_a_demoted_master_is_left_at_its_first_refusal(sentinel: SentinelTopology) -> None:
    """The server stays and answers reads; only writes tell that it is a master no more."""
    async with open_stores(sentinel.url) as stores:
        assert await stores.leases.hold("one", "me", 1000)
        sentinel.sentinels[0].say("SENTINEL", "FAILOVER", "shop")

        def new_master() -> Node:
            named = sentinel.name_master()
            return next(node for node in sentinel.nodes if node.port == named)

        until = asyncio.get_running_loop().time() + 15
        while True:
            with contextlib.suppress(Unavailable):
                await stores.leases.hold("two", "me", 30_000)
            # An order to fail over makes the old master refuse a little later than the new one is named.
            if sentinel.has_failed_over() and new_master().say("GET", keys.lease("two")) == "me":
                break
            assert asyncio.get_running_loop().time() < until, "writes go to the demoted server"
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("client", ["multiplexed", pytest.param("redis-py", marks=pytest.mark.drill)])
async def test_a_cluster_loses_a_master_and_goes_on(cluster: ClusterTopology, client: str) -> None:
    owner = cluster.owner(slot_of_key(APPS[0]))

    async with open_stores(cluster.url, slow_s=REQUEST_S, is_serving=client == "multiplexed") as stores:
        journal = await under_load(
            stores, owner.kill, lambda: cluster.owner(slot_of_key(APPS[0])) is not owner
        )
        lost = await count_lost(stores, journal)
    print(f"\ncluster, master killed, {client}, without WAIT: {journal}, {lost} lost")
    assert not journal.others
    assert journal.slowest_s < REQUEST_S + 5
    assert lost <= 8, (
        "what was acknowledged in the last moment before it was killed may be lost, nothing else"
    )


async def test_a_slot_moves_under_load_and_nothing_is_lost(cluster: ClusterTopology) -> None:
    slot = slot_of_key(APPS[0])
    source = cluster.owner(slot)
    target = next(node for node in cluster.masters if node is not source)

    async with open_stores(cluster.url, slow_s=REQUEST_S) as stores:
        journal = await under_load(
            stores, lambda: move_slot(cluster, slot, source, target), lambda: cluster.owner(slot) is target
        )
        lost = await count_lost(stores, journal)
        assert await stores.changes.read(APPS[0], {"product": "0"}, count=1, block_ms=50) == []
        claimed = await stores.intake.claim("w", APPS, count=1, block_ms=100)
        assert {batch.app_id for batch in claimed} == set(APPS)
    print(f"\ncluster, slot moved: {journal}, {lost} lost")
    assert not journal.others
    assert lost == 0


def move_slot(cluster: ClusterTopology, slot: int, source: Node, target: Node) -> None:
    """Move a slot as `redis-cli --cluster reshard` does."""
    source_id, target_id = (str(node.say("CLUSTER", "MYID")) for node in (source, target))
    target.say("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
    source.say("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
    while True:
        slot_keys = source.say("CLUSTER", "GETKEYSINSLOT", slot, 100)
        assert isinstance(slot_keys, list)
        if not slot_keys:
            break
        source.say("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *slot_keys)
    for node in (target, source, *cluster.masters):
        node.say("CLUSTER", "SETSLOT", slot, "NODE", target_id)


async def test_blocking_reads_of_a_cluster_wake_for_any_app(cluster: ClusterTopology) -> None:
    async with open_stores(cluster.url) as stores:
        assert await stores.intake.claim("w", APPS, count=1, block_ms=1) == []
        claiming = asyncio.create_task(stores.intake.claim("w", APPS, count=1, block_ms=10_000))
        await asyncio.sleep(0.3)
        await stores.intake.accept(APPS[2], "product", "put", b"[]", task_id="t", total=0, now_ms=1)
        (batch,) = await asyncio.wait_for(claiming, 5)
        assert batch.app_id == APPS[2]
