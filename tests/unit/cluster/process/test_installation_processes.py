"""Finding and ending our processes, and sparing all others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cluster.paths import InstallationPaths
from cluster.process.installation_processes import MARK, end_processes, is_alive, list_processes, pss_bytes

pytestmark = pytest.mark.usefixtures("allow_world")

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
)
MEEK = "import time; print(1, flush=True); time.sleep(60)"
NO_PID = 2**22
"Above the highest number a kernel gives."


@pytest.fixture
def places(tmp_path: Path) -> InstallationPaths:
    return InstallationPaths.from_data_dir(tmp_path)


class _Nursery:
    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, code: str, *words: str, mark: str = "") -> subprocess.Popen[bytes]:
        environment = {**os.environ, MARK: mark} if mark else dict(os.environ)
        child = subprocess.Popen(
            [sys.executable, "-c", code, *words], env=environment, stdout=subprocess.PIPE
        )
        self.started.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"1\n"
        return child


@pytest.fixture
def nursery() -> Iterator[_Nursery]:
    nursery = _Nursery()
    yield nursery
    for child in nursery.started:
        with child:
            child.kill()


def test_processes_are_listed_by_mark_or_by_run_directory(
    places: InstallationPaths, nursery: _Nursery
) -> None:
    marked = nursery.start(MEEK, mark=places.mark)
    named = nursery.start(MEEK, f"--socket={places.run_dir}/r/socket")
    other = nursery.start(MEEK, mark="another1")
    beside = nursery.start(MEEK, f"{places.run_dir}x/socket")
    pids = {process.pid for process in list_processes(places)}
    assert {marked.pid, named.pid} <= pids
    assert not {other.pid, beside.pid, os.getpid(), os.getppid()} & pids


def test_whoever_asks_and_its_ancestors_are_spared(
    places: InstallationPaths, monkeypatch: pytest.MonkeyPatch, nursery: _Nursery
) -> None:
    code = (
        "import pathlib, sys, os\nfrom cluster.paths import InstallationPaths\n"
        "from cluster.process.installation_processes import list_processes\n"
        "found = {p.pid for p in list_processes(InstallationPaths.from_data_dir(pathlib.Path(sys.argv[1])))}\n"
        "sys.exit(os.getpid() in found or os.getppid() in found)"
    )
    environment = {**os.environ, MARK: places.mark, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code, str(places.data_dir)], env=environment, check=False)
    assert done.returncode == 0


def test_children_of_a_supervisor_are_listed_without_a_mark(
    places: InstallationPaths, monkeypatch: pytest.MonkeyPatch, nursery: _Nursery
) -> None:
    child = nursery.start(MEEK)
    assert child.pid not in {process.pid for process in list_processes(places)}
    monkeypatch.setenv(MARK, places.mark)
    assert child.pid in {process.pid for process in list_processes(places)}


def test_ending_asks_kindly_and_wakes_the_stopped(nursery: _Nursery) -> None:
    meek, stopped = (psutil.Process(nursery.start(MEEK).pid) for _ in range(2))
    stopped.suspend()
    assert end_processes([meek, stopped], patience_s=60.0) == []
    assert [meek.wait(), stopped.wait()] == [-signal.SIGTERM, -signal.SIGTERM]


def test_ending_insists_on_the_stubborn(nursery: _Nursery) -> None:
    stubborn = psutil.Process(nursery.start(STUBBORN).pid)
    assert end_processes([stubborn], patience_s=0.1) == []
    assert stubborn.wait() == -signal.SIGKILL


def test_a_process_that_ended_unnoticed_is_not_alive(nursery: _Nursery) -> None:
    child = nursery.start(MEEK)
    assert is_alive(child.pid)
    os.kill(child.pid, signal.SIGKILL)
    # Wait for the end and leave the exit code to the parent, who has not asked for it: a zombie until then.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
    assert not is_alive(child.pid)


def test_a_process_that_never_was_is_not_alive() -> None:
    assert not is_alive(NO_PID)


def test_memory_is_added_up_over_processes(nursery: _Nursery) -> None:
    process = psutil.Process(nursery.start(MEEK).pid)
    assert 1 << 20 < pss_bytes([process]) < 100 << 20
    assert pss_bytes([]) == 0
