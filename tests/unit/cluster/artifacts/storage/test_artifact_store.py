"""The shelf: whole files or none, patience with object stores, a full disk said plainly."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from cluster.artifacts.storage.artifact_store import ArtifactStore, RetryPolicy, checksum
from cluster.errors import Conflict, Fault, Invalid, NotFound, Unavailable
from tests.fakes.bucket import Bucket


def bucket_shelf(bucket: Bucket, pauses: list[float] | None = None, attempts: int = 4) -> ArtifactStore:
    taken = [] if pauses is None else pauses
    return ArtifactStore(
        bucket.filesystem(),
        "store/kiosk",
        local=False,
        patience=RetryPolicy(attempts=attempts, pause_s=0.2),
        sleep=taken.append,
        rng=random.Random(7),
    )


@pytest.fixture(params=["directory", "bucket"])
def artifacts(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    return ArtifactStore.open(tmp_path / "shelf") if request.param == "directory" else bucket_shelf(Bucket())


def test_what_is_written_is_read_listed_and_removed(artifacts: ArtifactStore) -> None:
    artifacts.write("shop/a.bin", b"one")
    artifacts.write("shop/deep/b.bin", b"three")
    artifacts.write("other/c.bin", b"x")

    assert artifacts.read("shop/deep/b.bin") == b"three"
    assert [(entry.path, entry.size) for entry in artifacts.entries("shop")] == [
        ("shop/a.bin", 3),
        ("shop/deep/b.bin", 5),
    ]
    assert artifacts.size("shop/a.bin") == 3
    assert artifacts.remove("shop/a.bin")
    assert not artifacts.remove("shop/a.bin")
    assert artifacts.size("shop/a.bin") is None
    with pytest.raises(NotFound):
        artifacts.read("shop/a.bin")


def test_an_absent_folder_is_empty(artifacts: ArtifactStore) -> None:
    assert artifacts.entries("nobody") == []


def test_writing_again_replaces_unless_it_must_be_new(artifacts: ArtifactStore) -> None:
    artifacts.write("a", b"1")
    artifacts.write("a", b"2")
    with pytest.raises(Conflict):
        artifacts.write("a", b"3", new=True)
    artifacts.write("b", b"4", new=True)
    assert (artifacts.read("a"), artifacts.read("b")) == (b"2", b"4")


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../outside", "shop/../../outside"])
def test_a_path_never_leaves_the_shelf(artifacts: ArtifactStore, path: str) -> None:
    with pytest.raises(Invalid):
        artifacts.write(path, b"")
    with pytest.raises(Invalid):
        artifacts.read(path)


def test_a_changed_file_is_refused(artifacts: ArtifactStore) -> None:
    artifacts.write("a", b"good")
    assert artifacts.read_checked("a", size=4, sha256=checksum(b"good")) == b"good"
    artifacts.write("a", b"goof")
    with pytest.raises(Fault) as refused:
        artifacts.read_checked("a", size=4, sha256=checksum(b"good"))
    assert refused.value.facts["path"] == "a"


def test_an_interrupted_local_write_leaves_nothing_under_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = ArtifactStore.open(tmp_path)
    artifacts.write("a", b"old")

    def dies(handle: int) -> None:
        raise OSError(5, "input/output error")

    monkeypatch.setattr(os, "fsync", dies)
    with pytest.raises(Unavailable):
        artifacts.write("a", b"new")
    assert artifacts.read("a") == b"old"
    assert [place.name for place in tmp_path.iterdir()] == ["a"]


def test_parts_left_by_a_killed_writer_are_not_listed_and_get_swept(tmp_path: Path) -> None:
    artifacts = ArtifactStore.open(tmp_path)
    artifacts.write("shop/a", b"1")
    part = tmp_path / "shop" / ".b.123.part"
    part.write_bytes(b"half")
    os.utime(part, (1_000, 1_000))

    assert [entry.path for entry in artifacts.entries("shop")] == ["shop/a"]
    assert artifacts.sweep_parts("shop", older_than_ms=999_000) == 0
    assert artifacts.sweep_parts("shop", older_than_ms=1_001_000) == 1
    assert not part.exists()


def test_a_full_disk_refuses_the_write_and_keeps_the_reads(tmp_path: Path) -> None:
    artifacts = ArtifactStore.open(tmp_path)
    artifacts.write("a", b"1")
    full = ArtifactStore.open(tmp_path, reserve_bytes=1 << 60)
    with pytest.raises(Unavailable, match="no space left"):
        full.write("b", b"2")
    assert full.read("a") == b"1"
    assert full.size("b") is None


def test_a_failing_store_is_retried_with_growing_jittered_pauses() -> None:
    left = [3]

    def fault(verb: str, path: str) -> None:
        if verb == "write" and left[0]:
            left[0] -= 1
            raise OSError("500 Internal Server Error")

    pauses: list[float] = []
    bucket = Bucket(fault)
    bucket_shelf(bucket, pauses).write("a", b"1")

    assert bucket.objects == {"store/kiosk/a": b"1"}
    assert len(pauses) == 3
    for tried, pause in enumerate(pauses):
        assert 0.5 <= pause / (0.2 * 2**tried) <= 1.5
    assert len({pause / 2**tried for tried, pause in enumerate(pauses)}) == 3, "no jitter"


def test_a_store_that_stays_away_is_unavailable() -> None:
    def fault(verb: str, path: str) -> None:
        raise OSError("503 Slow Down")

    pauses: list[float] = []
    artifacts = bucket_shelf(Bucket(fault), pauses)
    with pytest.raises(Unavailable) as refused:
        artifacts.read("a")
    assert refused.value.facts["retry_after_s"] == 5
    assert len(pauses) == 3


def test_a_truncated_body_is_requested_again() -> None:
    bucket = Bucket()
    artifacts = bucket_shelf(bucket)
    artifacts.write("a", b"whole body")
    bucket.cut = [4, 0]
    assert artifacts.read_checked("a", size=10, sha256=checksum(b"whole body")) == b"whole body"
    assert bucket.cut == []


def test_an_unknown_scheme_raises_a_plain_error() -> None:
    with pytest.raises(Invalid, match="must be a folder"):
        ArtifactStore.open("gopher://somewhere/x")
