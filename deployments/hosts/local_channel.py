"""Local channels: queries from an API replica to an engine's replica on the same machine, over a Unix socket.

    LocalChannelPool -> LocalChannel == <run directory>/lines/<engine>/<process>.sock == LocalChannelServer

A call over the Serve handle passes several threads and event loops. On one machine a socket needs one loop on each
side. Frame: length and number (4 bytes each, big-endian), then an encoded message; the empty reply says that the
engine failed. Replies decide what users see, so both sides check that only processes of this user can create the
folder or a socket in it.

Without a channel the client uses the Serve handle, so channels are optional.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import stat
import struct
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import structlog

from cluster.deadline import run_within
from cluster.errors import Fault, Unavailable

_HEAD = struct.Struct(">II")
_MOST_BYTES = 1 << 28
_MOST_WAITING = 256
"Queries in flight on a channel: twice the concurrency limit of an API replica."
_LOOK_EVERY_S = 0.5
_AVOIDED_S = 5.0

Answer = Callable[[bytes], Awaitable[bytes]]


def channel_folder(run_dir: Path, application: str) -> Path:
    """Return the socket folder of an engine's deployment; short, as Unix limits socket paths."""
    return run_dir / "lines" / hashlib.sha256(application.encode()).hexdigest()[:16]


def _is_private(run_dir: Path) -> bool:
    """Return whether a directory is not a link, belongs to this user and is closed to others."""
    try:
        status = run_dir.lstat()
    except OSError:
        return False
    mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return mine and not stat.S_IMODE(status.st_mode) & 0o077


class _FrameProtocol(asyncio.Protocol):
    """Splits received bytes into frames."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        at = 0
        buffer += data
        while len(buffer) - at >= _HEAD.size:
            length, number = _HEAD.unpack_from(buffer, at)
            # Before it is buffered: such a length is no frame of a peer.
            if length > _MOST_BYTES:
                self.drop()
                return
            first = at + _HEAD.size
            last = at + _HEAD.size + length
            if len(buffer) < last:
                break
            self.frame(number, bytes(buffer[first:last]))
            at = last
        # Once for all frames, because each removal moves the rest of the bytes.
        del buffer[:at]

    def frame(self, number: int, payload: bytes) -> None:
        """Handle one frame."""
        raise NotImplementedError

    def send(self, number: int, payload: bytes) -> None:
        """Send one frame, unless the connection is closing."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(_HEAD.pack(len(payload), number) + payload)

    def drop(self) -> None:
        """Abort the connection."""
        if self.transport is not None:
            self.transport.abort()


class LocalChannelServer:
    """Answers queries that arrive over local channels."""

    def __init__(self, answer: Answer, run_dir: Path, application: str) -> None:
        self._answer = answer
        self._run_dir = run_dir
        self._path = channel_folder(run_dir, application) / f"{os.getpid()}.sock"
        self._server: asyncio.AbstractServer | None = None
        self._connections: set[_ServerConnection] = set()

    async def open(self) -> None:
        """Start to accept connections of API replicas.

        Errors:
            OSError: the folder or the socket can't be created, or other users can access the run directory
        """
        for folder in (self._run_dir, self._path.parents[1], self._path.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(self._run_dir):
            raise PermissionError(f"{self._run_dir} is not ours alone")
        loop = asyncio.get_running_loop()
        # under another name until it listens: an API replica deletes a socket without a listener
        early = self._path.with_name(f".{self._path.name}")
        early.unlink(missing_ok=True)
        self._server = await loop.create_unix_server(
            lambda: _ServerConnection(self, self._connections), str(early)
        )
        early.chmod(0o600)
        early.replace(self._path)

    async def close(self) -> None:
        """Stop accepting connections and close the open ones; clients then use the Serve handle."""
        if self._server is None:
            return
        self._path.unlink(missing_ok=True)
        self._server.close()
        for channel in list(self._connections):
            channel.drop()

    async def reply(self, payload: bytes) -> bytes:
        """Return the reply to one query; empty after an exception."""
        try:
            return await self._answer(payload)
        except Exception:  # noqa: BLE001 - an internal error must not leave the API replica waiting
            structlog.get_logger().exception("question_failed")
            return b""


class _ServerConnection(_FrameProtocol):
    """One connection of an API replica, on the side of the engine's replica."""

    def __init__(self, server: LocalChannelServer, connections: set[_ServerConnection]) -> None:
        super().__init__()
        self._channel_server = server
        self._connections = connections
        self._under_way: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        for task in self._under_way:
            task.cancel()

    def frame(self, number: int, payload: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self._reply(number, payload))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _reply(self, number: int, payload: bytes) -> None:
        self.send(number, await self._channel_server.reply(payload))


class LocalChannel(_FrameProtocol):
    """One open connection to a replica, on the side of the API replica."""

    def __init__(self) -> None:
        super().__init__()
        self._pending: dict[int, asyncio.Future[bytes]] = {}
        self._number = 0
        self.lost = False

    def __len__(self) -> int:
        """Return the number of queries in flight."""
        return len(self._pending)

    async def ask(self, query: bytes, within_s: float) -> bytes:
        """Send a query and return its reply.

        Errors:
            Fault: the engine failed
            ConnectionError: the connection is lost; the query changed nothing, so the caller may send it elsewhere
            Unavailable: no answer in time; the channel is closed
        """
        if self.lost:
            raise ConnectionResetError("the line is lost")
        # Four bytes of the frame.
        number = self._number = (self._number + 1) & 0xFFFFFFFF
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        try:
            self.send(number, query)
            reply = await run_within(answer, within_s)
        # The replica may be stuck; without the channel, the next queries go over the Serve handle.
        except asyncio.TimeoutError:
            self.drop()
            raise Unavailable("the engine's deployment does not answer", retry_after_s=1) from None
        finally:
            self._pending.pop(number, None)
        if not reply:
            raise Fault("the engine failed to answer")
        return reply

    def frame(self, number: int, payload: bytes) -> None:
        answer = self._pending.pop(number, None)
        # The caller may have given up meanwhile.
        if answer is not None and not answer.done():
            answer.set_result(payload)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(ConnectionResetError("the line is lost"))
        self._pending.clear()


class LocalChannelPool:
    """The channels of one API replica to the replicas of one engine on this machine."""

    def __init__(self, run_dir: Path, application: str) -> None:
        self._run_dir = run_dir
        self._folder = channel_folder(run_dir, application)
        self._open: dict[str, LocalChannel] = {}
        self._avoided: dict[str, float] = {}
        self._look_at_s = 0.0
        self._connecting: set[asyncio.Task[None]] = set()
        self._turn = 0
        self.replicas = 0
        "The number of replicas on all machines."

    def select(self) -> LocalChannel | None:
        """Return the channel with the fewest queries in flight.

        Return None if there is no channel, or if it is the turn of replicas on other machines. The client then uses
        the Serve handle.

        Cost: a microsecond; twice a second it lists the folder. It never waits for a connection.
        """
        if time.monotonic() >= self._look_at_s:
            self._refresh()
        if self.replicas > len(self._open):
            self._turn = (self._turn + 1) % self.replicas
            if self._turn >= len(self._open):
                return None
        return self.spare()

    def spare(self) -> LocalChannel | None:
        """Return the channel with the fewest queries in flight, whoever's turn it is; None without one."""
        channel = min(self._open.values(), key=len, default=None)
        return channel if channel is not None and len(channel) < _MOST_WAITING else None

    async def close(self) -> None:
        """Close all channels."""
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        for channel in self._open.values():
            channel.drop()
        self._open.clear()

    def _refresh(self) -> None:
        now_s = time.monotonic()
        self._look_at_s = now_s + _LOOK_EVERY_S
        for name in [name for name, channel in self._open.items() if channel.lost]:
            del self._open[name]
            # the replica that closed the connection may be stopping or stuck
            self._avoided[name] = now_s + _AVOIDED_S
        names: list[str] = []
        with contextlib.suppress(OSError):
            names = os.listdir(self._folder) if _is_private(self._run_dir) else []
        self._avoided = {name: until_s for name, until_s in self._avoided.items() if until_s > now_s}
        for name in names:
            if not name.startswith(".") and name not in self._open and name not in self._avoided:
                # do not connect twice at a time, nor again at once if the replica does not accept
                self._avoided[name] = now_s + _AVOIDED_S
                task = asyncio.get_running_loop().create_task(self._connect(name))
                self._connecting.add(task)
                task.add_done_callback(self._connecting.discard)

    async def _connect(self, name: str) -> None:
        path = self._folder / name
        try:
            _, channel = await asyncio.get_running_loop().create_unix_connection(LocalChannel, str(path))
        except ConnectionRefusedError:
            # a killed process left it behind
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        except OSError:
            return
        else:
            self._open[name] = channel
