"""Manifests are believed when this installation signed them for the place they stand at."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from actors.models.loading.snapshot import Snapshot
from actors.serving.model_registry import SnapshotLoader
from cluster.artifacts.manifest import FileEntry, Manifest, find_signature, load_manifest, sign_manifest_bytes
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.signing import resign_manifests, sign_manifests
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore, checksum
from cluster.crypto import Signer, Vault
from cluster.errors import Fault
from jobs.refresh.runs.checkpoint import CheckpointStore
from tests.fakes import generated_market
from tests.fakes.corner_shop import APP
from tests.fakes.trained_snapshot import build_ring_snapshot, publish_ring_snapshot
from tests.suites.snapshot_damage import damaged_loads, folder_of

PLACE = "shop/segments/manifest-000000000012.json"
OURS = Signer(Vault(bytes(range(32))).derive("artifact manifests"))
THEIRS = Signer(Vault(bytes(32)).derive("artifact manifests"))
MANIFEST = Manifest(
    kind="segments",
    sequence=12,
    facts={"app_id": "shop"},
    files=(FileEntry("a.parquet", 10, "ab" * 32, 3, {"noun": "product", "run": 4}),),
)


def read(data: bytes, signer: Signer | None = OURS, place: str = PLACE) -> Manifest:
    return Manifest.parse(data, kind="segments", signer=signer, place=place)


def test_what_was_signed_is_read() -> None:
    assert read(MANIFEST.dump(OURS, PLACE)) == MANIFEST


def test_a_release_before_reads_it_too() -> None:
    assert read(MANIFEST.dump(OURS, PLACE), signer=None) == MANIFEST


def test_every_single_flipped_bit_is_refused() -> None:
    data = MANIFEST.dump(OURS, PLACE)
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Fault):
            read(bytes(flipped))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (MANIFEST.dump(), "not signed; .* kiosk artifacts sign"),
        (MANIFEST.dump(THEIRS, PLACE), "not signed by this installation"),
        (MANIFEST.dump(OURS, "other/segments/manifest-000000000012.json"), "for this place"),
        (MANIFEST.dump(OURS, ""), "for this place"),
    ],
    ids=["unsigned", "another key", "another app's", "no place"],
)
def test_a_foreign_signature_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(Fault, match=words):
        read(data)


def test_a_checksum_alone_convinces_nobody() -> None:
    """Change a signed manifest and give it a fitting checksum, as whoever writes the bucket can."""
    other = Manifest("segments", 12, facts={"app_id": "shop"}, files=())
    kept = MANIFEST.dump(OURS, PLACE)[-67:-3]
    forged = other.dump(Signer(b"whatever"), PLACE)
    inner = forged[len(b'{"checksum":"') + 64 + len(b'","manifest":') : -1][:-66] + kept + b'"}'
    data = b'{"checksum":"' + checksum(inner).encode() + b'","manifest":' + inner + b"}"
    assert read(data, signer=None) == other
    with pytest.raises(Fault, match="not signed by this installation"):
        read(data)


def test_signing_again_changes_nothing_but_the_signature() -> None:
    after = sign_manifest_bytes(MANIFEST.dump(), OURS, PLACE)
    assert after == MANIFEST.dump(OURS, PLACE)
    assert sign_manifest_bytes(after, OURS, PLACE) is None
    assert sign_manifest_bytes(MANIFEST.dump(THEIRS, PLACE), OURS, PLACE) == after
    assert find_signature(MANIFEST.dump(), OURS, PLACE) == "none"
    assert find_signature(after, OURS, PLACE) == "current"
    with pytest.raises(Fault):
        sign_manifest_bytes(after[:-2], OURS, PLACE)


# --- on a shelf ----------------------------------------------------------------------------------------------------


def both(root: Path) -> tuple[ArtifactStore, ArtifactStore]:
    """Open a shelf as a release before does, and as this one does."""
    return ArtifactStore.open(root), ArtifactStore.open(root, signer=OURS)


def test_segments_of_a_release_before_are_refused_until_they_are_signed(tmp_path: Path) -> None:
    before, now = both(tmp_path)
    generated_market.settle(SegmentStore(before), generated_market.table(600, 60, 30, topics=3))
    with pytest.raises(Fault, match="kiosk artifacts sign"):
        SegmentStore(now).load(generated_market.APP)
    result = sign_manifests(now, foreign=False)
    assert (len(result.signed), result.valid, result.damaged) == (1, 0, ())
    assert SegmentStore(now).load(generated_market.APP).interactions.num_rows == 600
    assert sign_manifests(now, foreign=False).signed == ()
    assert SegmentStore(before).load(generated_market.APP).interactions.num_rows == 600


def test_foreign_manifests_are_signed_again_only_on_request(tmp_path: Path) -> None:
    now = ArtifactStore.open(tmp_path, signer=OURS)
    generated_market.settle(
        SegmentStore(ArtifactStore.open(tmp_path, signer=THEIRS)),
        generated_market.table(600, 60, 30, topics=3),
    )
    assert sign_manifests(now, foreign=False).signed == ()
    assert len(sign_manifests(now, foreign=True, dry_run=True).signed) == 1
    with pytest.raises(Fault, match="not signed by this installation"):
        SegmentStore(now).load(generated_market.APP)
    sign_manifests(now, foreign=True)
    assert SegmentStore(now).load(generated_market.APP).interactions.num_rows == 600


def test_a_damaged_manifest_is_reported_and_not_signed(tmp_path: Path) -> None:
    before, now = both(tmp_path)
    before.write("shop/segments/manifest-000000000001.json", MANIFEST.dump()[:-9])
    before.write("shop/notes.json", b"{}")
    assert sign_manifests(now, foreign=True).damaged == ("shop/segments/manifest-000000000001.json",)


def test_a_snapshot_is_published_signed_and_loaded_for_its_engine_only(tmp_path: Path) -> None:
    now = ArtifactStore.open(tmp_path / "shelf", signer=OURS)
    version = publish_ring_snapshot(SnapshotStore(now), tmp_path / "one", "shop")
    models = SnapshotLoader(SnapshotStore(now))
    assert models.load("shop", "default", version).snapshot.version == version
    folder = tmp_path / "shelf" / "snapshots" / "shop" / "default"
    shutil.copytree(folder / version, folder.parent / "other" / version)
    with pytest.raises(Fault, match="for this place"):
        models.load("shop", "other", version)
    unsigned, _ = build_ring_snapshot(tmp_path / "two", seed=7)
    shutil.copy(unsigned / "manifest.json", folder / version / "manifest.json")
    with pytest.raises(Fault, match="not signed"):
        models.load("shop", "default", version)


def test_what_is_built_holds_no_key_so_equal_data_gives_equal_bytes(tmp_path: Path) -> None:
    versions = [
        publish_ring_snapshot(
            SnapshotStore(ArtifactStore.open(tmp_path / name, signer=signer)),
            tmp_path / f"built-{name}",
            "shop",
        )
        for name, signer in (("ours", OURS), ("theirs", THEIRS))
    ]
    assert versions[0] == versions[1]
    folders = [
        tmp_path / name / "snapshots" / "shop" / "default" / versions[0] for name in ("ours", "theirs")
    ]
    ours, theirs = ({p.relative_to(f): p.read_bytes() for p in f.rglob("*.*")} for f in folders)
    assert [str(path) for path in ours if ours[path] != theirs[path]] == ["manifest.json"]
    assert (tmp_path / "built-ours" / "manifest.json").read_bytes() == (
        tmp_path / "built-theirs" / "manifest.json"
    ).read_bytes()


def test_every_cut_and_every_flipped_bit_of_a_signed_snapshot_is_refused(tmp_path: Path) -> None:
    """The drill over 1,000 bits is `tests/drills/test_snapshot_faults.py`."""
    snapshots = SnapshotStore(ArtifactStore.open(tmp_path / "shelf", signer=OURS))
    version = publish_ring_snapshot(snapshots, tmp_path / "one", APP)
    models, folder = SnapshotLoader(snapshots), folder_of(tmp_path / "shelf", version)
    assert damaged_loads(models, folder, version, cuts=10, flips=80, seed=12) == {"tried": 90, "refused": 90}


def test_the_shelfs_manifest_counts_not_the_one_in_the_folder(tmp_path: Path) -> None:
    folder, version = build_ring_snapshot(tmp_path / "s")
    manifest = Manifest.parse((folder / "manifest.json").read_bytes(), kind="snapshot")
    (folder / "manifest.json").write_bytes(b"changed after it was checked")
    assert Snapshot.open(folder, manifest).version == version


@pytest.mark.parametrize("signer", [THEIRS, None], ids=["another key", "unsigned"])
def test_a_checkpoint_of_somebody_else_is_passed_over(tmp_path: Path, signer: Any) -> None:
    CheckpointStore(ArtifactStore.open(tmp_path, signer=signer), "shop", "run-1").put(
        "plan", {"protocol": "theirs"}
    )
    ours = CheckpointStore(ArtifactStore.open(tmp_path, signer=OURS), "shop", "run-1")
    assert ours.get("plan") is None
    ours.put("plan", {"protocol": "ours"})
    assert ours.get("plan") == {"protocol": "ours"}


def test_only_what_a_previous_key_signed_is_signed_anew(tmp_path: Path) -> None:
    new = Vault(b"n" * 32, previous=[bytes(range(32))]).derive_all("artifact manifests")
    both, after = Signer(new), Signer(new[0])
    for name, signer in (("old", OURS), ("foreign", THEIRS), ("plain", None), ("new", after)):
        path = f"{name}/manifest.json"
        ArtifactStore.open(tmp_path).write(path, MANIFEST.dump(signer, path))
    ArtifactStore.open(tmp_path).write("broken/manifest.json", MANIFEST.dump()[:-9])
    store, seen = ArtifactStore.open(tmp_path, signer=both), list[int]()
    signatures = [find_signature(store.read(f"{folder}/manifest.json"), both, f"{folder}/manifest.json")
             for folder in ("old", "foreign", "plain", "new")]  # fmt: skip
    assert signatures == ["previous", "foreign", "none", "current"]
    assert resign_manifests(store, both, dry_run=True).signed == ("old/manifest.json",)
    done = resign_manifests(store, both, report=seen.append)
    assert (done.signed, done.valid, done.damaged) == (("old/manifest.json",), 3, ("broken/manifest.json",))
    assert seen == [1, 2, 3, 4, 5]
    assert resign_manifests(store, both).signed == ()
    now = ArtifactStore.open(tmp_path, signer=after)
    for name, is_right in (("old", True), ("new", True), ("foreign", False), ("plain", False)):
        if is_right:
            assert load_manifest(now, f"{name}/manifest.json", MANIFEST.kind)
        else:
            with pytest.raises(Fault, match="signed"):
                load_manifest(now, f"{name}/manifest.json", MANIFEST.kind)


def test_a_set_that_is_removed_while_it_is_signed_stays_removed(tmp_path: Path) -> None:
    path = "old/manifest.json"
    ArtifactStore.open(tmp_path).write(path, MANIFEST.dump(Signer(b"o" * 32), path))

    class Removing(Signer):
        def sign(self, place: str, data: bytes) -> str:
            (tmp_path / path).unlink(missing_ok=True)
            return super().sign(place, data)

    assert resign_manifests(ArtifactStore.open(tmp_path), Removing((b"n" * 32, b"o" * 32))).signed == ()
    assert not (tmp_path / path).exists()
