"""Implement the client over redis-py for commands, jobs and actors, outside of requests.

It takes several times the processor time of the multiplexed client (`docs/decisions`) and has a pool of
connections. redis-py finds masters and follows moved slots. Replies keep the form that the server sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from redis.asyncio import Redis, RedisCluster
from redis.credentials import CredentialProvider
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

from cluster.deadline import run_within
from cluster.errors import KioskError, TooLarge, Unavailable
from cluster.store.client.address import Address, Credentials
from cluster.store.client.connection import MOST_ARGUMENTS
from cluster.store.client.discovery import library_options, open_cluster, open_sentinel
from cluster.store.client.durable_writes import UNCONFIRMED, WAIT_S
from cluster.store.client.error_replies import ScriptMissing, error_from_reply
from cluster.store.client.multiplexer import Argument, encode
from cluster.store.client.redis_client import BLOCK_GRACE_S, MAX_WAITERS, SLOW_S
from cluster.store.client.routing import WRITES, group_by_slot, join_cursor, slot_of, split_cursor
from cluster.store.client.script import Script

MOST_AT_ONCE = 16
"Commands in flight; each has a separate connection."

_CODES: tuple[tuple[type[RedisError], str], ...] = (
    (NoScriptError, "NOSCRIPT"),
    (ReadOnlyError, "READONLY"),
    (BusyLoadingError, "LOADING"),
    (MasterDownError, "MASTERDOWN"),
    (ClusterDownError, "CLUSTERDOWN"),
    (TryAgainError, "TRYAGAIN"),
    (OutOfMemoryError, "OOM"),
    (NoPermissionError, "NOPERM"),
    (AuthorizationError, "NOPERM"),
    (AuthenticationError, "WRONGPASS"),
)
"redis-py takes the code off these."


class LibraryClient:
    """`RedisClient` over redis-py."""

    def __init__(self, address: Address, *, slow_s: float = SLOW_S) -> None:
        self._address = address
        self._slow_s = slow_s
        self._redis: Redis | RedisCluster | None = None
        self._sentinels: list[Redis] = []
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._waiting = 0
        self._closed = False
        self.is_away = False

    def execute(self, *command: Argument) -> Awaitable[Any]:
        """Return a coroutine that sends a command and returns its reply."""
        return self.execute_slow(*command)

    def execute_slow(self, *command: Argument) -> Awaitable[Any]:
        """Return a coroutine that sends a command and returns its reply."""
        if command[0] == "SCAN" and self._address.kind == "cluster":
            return self._scan(command)
        return self._ask(command, writes=command[0] in WRITES)

    async def run(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[Argument],
        *,
        hot: bool = False,
        is_bulk: bool = False,
    ) -> Any:
        """Run a script and return its reply."""
        writes = script.writes and not hot
        try:
            return await self._ask(("EVALSHA", script.digest, len(keys), *keys, *args), writes=writes)
        # As in `MultiplexedClient.run`: EVAL runs the script and loads it.
        except ScriptMissing:
            return await self._ask(("EVAL", script.text, len(keys), *keys, *args), writes=writes)

    async def wait(self, *command: Argument, block_ms: int) -> Any:
        """Send a command that blocks up to `block_ms` on a separate connection, and return its reply.

        Errors:
            Unavailable: the store is unreachable, or too many callers wait already
        """
        if self._closed or self._waiting >= MAX_WAITERS:
            raise Unavailable("too many are waiting for news from the store", retry_after_s=1)
        self._waiting += 1
        try:
            return await self._send(command, block_ms / 1000 + BLOCK_GRACE_S)
        finally:
            self._waiting -= 1

    async def execute_everywhere(self, *command: Argument) -> list[Any]:
        """Send a command without keys to every master and return the replies."""
        if self._address.kind != "cluster":
            return [await self._ask(command)]
        return [await self._ask(command, node=node) for node in await self._masters()]

    def group(self, names: Sequence[str]) -> list[list[str]]:
        """Return keys in groups that one command may name together."""
        return group_by_slot(names) if self._address.kind == "cluster" else [list(names)]

    async def ready(self, within_s: float = 2.0) -> bool:
        """Return whether the server answers within a time."""
        try:
            await run_within(self._ask(("PING",)), within_s)
        except (KioskError, asyncio.TimeoutError):
            return False
        return True

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        library = self._redis
        self._redis = None
        if library is not None:
            await library.aclose()
            if isinstance(library, Redis):
                await library.connection_pool.disconnect()
        await asyncio.gather(*(sentinel.aclose() for sentinel in self._sentinels), return_exceptions=True)

    async def _ask(self, command: tuple[Argument, ...], *, writes: bool = False, node: Any = None) -> Any:
        async with self._room:
            return await self._send(command, self._slow_s, confirmed=writes, node=node)

    async def _send(
        self, command: tuple[Argument, ...], within_s: float, *, confirmed: bool = False, node: Any = None
    ) -> Any:
        if len(command) > MOST_ARGUMENTS:
            raise TooLarge("too many records in one call")
        replicas = self._address.wait_replicas if confirmed else 0
        try:
            library = self._open()
            call = self._call(library, command, node) if not replicas else self._call_surely(library, command)
            reply = await run_within(call, within_s + (WAIT_S if replicas else 0))
        except (asyncio.TimeoutError, TimeoutError):
            self.is_away = True
            raise Unavailable("the store did not answer in time", retry_after_s=1) from None
        except (RedisError, OSError) as error:
            refusal = house_error(error)
            self.is_away = isinstance(error, (ConnectionError, OSError, RedisClusterException))
            if isinstance(error, ReadOnlyError) and isinstance(self._redis, Redis):
                # The server is no longer a master; the next connection may reach another server.
                await self._redis.connection_pool.disconnect(inuse_connections=False)
            raise refusal from None
        self.is_away = False
        return reply

    async def _call(self, library: Redis | RedisCluster, command: tuple[Argument, ...], node: Any) -> Any:
        packed = [command[0], *map(_encode, command[1:])]
        if isinstance(library, Redis):
            return await library.execute_command(*packed)
        await library.initialize()
        if node is None:
            # This client determines the slot itself; redis-py would request the positions of keys from the
            # server.
            slot = slot_of(command)
            nodes = library.nodes_manager
            node = nodes.default_node if slot is None else _master_of(library, slot)
        return await library.execute_command(*packed, target_nodes=node)

    async def _call_surely(self, library: Redis | RedisCluster, command: tuple[Argument, ...]) -> Any:
        """Send a write and WAIT over one connection."""
        wait = ("WAIT", self._address.wait_replicas, round(WAIT_S * 1000))
        if isinstance(library, RedisCluster):
            await library.initialize()
            slot = slot_of(command)
            node = library.nodes_manager.default_node if slot is None else _master_of(library, slot)
            client = Redis(
                host=str(node.host), port=int(node.port), single_connection_client=True, **self._options()
            )
        else:
            # A connection of its own: WAIT counts the writes of its connection only, and a pool could give
            # another one.
            client = library.client()
        client.response_callbacks.clear()
        try:
            reply = await client.execute_command(command[0], *map(_encode, command[1:]))
            # The write has happened in any case; the caller learns that it may be lost in a failover.
            if await client.execute_command(*wait) < self._address.wait_replicas:
                raise Unavailable(UNCONFIRMED, retry_after_s=2)
            return reply
        finally:
            await client.aclose()

    async def _scan(self, command: tuple[Argument, ...]) -> list[Any]:
        masters = await self._masters()
        number, cursor = split_cursor(command[1])
        if number >= len(masters):
            raise Unavailable(
                "the masters of the store changed during a walk through its keys", retry_after_s=1
            )
        master_cursor, names = await self._ask(("SCAN", cursor, *command[2:]), node=masters[number])
        return [join_cursor(number, master_cursor, len(masters)), names]

    async def _masters(self) -> list[Any]:
        await self._ask(("PING",))
        assert isinstance(self._redis, RedisCluster)
        # Sorted, because a cursor of SCAN names a master by its number in this list.
        return sorted(self._redis.get_primaries(), key=lambda node: str(node.name))

    def _options(self) -> dict[str, Any]:
        options = library_options(self._address, self._address.credentials)
        if self._address.credentials.password_file:
            options |= {
                "username": None,
                "password": None,
                "credential_provider": _Provider(self._address.credentials),
            }
        return options

    def _open(self) -> Redis | RedisCluster:
        if self._closed:
            raise Unavailable("the store is closed", retry_after_s=1)
        if self._redis is None:
            self._redis = self._make()
        return self._redis

    def _make(self) -> Redis | RedisCluster:
        address = self._address
        options = self._options()
        if address.kind == "cluster":
            cluster = open_cluster(
                address, address.endpoints, **options, max_connections=MOST_AT_ONCE + MAX_WAITERS
            )
            # redis-py itself parses the reply of COMMAND; this client parses all others.
            kept = {
                name: call for name, call in cluster.response_callbacks.items() if name.startswith("COMMAND")
            }
            cluster.response_callbacks.clear()
            cluster.response_callbacks.update(kept)
            return cluster
        options["db"] = address.db
        if address.kind == "sentinel":
            sentinel = open_sentinel(address)
            self._sentinels = list(sentinel.sentinels)
            # A connection sends PING to the server before its first use. A demoted master refuses only
            # writes, but redis-py closes the connection then.
            library: Redis = sentinel.master_for(address.service, **options)
        else:
            (endpoint,) = address.endpoints
            if endpoint.path:
                library = Redis(unix_socket_path=endpoint.path, **options)
            else:
                library = Redis(host=endpoint.host, port=endpoint.port, **options)
        library.response_callbacks.clear()
        return library


class _Provider(CredentialProvider):
    """Reads the password at each new connection."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        username, password = self._credentials.read()
        return (username, password) if username else (password,)


def house_error(error: Exception) -> KioskError:
    """Convert an error of redis-py to the project's error class."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return error_from_reply(ResponseError(f"{code} {error}"))
    if isinstance(error, ResponseError):
        return error_from_reply(error)
    reason = str(error)[:200]
    return Unavailable("the store can't be reached", retry_after_s=1, reason=reason)


def _master_of(library: RedisCluster, slot: int) -> Any:
    return library.nodes_manager.get_node_from_slot(slot)


def _encode(item: Argument) -> bytes:
    if isinstance(item, bytes):
        return item
    if isinstance(item, str):
        return encode(item)
    # `repr` is the shortest text that gives the same float again.
    return repr(item).encode() if isinstance(item, float) else b"%d" % item
