"""The Redis of an installation as a process: private, durable, mended, and never older than its data."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cluster.errors import Fault, Invalid
from cluster.records.access import App
from cluster.runtime.places import Places
from cluster.runtime.processes import MARK, belonging_to
from cluster.runtime.redis_server import AOF_NAME, RedisServer, find_redis
from cluster.store.connect import open_stores

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    places = Places.of(tmp_path / 'da ta "1"')
    places.make()
    yield places
    shutil.rmtree(places.run_dir)


@pytest.fixture
def server(places: Places, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    monkeypatch.setenv(MARK, places.mark)
    server = RedisServer(places)
    yield server
    server.stop()


async def _put(server: RedisServer, *app_ids: str) -> None:
    async with open_stores(server.url, slow_s=10.0) as stores:
        for app_id in app_ids:
            await stores.access.put_app(App(app_id=app_id, environment="development", created_at=1))


async def _apps(server: RedisServer) -> set[str]:
    async with open_stores(server.url, slow_s=10.0) as stores:
        return set((await stores.access.book()).apps)


def test_its_password_stands_in_no_command_line_and_in_private_files_only(
    places: Places, server: RedisServer
) -> None:
    server.start()
    server.wait(20)
    password = server.url.split(":")[2].partition("@")[0]
    assert len(password) == 48
    line = " ".join(psutil.Process(server.pid).cmdline())
    assert "redis-server" in line
    assert password not in line
    holding = [
        path
        for path in places.data_dir.rglob("*")
        if path.is_file() and password in path.read_text("latin-1")
    ]
    assert sorted(path.name for path in holding) == ["redis.conf", "redis.url"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in holding} == {0o600}
    assert stat.S_IMODE(places.redis_socket.stat().st_mode) == 0o600


def test_it_keeps_the_mark_by_which_our_processes_are_known(places: Places, server: RedisServer) -> None:
    server.start()
    server.wait(20)
    process = psutil.Process(server.pid)
    assert process.environ()[MARK] == places.mark
    assert process in belonging_to(places)
    assert process.net_connections(kind="tcp") == []


async def test_it_is_set_up_to_lose_nothing(places: Places, server: RedisServer) -> None:
    server.start()
    server.wait(20)
    async with open_stores(server.url) as stores:
        settings = await stores.configuration("*")
    assert settings["appendonly"] == "yes"
    assert settings["appendfsync"] == "everysec"
    assert settings["maxmemory-policy"] == "noeviction"
    assert settings["aof-use-rdb-preamble"] == "no"
    assert settings["save"] == ""


async def test_killed_it_comes_back_at_the_same_address_with_everything(server: RedisServer) -> None:
    server.start()
    server.wait(20)
    await _put(server, "one", "two")
    url = server.url
    psutil.Process(server.pid).kill()
    assert server.process is not None
    server.process.wait()
    assert server.died()
    server.start_again()
    server.wait(20)
    assert server.url == url
    assert await _apps(server) == {"one", "two"}


async def test_a_file_with_damaged_framing_is_mended_and_the_rest_served(
    places: Places, server: RedisServer
) -> None:
    server.start()
    server.wait(20)
    await _put(server, "before", "damaged", "after")
    server.stop()
    path = places.redis_dir / AOF_NAME
    whole = path.read_bytes()
    # The length in front of the argument that names the app.
    place = whole.index(b"\r\ndamaged\r\n") - 1
    path.write_bytes(whole[:place] + b"9" + whole[place + 1 :])
    server.start_mending(20)
    assert await _apps(server) == {"before", "after"}
    (aside,) = places.redis_dir.glob(f"{AOF_NAME}.damaged-*")
    assert aside.stat().st_size == len(whole)


async def test_a_torn_tail_needs_no_mending(places: Places, server: RedisServer) -> None:
    server.start()
    server.wait(20)
    await _put(server, "first", "last")
    server.stop()
    path = places.redis_dir / AOF_NAME
    path.write_bytes(path.read_bytes()[:-7])
    server.start_mending(20)
    assert "first" in await _apps(server)
    assert not list(places.redis_dir.glob("*.damaged-*"))


def test_a_server_that_can_not_start_says_why(places: Places, server: RedisServer) -> None:
    (places.redis_dir / AOF_NAME).mkdir()
    with pytest.raises(Fault, match="Redis ended right after its start"):
        server.start_mending(20)


def test_data_of_a_newer_server_is_never_opened_by_an_older_one(places: Places) -> None:
    (places.redis_dir / "version").write_text("99.1.0\n")
    with pytest.raises(Invalid, match=r"written by Redis 99\.1\.0 and only .* is here"):
        RedisServer(places)


def test_a_server_on_path_is_taken_before_the_bundled_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "redis-server"
    fake.write_text("#!/bin/sh\necho Redis server v=7.4.1 sha=0:0\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert find_redis().label == "found 7.4.1"
    fake.write_text("#!/bin/sh\necho Redis server v=5.0.3 sha=0:0\n")
    assert find_redis().label.startswith("bundled 6.2")


def test_without_any_server_the_advice_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Invalid, match="apt install redis-server"):
        find_redis()
