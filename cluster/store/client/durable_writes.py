"""Writes that replicas confirm before they are acknowledged, with one WAIT for many of them.

    write -> its reply -> the next WAIT on the same connection -> acknowledged
                          writes whose replies come while a WAIT is under way share the one after it

WAIT counts the writes of its connection only. If the connection was lost in between, nothing is confirmed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from cluster.errors import Unavailable
from cluster.store.client.connection import RedisConnection
from cluster.store.client.multiplexer import Argument

WAIT_S = 1.0
"How long replicas may take."
UNCONFIRMED = "too few replicas of the store confirmed the write; it may be lost if the store fails now"


class DurableWrites:
    """Sends writes over one connection and waits until replicas confirm them."""

    def __init__(self, connection: RedisConnection, replicas: int) -> None:
        self._connection = connection
        self._replicas = replicas
        self._current: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def send(self, command: tuple[Argument, ...], within_s: float) -> Any:
        """Send a write and return its reply once enough replicas have it.

        Errors:
            Unavailable: the store can't be reached, or too few replicas confirmed; the write may have been
            applied
        """
        reply = await self._connection.send(command, within_s)
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(
                self._confirm(self._current, self._connection.wire_number)
            )
            # The callers may have ended by then; the error is for them, not for the loop.
            self._next.add_done_callback(lambda task: task.cancelled() or task.exception())
        # One WAIT serves many writes: a caller that is cancelled must not cancel it for the others.
        await asyncio.shield(self._next)
        return reply

    async def _confirm(self, earlier: asyncio.Task[None] | None, wire_number: int) -> None:
        if earlier is not None and not earlier.done():
            # A WAIT that was sent before this write's reply may not cover it, so this one shares the WAIT
            # after it.
            await asyncio.wait([earlier])
        self._current = self._next
        self._next = None
        # On a new connection WAIT would count no write at all and succeed at once.
        if self._connection.wire_number != wire_number:
            raise Unavailable("the connection was lost before replicas confirmed", retry_after_s=1)
        wait = ("WAIT", self._replicas, round(WAIT_S * 1000))
        confirmed = await self._connection.send(wait, WAIT_S + 1)
        if self._connection.wire_number != wire_number or confirmed < self._replicas:
            raise Unavailable(UNCONFIRMED, retry_after_s=2)
