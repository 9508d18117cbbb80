"""`kiosk restore` is killed in its middle: `kiosk up` refuses the folder, and the next restore starts over."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.crypto import new_master_key
from cluster.errors import Unavailable
from cluster.paths import InstallationPaths
from cluster.process.free_ports import free_ports
from cluster.process.installation_processes import end_processes, list_processes
from cluster.store import keys
from cluster.store.connect import OpenStores, open_stores
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_waiting import EASY
from tests.suites.test_backup import fill

pytestmark = [
    pytest.mark.redis, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("allow_world"),
]  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]
KEYS = 10_000


def command(*words: str, **variables: object) -> subprocess.Popen[str]:
    """Type a command of `kiosk`."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KIOSK_")}
    given = {f"KIOSK_{name.upper()}": str(value) for name, value in variables.items()}
    return subprocess.Popen(
        [sys.executable, "-m", "deployments.cli", *words], env={**clean, **given, "PYTHONPATH": str(ROOT)}, cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def finish(running: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    """Wait for a command; return what it printed."""
    out, err = running.communicate(timeout=120)
    assert running.returncode == code, (running.returncode, out[-2000:], err[-3000:])
    return out, err


async def until_restoring(paths: InstallationPaths, running: subprocess.Popen[str]) -> None:
    """Wait until a restore has written some of its keys."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        assert running.poll() is None, running.communicate()
        await asyncio.sleep(0.02)
        if not paths.redis_url.exists():
            continue
        with contextlib.suppress(Unavailable):  # Redis is still starting
            async with open_stores(paths.redis_url.read_text().strip(), **EASY) as stores:
                if int(await stores.server.execute_slow("DBSIZE")) > 100:
                    assert (await stores.schema.read()).restoring
                    return
    raise AssertionError("the restore does not begin")


async def test_a_restore_that_was_killed_is_refused_by_up_and_repeated(
    redis_server: RedisProcess, redis_stores: OpenStores, tmp_path: Path
) -> None:
    key, place, paths = (
        tmp_path / "key",
        str(tmp_path / "there"),
        InstallationPaths.from_data_dir(tmp_path / "new"),
    )
    key.write_text(new_master_key())
    source = {"redis_url": redis_server.url, "data_dir": tmp_path / "old", "master_key_file": key}
    target = {"data_dir": paths.data_dir, "master_key_file": key, "port": free_ports(1)[0]}
    await fill(redis_stores, ArtifactStore.open(tmp_path / "old" / "shelf"), products=100)
    ask = redis_stores.server.execute_slow
    for first in range(0, KEYS, 1000):
        names = (keys.record("shop", "user", f"n{number}") for number in range(first, first + 1000))
        await asyncio.gather(*(ask("SET", name, "x" * 100) for name in names))
    finish(command("artifacts", "sign", **source))
    made: dict[str, Any] = json.loads(finish(command("backup", place, "--pause", "0", "--json", **source))[0])

    async def kill_restore() -> None:
        running = command("restore", place, **target)
        await until_restoring(paths, running)
        running.kill()
        running.communicate()
        (server,) = list_processes(paths)
        servers.append(server)

    servers: list[psutil.Process] = []
    try:
        await kill_restore()
        _, err = await asyncio.to_thread(finish, command("up", **target), 1)
        assert f"a restore of the backup {made['backup']} ended half way here" in err
        assert "repeat `kiosk restore`" in err
        _, err = await asyncio.to_thread(finish, command("apps", "list", **target), 1)
        assert "ended half way" in err
        await kill_restore()
        restored = json.loads(
            (await asyncio.to_thread(finish, command("restore", place, "--json", **target)))[0]
        )
        assert restored["keys"] == made["keys"]
        listed, _ = await asyncio.to_thread(finish, command("apps", "list", "--json", **target))
        assert "shop" in listed
        _, err = await asyncio.to_thread(finish, command("restore", place, "--yes", **target), 1)
        assert "has data" in err
        await asyncio.to_thread(finish, command("restore", place, "--replace", "--yes", **target))
    finally:
        end_processes(list_processes(paths), 3.0)
    assert not any(server.is_running() for server in servers), "each restore ends the Redis of the killed one"


def test_a_restore_without_the_master_key_creates_none(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    _, err = finish(command("restore", str(tmp_path / "there"), data_dir=folder), 2)
    assert f"copy that of the backup to {folder / 'master.key'}" in " ".join(err.split())
    assert not (folder / "master.key").exists()


@pytest.mark.parametrize(("words", "asks"), [(["--replace"], True), (["--replace", "--yes"], False)])
def test_a_terminal_confirms_that_data_is_removed(tmp_path: Path, words: list[str], asks: bool) -> None:
    terminal, typed = pty.openpty()
    os.write(terminal, b"n\n")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KIOSK_")}
    done = subprocess.run(
        [sys.executable, "-m", "deployments.cli", "restore", str(tmp_path / "none"), *words],
        env={**clean, "KIOSK_DATA_DIR": str(tmp_path / "data"), "PYTHONPATH": str(ROOT)}, cwd=ROOT, stdin=typed,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    os.close(terminal)
    os.close(typed)
    assert done.returncode != 0, "no answer, or no backup"
    assert (f"Remove everything that {tmp_path / 'data'} has?" in done.stderr, "Aborted" in done.stderr) == (
        asks,
        asks,
    )
