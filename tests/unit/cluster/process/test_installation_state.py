"""What a supervisor leaves for the command line, and the lock that tells whether it lives."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

from cluster.paths import InstallationPaths
from cluster.process.installation_state import (
    InstallationLock,
    InstallationState,
    find_lock_holder,
    load_state,
    save_state,
)


def _state(**changes: object) -> InstallationState:
    usual = {
        "phase": "ready", "pid": 7, "version": "1", "host": "127.0.0.1", "port": 8000, "data_dir": "/d",
        "run_dir": "/r", "logs_dir": "/l", "started_at": 1,
    }  # fmt: skip
    return InstallationState.model_validate(usual | changes)


def test_a_state_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    places, state = InstallationPaths.from_data_dir(tmp_path), _state(pids={"redis": 3}, restarts={"ray": 1})
    save_state(places, state)
    assert load_state(places) == state


@pytest.mark.parametrize("text", ["", "{", "[]", '{"phase": "ready"}', '{"phase": "dancing", "pid": 1}'])
def test_a_state_that_makes_no_sense_is_none(tmp_path: Path, text: str) -> None:
    places = InstallationPaths.from_data_dir(tmp_path)
    places.state.write_text(text)
    assert load_state(places) is None


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("::1", "http://[::1]:8000"),
        ("shop.example", "http://shop.example:8000"),
    ],
)
def test_the_url_can_be_called_whatever_the_doors_listen_on(host: str, url: str) -> None:
    assert _state(host=host).api_url == url


@pytest.mark.usefixtures("allow_world")
def test_one_process_holds_the_lock_and_records_its_name(tmp_path: Path) -> None:
    places = InstallationPaths.from_data_dir(tmp_path)
    assert find_lock_holder(places) == 0
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, pathlib\nfrom cluster.process.installation_state import InstallationLock\n"
            "print(InstallationLock(pathlib.Path(sys.argv[1])).acquire(), flush=True) or sys.stdin.read()",
            str(places.lock),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    with holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            # The lock object is dropped at once, but its file stays open until the process ends.
            assert holder.stdout.readline() == b"True\n"
            assert find_lock_holder(places) == holder.pid
            assert not InstallationLock(places.lock).acquire()
        finally:
            holder.kill()
            holder.wait()
    assert find_lock_holder(places) == 0
    # A look takes a shared lock for a moment, and must not turn a start away.
    look = os.open(places.lock, os.O_RDWR)
    fcntl.flock(look, fcntl.LOCK_SH)
    Timer(0.05, os.close, [look]).start()
    mine = InstallationLock(places.lock)
    assert mine.acquire()
    assert mine.acquire()
    mine.release()
    assert find_lock_holder(places) == 0
