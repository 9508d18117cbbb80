"""Folders whose newest manifest counts: `manifest-<sequence>.json`, written last, never changed.

Two writers can't both commit the same sequence. What a manifest replaced is named in it (`retired`), so that whoever
finds such a file may remove it; other files that no manifest names were left by writers that died.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.artifacts.artifact_store import ArtifactStore
from cluster.artifacts.manifest import FileEntry, Manifest

_BEGINS, _ENDS = "manifest-", ".json"
_DIGITS = 12
ORPHAN_AGE_MS = 3_600_000
"A file nobody names is removed when it is older: a younger one may be on its way into a manifest."


def manifest_path(folder: str, sequence: int) -> str:
    """Name the manifest of one commit."""
    return f"{folder}/{_BEGINS}{sequence:0{_DIGITS}d}{_ENDS}"


def newest_manifest(store: ArtifactStore, folder: str) -> str | None:
    """Find the path of the newest manifest; None before the first commit."""
    paths = [entry.path for entry in store.entries(folder) if _is_manifest(entry.path)]
    return paths[-1] if paths else None


def sequence_from_path(path: str) -> int:
    """Read the sequence out of the path of a manifest, whatever stands in it."""
    return int(path[: -len(_ENDS)][-_DIGITS:])


def list_replaced_files(before: Manifest, files: Iterable[FileEntry]) -> tuple[str, ...]:
    """Name the files of a commit that are not among those of the next one."""
    kept = {entry.name for entry in files}
    return tuple(entry.name for entry in before.files if entry.name not in kept)


def tidy_folder(store: ArtifactStore, folder: str, newest: Manifest, *, oldest_kept: int, now_ms: int) -> int:
    """Remove what interrupted writers left behind, and manifests before a sequence; return how many files went."""
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
