"""Copies on a node: fetched once, verified, bounded, never removed while mapped."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cluster.artifacts.manifest import FileEntry
from cluster.artifacts.storage.artifact_store import ArtifactStore, RetryPolicy, checksum
from cluster.artifacts.storage.node_cache import NodeCache
from cluster.errors import Fault, Unavailable
from tests.fakes.bucket import Bucket

KB = 1 << 10


def entry(name: str, data: bytes) -> FileEntry:
    return FileEntry(name, len(data), checksum(data))


def opened(tmp_path: Path, bucket: Bucket, max_bytes: int = 1 << 20) -> ArtifactStore:
    pause = threading.Event().wait
    cache = NodeCache(tmp_path / "cache", max_bytes, reserve_bytes=0, sleep=pause)
    return ArtifactStore(
        bucket.filesystem(), "kiosk", local=False, cache=cache,
        patience=RetryPolicy(attempts=2), sleep=lambda _: None,
    )  # fmt: skip


def put(store: ArtifactStore, folder: str, **bodies: bytes) -> list[FileEntry]:
    for name, body in bodies.items():
        store.write(f"{folder}/{name}", body)
    return [entry(name, body) for name, body in bodies.items()]


def copied(store: ArtifactStore, folder: str, files: list[FileEntry]) -> Path:
    return store.node_copy(f"{folder}/{files[0].name}", folder, files)


def test_a_set_is_fetched_once_and_by_one_of_many_threads(tmp_path: Path) -> None:
    bucket = Bucket()
    store = opened(tmp_path, bucket)
    files = put(store, "a", x=b"one", y=b"three")
    reads: list[str] = []
    bucket.fault = lambda verb, path: reads.append(path) if verb == "read" else None
    # a store of its own for each thread, as in processes: locks exclude handles, not processes
    stores = [opened(tmp_path, bucket) for _ in range(4)]
    folders: list[Path] = []
    threads = [
        threading.Thread(target=lambda store=store: folders.append(copied(store, "a", files)))
        for store in stores
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(folders)) == 1
    assert (folders[0] / "x").read_bytes() + (folders[0] / "y").read_bytes() == b"onethree"
    assert sorted(reads) == ["kiosk/a/x", "kiosk/a/y"]


def test_wrong_bytes_never_become_a_copy(tmp_path: Path) -> None:
    bucket = Bucket()
    store = opened(tmp_path, bucket)
    files = put(store, "a", x=b"good", y=b"more")
    bucket.objects["kiosk/a/y"] = b"mode"
    with pytest.raises(Fault, match="damaged"):
        copied(store, "a", files)
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"] == []
    bucket.objects["kiosk/a/y"] = b"more"
    bucket.cut = [2]  # a body cut short is read again
    assert (copied(store, "a", files) / "y").read_bytes() == b"more"


def test_a_damaged_copy_of_a_segment_is_fetched_again(tmp_path: Path) -> None:
    store = opened(tmp_path, Bucket())
    store.write("a/x", b"good")
    facts = {"size": 4, "sha256": checksum(b"good")}
    assert store.read_copied("a/x", **facts) == b"good"
    (copy,) = (tmp_path / "cache").glob("*/x")
    copy.write_bytes(b"goof")
    assert store.read_copied("a/x", **facts) == b"good"
    assert copy.read_bytes() == b"good"


def test_what_is_mapped_stays_and_what_is_not_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.artifacts.storage.node_cache.FRESH_S", -1.0)
    store = opened(tmp_path, Bucket(), max_bytes=2 * KB)
    files = {name: put(store, name, x=name.encode() * KB) for name in "abc"}
    first, second = copied(store, "a", files["a"]), copied(store, "b", files["b"])
    os.utime(first, (1_000, 1_000))
    with (first / "x").open("rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
    third = copied(store, "c", files["c"])
    assert (first.exists(), second.exists(), third.exists()) == (True, False, True)
    assert mapped[:1] == b"a"
    mapped.close()
    copied(store, "b", files["b"])
    assert not first.exists()


def test_another_process_holds_what_it_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.artifacts.storage.node_cache.FRESH_S", -1.0)
    store = opened(tmp_path, Bucket(), max_bytes=2 * KB)
    files = {name: put(store, name, x=name.encode() * KB) for name in "abc"}
    first = copied(store, "a", files["a"])
    os.utime(first, (1_000, 1_000))
    script = """
import fcntl, sys
file = open(sys.argv[1])
fcntl.flock(file, fcntl.LOCK_SH)
print("held", flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, f"{first}.lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        copied(store, "b", files["b"])
        copied(store, "c", files["c"])
        assert first.exists()
        holder.kill()
    copied(store, "b", files["b"])
    copied(store, "c", files["c"])
    assert not first.exists()


def test_a_sweep_removes_copies_whose_original_is_gone(tmp_path: Path) -> None:
    bucket = Bucket()
    store = opened(tmp_path, bucket)
    gone, stays = (copied(store, name, put(store, name, x=name.encode())) for name in "ab")
    for interrupted in ("crashed.part", "crashed.7-9.part"):
        (tmp_path / "cache" / interrupted).mkdir()
    store.remove("a/x")
    assert store.sweep_copies() == 3
    assert (gone.exists(), stays.exists()) == (False, True)
    assert [path.stem for path in (tmp_path / "cache").glob("*.lock")] == [stays.name]
    assert store.sweep_copies() == 0, "the node swept a moment ago"


def test_a_sweep_removes_nothing_while_the_bucket_does_not_answer(tmp_path: Path) -> None:
    bucket = Bucket()
    store = opened(tmp_path, bucket)
    stays = copied(store, "a", put(store, "a", x=b"x"))

    def away(verb: str, path: str) -> None:
        raise OSError("connection refused")

    bucket.fault = away
    with pytest.raises(Unavailable):
        store.sweep_copies()
    assert stays.exists()


def test_a_process_that_died_while_fetching_leaves_nothing_that_counts(tmp_path: Path) -> None:
    bucket = Bucket()
    store = opened(tmp_path, bucket)
    files = put(store, "a", x=b"one", y=b"two")

    class Killed(BaseException):
        pass

    def die(verb: str, path: str) -> None:
        if path.endswith("y"):
            raise Killed

    bucket.fault = die
    with pytest.raises(Killed):
        copied(store, "a", files)
    bucket.fault = None
    assert (copied(opened(tmp_path, bucket), "a", files) / "y").read_bytes() == b"two"


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    store = ArtifactStore(
        Bucket().filesystem(), "kiosk", local=False, cache=NodeCache(tmp_path, 1 << 20, reserve_bytes=1 << 60)
    )
    files = put(store, "a", x=b"x")
    with pytest.raises(Unavailable, match="no space left on this node"):
        copied(store, "a", files)


def test_a_folder_on_a_disk_of_this_machine_is_used_in_place(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 1 << 20)
    store = ArtifactStore.open(tmp_path / "store", copy="never", cache=cache)
    files = put(store, "a", x=b"x")
    assert copied(store, "a", files) == tmp_path / "store" / "a"
    assert not (tmp_path / "cache").exists()
    far = ArtifactStore.open(tmp_path / "store", copy="always", cache=cache)
    assert copied(far, "a", files).parent == tmp_path / "cache"
