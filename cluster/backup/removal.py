"""Removing old backups of a target: their manifests first, then the chunks that no kept backup names.

    backups/running/backup-<id>     a backup is being written
    backups/running/removal-<id>    chunks are being removed

Every manifest names all of its chunks, so a kept backup needs no removed one. Only a backup that is being written may
name chunks without a manifest: each side writes its mark before it looks for those of others, so one of them sees the
other and refuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.backup.catalogue import FOLDER, list_backup_ids, load_backup
from cluster.backup.chunks import FOLDER as CHUNKS
from cluster.clock import iso_ms
from cluster.errors import Conflict, Fault, NotFound

RUNNING = f"{FOLDER}/running"
STALE_MS = 24 * 3_600_000
"Marks of killed processes count no longer."


@dataclass(frozen=True, slots=True)
class Removal:
    """What a removal takes away."""

    kept: tuple[str, ...]
    removed: tuple[str, ...]
    "Ids of backups, oldest first."
    chunks: tuple[str, ...]
    "Paths of chunks that no kept backup names, also those of interrupted backups."
    size: int
    "Bytes of these chunks."


@contextmanager
def mark_target_in_use(
    target: ArtifactStore, kind: Literal["backup", "removal"], mark: str, now_ms: int
) -> Iterator[None]:
    """Mark the target as in use while the block runs; backups may run beside backups.

    Errors:
        Conflict: a removal runs, or a backup beside which chunks would be removed
    """
    path = f"{RUNNING}/{kind}-{mark}"
    # Written before looking for others: of two that begin together, at least one sees the other.
    target.write(path, str(now_ms).encode())
    try:
        for entry in target.entries(RUNNING):
            other = entry.path.removeprefix(f"{RUNNING}/").partition("-")[0]
            # Two backups only add chunks, so they may run side by side.
            if entry.path == path or (kind, other) == ("backup", "backup"):
                continue
            since_ms = _read_mark(target, entry.path)
            if now_ms - since_ms < STALE_MS:
                raise Conflict(
                    f"a {other} works on the same target since {iso_ms(since_ms)}; wait until it ends, or, if it was "
                    f"killed, remove the file {entry.path} of the target"
                )
        yield
    finally:
        target.remove(path)


def plan_removal(target: ArtifactStore, fingerprints: tuple[str, ...], keep: int) -> Removal:
    """Return what is removed if the newest `keep` backups stay.

    Errors:
        Conflict: the target also has backups of another master key; their chunks must stay
        Fault: the manifest of a backup to keep is damaged
        NotFound: there is no backup
    """
    ids = list_backup_ids(target)
    if not ids:
        raise NotFound("there is no complete backup")
    kept = ids[-keep:]
    removed = ids[:-keep]
    # Every kept backup must be readable: from a damaged manifest nobody knows which chunks it needs.
    needed = {
        entry.name
        for backup_id in kept
        for entry in load_backup(target, backup_id, fingerprints).chunks.values()
    }
    # Read for its key only: a backup of another master key raises Conflict, and its chunks stay.
    for backup_id in removed:
        try:
            load_backup(target, backup_id, fingerprints)
        except Fault:
            continue  # a damaged backup is no reason to keep it
    # What is on the target and in no manifest, so chunks of interrupted backups go too.
    unneeded = [entry for entry in target.entries(CHUNKS) if entry.path not in needed]
    size = sum(entry.size for entry in unneeded)
    return Removal(tuple(kept), tuple(removed), tuple(entry.path for entry in unneeded), size)


def remove_backups(target: ArtifactStore, plan: Removal) -> None:
    """Remove manifests, then chunks; a repeated call completes an interrupted one."""
    # A backup without its manifest does not exist; with a manifest but without chunks it would look complete.
    for backup_id in plan.removed:
        target.remove(f"{FOLDER}/{backup_id}.json")
    for path in plan.chunks:
        target.remove(path)


def _read_mark(target: ArtifactStore, path: str) -> int:
    try:
        text = target.read(path)
    except NotFound:
        return -STALE_MS  # it ended meanwhile
    return int(text) if text.isdigit() else -STALE_MS
