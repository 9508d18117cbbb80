"""Opening a connection to one Redis server: TLS, password, database, and a reply that proves a working server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from cluster.deadline import run_within
from cluster.errors import Unavailable
from cluster.store.client.address import Address, ServerAddress
from cluster.store.client.multiplexer import CommandMultiplexer, ConnectionObserver, pack_command

Dial = Callable[[ConnectionObserver, float], Awaitable[CommandMultiplexer]]
"Connects within a number of seconds; raises `Unavailable` when no server answers."
Locate = Callable[[], Awaitable[ServerAddress]]
"Returns the current address of the server."


def dial_located(address: Address, locate: Locate) -> Dial:
    """Return a dial that locates the server each time.

    A server that Sentinel named must report the role of a master, because Sentinels may name it before its
    promotion.
    """

    async def dial(watch: ConnectionObserver, within_s: float) -> CommandMultiplexer:
        # Held as a task, so that a connection that opens in the moment of a cancellation can be closed
        # below.
        opening = asyncio.ensure_future(_dial_now(address, locate, watch))
        try:
            return await run_within(opening, within_s)
        except asyncio.CancelledError:
            # The connection may have been opened in the same moment; then nobody else knows it.
            if opening.done() and not opening.cancelled() and opening.exception() is None:
                opening.result().disconnect("the connection to the store was given up")
            raise
        except asyncio.TimeoutError:
            raise Unavailable("the store did not answer in time", retry_after_s=1, unsent=True) from None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise Unavailable(
                "the store can't be reached", retry_after_s=1, reason=reason, unsent=True
            ) from None

    return dial


async def _dial_now(address: Address, locate: Locate, watch: ConnectionObserver) -> CommandMultiplexer:
    endpoint = await locate()
    loop = asyncio.get_running_loop()
    transport: asyncio.BaseTransport
    if endpoint.path:
        transport, wire = await loop.create_unix_connection(
            lambda: CommandMultiplexer(loop, watch), endpoint.path
        )
    else:
        # Read afresh: certificates are replaced while a process runs.
        context = address.tls.open_context() if address.tls else None
        transport, wire = await loop.create_connection(
            lambda: CommandMultiplexer(loop, watch), endpoint.host, endpoint.port, ssl=context
        )
        plain = transport.get_extra_info("socket")
        if plain is not None:
            # A peer that lost its power closes nothing; keep-alive notices it on a connection without
            # traffic.
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    try:
        # The caller sets the deadlines; these must only not expire first.
        far = loop.time() + 3600
        greetings: list[asyncio.Future[Any]] = []
        for command in _greeting(address):
            greetings.append(loop.create_future())
            # None waits for the reply before it, so the greeting costs one round trip.
            wire.send(pack_command(command), greetings[-1], far)
        reply: Any = None
        for reply in await asyncio.gather(*greetings, return_exceptions=True):
            if isinstance(reply, BaseException):
                raise reply
        if address.kind == "sentinel" and reply[0] != b"master":
            raise Unavailable("the store has no master at the moment", retry_after_s=1)
    except BaseException:
        wire.disconnect("the connection to the store was given up")
        raise
    return wire


def _greeting(address: Address) -> list[tuple[str, ...]]:
    commands: list[tuple[str, ...]] = []
    username, password = address.credentials.read()
    if password:
        commands.append(("AUTH", username, password) if username else ("AUTH", password))
    if address.db:
        commands.append(("SELECT", str(address.db)))
    # The last reply proves that the server serves: LOADING answers it with an error.
    return [*commands, ("ROLE",) if address.kind == "sentinel" else ("PING",)]
