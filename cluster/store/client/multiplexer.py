"""One connection to Redis on which concurrent commands share their writes.

Commands sent in one turn of the event loop leave as one packet, and their replies arrive as one packet. So 32
concurrent requests need one system call in each direction instead of 32. Replies have the order of the
commands. Each command keeps a slot for its reply even after it is cancelled; otherwise timeouts and
cancellation would shift replies to other commands.

    send() -> slot at the end of the queue, bytes into the outbox
    end of the loop's turn -> the outbox is written; if the turn was long, the deadlines move
    bytes arrive -> one reply for each slot, oldest first
    sweep -> slots over their deadline fail with `Unavailable`, but keep their place
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import hiredis

from cluster.errors import KioskError, Unavailable
from cluster.store.client.error_replies import error_from_reply, is_server_alive, is_wrong_server

GRACE_S = 0.005
"""Delay between the timer and the sweep. After a stall of the event loop, timers may run before sockets are read
(uvloop does so). A reply that waits in a socket must be read first: the stall is not the store's fault."""
SILENCE_S = 4.0
"How long after its deadline an unanswered command keeps its connection open."

Argument = str | int | float | bytes

# Not hiredis's default `False`, which is also a value of RESP 3. None is the reply nil.
_MORE = object()
_pack = cast("Callable[[tuple[Argument, ...]], bytes]", hiredis.pack_command)


@dataclass(frozen=True, slots=True)
class ConnectionObserver:
    """Callbacks for the observations of a connection."""

    answered: Callable[[], None]
    "Called after a reply that proves a working server."
    timed_out: Callable[[int], None]
    "Called with the number of commands that passed their deadline."
    lost: Callable[[CommandMultiplexer], None]


class CommandMultiplexer(asyncio.Protocol):
    """A connected socket. An event loop creates it, one `RedisConnection` uses it; a lost one is never reused."""

    def __init__(self, loop: asyncio.AbstractEventLoop, watch: ConnectionObserver) -> None:
        self._loop = loop
        self._watch = watch
        self._parser = hiredis.Reader(notEnoughData=_MORE)
        self._slots: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._outbox: list[bytes] = []
        self._queued_s = 0.0
        "When the oldest command of the outbox came."
        self._transport: asyncio.Transport | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._sweep_at = 0.0
        self._grace = False
        self._why = "the connection to the store was lost"
        self.closed: asyncio.Future[None] = loop.create_future()

    @property
    def waiting(self) -> int:
        """Return the number of pending replies."""
        return len(self._slots)

    @property
    def unsent(self) -> int:
        """Return the number of bytes the server has not read yet."""
        return self._transport.get_write_buffer_size() if self._transport else 0

    def send(self, packed: bytes, future: asyncio.Future[Any], deadline: float) -> None:
        """Queue one packed command; `deadline` is a time of the loop's clock."""
        if self._transport is None or self._transport.is_closing():
            fail_future(future, Unavailable(self._why, retry_after_s=1))
            return
        if not self._outbox:
            self._queued_s = self._loop.time()
            # After the callbacks that are ready now, so that their commands leave in the same packet.
            self._loop.call_soon(self._flush)
        self._outbox.append(packed)
        self._slots.append((future, deadline))
        # One timer for all slots, since a timer for each command would cost time on every request.
        if self._sweep is None or deadline < self._sweep_at:
            self._arm(deadline)

    def disconnect(self, why: str) -> None:
        """Close the connection; everything in flight fails."""
        self._why = why
        if self._transport is not None:
            # `abort`, because `close` first flushes its buffer, which a dead peer never reads.
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        slots = self._slots
        parser.feed(data)
        alive = False
        try:
            while (reply := parser.gets()) is not _MORE:
                # Also for a caller that gave up: the slot keeps its place, because Redis answers in order.
                future, _ = slots.popleft()
                if not isinstance(reply, hiredis.ReplyError):
                    alive = True
                    if not future.done():
                        future.set_result(reply)
                    continue
                alive = alive or is_server_alive(reply)
                fail_future(future, error_from_reply(reply))
                if is_wrong_server(reply):
                    # The commands behind it would get the same answer, and the next connection asks
                    # Sentinel again.
                    self.disconnect("the store is not ready (its master changed)")
                    return
        # IndexError: a reply without a slot. From here on no reply can be matched to a command.
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

    def _flush(self) -> None:
        outbox = self._outbox
        self._outbox = []
        stall_s = self._loop.time() - self._queued_s
        if stall_s > GRACE_S:
            self._postpone(len(outbox), stall_s)
        if self._transport is not None and not self._transport.is_closing():
            # `join` copies every command; a single large body, as of an upload, is written without a copy.
            self._transport.write(outbox[0] if len(outbox) == 1 else b"".join(outbox))

    def _postpone(self, commands: int, by_s: float) -> None:
        """Move the deadlines of the newest commands: a busy process held them back, not the store."""
        # The newest slots belong to the outbox; after a loss of the connection there are fewer.
        # The timer stays: a sweep that comes too early only arms the next one.
        for place in range(max(0, len(self._slots) - commands), len(self._slots)):
            future, deadline = self._slots[place]
            self._slots[place] = (future, deadline + by_s)

    def _arm(self, at: float) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        self._sweep_at = at
        self._sweep = self._loop.call_at(at, self._expire)

    def _expire(self) -> None:
        """Fail commands past their deadline and arm the timer for the next one."""
        now = self._loop.time()
        self._sweep = None
        # First the timer, then `GRACE_S` later the sweep: what has arrived meanwhile is read in between.
        self._grace = bool(self._slots) and not self._grace
        if self._grace:
            self._arm(now + GRACE_S)
        if self._grace or not self._slots:
            return
        # Time-outs alone keep the connection, since late replies still come. Only a long silence means that
        # it is dead.
        if now > self._slots[0][1] + SILENCE_S:
            self.disconnect("the store fell silent")
            return
        overdue = 0
        following = self._slots[0][1] + SILENCE_S
        for future, deadline in self._slots:
            if deadline > now:
                following = min(following, deadline)
            elif fail_future(
                future, Unavailable("the store did not answer in time", retry_after_s=1, late=True)
            ):
                overdue += 1
        # At least 5 ms ahead: a timer that is due already would run in every turn of the loop.
        self._arm(max(following, now + 0.005))
        if overdue:
            self._watch.timed_out(overdue)

    def _fail(self, error: KioskError) -> None:
        slots = self._slots
        self._slots = deque()
        for future, _ in slots:
            fail_future(future, error)


def fail_future(future: asyncio.Future[Any], error: KioskError) -> bool:
    """Fail a future unless it is done; reading the error marks it as retrieved, so that no caller must await it."""
    if future.done():
        return False
    future.set_exception(error)
    # Else asyncio logs "exception was never retrieved" for every caller that was cancelled.
    future.exception()
    return True


def pack_command(command: tuple[Argument, ...]) -> bytes:
    """Encode a command for Redis. Any text is accepted, also the result of `name_of` for damaged bytes."""
    try:
        return _pack(command)
    except UnicodeEncodeError:
        return _pack(tuple(encode(item) if isinstance(item, str) else item for item in command))


def encode(text: str) -> bytes:
    """Encode any text, also the result of `name_of` for damaged bytes."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # Surrogates that `surrogateescape` did not make, as an escape in JSON may name any of them.
        return text.encode("utf-8", "surrogatepass")
