"""Names in a manifest lead nowhere but into its folder, whoever wrote it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from actors.models.loading.snapshot import Snapshot
from cluster.artifacts.manifest import FileEntry, Manifest, check_name
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore, checksum
from cluster.errors import Fault
from tests.fakes.bucket import Bucket
from tests.fakes.trained_snapshot import build_ring_snapshot

BAD = [
    "/etc/cron.d/x", "..", "../x", "a/../../x", "a/..", "", "a//b", "a/", "/", ".", "./a", "a\\b", "..\\x", "a\0b",
    "a\nb", "a\u2028b", "\u202ea", "x" * 256, "/".join(["abc"] * 200),
]  # fmt: skip


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("kind", ["segments", "snapshot", "queries"])
def test_a_name_that_leads_elsewhere_is_refused_when_the_manifest_is_read(name: str, kind: str) -> None:
    entry = FileEntry(name, 1, "ab" * 32)
    with pytest.raises(Fault, match="outside its folder"):
        Manifest.parse(Manifest(kind, 1, files=(entry,)).dump(), kind=kind)
    with pytest.raises(Fault, match="outside its folder"):
        Manifest.parse(Manifest(kind, 1, retired=(name,)).dump(), kind=kind)


@pytest.mark.parametrize("name", ["a.parquet", "rules/weights.npy", "a b", "käse.npy", "..x", "x" * 255])
def test_other_names_are_fine(name: str) -> None:
    check_name(name)


def test_what_is_no_text_is_no_name() -> None:
    for name in (None, 7, ["a"]):
        with pytest.raises(Fault):
            check_name(name)


@pytest.mark.parametrize("name", ["{outside}", "../../../../{leaf}", "x/../../../../../{leaf}"])
def test_fetching_writes_nothing_outside_the_cache(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "written"
    name = name.format(outside=outside, leaf=outside.name)
    body = b"*/1 * * * * root true\n"
    bucket = Bucket()
    place = "snapshots/shop/default/0123456789abcdef"
    entry = FileEntry(name, len(body), checksum(body))
    manifest = Manifest("snapshot", 1, facts={"version": "0123456789abcdef"}, files=(entry,))
    bucket.objects[f"kiosk/{place}/manifest.json"] = manifest.dump()
    bucket.objects[f"kiosk/{place}/{name}"] = body
    artifacts = ArtifactStore(bucket.filesystem(), "kiosk", local=False, sleep=lambda _: None)
    with pytest.raises(Fault, match="outside its folder"):
        SnapshotStore(artifacts).fetch("shop", "default", "0123456789abcdef")
    assert not outside.exists()


@pytest.mark.parametrize("version", ["/etc", "..", "../other", "a/b", "", "a\0"])
def test_a_version_is_one_name(tmp_path: Path, version: str) -> None:
    with pytest.raises(Fault):
        SnapshotStore(ArtifactStore.open(tmp_path)).fetch("shop", "default", version)


def test_opening_reads_nothing_outside_its_folder(tmp_path: Path) -> None:
    folder, _ = build_ring_snapshot(tmp_path / "s")
    manifest = Manifest.parse((folder / "manifest.json").read_bytes(), kind="snapshot")
    (folder / "rules" / "weights.npy").rename(tmp_path / "weights.npy")
    moved = tuple(
        replace(entry, name="../weights.npy") if entry.name == "rules/weights.npy" else entry
        for entry in manifest.files
    )
    (folder / "manifest.json").write_bytes(replace(manifest, files=moved).dump())
    with pytest.raises(Fault, match="outside its folder"):
        Snapshot.open(folder)


@pytest.mark.parametrize("linked", ["rules/weights.npy", "rules", "items.arrow"])
def test_a_link_out_of_a_snapshot_is_not_followed(tmp_path: Path, linked: str) -> None:
    folder, _ = build_ring_snapshot(tmp_path / "s")
    (folder / linked).rename(tmp_path / "elsewhere")
    (folder / linked).symlink_to(tmp_path / "elsewhere")
    for verify in (True, False):
        with pytest.raises(Fault, match="link"):
            Snapshot.open(folder, verify=verify)


def test_a_folder_that_is_reached_by_a_link_itself_is_fine(tmp_path: Path) -> None:
    build_ring_snapshot(tmp_path / "disk" / "s")
    (tmp_path / "mounted").symlink_to(tmp_path / "disk")
    Snapshot.open(tmp_path / "mounted" / "s")


def test_nothing_is_removed_through_a_link(tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    (ours / "deep").mkdir(parents=True)
    (ours / "deep" / "file").write_text("mine")
    artifacts = ArtifactStore.open(tmp_path / "shelf")
    artifacts.write("snapshots/shop/default/v1/x.npy", b"1")
    (tmp_path / "shelf" / "snapshots" / "shop" / "default" / "v2").symlink_to(ours)
    (tmp_path / "shelf" / "snapshots" / "shop" / "default" / "v1" / "y").symlink_to(ours / "deep" / "file")
    assert [entry.path for entry in artifacts.entries("snapshots")] == ["snapshots/shop/default/v1/x.npy"]
    SnapshotStore(artifacts).tidy("shop", "default", keep=(), newest=0, older_than_ms=1 << 60)
    assert os.listdir(ours / "deep") == ["file"]
