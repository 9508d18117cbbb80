"""A person is erased while the master of Redis dies behind Sentinel: nothing of the person is left on the new master.

`HOUSE_FAILOVERS` is the number of moments at which the master dies.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from actors.intake.client import Erasures
from cluster.clock import SystemClock, iso_ms
from cluster.errors import Unavailable
from cluster.records.erasure import Erasure
from tests.suites import canary
from tests.suites.redis_topologies import SentinelTopology
from tests.suites.redis_writers import count_lost, write_until
from tests.suites.test_forget_person import World, open_world

pytestmark = [pytest.mark.redis, pytest.mark.timeout(300), pytest.mark.usefixtures("allow_world")]
MOMENTS_S = [n * 0.05 for n in range(int(os.environ.get("HOUSE_FAILOVERS", "10")))]
WITHIN_S = 120.0


@pytest.mark.parametrize("moment_s", MOMENTS_S)
async def test_a_person_is_erased_although_the_master_dies(tmp_path: Path, moment_s: float) -> None:
    topology = SentinelTopology()
    try:
        async with open_world(f"{topology.url}?wait_replicas=1", tmp_path) as world:
            await canary.upload(world.stores, "product", [{"product_id": "p1", "type": "book"}], world.now_ms)
            await canary.open_experiment(world.stores, world.now_ms)
            await canary.live(world.stores, world.now_ms, iso_ms(world.now_ms - 60_000))
            await world.settled()
            assert await world.traces()
            stop = asyncio.Event()
            writing = asyncio.create_task(write_until(world.stores, stop, ("wiki",), writers=2))
            ordered = asyncio.create_task(order(world))
            await asyncio.sleep(moment_s)
            await asyncio.to_thread(topology.master.kill)
            erasure, repeats = await ordered
            receipt = await wait_for_receipt(world, erasure)
            stop.set()
            journal = await writing
            lost = await count_lost(world.stores, journal)
            print(
                f"\nmaster killed {moment_s:.2f} s after the order: ordered after {repeats} refusals, "
                f"left {receipt.left}; others: {journal}, {lost} lost"
            )
            assert topology.has_failed_over()
            assert await world.traces() == []
            assert lost == 0
    finally:
        topology.stop()


async def order(world: World) -> tuple[Erasure, int]:
    """Order the erasure as a client does, again after each refusal; return it and the number of refusals."""
    erasures, repeats = Erasures(world.stores, SystemClock()), 0
    while True:
        try:
            return await erasures.order(
                canary.APP, request_id="r", by="command", user_id=canary.USER
            ), repeats
        except Unavailable:
            repeats += 1
            await asyncio.sleep(0.2)


async def wait_for_receipt(world: World, erasure: Erasure) -> Erasure:
    """Return the finished receipt; the store may be away meanwhile."""
    until_s = asyncio.get_running_loop().time() + WITHIN_S
    while asyncio.get_running_loop().time() < until_s:
        try:
            receipt = await world.stores.erasures.read(canary.APP, erasure.erasure_id)
            if receipt is not None and receipt.status == "finished":
                return receipt
        except Unavailable:
            pass
        await asyncio.sleep(0.1)
    raise AssertionError("the erasure does not end")
