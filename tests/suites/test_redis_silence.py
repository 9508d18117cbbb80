"""A Redis that says nothing, and those who wait for it on purpose."""

from __future__ import annotations

import asyncio
import time

import pytest

from cluster.errors import Unavailable
from cluster.store.connect import OpenStores, open_stores
from cluster.store.data.intake import RecordPut
from tests.suites.doing import APP, accept, body, put, require
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_waiting import open_files, until_it_works
from tests.suites.waiting import until

pytestmark = pytest.mark.redis


async def test_a_paused_server_costs_a_deadline_and_then_nothing(
    private_server: RedisProcess, strict_stores: OpenStores
) -> None:
    await put(strict_stores, RecordPut("p1", body("p1")))
    files = open_files()
    private_server.pause()
    try:
        begin = time.monotonic()
        with pytest.raises(Unavailable):
            await strict_stores.records.get(APP, "product", "p1")
        assert 0.1 < time.monotonic() - begin < 1.0
        for _ in range(3):
            await asyncio.gather(
                *(strict_stores.records.get(APP, "product", "p1") for _ in range(50)), return_exceptions=True
            )
        assert strict_stores.server.is_away
        # Nobody waits, so only this process's own work counts, whatever else the machine does.
        begin = time.process_time()
        for _ in range(1000):
            with pytest.raises(Unavailable):
                await strict_stores.records.get(APP, "product", "p1")
        assert time.process_time() - begin < 0.5
        assert open_files() <= files + 2
    finally:
        private_server.resume()
    assert await until_it_works(strict_stores) < 5
    assert await strict_stores.records.get(APP, "product", "p1") == body("p1")


async def test_only_a_command_that_the_store_never_got_is_marked_unsent(
    private_server: RedisProcess, strict_stores: OpenStores
) -> None:
    """Another replica may repeat what is unsent; what was sent may have been done."""

    async def is_unsent() -> bool:
        with pytest.raises(Unavailable) as refused:
            await strict_stores.interactions.append(APP, b"[]", [])
        assert refused.value.facts.get("late", False) is not refused.value.facts.get("unsent", False)
        return bool(refused.value.facts.get("unsent"))

    await strict_stores.interactions.append(APP, b"[]", [])
    private_server.pause()
    try:
        assert not await is_unsent(), "it lies in the socket of the server"
        while not strict_stores.server.is_away:
            await asyncio.gather(
                *(strict_stores.records.get(APP, "product", "p1") for _ in range(9)), return_exceptions=True
            )
        assert await is_unsent(), "the breaker is open"
    finally:
        private_server.resume()
    assert await until_it_works(strict_stores) < 5
    private_server.kill()
    # no connection, and nobody listens
    async with open_stores(private_server.url) as fresh:
        with pytest.raises(Unavailable) as refused:
            await fresh.interactions.append(APP, b"[]", [])
        assert refused.value.facts["unsent"]


async def test_who_polls_a_task_waits_while_the_server_is_busy_with_it(
    private_server: RedisProcess, strict_stores: OpenStores
) -> None:
    await accept(strict_stores, "t1")
    private_server.pause()
    try:
        poll = asyncio.create_task(strict_stores.tasks.get(APP, "product", "t1"))
        await asyncio.sleep(0.4)
        assert not poll.done()
    finally:
        private_server.resume()
    task = require(await poll)
    assert task.status == "queued"


async def test_waiting_reads_neither_open_the_breaker_nor_fill_the_hot_connection(
    easy_stores: OpenStores,
) -> None:
    waiting = [
        asyncio.create_task(easy_stores.changes.read(APP, {"product": "0"}, count=1, block_ms=600))
        for _ in range(30)
    ]
    begin = time.monotonic()
    while time.monotonic() - begin < 0.4:
        await easy_stores.access.version()
    assert await asyncio.gather(*waiting) == [[]] * 30
    assert not easy_stores.server.is_away


def count_clients(server: RedisProcess) -> int:
    return server.say("CLIENT", "LIST").count(b" addr=")


async def test_cancelled_waits_leave_no_connection_behind(
    private_server: RedisProcess, easy_stores: OpenStores
) -> None:
    await easy_stores.access.version()
    for _ in range(5):
        waiting = [
            asyncio.create_task(easy_stores.changes.read(APP, {"product": "0"}, count=1, block_ms=60_000))
            for _ in range(10)
        ]
        await asyncio.sleep(0.03)
        for wait in waiting:
            wait.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    # this one, hot, slow and bulk
    await until(lambda: count_clients(private_server) <= 4)


async def test_waits_share_connections_one_after_the_other(
    private_server: RedisProcess, easy_stores: OpenStores
) -> None:
    for _ in range(4):
        await easy_stores.changes.read(APP, {"product": "0"}, count=1, block_ms=1)
    assert count_clients(private_server) <= 5  # and the one that waits


async def test_closing_leaves_no_socket_behind(private_server: RedisProcess) -> None:
    files = open_files()
    for _ in range(3):
        stores = await open_stores(private_server.url)
        waiting = asyncio.create_task(stores.changes.read(APP, {"product": "0"}, count=1, block_ms=60_000))
        await asyncio.sleep(0.02)
        await stores.close()
        with pytest.raises(Unavailable):
            await waiting
        with pytest.raises(Unavailable):
            await stores.access.version()
    await until(lambda: open_files() == files)
