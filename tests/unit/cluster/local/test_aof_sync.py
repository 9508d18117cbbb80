"""Which append-only files the thread syncs, and what it does when the disk refuses."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from cluster.local.aof_sync import AofSync


def ignore() -> bool:
    """Do nothing after a failure."""
    return False


def append(path: Path, text: str) -> None:
    """Append to a file, as Redis does."""
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as stream:
        stream.write(text)


@pytest.mark.parametrize("name", ["appendonly.aof", "appendonlydir/appendonly.aof.1.incr.aof"])
def test_a_file_is_synced_when_it_changed(tmp_path: Path, name: str) -> None:
    sync = AofSync(tmp_path, ignore)
    assert sync.sync() == 0
    append(tmp_path / name, "one")
    assert [sync.sync(), sync.sync()] == [1, 0]
    append(tmp_path / name, "two")
    assert [sync.sync(), sync.sync()] == [1, 0]


def test_a_rewrite_replaces_the_files(tmp_path: Path) -> None:
    sync = AofSync(tmp_path, ignore)
    folder = tmp_path / "appendonlydir"
    append(folder / "appendonly.aof.1.incr.aof", "one")
    assert sync.sync() == 1
    append(folder / "appendonly.aof.2.base.aof", "one")
    append(folder / "appendonly.aof.2.incr.aof", "two")
    (folder / "appendonly.aof.1.incr.aof").unlink()
    assert [sync.sync(), sync.sync()] == [2, 0]


def test_bytes_that_arrive_during_a_sync_are_synced_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "appendonly.aof"
    append(path, "one")
    sync = AofSync(tmp_path, ignore)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", lambda descriptor: append(path, "two"))
        assert sync.sync() == 1
    assert [sync.sync(), sync.sync()] == [1, 0]


def test_a_disk_that_refuses_is_reported_until_redis_syncs_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", refuse)
    failures = threading.Semaphore(0)
    taken = iter([False, True])

    def hand_over() -> bool:
        failures.release()
        return next(taken)

    sync = AofSync(tmp_path, hand_over, every_s=0.01)
    append(tmp_path / "appendonly.aof", "one")
    sync.start()
    assert failures.acquire(timeout=10)
    assert failures.acquire(timeout=10)
    assert not failures.acquire(timeout=0.1)


def test_the_thread_syncs_until_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = threading.Semaphore(0)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: syncs.release())
    sync = AofSync(tmp_path, ignore, every_s=0.01)
    sync.start()
    append(tmp_path / "appendonly.aof", "one")
    assert syncs.acquire(timeout=10)
    sync.end()
    assert not syncs.acquire(timeout=0.1)
    append(tmp_path / "appendonly.aof", "two")
    assert not syncs.acquire(timeout=0.1)
