"""One app with large changes beside others: reads of its log wait alone."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cluster.errors import Unavailable
from cluster.store.connect import OpenStores, open_stores
from cluster.store.data.intake import RecordPut
from tests.suites.doing import APP, OTHER, accept, body, put
from tests.suites.redis_process import RedisProcess

pytestmark = pytest.mark.redis

LARGE = 1 << 20
"Bytes of one reply from which a connection is slow."
RATE = 64 << 10
"Bytes a second of a slow connection."


@pytest.fixture
async def narrow_url(private_server: RedisProcess, tmp_path: Path) -> AsyncIterator[str]:
    """An address on which a connection gets slow once it has carried a large reply, as one over a long line."""

    async def carry(incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter, rate: int) -> None:
        carried = 0
        with contextlib.suppress(ConnectionError):
            while data := await incoming.read(1 << 16):
                carried = carried + len(data) if len(data) > 8_000 else 0
                if rate and carried > LARGE:
                    await asyncio.sleep(len(data) / rate)
                outgoing.write(data)
                await outgoing.drain()
        outgoing.close()

    serving, writers = set[asyncio.Task[None]](), list[asyncio.StreamWriter]()

    async def serve(incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter) -> None:
        replies, commands = await asyncio.open_unix_connection(str(private_server.socket))
        writers.extend((outgoing, commands))
        ways = (carry(incoming, commands, 0), carry(replies, outgoing, RATE))
        serving.update(map(asyncio.create_task, ways))

    relay = await asyncio.start_unix_server(serve, tmp_path / "relay")
    yield f"unix://{tmp_path / 'relay'}"
    relay.close()
    for way in serving:
        way.cancel()
    for writer in writers:
        writer.transport.abort()
    await asyncio.gather(*serving, *(each.wait_closed() for each in writers), return_exceptions=True)
    await relay.wait_closed()


@pytest.mark.alone
async def test_a_slow_app_neither_delays_nor_refuses_another_one(narrow_url: str) -> None:
    async with open_stores(narrow_url) as stores:
        await put(stores, RecordPut("p1", body("p1")), app_id=OTHER)
        for _ in range(3):
            await stores.interactions.append(APP, b"x" * (4 << 20), [])
        reading = [
            asyncio.create_task(stores.changes.read(APP, {"interaction": "0"}, count=100, block_ms=0))
            for _ in range(6)
        ]
        begin_s, slowest_s, answers = time.monotonic(), 0.0, 0
        while time.monotonic() - begin_s < 4.0:
            sent_s = time.monotonic()
            assert await stores.records.get(OTHER, "product", "p1") == body("p1")
            await accept(stores, f"t{answers}", app_id=OTHER)
            assert await stores.changes.first(OTHER, "product") == "0"
            slowest_s = max(slowest_s, time.monotonic() - sent_s)
            answers += 1
            await asyncio.sleep(0.02)  # an app has room for some hundred uploads that wait
        outcomes = await asyncio.gather(*reading, return_exceptions=True)
        # what the slow app costs is felt by the app alone
        assert any(isinstance(outcome, Unavailable) for outcome in outcomes)
        assert not stores.server.is_away
        assert (answers > 20, slowest_s < 1.0) == (True, True), (answers, slowest_s)


async def test_reads_of_the_change_log_share_no_connection_with_other_commands(
    private_server: RedisProcess, strict_stores: OpenStores
) -> None:
    def last_commands() -> list[str]:
        clients = private_server.say("CLIENT", "LIST").decode()
        return sorted(re.findall(r" cmd=(\S+)", clients))

    await strict_stores.interactions.append(APP, b"[]", [])
    await strict_stores.changes.read(APP, {"interaction": "0"}, count=1, block_ms=0)
    await strict_stores.changes.first(APP, "interaction")
    assert "hget" in last_commands()
    await strict_stores.changes.read(APP, {"interaction": "0"}, count=1, block_ms=0)
    assert "hget" in last_commands(), "the connection of other commands had none since"
