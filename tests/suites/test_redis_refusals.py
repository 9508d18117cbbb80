"""What Redis refuses: a full memory, a full disk, a wrong password; and what callers hear."""

from __future__ import annotations

import asyncio
import resource
import time
from typing import Any

import pytest
import structlog

from cluster.errors import KioskError, Unavailable
from cluster.process.free_ports import free_ports
from cluster.store.connect import OpenStores, open_stores
from cluster.store.data.intake import RecordPut
from tests.suites.doing import APP, NOW, accept, apply, body, claim_one, put, view_interaction
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_waiting import EASY

pytestmark = pytest.mark.redis


async def test_a_full_memory_refuses_writes_and_serves_reads(
    private_server: RedisProcess, easy_stores: OpenStores
) -> None:
    await put(easy_stores, RecordPut("p1", body("p1")))
    await accept(easy_stores, "held")
    batch = await claim_one(easy_stores)
    private_server.say("CONFIG", "SET", "maxmemory", "1")
    for write in (
        accept(easy_stores, "t2"),
        easy_stores.interactions.append(APP, b"[]", [("u1", "v1", view_interaction(1))]),
        easy_stores.idempotency.begin(APP, "token", "body"),
    ):
        with pytest.raises(Unavailable, match="out of memory"):
            await write
    assert await easy_stores.records.get(APP, "product", "p1") == body("p1")
    assert await easy_stores.tasks.get(APP, "product", "t2") is None
    assert await easy_stores.interactions.recent(APP, ["u:u1", "a:v1"]) == []
    assert await easy_stores.changes.last(APP, "interaction") == "0"
    assert not easy_stores.server.is_away
    # What frees as much as it takes goes on, whole: the batch leaves the intake before its records are written.
    assert await apply(easy_stores, batch, [RecordPut("p2", body("p2"))])
    await easy_stores.interactions.erase(APP, ["u1"])
    private_server.say("CONFIG", "SET", "maxmemory", "0")
    await accept(easy_stores, "t2")
    assert await easy_stores.records.get(APP, "product", "p2") == body("p2")


async def test_a_full_disk_refuses_writes_whole_and_serves_reads_and_recovers() -> None:
    server = RedisProcess(durable=True).start(keep_ignored_signals=True)
    try:
        async with open_stores(server.url, **EASY) as stores:
            await put(stores, RecordPut("p1", body("p1")))
            log = server.append_only_file
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
                await stores.interactions.append(APP, b"[]", [("u1", "", view_interaction(1))])
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


async def test_a_wrong_password_is_refused_and_appears_nowhere(private_server: RedisProcess) -> None:
    private_server.say("CONFIG", "SET", "requirepass", "right-horse")
    right = private_server.url.replace("unix://", "unix://:right-horse@")
    async with open_stores(right) as stores:
        assert await stores.access.version() == 0
    for url in (right.replace("right-horse", "wrong-horse"), private_server.url):
        with structlog.testing.capture_logs() as logged:
            async with open_stores(url) as stores:
                with pytest.raises(Unavailable, match="password") as refused:
                    await stores.access.version()
        assert "horse" not in f"{refused.value!r} {refused.value.facts} {logged} {stores!r}"


async def test_the_server_may_be_reached_by_port_and_database() -> None:
    [port] = free_ports(1)
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
async def test_every_entry_point_raises_only_unavailable(private_server: RedisProcess, way: str) -> None:
    async with open_stores(private_server.url) as stores:
        private_server.kill()
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
            with pytest.raises(KioskError) as refused:
                await calls[way]()
            assert type(refused.value) is Unavailable
