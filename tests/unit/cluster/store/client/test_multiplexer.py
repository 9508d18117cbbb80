"""One connection: shared writes, replies in order, deadlines, losses. No socket here, only its two ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.errors import Fault, Unavailable
from cluster.store.client.multiplexer import SILENCE_S, CommandMultiplexer, ConnectionObserver, pack_command


class Socket(asyncio.Transport):
    """Remembers what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.wire: CommandMultiplexer | None = None
        self.closing = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        if not self.closing:
            self.closing = True
            assert self.wire is not None
            asyncio.get_running_loop().call_soon(self.wire.connection_lost, None)


class Line:
    """A wire, its socket, and what its watch heard."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        watch = ConnectionObserver(
            answered=lambda: self.heard.append("answered"),
            timed_out=lambda n: self.heard.append(f"{n} timed out"),
            lost=lambda _: self.heard.append("lost"),
        )
        self.loop = asyncio.get_running_loop()
        self.wire = CommandMultiplexer(self.loop, watch)
        self.socket = Socket()
        self.socket.wire = self.wire
        self.wire.connection_made(self.socket)

    def ask(self, *words: str, within_s: float = 5.0) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self.loop.create_future()
        self.wire.send(pack_command(words), future, self.loop.time() + within_s)
        return future


@pytest.fixture
async def line() -> Line:
    return Line()


async def test_commands_of_one_turn_leave_in_one_write(line: Line) -> None:
    replies = [line.ask("GET", str(n)) for n in range(3)]
    await asyncio.sleep(0)
    assert line.socket.writes == [b"".join(pack_command(("GET", str(n))) for n in range(3))]
    line.wire.data_received(b"$1\r\na\r\n$1\r\nb\r\n$-1\r\n")
    assert await asyncio.gather(*replies) == [b"a", b"b", None]
    assert line.heard == ["answered"]


async def test_replies_may_arrive_in_crumbs(line: Line) -> None:
    reply = line.ask("GET", "x")
    await asyncio.sleep(0)
    for byte in b"$5\r\nhello\r\n":
        line.wire.data_received(bytes([byte]))
    assert await reply == b"hello"


async def test_an_error_reply_fails_only_its_command(line: Line) -> None:
    first, second = line.ask("A"), line.ask("B")
    line.wire.data_received(b"-ERR no\r\n+OK\r\n")
    with pytest.raises(Fault):
        await first
    assert await second == b"OK"


async def test_a_cancelled_command_keeps_its_place(line: Line) -> None:
    first, second = line.ask("A"), line.ask("B")
    first.cancel()
    line.wire.data_received(b"+for-a\r\n+for-b\r\n")
    assert await second == b"for-b"


async def test_a_late_reply_goes_to_nobody(line: Line) -> None:
    slow, patient = line.ask("A", within_s=0.01), line.ask("B")
    with pytest.raises(Unavailable) as refused:
        await slow
    assert refused.value.facts["retry_after_s"] == 1
    assert line.heard == ["1 timed out"]
    line.wire.data_received(b"+for-a\r\n+for-b\r\n")
    assert await patient == b"for-b"


async def test_a_short_deadline_behind_a_long_one_is_kept(line: Line) -> None:
    long, short = line.ask("A", within_s=60), line.ask("B", within_s=0.01)
    begin = line.loop.time()
    with pytest.raises(Unavailable):
        await short
    assert line.loop.time() - begin < 1
    assert not long.done()
    long.cancel()


async def test_a_reply_received_during_a_stall_of_the_loop_is_in_time(line: Line) -> None:
    reply = line.ask("A", within_s=0.01)
    line.wire._expire()  # the timer comes first, as it may after a stall
    assert not reply.done()
    line.wire.data_received(b"+OK\r\n")
    assert await reply == b"OK"
    assert line.heard == ["answered"]


async def test_a_loss_fails_everything_in_flight_and_later_commands(line: Line) -> None:
    reply = line.ask("A")
    line.wire.disconnect("gone")
    with pytest.raises(Unavailable, match="gone"):
        await reply
    with pytest.raises(Unavailable, match="gone"):
        await line.ask("B")
    assert line.heard == ["lost"]
    assert line.wire.closed.done()


async def test_silence_long_after_a_deadline_gives_the_connection_up(line: Line) -> None:
    reply = line.ask("A", within_s=0.001)
    with pytest.raises(Unavailable):
        await reply
    future, deadline = line.wire._slots[0]
    line.wire._slots[0] = (future, deadline - SILENCE_S)
    line.wire._expire()
    line.wire._expire()
    await line.wire.closed
    assert line.heard == ["1 timed out", "lost"]


@pytest.mark.parametrize("junk", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+an unasked reply\r\n"])
async def test_what_is_no_reply_gives_the_connection_up(line: Line, junk: bytes) -> None:
    line.wire.data_received(junk)
    await line.wire.closed
    assert line.heard[-1] == "lost"


async def test_a_loading_server_is_no_sign_of_life(line: Line) -> None:
    reply = line.ask("GET", "x")
    line.wire.data_received(b"-LOADING Redis is loading\r\n")
    with pytest.raises(Unavailable):
        await reply
    assert line.heard == []


def test_any_text_can_be_packed() -> None:
    assert (
        pack_command(("GET", "\ud800", 1, b"\xff"))
        == b"*4\r\n$3\r\nGET\r\n$3\r\n\xed\xa0\x80\r\n$1\r\n1\r\n$1\r\n\xff\r\n"
    )
