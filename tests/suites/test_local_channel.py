from __future__ import annotations

import asyncio
import os
import stat
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.client import RemoteRecommenderClient
from actors.serving.engine_messages import ENGINE_MESSAGES
from cluster.clock import SystemClock
from cluster.errors import Fault, Unavailable
from cluster.records.engine import EngineStatus, application_name
from deployments.hosts.engine_connections import EngineConnections
from deployments.hosts.local_channel import (
    Answer,
    LocalChannel,
    LocalChannelPool,
    LocalChannelServer,
    channel_folder,
)
from tests.fakes.stores.memory import memory_stores
from tests.suites.doing import require
from tests.suites.waiting import until

ENGINE = "engine"
QUERY = UserQuery(kind="user_to_products", app_id="a", engine_id="default", user_id="ada")


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short, as the path of a socket must be."""
    return channel_folder(tmp_path_factory.mktemp("l"), ENGINE)


@asynccontextmanager
async def _open(
    folder: Path, answer: Answer, application: str = ENGINE
) -> AsyncIterator[tuple[LocalChannelServer, LocalChannelPool]]:
    run_dir = folder.parents[1]
    board, lines = LocalChannelServer(answer, run_dir, application), LocalChannelPool(run_dir, application)
    await board.open()
    try:
        yield board, lines
    finally:
        await lines.close()
        await board.close()


def _only(folder: Path) -> Path:
    (socket,) = folder.iterdir()
    return socket


async def _line(lines: LocalChannelPool) -> LocalChannel:
    assert lines.select() is None, "nobody waits for the connection"
    await until(lambda: bool(lines._open))
    line = require(lines.select())
    return line


async def _echo(question: bytes) -> bytes:
    return question


async def test_concurrent_queries_get_the_right_answers_in_any_order(folder: Path) -> None:
    async def slower_the_smaller(question: bytes) -> bytes:
        number = int(question)
        await asyncio.sleep((200 - number) / 20_000)
        return b"%d" % (number * 2)

    async with _open(folder, slower_the_smaller) as (_, lines):
        line = await _line(lines)
        replies = await asyncio.gather(*(line.ask(b"%d" % number, 5) for number in range(200)))
        assert replies == [b"%d" % (number * 2) for number in range(200)]
        assert len(line) == 0


async def test_large_messages_come_through_whole(folder: Path) -> None:
    async with _open(folder, _echo) as (_, lines):
        line = await _line(lines)
        large = bytes(range(256)) * 20_000
        replies: list[bytes] = await asyncio.gather(*(line.ask(message, 20) for message in (large, b"small")))
        assert replies == [large, b"small"]


async def test_only_its_user_reaches_a_line(folder: Path) -> None:
    async with _open(folder, _echo):
        socket = _only(folder)
        assert stat.S_IMODE(os.stat(socket).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert not os.listdir(folder)


async def test_a_run_directory_that_others_reach_is_trusted_by_neither_side(folder: Path) -> None:
    run_dir = folder.parents[1]
    async with _open(folder, _echo) as (_, lines):
        os.chmod(run_dir, 0o770)
        assert lines.select() is None
        assert not lines._connecting
        with pytest.raises(PermissionError):
            await LocalChannelServer(_echo, run_dir, "another").open()
        os.chmod(run_dir, 0o700)
        lines._look_at_s = 0
        await _line(lines)


async def test_a_lost_channel_fails_waiting_callers_at_once(folder: Path) -> None:
    never = asyncio.Event()

    async def silent(_: bytes) -> bytes:
        await never.wait()
        return b"too late"

    async with _open(folder, silent) as (board, lines):
        line = await _line(lines)
        waiting = asyncio.ensure_future(line.ask(b"anybody?", 30))
        await until(lambda: len(line) == 1)
        await board.close()
        with pytest.raises(ConnectionError):
            await waiting
        with pytest.raises(ConnectionError):
            await line.ask(b"still?", 1)


async def test_a_line_that_does_not_answer_in_time_is_given_up(folder: Path) -> None:
    async def slow(_: bytes) -> bytes:
        await asyncio.sleep(5)
        return b"too late"

    async with _open(folder, slow) as (_, lines):
        line = await _line(lines)
        with pytest.raises(Unavailable):
            await line.ask(b"quickly, please", 0.05)
        await until(lambda: line.lost)
        lines._look_at_s = 0
        assert lines.select() is None


async def test_a_question_that_was_given_up_leaves_the_line_in_order(folder: Path) -> None:
    gate = asyncio.Event()

    async def reply_after_gate(question: bytes) -> bytes:
        if question == b"held":
            await gate.wait()
        return question

    async with _open(folder, reply_after_gate) as (_, lines):
        line = await _line(lines)
        given_up = asyncio.ensure_future(line.ask(b"held", 5))
        await until(lambda: len(line) == 1)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        gate.set()
        assert await line.ask(b"next", 5) == b"next"


async def test_what_fails_in_the_replica_is_a_fault_and_the_line_lives(folder: Path) -> None:
    async def broken(question: bytes) -> bytes:
        if question == b"bad":
            raise ZeroDivisionError
        return question

    async with _open(folder, broken) as (_, lines):
        line = await _line(lines)
        with pytest.raises(Fault):
            await line.ask(b"bad", 5)
        assert await line.ask(b"good", 5) == b"good"


async def test_a_frame_of_absurd_length_ends_the_connection_only(folder: Path) -> None:
    async with _open(folder, _echo) as (_, lines):
        socket = _only(folder)
        stream, writer = await asyncio.open_unix_connection(str(socket))
        writer.write(struct.pack(">II", 1 << 31, 1))
        assert await stream.read() == b""
        writer.close()
        assert await (await _line(lines)).ask(b"you", 5) == b"you"


async def test_sockets_of_dead_processes_are_removed_and_new_ones_opened(folder: Path) -> None:
    os.makedirs(folder)
    dead = folder / "1.sock"
    server = await asyncio.start_unix_server(lambda *_: None, str(dead))
    server.close()
    await server.wait_closed()
    dead.touch()
    lines = LocalChannelPool(folder.parents[1], ENGINE)
    assert lines.select() is None
    await until(lambda: not dead.exists())
    async with _open(folder, _echo) as (_, sockets):
        assert await (await _line(sockets)).ask(b"there", 5) == b"there"
    await lines.close()


async def test_the_pool_selects_the_least_busy_channel_and_no_full_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = asyncio.Event()

    async def silent(_: bytes) -> bytes:
        await never.wait()
        return b"too late"

    async with _open(folder, silent) as (_, lines):
        first = await _line(lines)
        second = await _connected(lines, "other.sock", folder)
        requests = []
        for _ in range(6):
            line = require(lines.select())
            requests.append(asyncio.ensure_future(line.ask(b"?", 30)))
            await asyncio.sleep(0)
        assert (len(first), len(second)) == (3, 3)
        monkeypatch.setattr("deployments.hosts.local_channel._MOST_WAITING", 3)
        assert lines.select() is None
        for task in requests:
            task.cancel()
        await asyncio.gather(*requests, return_exceptions=True)


async def test_replicas_on_other_machines_get_their_share(folder: Path) -> None:
    async with _open(folder, _echo) as (_, lines):
        line = await _line(lines)
        lines.replicas = 3
        assert [lines.select() is line for _ in range(9)].count(True) == 3
        lines.replicas = 1
        assert all(lines.select() is line for _ in range(9))


async def _connected(lines: LocalChannelPool, name: str, folder: Path) -> LocalChannel:
    socket = _only(folder)
    (folder / name).symlink_to(socket)
    lines._look_at_s = 0
    lines.select()
    await until(lambda: name in lines._open)
    return lines._open[name]


class _Handle:
    """Stands for Serve's handle."""

    def __init__(self) -> None:
        self.requests = 0
        self.answer = self

    def options(self, **_: Any) -> _Handle:
        return self

    def remote(self, payload: bytes) -> Any:
        self.requests += 1
        return _echo(ENGINE_MESSAGES.encode(RecommendationResult(served_by="handle")))


async def test_a_client_asks_through_the_handle_when_it_loses_the_line(folder: Path) -> None:
    async def by_line(_: bytes) -> bytes:
        return ENGINE_MESSAGES.encode(RecommendationResult(served_by="line"))

    async with _open(folder, by_line) as (board, lines):
        handle = _Handle()
        client = RemoteRecommenderClient(handle, find_line=lines.select)
        assert (await client.answer(QUERY)).served_by == "handle"
        await until(lambda: bool(lines._open))
        assert (await client.answer(QUERY)).served_by == "line"
        await board.close()
        assert (await client.answer(QUERY)).served_by == "handle"
        assert handle.requests == 2


async def test_who_reaches_engines_keeps_their_lines_and_knows_of_replicas_elsewhere(tmp_path: Path) -> None:
    watch = memory_stores(SystemClock()).engine_activity
    await watch.record(EngineStatus(app_id="a", engine_id="default", state="running", replicas=2))
    requests: list[str] = []

    async def find_handle(name: str) -> _Handle:
        requests.append(name)
        return _Handle()

    reaching = EngineConnections(tmp_path, watch, find_handle, ())
    await reaching.count_replicas("a", ["default"])
    client = await reaching.connect("a", "default")
    await reaching.connect("a", "default")
    assert requests == [application_name("a")] * 2

    async def by_line(_: bytes) -> bytes:
        return ENGINE_MESSAGES.encode(RecommendationResult(served_by="line"))

    name = application_name("a")
    async with _open(channel_folder(tmp_path, name), by_line, name):
        assert (await client.answer(QUERY)).served_by == "handle"
        await until(lambda: bool(reaching._pools[name]._open))
        assert {(await client.answer(QUERY)).served_by for _ in range(4)} == {"line"}
        await reaching.count_replicas("a", ["default", "unknown"])
        assert [(await client.answer(QUERY)).served_by for _ in range(6)].count("line") == 3
    await reaching.close()


def test_folders_of_lines_are_short_and_one_an_engine() -> None:
    run_dir = Path("/tmp/kiosk-12345678")
    folders = {channel_folder(run_dir, name) for name in ("a", "b", "x" * 200)}
    assert len(folders) == 3
    assert all(len(str(folder / "4194304.sock")) < 80 for folder in folders)
