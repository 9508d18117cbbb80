"""A line between a door and an engine's replica on the same machine: questions and answers over a socket.

    door  Lines ──▶ Line ═══════ <run directory>/lines/<engine>/<process>.sock ═══════ Switchboard ──▶ host  replica

Serve's handle finds replicas anywhere, and for that every call passes several threads and loops; on one machine a
socket does with one each way. Frames: length and number (4 bytes each, big-endian), then a pickled message. What is
pickled can do anything, so both sides see to it that nobody but this user's processes, which trust each other
already, can have made the folder or a socket in it.

Whoever finds no line, or loses one, asks through the handle: lines are never needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import pickle
import stat
import struct
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import structlog

from cluster.errors import Fault, Refusal, Unavailable

_HEAD = struct.Struct(">II")
_MOST_BYTES = 1 << 28
_MOST_WAITING = 256
"Questions under way on a line: twice what a door lets in."
_LOOK_EVERY_S = 0.5
_AVOIDED_S = 5.0

Answer = Callable[[Any], Awaitable[Any]]


def channel_folder(run_dir: Path, application: str) -> Path:
    """Name the folder for the lines of an engine's deployment: short, for the path of a socket must be."""
    return run_dir / "lines" / hashlib.sha256(application.encode()).hexdigest()[:16]


def _is_private(run_dir: Path) -> bool:
    """Is a directory a real one, ours, and closed to others? Then so is everything below it."""
    try:
        found = run_dir.lstat()
    except OSError:
        return False
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return mine and not stat.S_IMODE(found.st_mode) & 0o077


class _FrameProtocol(asyncio.Protocol):
    """Cuts what arrives into frames."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        buffer, at = self._buffer, 0
        buffer += data
        while len(buffer) - at >= _HEAD.size:
            length, number = _HEAD.unpack_from(buffer, at)
            if length > _MOST_BYTES:
                self.drop()
                return
            first, last = at + _HEAD.size, at + _HEAD.size + length
            if len(buffer) < last:
                break
            self.frame(number, bytes(buffer[first:last]))
            at = last
        del buffer[:at]

    def frame(self, number: int, payload: bytes) -> None:
        """Take one frame."""
        raise NotImplementedError

    def send(self, number: int, payload: bytes) -> None:
        """Send one frame, unless nobody is there any more."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(_HEAD.pack(len(payload), number) + payload)

    def drop(self) -> None:
        """End the connection now."""
        if self.transport is not None:
            self.transport.abort()


# --- the replica's side --------------------------------------------------------------------------------------------


class LocalChannelServer:
    """Answers what comes over lines."""

    def __init__(self, answer: Answer, run_dir: Path, application: str) -> None:
        self._answer = answer
        self._run_dir = run_dir
        self._path = channel_folder(run_dir, application) / f"{os.getpid()}.sock"
        self._server: asyncio.AbstractServer | None = None
        self._connections: set[_ServerConnection] = set()

    async def open(self) -> None:
        """Let doors in.

        Errors:
            OSError: the folder can't be made, or the socket, or others reach the run directory
        """
        for folder in (self._run_dir, self._path.parents[1], self._path.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(self._run_dir):
            raise PermissionError(f"{self._run_dir} is not ours alone")
        loop = asyncio.get_running_loop()
        # under another name until it listens: a door takes a socket where nobody listens for a dead one's
        early = self._path.with_name(f".{self._path.name}")
        early.unlink(missing_ok=True)
        self._server = await loop.create_unix_server(
            lambda: _ServerConnection(self, self._connections), str(early)
        )
        early.chmod(0o600)
        early.replace(self._path)

    async def close(self) -> None:
        """Let nobody in any more; who waits for an answer asks elsewhere."""
        if self._server is None:
            return
        self._path.unlink(missing_ok=True)
        self._server.close()
        for channel in list(self._connections):
            channel.drop()

    async def reply(self, payload: bytes) -> bytes:
        """Answer one question; what goes wrong is an answer too."""
        try:
            found = await self._answer(pickle.loads(payload))
        except Exception:  # noqa: BLE001 - a fault of ours must not leave the door waiting
            structlog.get_logger().exception("question_failed")
            found = Refusal.of(Fault("the engine failed to answer"))
        return pickle.dumps(found, pickle.HIGHEST_PROTOCOL)


class _ServerConnection(_FrameProtocol):
    """One door's line, as the replica sees it."""

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


# --- the door's side -----------------------------------------------------------------------------------------------


class LocalChannel(_FrameProtocol):
    """One open line, as the door sees it."""

    def __init__(self) -> None:
        super().__init__()
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self.lost = False

    def __len__(self) -> int:
        """Count the questions under way."""
        return len(self._pending)

    async def ask(self, query: Any, within_s: float) -> Any:
        """Ask and wait.

        Errors:
            ConnectionError: the line is lost; the question changes nothing and may be asked elsewhere
            Unavailable: no answer in time; the line is given up
        """
        if self.lost:
            raise ConnectionResetError("the line is lost")
        number = self._number = (self._number + 1) & 0xFFFFFFFF
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        try:
            self.send(number, pickle.dumps(query, pickle.HIGHEST_PROTOCOL))
            return await asyncio.wait_for(answer, within_s)
        except asyncio.TimeoutError:
            self.drop()
            raise Unavailable("the engine's deployment does not answer", retry_after_s=1) from None
        finally:
            self._pending.pop(number, None)

    def frame(self, number: int, payload: bytes) -> None:
        answer = self._pending.pop(number, None)
        if answer is not None and not answer.done():
            answer.set_result(pickle.loads(payload))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(ConnectionResetError("the line is lost"))
        self._pending.clear()


class LocalChannelPool:
    """The lines of one door to the replicas of one engine that are on this machine."""

    def __init__(
        self, run_dir: Path, application: str, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._run_dir = run_dir
        self._folder = channel_folder(run_dir, application)
        self._monotonic_s = monotonic_s
        self._open: dict[str, LocalChannel] = {}
        self._avoided: dict[str, float] = {}
        self._look_at_s = 0.0
        self._connecting: set[asyncio.Task[None]] = set()
        self._turn = 0
        self.replicas = 0
        "So many replicas answer, on whatever machine."

    def select(self) -> LocalChannel | None:
        """Give the line with the fewest questions under way; None when there is none, or it is the turn of replicas
        on other machines: they get their share through the handle.

        Cost: a microsecond; twice a second a look into the folder. Nobody waits for a connection.
        """
        if self._monotonic_s() >= self._look_at_s:
            self._refresh()
        if self.replicas > len(self._open):
            self._turn = (self._turn + 1) % self.replicas
            if self._turn >= len(self._open):
                return None
        channel = min(self._open.values(), key=len, default=None)
        return channel if channel is not None and len(channel) < _MOST_WAITING else None

    async def close(self) -> None:
        """Hang up."""
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        for channel in self._open.values():
            channel.drop()
        self._open.clear()

    def _refresh(self) -> None:
        now_s = self._monotonic_s()
        self._look_at_s = now_s + _LOOK_EVERY_S
        for name in [name for name, channel in self._open.items() if channel.lost]:
            del self._open[name]
            # whoever hung up may be leaving, or stuck
            self._avoided[name] = now_s + _AVOIDED_S
        names: list[str] = []
        with contextlib.suppress(OSError):
            names = os.listdir(self._folder) if _is_private(self._run_dir) else []
        self._avoided = {name: until_s for name, until_s in self._avoided.items() if until_s > now_s}
        for name in names:
            if not name.startswith(".") and name not in self._open and name not in self._avoided:
                # not twice at a time, and not at once again when nobody is there
                self._avoided[name] = now_s + _AVOIDED_S
                task = asyncio.get_running_loop().create_task(self._connect(name))
                self._connecting.add(task)
                task.add_done_callback(self._connecting.discard)

    async def _connect(self, name: str) -> None:
        path = self._folder / name
        try:
            _, channel = await asyncio.get_running_loop().create_unix_connection(LocalChannel, str(path))
        except ConnectionRefusedError:
            # left by a process that was killed
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        except OSError:
            return
        else:
            self._open[name] = channel
