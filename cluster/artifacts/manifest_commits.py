"""Folders whose newest manifest is valid: `manifest-<sequence>.json`, written last, never changed.

Two writers can't both commit the same sequence. A manifest names the files it replaced (`retired`), so that any
cleanup may remove them; other files that no manifest names are left from interrupted writes.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.artifacts.manifest import FileEntry, Manifest
from cluster.artifacts.storage.artifact_store import ArtifactStore

_BEGINS = "manifest-"
_ENDS = ".json"
_DIGITS = 12
ORPHAN_AGE_MS = 3_600_000
"Minimum age of a file outside all manifests for its removal: a younger one may belong to a coming manifest."


def manifest_path(folder: str, sequence: int) -> str:
    """Return the path of the manifest of one commit."""
    return f"{folder}/{_BEGINS}{sequence:0{_DIGITS}d}{_ENDS}"


def newest_manifest(store: ArtifactStore, folder: str) -> str | None:
    """Return the path of the newest manifest; None before the first commit."""
    paths = [entry.path for entry in store.entries(folder) if _is_manifest(entry.path)]
    return paths[-1] if paths else None


def sequence_from_path(path: str) -> int:
    """Return the sequence in the path of a manifest."""
    return int(path[: -len(_ENDS)][-_DIGITS:])


def list_replaced_files(before: Manifest, files: Iterable[FileEntry]) -> tuple[str, ...]:
    """Return the names of a commit's files that the next commit does not contain."""
    kept = {entry.name for entry in files}
    return tuple(entry.name for entry in before.files if entry.name not in kept)


def tidy_folder(store: ArtifactStore, folder: str, newest: Manifest, *, oldest_kept: int, now_ms: int) -> int:
    """Remove files of interrupted writes, and manifests before a sequence; return the number of files."""
    named = {entry.name for entry in newest.files}
    before_ms = now_ms - ORPHAN_AGE_MS
    gone = store.sweep_parts(folder, before_ms)
    for entry in store.entries(folder):
        name = entry.path.rsplit("/", 1)[-1]
        orphan = name.endswith(".parquet") and name not in named
        left_over = orphan and (name in newest.retired or entry.modified_ms < before_ms)
        outdated = _is_manifest(entry.path) and entry.path < manifest_path(folder, oldest_kept)
        if left_over or outdated:
            gone += store.remove(entry.path)
    return gone


def _is_manifest(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return name.startswith(_BEGINS) and name.endswith(_ENDS)
