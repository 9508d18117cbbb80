"""The address of a Redis server, parsed from a URL, and the first commands of a connection.

redis://[user:password@]host[:port][/db]      rediss:// the same over TLS
unix://[user:password@]/path/to/socket[?db=0]
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from cluster.errors import Invalid, Unavailable
from cluster.store.redis.multiplexer import CommandMultiplexer, ConnectionObserver, pack


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed Redis URL. Exactly one of `path` and `host` is set; the password never shows in a repr."""

    path: str = ""
    host: str = ""
    port: int = 6379
    tls: bool = False
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    db: int = 0

    @classmethod
    def parse(cls, url: str) -> Address:
        """Parse a Redis URL.

        Errors:
            Invalid: not a Redis URL; the message never repeats it
        """
        try:
            parts = urlsplit(url)
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            username = unquote(parts.username or query.get("username", ""))
            password = unquote(parts.password or "") or query.get("password", "")
            if parts.scheme == "unix" and parts.path:
                return cls(
                    path=unquote(parts.path),
                    username=username,
                    password=password,
                    db=int(query.get("db", "0")),
                )
            if parts.scheme in ("redis", "rediss") and not parts.path.strip("/").strip("0123456789"):
                db = int(parts.path.strip("/") or query.get("db", "0"))
                return cls(
                    host=parts.hostname or "localhost",
                    port=parts.port or 6379,
                    tls=parts.scheme == "rediss",
                    username=username,
                    password=password,
                    db=db,
                )
        except ValueError:
            pass
        raise Invalid("the store's URL is none of redis://, rediss://, unix://")

    @property
    def place(self) -> str:
        """Return the server's address without user and password."""
        return self.path or f"{self.host}:{self.port}"

    async def dial(self, watch: ConnectionObserver, within_s: float) -> CommandMultiplexer:
        """Connect and authenticate: password, database, and a first reply that proves a working server.

        Errors:
            Unavailable: no server listens, it is not ready, or it refuses the password
        """
        try:
            return await asyncio.wait_for(self._dial(watch), within_s)
        except asyncio.TimeoutError:
            raise Unavailable("the store did not answer in time", retry_after_s=1) from None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise Unavailable("the store can't be reached", retry_after_s=1, reason=reason) from None

    async def _dial(self, watch: ConnectionObserver) -> CommandMultiplexer:
        loop = asyncio.get_running_loop()
        transport: asyncio.BaseTransport
        if self.path:
            transport, wire = await loop.create_unix_connection(
                lambda: CommandMultiplexer(loop, watch), self.path
            )
        else:
            context = ssl.create_default_context() if self.tls else None
            transport, wire = await loop.create_connection(
                lambda: CommandMultiplexer(loop, watch), self.host, self.port, ssl=context
            )
            plain = transport.get_extra_info("socket")
            if plain is not None:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            # The caller sets the deadlines; here they only must not expire first.
            far = loop.time() + 3600
            greetings: list[asyncio.Future[Any]] = []
            for command in self._greeting():
                greetings.append(loop.create_future())
                wire.send(pack(command), greetings[-1], far)
            for reply in await asyncio.gather(*greetings, return_exceptions=True):
                if isinstance(reply, BaseException):
                    raise reply
        except BaseException:
            wire.disconnect("the connection to the store was given up")
            raise
        return wire

    def _greeting(self) -> list[tuple[str, ...]]:
        commands: list[tuple[str, ...]] = []
        if self.password:
            commands.append(
                ("AUTH", self.username, self.password) if self.username else ("AUTH", self.password)
            )
        if self.db:
            commands.append(("SELECT", str(self.db)))
        return [*commands, ("PING",)]
