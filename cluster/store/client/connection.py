"""A persistent connection: connects on first use, reconnects after a loss, and bounds its queue."""

from __future__ import annotations

import asyncio
from typing import Any

from cluster.errors import KioskError, TooLarge, Unavailable
from cluster.store.client.breaker import Breaker
from cluster.store.client.handshake import Dial
from cluster.store.client.multiplexer import (
    SILENCE_S,
    Argument,
    CommandMultiplexer,
    ConnectionObserver,
    fail_future,
    pack_command,
)

MAX_WAITING = 4096
"Commands in flight on one connection; more indicate a serious fault."
MAX_UNSENT = 128 * 1024 * 1024
"Bytes the server has not read; two of the largest bodies and a few smaller ones."

MOST_ARGUMENTS = 1_000_000
"""Redis closes the connection on a command with more than 1,048,576; commands of other callers must not
fail by that."""


class RedisConnection:
    """Sends commands over one connection at a time."""

    def __init__(self, dial: Dial, breaker: Breaker, *, is_bulk: bool = False) -> None:
        """Take how to connect. Time-outs of an `is_bulk` connection never open the breaker."""
        self._dial_server = dial
        self._breaker = breaker
        self.wire_number = 0
        "Number of sockets so far; a command and its confirmation must use the same one."
        self._watch = ConnectionObserver(
            answered=breaker.answered,
            timed_out=breaker.bulk_timed_out if is_bulk else breaker.timed_out,
            lost=self._lost,
        )
        self._wire: CommandMultiplexer | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._early: list[tuple[bytes, asyncio.Future[Any], float]] = []
        self._closed = False

    def send(self, command: tuple[Argument, ...], within_s: float) -> asyncio.Future[Any]:
        """Send one command and return a future of its reply, which fails at the deadline.

        Errors:
            Unavailable: too many commands wait already
            TooLarge: more arguments than Redis accepts
        """
        if len(command) > MOST_ARGUMENTS:
            raise TooLarge("too many records in one call")
        loop = asyncio.get_running_loop()
        packed = pack_command(command)
        future: asyncio.Future[Any] = loop.create_future()
        deadline = loop.time() + within_s
        wire = self._wire
        if wire is None:
            self._send_when_connected(loop, packed, future, deadline)
        # Refused now rather than queued: a queue of commands that time out later helps nobody.
        elif wire.waiting >= MAX_WAITING or wire.unsent > MAX_UNSENT:
            raise Unavailable("too much is waiting for the store", retry_after_s=1)
        else:
            wire.send(packed, future, deadline)
        return future

    def disconnect(self, why: str) -> None:
        """Close the socket and stop dialling; the next command connects again."""
        if self._dialling is not None:
            self._dialling.cancel()
        if self._wire is not None:
            self._wire.disconnect(why)

    async def close(self) -> None:
        """Close for good and wait until the socket is closed."""
        self._closed = True
        if self._dialling is not None:
            self._dialling.cancel()
            # It takes the task's cancellation as a result, and still raises a cancellation of this call.
            await asyncio.gather(self._dialling, return_exceptions=True)
        self._resolve_early(Unavailable("the store was closed", retry_after_s=1))
        if (wire := self._wire) is not None:
            wire.disconnect("the store was closed")
            # The transport closes its socket in a later turn of the loop.
            await wire.closed

    def _send_when_connected(
        self, loop: asyncio.AbstractEventLoop, packed: bytes, future: asyncio.Future[Any], deadline: float
    ) -> None:
        """Wait for the connection, but no longer than the command's own deadline."""
        if self._closed or len(self._early) >= MAX_WAITING:
            raise Unavailable(
                "the store is closed" if self._closed else "too much is waiting", retry_after_s=1
            )
        self._early.append((packed, future, deadline))
        # The multiplexer, which watches deadlines, has not got the command yet.
        handle = loop.call_at(deadline, self._expire_early, future)
        future.add_done_callback(lambda _: handle.cancel())
        if self._dialling is None:
            self._dialling = loop.create_task(self._dial())

    def _expire_early(self, future: asyncio.Future[Any]) -> None:
        if fail_future(future, Unavailable("the store did not answer in time", retry_after_s=1, late=True)):
            self._watch.timed_out(1)

    async def _dial(self) -> None:
        error: KioskError | None = None
        try:
            wire = await self._dial_server(self._watch, SILENCE_S)
            # The server may close the socket between the greeting and this line; `_lost` did not know this
            # wire yet.
            if wire.closed.done():
                error = Unavailable("the connection to the store was lost", retry_after_s=1)
            else:
                self._wire = wire
                self.wire_number += 1
        except KioskError as caught:
            error = caught
        except asyncio.CancelledError:
            self._resolve_early(Unavailable("the connection to the store was given up", retry_after_s=1))
            raise
        finally:
            self._dialling = None
        if error is not None:
            # The breaker first: a caller that the failure wakes must already find it open.
            self._breaker.unreachable(error.message)
        self._resolve_early(error)

    def _resolve_early(self, error: KioskError | None) -> None:
        """Send the commands that waited for the connection, or fail them."""
        early = self._early
        self._early = []
        for packed, future, deadline in early:
            # Its caller has failed by its deadline; sending it now could execute a write that was reported
            # as failed.
            if future.done():
                continue
            if error is None and self._wire is not None:
                self._wire.send(packed, future, deadline)
            else:
                fail_future(future, error or Unavailable("the connection was lost", retry_after_s=1))

    def _lost(self, wire: CommandMultiplexer) -> None:
        # A lost wire may be older than the current one, which must stay.
        if wire is self._wire:
            self._wire = None
