"""The verdict on a process with this key and this artifact store."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.admin.master_keys import ensure_master_key, master_key_fingerprints
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Fault, InvalidSetting
from cluster.process.installation_identity import (
    IDENTITY_FILE,
    find_mismatch,
    read_artifact_id,
    refuse_mismatch,
)
from cluster.settings import Settings
from cluster.store.installation.identity import StoredIdentity

NONE, MARKED = StoredIdentity(), StoredIdentity("A", "f1")
SWITCHED = StoredIdentity("A", "f2", ("f1",))


@pytest.mark.parametrize(
    ("recorded", "fingerprints", "artifact_id", "words"),
    [
        (NONE, (), "", ""),
        (NONE, ("f1",), "B", ""),
        (MARKED, ("f1",), "A", ""),
        (MARKED, None, None, ""),
        (MARKED, None, "A", ""),
        (MARKED, ("f2",), "A", "is not that of installation A"),
        (MARKED, (), "A", "is missing, and this Redis belongs to installation A"),
        (MARKED, ("f1",), "B", "the artifact store /a belongs to installation B, but this Redis"),
        (MARKED, ("f1",), "", "the artifact store /a has no installation.json"),
        (MARKED, None, "", "KIOSK_DATA_DIR or KIOSK_ARTIFACTS_URL"),
        (MARKED, (), None, "KIOSK_MASTER_KEY or KIOSK_MASTER_KEY_FILE"),
        (StoredIdentity("A", ""), ("f2",), "A", ""),
        # while the master key changes: first either order, then both keys until the reseal has ended
        (MARKED, ("f1", "f2"), "A", ""),
        (MARKED, ("f2", "f1"), "A", ""),
        (SWITCHED, ("f2", "f1"), "A", ""),
        (SWITCHED, ("f1", "f2"), "A", ""),
        (SWITCHED, None, "A", ""),
        (SWITCHED, ("f2",), "A", "the previous master key f1 of installation A is missing"),
        (SWITCHED, ("f1",), "A", "is not that of installation A"),
        (SWITCHED, ("f3", "f1"), "A", "is not that of installation A"),
    ],
)
def test_the_verdict(
    recorded: StoredIdentity, fingerprints: tuple[str, ...] | None, artifact_id: str | None, words: str
) -> None:
    mismatch = find_mismatch(recorded, fingerprints=fingerprints, artifact_id=artifact_id, address="/a")
    assert (words in mismatch) if words else (not mismatch)
    if words:
        with pytest.raises(InvalidSetting, match="installation A"):
            refuse_mismatch(recorded, fingerprints=fingerprints, artifact_id=artifact_id)


def test_a_damaged_identity_is_no_absent_one(tmp_path: Path) -> None:
    store = ArtifactStore.open(tmp_path)
    assert read_artifact_id(store) == ""
    store.write(IDENTITY_FILE, b'{"installation_id": "ab12"}')
    assert read_artifact_id(store) == "ab12"
    for damaged in (b"", b"[]", b"{}", b'{"installation_id": 7}', b'{"installation_id": "../x"}'):
        store.write(IDENTITY_FILE, damaged)
        with pytest.raises(Fault, match="kiosk cluster adopt"):
            read_artifact_id(store)


def test_a_fingerprint_tells_keys_apart(tmp_path: Path) -> None:
    fingerprints = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        settings = Settings(data_dir=tmp_path / name)
        assert master_key_fingerprints(settings) == ()
        ensure_master_key(settings)
        fingerprints += master_key_fingerprints(settings)
        assert fingerprints[-1:] == list(master_key_fingerprints(settings))
        assert fingerprints[-1] not in (tmp_path / name / "master.key").read_text()
    assert len(set(fingerprints)) == 2
    assert {len(fingerprint) for fingerprint in fingerprints} == {16}
