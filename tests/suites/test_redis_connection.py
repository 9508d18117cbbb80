"""The way to Redis: sharing, deadlines, losses, refusals, and coming back, against a server of the test's own."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import socket
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import structlog

from cluster.errors import Fault, HouseError, TooLarge, Unavailable
from cluster.store import keys
from cluster.store.connect import OpenStores, open_stores
from cluster.store.ports import RecordPut
from tests.suites.doing import APP, NOW, accept, apply, body, claim_one, did, put
from tests.suites.redis_process import RedisProcess

pytestmark = pytest.mark.redis

EASY = {"hot_s": 5.0, "slow_s": 10.0}
"Deadlines that a busy test machine keeps, for tests that are not about deadlines."


@pytest.fixture
def own_server() -> Iterator[RedisProcess]:
    """A server this test may hurt."""
    server = RedisProcess()
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
async def stores(own_server: RedisProcess) -> AsyncIterator[OpenStores]:
    async with open_stores(own_server.url, **EASY) as opened:
        yield opened


@pytest.fixture
async def strict(own_server: RedisProcess) -> AsyncIterator[OpenStores]:
    """Stores with the deadlines of the product."""
    async with open_stores(own_server.url) as opened:
        yield opened


async def until_it_works(stores: OpenStores, within_s: float = 5.0) -> float:
    """Ask until an answer comes; return how long that took."""
    begin = time.monotonic()
    while True:
        try:
            await stores.records.get(APP, "product", "p1")
            return time.monotonic() - begin
        except Unavailable:
            assert time.monotonic() - begin < within_s, "the stores did not come back"
            await asyncio.sleep(0.01)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


# --- sharing -------------------------------------------------------------------------------------------------------


async def test_every_asker_gets_their_own_answer_whatever_is_cancelled(redis_stores: OpenStores) -> None:
    chance = random.Random(7)

    async def ask(n: int) -> bool:
        text = f"{n}:" + "x" * chance.randrange(3000)
        asked = redis_stores.server.ask("ECHO", text) if n % 3 else redis_stores.server.ask_slow("ECHO", text)
        if chance.random() < 0.3:
            await asyncio.sleep(0)
            return asked.cancel()
        return bool((await asked).decode() == text)

    for _ in range(20):
        assert all(await asyncio.gather(*(ask(n) for n in range(200))))


async def test_concurrent_readers_share_one_connection(own_server: RedisProcess, stores: OpenStores) -> None:
    await asyncio.gather(*(stores.records.get(APP, "product", f"p{n}") for n in range(500)))
    listed = own_server.say("CLIENT", "LIST").count(b" addr=")
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
        await redis_stores.pages.show(APP, "u:1", "page", ["p"] * 1_000_001)
    await redis_stores.pages.show(APP, "u:1", "page", ["p"])


async def test_an_error_of_ours_is_a_fault_and_hurts_nobody_else(redis_stores: OpenStores) -> None:
    await redis_stores.server.ask("SET", keys.recent(APP, "u:u1"), "not a list")
    wrong, right = await asyncio.gather(
        redis_stores.interactions.recent(APP, ["u:u1"]), redis_stores.access.version(), return_exceptions=True
    )
    assert isinstance(wrong, Fault)
    assert right == 0


async def test_a_stall_of_our_own_loop_is_not_taken_for_an_outage(strict: OpenStores) -> None:
    await strict.access.version()
    for _ in range(5):
        asked = asyncio.ensure_future(strict.access.version())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        time.sleep(0.2)  # noqa: ASYNC251 - the stall is the test
        assert await asked == 0
    assert not strict.server.is_away


# --- losses --------------------------------------------------------------------------------------------------------


async def test_a_cut_connection_is_dialled_again_without_anybody_noticing(
    own_server: RedisProcess, stores: OpenStores
) -> None:
    await stores.access.version()
    own_server.say("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await asyncio.sleep(0.02)
    assert await stores.access.version() == 0
    assert await stores.changes.read(APP, {"product": "0"}, count=1, block_ms=0) == []


async def test_a_killed_server_is_reported_at_once_and_found_again(
    own_server: RedisProcess, stores: OpenStores
) -> None:
    waiting = asyncio.create_task(stores.changes.read(APP, {"product": "0"}, count=1, block_ms=10_000))
    await asyncio.sleep(0.02)
    own_server.kill()
    with pytest.raises(Unavailable):
        await asyncio.wait_for(waiting, 1)
    refusals = []
    for _ in range(200):
        begin = time.monotonic()
        with pytest.raises(Unavailable) as refused:
            await stores.records.get(APP, "product", "p1")
        refusals.append(time.monotonic() - begin)
        assert refused.value.facts["retry_after_s"] == 1
    assert sorted(refusals)[190] < 0.005
    own_server.start()
    assert await until_it_works(stores) < 5
    await put(stores, RecordPut("p1", body("p1")))
    assert await stores.records.get(APP, "product", "p1") == body("p1")


async def test_a_server_that_forgot_the_scripts_gets_them_again(redis_stores: OpenStores) -> None:
    await put(redis_stores, RecordPut("p1", body("p1")), task_id="one")
    await redis_stores.server.ask("SCRIPT", "FLUSH")
    await put(redis_stores, RecordPut("p2", body("p2")), task_id="two")
    lease = await redis_stores.limits.take(APP, "k", "query", rate=1, burst=5, want=2, now_ms=NOW)
    assert lease.granted == 2


async def test_stores_may_be_opened_before_their_server(own_server: RedisProcess) -> None:
    own_server.kill()
    async with open_stores(own_server.url) as stores:
        with pytest.raises(Unavailable):
            await stores.access.version()
        own_server.start()
        await until_it_works(stores)


async def test_a_server_that_loads_its_data_is_waited_for(own_server: RedisProcess) -> None:
    own_server.say("CONFIG", "SET", "rdbcompression", "no")
    own_server.say("DEBUG", "POPULATE", "3000", "key", "4000")
    own_server.say("SAVE")
    own_server.kill()
    server = RedisProcess("--key-load-delay", "300", folder=own_server.folder)
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


# --- silence -------------------------------------------------------------------------------------------------------


async def test_a_paused_server_costs_a_deadline_and_then_nothing(
    own_server: RedisProcess, strict: OpenStores
) -> None:
    await put(strict, RecordPut("p1", body("p1")))
    files = open_files()
    own_server.pause()
    try:
        begin = time.monotonic()
        with pytest.raises(Unavailable):
            await strict.records.get(APP, "product", "p1")
        assert 0.1 < time.monotonic() - begin < 1.0
        for _ in range(3):
            await asyncio.gather(
                *(strict.records.get(APP, "product", "p1") for _ in range(50)), return_exceptions=True
            )
        assert strict.server.is_away
        begin = time.monotonic()
        for _ in range(1000):
            with pytest.raises(Unavailable):
                await strict.records.get(APP, "product", "p1")
        assert time.monotonic() - begin < 0.5
        assert open_files() <= files + 2
    finally:
        own_server.resume()
    assert await until_it_works(strict) < 5
    assert await strict.records.get(APP, "product", "p1") == body("p1")


async def test_waiting_reads_neither_open_the_breaker_nor_fill_the_hot_connection(stores: OpenStores) -> None:
    waiting = [
        asyncio.create_task(stores.changes.read(APP, {"product": "0"}, count=1, block_ms=600))
        for _ in range(30)
    ]
    begin = time.monotonic()
    while time.monotonic() - begin < 0.4:
        await stores.access.version()
    assert await asyncio.gather(*waiting) == [[]] * 30
    assert not stores.server.is_away


async def test_cancelled_waits_leave_no_connection_behind(
    own_server: RedisProcess, stores: OpenStores
) -> None:
    await stores.access.version()
    for _ in range(5):
        waiting = [
            asyncio.create_task(stores.changes.read(APP, {"product": "0"}, count=1, block_ms=60_000))
            for _ in range(10)
        ]
        await asyncio.sleep(0.03)
        for wait in waiting:
            wait.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.sleep(0.05)
    assert own_server.say("CLIENT", "LIST").count(b" addr=") <= 3


async def test_waits_share_connections_one_after_the_other(
    own_server: RedisProcess, stores: OpenStores
) -> None:
    for _ in range(4):
        await stores.changes.read(APP, {"product": "0"}, count=1, block_ms=1)
    assert own_server.say("CLIENT", "LIST").count(b" addr=") <= 4


async def test_closing_leaves_no_socket_behind(own_server: RedisProcess) -> None:
    files = open_files()
    for _ in range(3):
        stores = await open_stores(own_server.url)
        waiting = asyncio.create_task(stores.changes.read(APP, {"product": "0"}, count=1, block_ms=60_000))
        await asyncio.sleep(0.02)
        await stores.close()
        with pytest.raises(Unavailable):
            await waiting
        with pytest.raises(Unavailable):
            await stores.access.version()
    assert open_files() == files


# --- refusals ------------------------------------------------------------------------------------------------------


async def test_a_full_memory_refuses_writes_and_serves_reads(
    own_server: RedisProcess, stores: OpenStores
) -> None:
    await put(stores, RecordPut("p1", body("p1")))
    await accept(stores, "held")
    held = await claim_one(stores)
    own_server.say("CONFIG", "SET", "maxmemory", "1")
    for write in (
        accept(stores, "t2"),
        stores.interactions.append(APP, b"[]", [("u1", "v1", did(1))]),
        stores.idempotency.begin(APP, "token", "body"),
    ):
        with pytest.raises(Unavailable, match="out of memory"):
            await write
    assert await stores.records.get(APP, "product", "p1") == body("p1")
    assert await stores.tasks.get(APP, "product", "t2") is None
    assert await stores.interactions.recent(APP, ["u:u1", "a:v1"]) == []
    assert await stores.changes.last(APP, "interaction") == "0"
    assert not stores.server.is_away
    # What frees as much as it takes goes on, whole: the batch leaves the intake before its records are written.
    assert await apply(stores, held, [RecordPut("p2", body("p2"))])
    await stores.interactions.erase(APP, ["u1"])
    own_server.say("CONFIG", "SET", "maxmemory", "0")
    await accept(stores, "t2")
    assert await stores.records.get(APP, "product", "p2") == body("p2")


async def test_a_full_disk_refuses_writes_whole_and_serves_reads_and_recovers() -> None:
    server = RedisProcess(durable=True).start(keep_ignored_signals=True)
    try:
        async with open_stores(server.url, **EASY) as stores:
            await put(stores, RecordPut("p1", body("p1")))
            log = server.folder / "appendonly.aof"
            _limit_files(server.pid, log.stat().st_size + 20_000)
            accepted, refusal = [], None
            for n in range(2000):
                try:
                    await accept(stores, f"t{n}", [f"p{n}-{m}" for m in range(20)])
                    accepted.append(f"t{n}")
                except Unavailable as error:
                    refusal = error
                    break
            assert refusal is not None, "the limit on file sizes did not bite"
            assert "disk" in refusal.message
            refused = f"t{len(accepted)}"
            assert await stores.tasks.get(APP, "product", refused) is None
            assert await stores.intake.depth(APP) == len(accepted)
            assert await stores.records.get(APP, "product", "p1") == body("p1")
            with pytest.raises(Unavailable, match="disk"):
                await stores.interactions.append(APP, b"[]", [("u1", "", did(1))])
            assert await stores.interactions.recent(APP, ["u:u1"]) == []
            assert not stores.server.is_away
            _limit_files(server.pid, resource.RLIM_INFINITY)
            begin = time.monotonic()
            while True:
                try:
                    await accept(stores, refused)
                    break
                except Unavailable:
                    assert time.monotonic() - begin < 10
                    await asyncio.sleep(0.05)
            print(f"\nfull disk: writes again {time.monotonic() - begin:.1f} s after space returned")
    finally:
        server.stop()


def _limit_files(pid: int, size: int) -> None:
    """Let no file of a process grow beyond a size: its disk is full."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def test_a_wrong_password_is_refused_and_appears_nowhere(own_server: RedisProcess) -> None:
    own_server.say("CONFIG", "SET", "requirepass", "right-horse")
    right = own_server.url.replace("unix://", "unix://:right-horse@")
    async with open_stores(right) as stores:
        assert await stores.access.version() == 0
    for url in (right.replace("right-horse", "wrong-horse"), own_server.url):
        with structlog.testing.capture_logs() as logged:
            async with open_stores(url) as stores:
                with pytest.raises(Unavailable, match="password") as refused:
                    await stores.access.version()
        assert "horse" not in f"{refused.value!r} {refused.value.facts} {logged} {stores!r}"


async def test_the_server_may_be_reached_by_port_and_database() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = RedisProcess("--port", str(port), "--bind", "127.0.0.1").start()
    try:
        async with (
            open_stores(f"redis://127.0.0.1:{port}/0") as first,
            open_stores(f"redis://127.0.0.1:{port}/5") as fifth,
        ):
            await put(first, RecordPut("p1", body("p1")))
            assert await first.records.get(APP, "product", "p1") == body("p1")
            assert await fifth.records.get(APP, "product", "p1") is None
            assert await first.changes.read(APP, {"product": "0"}, count=1, block_ms=100)
            assert (await first.info("server"))["redis_version"]
            assert (await first.configuration("appendonly")) == {"appendonly": "no"}
    finally:
        server.stop()


@pytest.mark.parametrize("way", ["get", "recent", "take", "accept", "append", "claim", "read"])
async def test_every_way_in_says_unavailable_and_nothing_else(own_server: RedisProcess, way: str) -> None:
    async with open_stores(own_server.url) as stores:
        own_server.kill()
        calls: dict[str, Any] = {
            "get": lambda: stores.records.get(APP, "product", "p1"),
            "recent": lambda: stores.interactions.recent(APP, ["u:1", "a:1"]),
            "take": lambda: stores.limits.take(APP, "k", "q", rate=1, burst=1, want=1, now_ms=NOW),
            "accept": lambda: accept(stores, "t1"),
            "append": lambda: stores.interactions.append(APP, b"[]", []),
            "claim": lambda: stores.intake.claim("w", [APP], count=1, block_ms=50),
            "read": lambda: stores.changes.read(APP, {"product": "0"}, count=1, block_ms=50),
        }
        for _ in range(5):
            with pytest.raises(HouseError) as refused:
                await calls[way]()
            assert type(refused.value) is Unavailable
