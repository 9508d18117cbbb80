"""Implement the client of one Redis server for the request path: commands of one turn share a packet.

    execute        short reads of the hot path            own connection, 150 ms
    execute_slow   all other non-blocking commands        own connection, 2 s: a large upload never delays a read
    durable writes if replicas are to confirm them        own connection, which WAIT blocks meanwhile
    run            a script, on either of them            sent in full again if the server lost it
    run, is_bulk   a script that moves many megabytes     own connection, whose time-outs the breaker ignores
    wait           XREAD and XREADGROUP with BLOCK        a connection each while they wait, ignored likewise

One breaker guards all of them. While it is open, a background task probes the server every half second, and
the first working reply closes it without a restart or a call. If Sentinel names the server, the client
queries Sentinel at every dial, and twice a second while the server is away. The client then closes
connections to any other server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from cluster.clock import Clock
from cluster.deadline import run_within
from cluster.errors import KioskError, Unavailable
from cluster.meter import Meter
from cluster.store.client.address import Address, ServerAddress
from cluster.store.client.breaker import Breaker
from cluster.store.client.connection import RedisConnection
from cluster.store.client.durable_writes import DurableWrites
from cluster.store.client.error_replies import ScriptMissing
from cluster.store.client.handshake import Locate, dial_located
from cluster.store.client.multiplexer import SILENCE_S, Argument
from cluster.store.client.redis_client import BLOCK_GRACE_S, HOT_S, MAX_WAITERS, SLOW_S
from cluster.store.client.routing import WRITES
from cluster.store.client.script import Script
from cluster.tracing import Span, current_span

PROBE_S = 0.5
LOCATE_S = 2.0
"How long Sentinel may take to name the server."


class MultiplexedClient:
    """`RedisClient` of one server, or of the master that Sentinel names."""

    def __init__(
        self,
        address: Address,
        locate: Locate,
        *,
        clock: Clock,
        meter: Meter,
        hot_s: float = HOT_S,
        slow_s: float = SLOW_S,
        on_away: Callable[[], None] = lambda: None,
    ) -> None:
        self._hot_s = hot_s
        self._slow_s = slow_s
        self._locate = locate
        self._is_located = address.kind == "sentinel"
        self._place: ServerAddress | None = None
        self._on_away = on_away
        self._breaker = Breaker(clock, meter, self._start_probing)
        self._dial = dial_located(address, self._find)
        self._hot = RedisConnection(self._dial, self._breaker)
        self._slow = RedisConnection(self._dial, self._breaker)
        # Connections open at their first command, so an unused one costs nothing.
        self._bulk = RedisConnection(self._dial, self._breaker, is_bulk=True)
        self._sure = RedisConnection(self._dial, self._breaker)
        self._durable = DurableWrites(self._sure, address.wait_replicas) if address.wait_replicas else None
        self._idle: list[RedisConnection] = []
        self._waiting: set[RedisConnection] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._knocking: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_away(self) -> bool:
        """Return whether the breaker is open."""
        return self._breaker.is_open

    def execute(self, *command: Argument) -> asyncio.Future[Any]:
        """Send a short command of the hot path and return a future of its reply.

        Errors:
            Unavailable: at once while the store is unreachable, else by the deadline
        """
        self._breaker.check()
        reply = self._hot.send(command, self._hot_s)
        span = current_span()
        return reply if span is None else _trace_command(span, command, reply)

    def execute_slow(self, *command: Argument) -> asyncio.Future[Any]:
        """Send a command with a large argument or reply and return a future of its reply."""
        self._breaker.check()
        if self._durable is not None and command[0] in WRITES:
            reply: asyncio.Future[Any] = asyncio.ensure_future(self._durable.send(command, self._slow_s))
        else:
            reply = self._slow.send(command, self._slow_s)
        span = current_span()
        return reply if span is None else _trace_command(span, command, reply)

    async def ask(self, *command: Argument) -> Any:
        """Send a command whose slot is on its way to this server of a cluster."""
        self._breaker.check()
        # Nothing may come between the two, so both are sent before anything is awaited.
        if self._durable is not None:
            self._sure.send(("ASKING",), self._slow_s)
            return await self._durable.send(command, self._slow_s)
        self._slow.send(("ASKING",), self._slow_s)
        return await self._slow.send(command, self._slow_s)

    async def run(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[Argument],
        *,
        hot: bool = False,
        is_bulk: bool = False,
    ) -> Any:
        """Run a script and return its reply; its keys are exactly `keys`."""
        if self._durable is not None and script.writes and not hot:
            return await self._run_durably(self._durable, script, keys, args)
        ask = self.execute if hot else self._execute_bulk if is_bulk else self.execute_slow
        try:
            return await ask("EVALSHA", script.digest, len(keys), *keys, *args)
        except ScriptMissing:
            # The server restarted or changed: EVAL runs the script and loads it for the next EVALSHA.
            return await ask("EVAL", script.text, len(keys), *keys, *args)

    def _execute_bulk(self, *command: Argument) -> asyncio.Future[Any]:
        self._breaker.check()
        return self._bulk.send(command, self._slow_s)

    async def _run_durably(
        self, durable: DurableWrites, script: Script, keys: Sequence[str], args: Sequence[Argument]
    ) -> Any:
        self._breaker.check()
        try:
            return await durable.send(("EVALSHA", script.digest, len(keys), *keys, *args), self._slow_s)
        except ScriptMissing:
            return await durable.send(("EVAL", script.text, len(keys), *keys, *args), self._slow_s)

    async def wait(self, *command: Argument, block_ms: int) -> Any:
        """Send a command that blocks up to `block_ms` on a separate connection, and return its reply.

        Errors:
            Unavailable: the store is unreachable, or too many callers wait already
        """
        self._breaker.check()
        if self._closed or len(self._waiting) >= MAX_WAITERS:
            raise Unavailable("too many are waiting for news from the store", retry_after_s=1)
        pipe = self._idle.pop() if self._idle else RedisConnection(self._dial, self._breaker, is_bulk=True)
        self._waiting.add(pipe)
        kept = False
        try:
            reply = await pipe.send(command, block_ms / 1000 + BLOCK_GRACE_S)
            kept = True
            return reply
        # A reply is still pending, so the connection is closed: the next caller would wait behind this
        # block.
        except Unavailable:
            raise
        except KioskError:
            kept = True
            raise
        finally:
            self._waiting.discard(pipe)
            if kept and not self._closed:
                self._idle.append(pipe)
            else:
                self._discard(pipe)

    async def execute_everywhere(self, *command: Argument) -> list[Any]:
        """Send a command without keys and return its reply as the only one."""
        return [await self.execute_slow(*command)]

    def group(self, names: Sequence[str]) -> list[list[str]]:
        return [list(names)]

    async def ready(self, within_s: float = 2.0) -> bool:
        """Wait for the first connections; return False when the server does not answer yet (reconnecting
        continues).
        """
        pings = [self._hot.send(("PING",), within_s), self._slow.send(("PING",), within_s)]
        replies = await asyncio.gather(*pings, return_exceptions=True)
        return not any(isinstance(reply, BaseException) for reply in replies)

    async def close(self) -> None:
        """Close every connection and wait until the sockets are gone."""
        self._closed = True
        if self._knocking is not None:
            # First: on closed connections its PING would fail for ever, so the task would never end.
            self._knocking.cancel()
            await asyncio.gather(self._knocking, return_exceptions=True)
        pipes = [self._hot, self._slow, self._bulk, self._sure, *self._idle, *self._waiting]
        self._idle.clear()
        await asyncio.gather(*(pipe.close() for pipe in pipes), *self._leaving)

    def _discard(self, pipe: RedisConnection) -> None:
        """Close a connection whose pending reply is abandoned, without blocking the caller."""
        task = asyncio.get_running_loop().create_task(pipe.close())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _find(self) -> ServerAddress:
        self._place = await self._locate()
        return self._place

    def _start_probing(self) -> None:
        if not self._closed and (self._knocking is None or self._knocking.done()):
            self._knocking = asyncio.get_running_loop().create_task(self._probe())
        self._on_away()

    async def _probe(self) -> None:
        """Ask whether the server answers, and where it is, until it answers."""
        seeking = asyncio.create_task(self._seek()) if self._is_located else None
        try:
            while self._breaker.is_open:
                try:
                    # Past the breaker, which refuses everybody else. The reply itself closes it.
                    await self._hot.send(("PING",), SILENCE_S)
                except KioskError:
                    await asyncio.sleep(PROBE_S)
        finally:
            if seeking is not None:
                seeking.cancel()
                await asyncio.gather(seeking, return_exceptions=True)

    async def _seek(self) -> None:
        """Close connections to a server that is no longer the master; the next command goes to the new
        one.
        """
        while True:
            await asyncio.sleep(PROBE_S)
            try:
                now = await run_within(self._locate(), LOCATE_S)
            except (KioskError, asyncio.TimeoutError):
                continue
            # The old master may be alive and only demoted: without a disconnect its connections would stay
            # with it.
            if now != self._place:
                for pipe in (self._hot, self._slow, self._bulk, self._sure, *self._idle, *self._waiting):
                    pipe.disconnect("the master of the store changed")


def _trace_command(
    span: Span, command: tuple[Argument, ...], reply: asyncio.Future[Any]
) -> asyncio.Future[Any]:
    """Trace a command until its reply; the span has its name, and none of its keys and values."""
    word = command[0].decode() if isinstance(command[0], bytes) else str(command[0])
    facts = {"db.system.name": "redis", "db.operation.name": word}
    step = span.child(f"redis {word}", kind="client", attributes=facts)

    def end(done: asyncio.Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        step.end("cancelled" if done.cancelled() else type(error).__name__ if error is not None else "")

    reply.add_done_callback(end)
    return reply
