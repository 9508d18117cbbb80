"""The way to Redis: sharing a connection, losing it, finding the server again."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from cluster.errors import Fault, TooLarge, Unavailable
from cluster.store import keys
from cluster.store.connect import OpenStores, open_stores
from cluster.store.data.intake import RecordPut
from tests.suites.doing import APP, NOW, body, claim_one, put
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_waiting import EASY, until_it_works

pytestmark = pytest.mark.redis


async def test_every_caller_gets_the_right_reply_under_cancellation(redis_stores: OpenStores) -> None:
    chance = random.Random(7)

    async def ask(n: int) -> bool:
        text = f"{n}:" + "x" * chance.randrange(3000)
        request = (
            redis_stores.server.execute("ECHO", text)
            if n % 3
            else redis_stores.server.execute_slow("ECHO", text)
        )
        if chance.random() < 0.3:
            await asyncio.sleep(0)
            return request.cancel()
        return bool((await request).decode() == text)

    for _ in range(20):
        assert all(await asyncio.gather(*(ask(n) for n in range(200))))


async def test_concurrent_readers_share_one_connection(
    private_server: RedisProcess, easy_stores: OpenStores
) -> None:
    await asyncio.gather(*(easy_stores.records.get(APP, "product", f"p{n}") for n in range(500)))
    listed = private_server.say("CLIENT", "LIST").count(b" addr=")
    assert listed == 3, "one for reads, one for the rest, and the one that asks"


async def test_a_large_upload_does_not_hold_up_reads(redis_stores: OpenStores) -> None:
    await put(redis_stores, RecordPut("p1", body("p1")))
    upload = asyncio.create_task(
        redis_stores.intake.accept(APP, "user", "put", b"x" * 30_000_000, task_id="big", total=1, now_ms=NOW)
    )
    reads = 0
    while not upload.done():
        assert await redis_stores.records.get(APP, "product", "p1") == body("p1")
        reads += 1
    assert reads > 1
    batch = await claim_one(redis_stores)
    assert len(batch.payload) == 30_000_000


async def test_a_command_too_long_for_redis_hurts_nobody_else(redis_stores: OpenStores) -> None:
    with pytest.raises(TooLarge):
        await redis_stores.server.execute("RPUSH", "a list", *["p"] * 1_000_001)
    await redis_stores.shown_products.record(APP, "u:1", "page", ["p"])


async def test_an_error_of_ours_is_a_fault_and_hurts_nobody_else(redis_stores: OpenStores) -> None:
    await redis_stores.server.execute("SET", keys.recent(APP, "u:u1"), "not a list")
    wrong, right = await asyncio.gather(
        redis_stores.interactions.recent(APP, ["u:u1"]), redis_stores.access.version(), return_exceptions=True
    )
    assert isinstance(wrong, Fault)
    assert right == 0


async def test_a_stalled_event_loop_is_no_outage(strict_stores: OpenStores) -> None:
    await strict_stores.access.version()
    for _ in range(5):
        version = asyncio.ensure_future(strict_stores.access.version())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        time.sleep(0.2)  # noqa: ASYNC251 - the stall is the test
        assert await version == 0
    assert not strict_stores.server.is_away


async def test_the_time_until_a_command_leaves_is_not_the_stores(
    private_server: RedisProcess, strict_stores: OpenStores
) -> None:
    await strict_stores.access.version()
    for _ in range(3):
        private_server.say("CLIENT", "PAUSE", "260", "ALL")
        version = asyncio.ensure_future(strict_stores.access.version())
        await asyncio.sleep(0)
        time.sleep(0.2)  # noqa: ASYNC251 - the stall is the test
        assert await version == 0
    assert not strict_stores.server.is_away


async def test_a_cut_connection_is_dialled_again_without_anybody_noticing(
    private_server: RedisProcess, easy_stores: OpenStores
) -> None:
    await easy_stores.access.version()
    private_server.say("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await asyncio.sleep(0.02)
    assert await easy_stores.access.version() == 0
    assert await easy_stores.changes.read(APP, {"product": "0"}, count=1, block_ms=0) == []


async def test_a_killed_server_is_reported_at_once_and_reconnected(
    private_server: RedisProcess, easy_stores: OpenStores
) -> None:
    waiting = asyncio.create_task(easy_stores.changes.read(APP, {"product": "0"}, count=1, block_ms=10_000))
    await asyncio.sleep(0.02)
    private_server.kill()
    with pytest.raises(Unavailable):
        await asyncio.wait_for(waiting, 1)
    refusals = []
    for _ in range(200):
        begin = time.monotonic()
        with pytest.raises(Unavailable) as refused:
            await easy_stores.records.get(APP, "product", "p1")
        refusals.append(time.monotonic() - begin)
        assert refused.value.facts["retry_after_s"] == 1
    assert sorted(refusals)[190] < 0.005
    private_server.start()
    assert await until_it_works(easy_stores) < 5
    await put(easy_stores, RecordPut("p1", body("p1")))
    assert await easy_stores.records.get(APP, "product", "p1") == body("p1")


async def test_a_server_that_forgot_the_scripts_gets_them_again(redis_stores: OpenStores) -> None:
    await put(redis_stores, RecordPut("p1", body("p1")), task_id="one")
    await redis_stores.server.execute("SCRIPT", "FLUSH")
    await put(redis_stores, RecordPut("p2", body("p2")), task_id="two")
    lease = await redis_stores.limits.take(APP, "k", "query", rate=1, burst=5, want=2, now_ms=NOW)
    assert lease.granted == 2


async def test_stores_may_be_opened_before_their_server(private_server: RedisProcess) -> None:
    private_server.kill()
    async with open_stores(private_server.url) as stores:
        with pytest.raises(Unavailable):
            await stores.access.version()
        private_server.start()
        assert await until_it_works(stores) < 5


async def test_a_server_that_loads_its_data_is_waited_for(private_server: RedisProcess) -> None:
    private_server.say("CONFIG", "SET", "rdbcompression", "no")
    fill = "for i = 1, 3000 do redis.call('set', 'key:' .. i, string.rep('x', 4000)) end"
    private_server.say("EVAL", fill, "0")
    private_server.say("SAVE")
    private_server.kill()
    server = RedisProcess("--key-load-delay", "300", folder=private_server.folder)
    async with open_stores(server.url, **EASY) as stores:
        starting = asyncio.get_running_loop().run_in_executor(None, server.start)
        try:
            reasons = set()
            while not starting.done():
                try:
                    await stores.access.version()
                except Unavailable as error:
                    reasons.add(error.message)
                await asyncio.sleep(0.005)
            await starting
            assert any("loading" in reason for reason in reasons), reasons
            assert await until_it_works(stores) < 2
        finally:
            server.kill()
