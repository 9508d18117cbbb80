"""One connection to Redis on which concurrent commands share their writes.

Commands sent in one turn of the event loop leave as one packet and their replies arrive as one packet, so
thirty-two readers cost one system call each way instead of thirty-two. Replies come in the order of the
commands; a slot per command waits for its reply even when nobody wants it any more, which is what keeps
timeouts and cancellation from shifting answers to the wrong asker.

    ask() -> slot at the end of the queue, bytes into the outbox
    end of the loop's turn -> the outbox is written
    bytes arrive -> one reply a slot, oldest first
    sweep -> slots over their deadline fail with `Unavailable`, but keep their place
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import hiredis

from cluster.errors import HouseError, Unavailable
from cluster.store.redis.error_replies import error_from_reply, is_server_alive

GRACE_S = 0.005
"""Between the timer and the sweep. After a stall of our own loop timers may run before sockets are read (uvloop
does so); a reply that waits in a socket must be read first, our stall is not the store's fault."""
SILENCE_S = 4.0
"How long after its deadline an unanswered command keeps its connection open."

Argument = str | int | float | bytes

_MORE = object()
_pack = cast("Callable[[tuple[Argument, ...]], bytes]", hiredis.pack_command)


@dataclass(frozen=True, slots=True)
class ConnectionObserver:
    """Whom a wire tells what it sees."""

    answered: Callable[[], None]
    "A reply came that proves a working server."
    timed_out: Callable[[int], None]
    "So many commands passed their deadline."
    lost: Callable[[CommandMultiplexer], None]


class CommandMultiplexer(asyncio.Protocol):
    """A connected socket. Made by an event loop, used by one `RedisConnection`, never used again once lost."""

    def __init__(self, loop: asyncio.AbstractEventLoop, watch: ConnectionObserver) -> None:
        self._loop = loop
        self._watch = watch
        self._reader = hiredis.Reader(notEnoughData=_MORE)
        self._slots: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._outbox: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._sweep_at = 0.0
        self._grace = False
        self._why = "the connection to the store was lost"
        self.closed: asyncio.Future[None] = loop.create_future()

    @property
    def waiting(self) -> int:
        """Replies still to come."""
        return len(self._slots)

    @property
    def unsent(self) -> int:
        """Bytes the server has not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport else 0

    def send(self, packed: bytes, future: asyncio.Future[Any], deadline: float) -> None:
        """Queue one packed command; `deadline` is a time of the loop's clock."""
        if self._transport is None or self._transport.is_closing():
            fail(future, Unavailable(self._why, retry_after_s=1))
            return
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(packed)
        self._slots.append((future, deadline))
        if self._sweep is None or deadline < self._sweep_at:
            self._arm(deadline)

    def disconnect(self, why: str) -> None:
        """Give the connection up; everything in flight fails."""
        self._why = why
        if self._transport is not None:
            self._transport.abort()

    # --- what the event loop calls -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        reader, slots = self._reader, self._slots
        reader.feed(data)
        alive = False
        try:
            while (reply := reader.gets()) is not _MORE:
                future, _ = slots.popleft()
                if not isinstance(reply, hiredis.ReplyError):
                    alive = True
                    if not future.done():
                        future.set_result(reply)
                    continue
                alive = alive or is_server_alive(reply)
                fail(future, error_from_reply(reply))
        except (hiredis.ProtocolError, IndexError):
            self.disconnect("the store sent something that is no reply")
            return
        if alive:
            self._watch.answered()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        self._fail(Unavailable(self._why, retry_after_s=1))
        if not self.closed.done():
            self.closed.set_result(None)
        self._watch.lost(self)

    # --- own turns -----------------------------------------------------------------------------------------

    def _flush(self) -> None:
        outbox, self._outbox = self._outbox, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(outbox[0] if len(outbox) == 1 else b"".join(outbox))

    def _arm(self, at: float) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        self._sweep_at = at
        self._sweep = self._loop.call_at(at, self._expire)

    def _expire(self) -> None:
        """Fail what is over its deadline and arm for the next one."""
        now = self._loop.time()
        self._sweep = None
        self._grace = bool(self._slots) and not self._grace
        if self._grace:
            self._arm(now + GRACE_S)
        if self._grace or not self._slots:
            return
        if now > self._slots[0][1] + SILENCE_S:
            self.disconnect("the store fell silent")
            return
        overdue = 0
        following = self._slots[0][1] + SILENCE_S
        for future, deadline in self._slots:
            if deadline > now:
                following = min(following, deadline)
            elif fail(future, Unavailable("the store did not answer in time", retry_after_s=1)):
                overdue += 1
        self._arm(max(following, now + 0.005))
        if overdue:
            self._watch.timed_out(overdue)

    def _fail(self, error: HouseError) -> None:
        slots, self._slots = self._slots, deque()
        for future, _ in slots:
            fail(future, error)


def fail(future: asyncio.Future[Any], error: HouseError) -> bool:
    """Fail a future unless it is done; asking for the error marks it as seen, so that nobody has to await it."""
    if future.done():
        return False
    future.set_exception(error)
    future.exception()
    return True


def pack(command: tuple[Argument, ...]) -> bytes:
    """Write a command as Redis reads it. Any text is accepted, also what `name_of` made of damaged bytes."""
    try:
        return _pack(command)
    except UnicodeEncodeError:
        return _pack(tuple(_encode(item) if isinstance(item, str) else item for item in command))


def text_of(raw: bytes) -> str:
    """Read stored text for people and replies; damaged bytes are replaced, never an error."""
    return raw.decode("utf-8", "replace")


def name_of(raw: bytes) -> str:
    """Read a stored name that goes back into a command: `pack` writes the same bytes again."""
    return raw.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
