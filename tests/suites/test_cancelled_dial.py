"""Opening a connection to a store that is cancelled at any step leaves no connection open."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from cluster.store.client.address import Address, ServerAddress
from cluster.store.client.handshake import dial_located
from cluster.store.client.multiplexer import ConnectionObserver
from tests.suites.waiting import until

STEPS = 40
"A connection is open after about ten turns of the event loop."
_OBSERVER = ConnectionObserver(answered=lambda: None, timed_out=lambda _: None, lost=lambda _: None)


async def test_a_connection_is_closed_whenever_its_opening_is_cancelled(tmp_path: Path) -> None:
    open_connections, finished = 0, 0

    async def answer(incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter) -> None:
        nonlocal open_connections
        open_connections += 1
        with contextlib.suppress(ConnectionError):
            while await incoming.read(1_000):
                outgoing.write(b"+PONG\r\n")
        open_connections -= 1
        outgoing.close()

    path = tmp_path / "s"
    server = await asyncio.start_unix_server(answer, path)

    async def locate() -> ServerAddress:
        return ServerAddress(path=str(path))

    dial = dial_located(Address(), locate)
    for steps in range(STEPS):
        opening = asyncio.create_task(dial(_OBSERVER, 5.0))
        for _ in range(steps):
            await asyncio.sleep(0)
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            (await opening).disconnect("the test has ended")
            finished += 1
        await until(lambda: not open_connections)
    server.close()
    await server.wait_closed()
    assert 0 < finished < STEPS
