"""The manifests of a target: one file for each backup, written last; without it there is no backup.

backups/<id>.json     signed by the installation's key; names the chunks, the keys' order and the artifact files
chunks/<2 hex>/<sha256>
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cluster.artifacts.manifest import FileEntry, Manifest
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import from_ms, iso_ms
from cluster.errors import Conflict, Fault, NotFound

FOLDER = "backups"
KIND = "backup"
MOST_MANIFEST_BYTES = 256 << 20
"A manifest has about 200 bytes for each chunk: this is enough for 4 TB of data."
_ID = re.compile(rf"{FOLDER}/(\d{{8}}T\d{{9}}Z-[0-9a-f]{{6}})\.json")


class AppCut(msgspec.Struct):
    """Offsets of the change logs of one app, noun -> offset."""

    start: dict[str, str] = {}
    "The newest offsets before the first key was read."
    end: dict[str, str] = {}
    "The newest offsets at the cut: the backup is the state after them."
    trimmed: dict[str, str] = {}
    "The newest offsets that are no longer in the log."
    changes: dict[str, list[str]] = {}
    "Chunks of the log."


class ArtifactCopy(msgspec.Struct):
    """One file of the artifact store."""

    path: str
    size: int
    sha256: str
    pieces: list[str]


class AuditPosition(msgspec.Struct, frozen=True):
    """A row of the audit log; the signature of the manifest seals it."""

    row_id: str = ""
    chain: str = ""


class BackupFacts(msgspec.Struct):
    """The facts of a backup's manifest without its chunks."""

    backup_id: str
    release: str
    schema: int
    oldest: int
    "The schema that a release needs to run on the data."
    fingerprint: str
    "Of the master key, which is in no backup."
    started_ms: int
    cut_ms: int
    keys: int = 0
    apps: dict[str, AppCut] = {}
    control: list[str] = []
    bulk: list[str] = []
    answers: list[str] = []
    artifacts: list[ArtifactCopy] = []
    audit: AuditPosition = AuditPosition()
    "The newest row of the audit log in the backup."


@dataclass(frozen=True, slots=True)
class Backup:
    """A complete backup."""

    facts: BackupFacts
    chunks: dict[str, FileEntry] = field(repr=False)
    "By their SHA-256."

    @property
    def size(self) -> int:
        """Return the bytes of all its chunks; other backups may share them."""
        return sum(entry.size for entry in self.chunks.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that a list shows, for JSON."""
        facts = self.facts
        return {
            "backup": facts.backup_id,
            "as_of": iso_ms(facts.cut_ms),
            "release": facts.release,
            "schema": facts.schema,
            "keys": facts.keys,
            "artifacts": len(facts.artifacts),
            "bytes": self.size,
            "fingerprint": facts.fingerprint,
            "audit_chain": facts.audit.chain,
        }


def new_backup_id(now_ms: int, mark: str) -> str:
    """Return an id that sorts by time."""
    # The random mark keeps two backups of the same millisecond apart.
    return from_ms(now_ms).strftime("%Y%m%dT%H%M%S") + f"{now_ms % 1000:03d}Z-{mark[:6]}"


def fingerprint_of(master: bytes) -> str:
    """Return the fingerprint of a key that was derived from the master key for this purpose."""
    # The prefix keeps this hash apart from other uses of the same key.
    return hashlib.sha256(b"kiosk backup fingerprint\0" + master).hexdigest()[:32]


def commit_backup(target: ArtifactStore, facts: BackupFacts, chunks: dict[str, FileEntry]) -> None:
    """Write the manifest; from then on the backup exists."""
    manifest = Manifest(KIND, 1, facts.cut_ms, facts=msgspec.to_builtins(facts), files=tuple(chunks.values()))
    path = f"{FOLDER}/{facts.backup_id}.json"
    # `new`: two backups with one id must not replace each other.
    target.write(path, manifest.dump(target.signer, path), new=True)


def list_backup_ids(target: ArtifactStore) -> list[str]:
    """Return the ids of all complete backups, oldest first."""
    return [match[1] for entry in target.entries(FOLDER) if (match := _ID.fullmatch(entry.path))]


def load_backup(target: ArtifactStore, backup_id: str, fingerprints: tuple[str, ...]) -> Backup:
    """Return a backup of one of these master keys; the first is the current one.

    Errors:
        Conflict: another master key made it
        Fault: its manifest is damaged, or not signed by the master key
    """
    path = f"{FOLDER}/{backup_id}.json"
    data = target.read(path, MOST_MANIFEST_BYTES + 1)
    if len(data) > MOST_MANIFEST_BYTES:
        raise Fault(f"the manifest of the backup {backup_id} is larger than {MOST_MANIFEST_BYTES >> 20} MB")
    # Read before its signature: another master key fails both, and the
    # operator needs to know that it is the key.
    plain = _facts_of(Manifest.parse(data, kind=KIND))
    if plain.fingerprint not in fingerprints:
        raise Conflict(
            f"the backup {backup_id} was made with another master key (fingerprint {plain.fingerprint[:8]}, here "
            f"{fingerprints[0][:8]}); give the key of that installation by KIOSK_MASTER_KEY_FILE"
        )
    manifest = Manifest.parse(data, kind=KIND, signer=target.signer, place=path)
    return Backup(_facts_of(manifest), {entry.sha256: entry for entry in manifest.files})


def load_newest(target: ArtifactStore, fingerprints: tuple[str, ...]) -> Backup | None:
    """Return the newest readable backup, None without any; damaged backups and backups with other keys are
    skipped.
    """
    for backup_id in reversed(list_backup_ids(target)):
        try:
            return load_backup(target, backup_id, fingerprints)
        except (Conflict, Fault, NotFound):
            continue
    return None


def _facts_of(manifest: Manifest) -> BackupFacts:
    try:
        return msgspec.convert(manifest.facts, BackupFacts)
    except msgspec.ValidationError as error:
        raise Fault("the manifest of the backup has another form; a newer release wrote it") from error
