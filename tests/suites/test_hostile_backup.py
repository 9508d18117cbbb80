"""A backup that was changed in its target: restore refuses it, writes nothing outside, and reads no endless file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cluster.artifacts.manifest import FileEntry, Manifest
from cluster.backup import catalogue
from cluster.backup.catalogue import ArtifactCopy, Backup, list_backup_ids, load_backup
from cluster.backup.chunks import ChunkWriter
from cluster.backup.restoring import plan_restore
from cluster.crypto import Signer
from cluster.errors import Fault, KioskError
from cluster.store import keys
from tests.suites.test_backup import MARK, Sides, back_up, fill, into, restore, sides, source, target

__all__ = ["into", "sides", "source", "target"]

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]


@pytest.fixture
async def backup(sides: Sides) -> Backup:
    await fill(sides.redis_stores, sides.source, products=100)
    await back_up(sides.redis_stores, sides.source, sides.target)
    return plan_restore(sides.target, MARK).backup


async def refuse_restore(sides: Sides, match: str) -> None:
    """Restore, and check that it is refused and the installation stays marked, without any app."""
    with pytest.raises(KioskError, match=match):
        await restore(plan_restore(sides.target, MARK), sides.target, sides.easy_stores, sides.into)
    assert (await sides.easy_stores.access.read_all()).apps == {}
    assert (await sides.easy_stores.schema.read()).restoring


def _hide_first(tmp_path: Path, backup: Backup) -> Path:
    """Remove the file of the first chunk that a restore reads, and return its path."""
    digest = backup.facts.bulk[0]
    path = tmp_path / "target" / backup.chunks[digest].name
    path.unlink()
    return path


def _make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


REPLACEMENTS: dict[str, Callable[[Path], object]] = {
    "a file of a terabyte": _make_sparse,
    "a link to an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a pipe without a writer": os.mkfifo,
    "a link to a file of this machine": lambda path: path.symlink_to("/etc/passwd"),
    "a folder": Path.mkdir,
}


@pytest.mark.parametrize("replacement", REPLACEMENTS)
async def test_a_replaced_chunk_is_refused_at_once(
    sides: Sides, backup: Backup, tmp_path: Path, replacement: str
) -> None:
    REPLACEMENTS[replacement](_hide_first(tmp_path, backup))
    began_s = time.monotonic()
    await refuse_restore(sides, "damaged|not in the artifact store")
    assert time.monotonic() - began_s < 20


async def test_a_changed_manifest_is_refused_whatever_checksum_it_has(
    sides: Sides, backup: Backup, tmp_path: Path
) -> None:
    path = f"{catalogue.FOLDER}/{backup.facts.backup_id}.json"
    manifest = Manifest.parse(sides.target.read(path), kind=catalogue.KIND)
    for signer in (None, Signer(b"a" * 32)):
        (tmp_path / "target" / path).write_bytes(manifest.dump(signer, path))
        with pytest.raises(Fault):
            plan_restore(sides.target, MARK)
    # a genuine manifest under the name of a newer backup
    other = f"{catalogue.FOLDER}/29990101T000000000Z-abcdef.json"
    (tmp_path / "target" / other).write_bytes(manifest.dump(sides.target.signer, path))
    with pytest.raises(Fault):
        plan_restore(sides.target, MARK)


async def test_a_link_is_no_manifest_and_one_without_end_is_not_read(
    sides: Sides, backup: Backup, tmp_path: Path
) -> None:
    folder = tmp_path / "target" / catalogue.FOLDER
    (folder / "29990101T000000000Z-abcdef.json").symlink_to("/dev/zero")
    assert list_backup_ids(sides.target) == [backup.facts.backup_id]
    _make_sparse(folder / "29990101T000000000Z-abcdee.json")
    with pytest.raises(Fault, match="is larger than 256 MB"):
        plan_restore(sides.target, MARK)


@pytest.mark.parametrize("path", ["../outside", "/tmp/kiosk-outside", "a/../../outside"])
async def test_a_signed_manifest_writes_no_file_outside_the_artifact_store(
    sides: Sides, backup: Backup, tmp_path: Path, path: str
) -> None:
    await sides.easy_stores.server.execute_slow("DEL", keys.schema())
    writer = ChunkWriter.open(sides.target)
    digest = writer.write(b"content")
    copy = ArtifactCopy(path, 7, digest, [digest])
    facts = msgspec.structs.replace(backup.facts, artifacts=[copy], backup_id="29990101T000000000Z-abcdef")
    catalogue.commit_backup(sides.target, facts, {**backup.chunks, **writer.needed})
    await refuse_restore(sides, "not a path of the artifact store")
    assert not (tmp_path / "outside").exists()
    assert not os.path.lexists("/tmp/kiosk-outside")  # noqa: ASYNC240


async def test_a_chunk_outside_the_folder_of_chunks_is_refused(sides: Sides, backup: Backup) -> None:
    entry = next(iter(backup.chunks.values()))
    outside = FileEntry("../../etc/passwd", entry.size, entry.sha256)
    facts = msgspec.structs.replace(backup.facts, backup_id="29990101T000000000Z-abcdef")
    catalogue.commit_backup(sides.target, facts, {**backup.chunks, entry.sha256: outside})
    with pytest.raises(Fault):
        load_backup(sides.target, facts.backup_id, MARK)


async def test_a_chunk_that_decompresses_to_more_than_its_header_states_is_refused(
    sides: Sides, backup: Backup
) -> None:
    bomb = b"%016x" % (1 << 50) + b"\x28\xb5\x2f\xfd" + bytes(100)
    writer = ChunkWriter.open(sides.target)
    digest = writer.write(bomb)
    facts = msgspec.structs.replace(
        backup.facts, bulk=[digest], artifacts=[], backup_id="29990101T000000000Z-abcdef"
    )
    catalogue.commit_backup(sides.target, facts, {**backup.chunks, **writer.needed})
    await refuse_restore(sides, "chunk of the backup can't be read")
