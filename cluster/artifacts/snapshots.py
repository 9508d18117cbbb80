"""Model snapshots in the artifact store: one folder for each version, never changed after it is complete.

    snapshots/<app>/<engine>/<version>/<file>         as the folder was built
    snapshots/<app>/<engine>/<version>/manifest.json  written last: without it there is no such version

The version is a digest of the content, so publishing the same content twice yields one version. The engine's record
(`Engine.snapshot`), not the artifact store, names the served one. All methods block: call them from a thread.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import structlog

from cluster.artifacts.artifact_store import ArtifactStore, checksum
from cluster.artifacts.manifest import Manifest, check_name, load_manifest, save_manifest
from cluster.errors import Conflict, Fault, NotFound, Unavailable
from cluster.ids import new_request_id

FOLDER = "snapshots"
KIND = "snapshot"
MANIFEST = "manifest.json"

_CACHED = 4
"Versions of an engine that stay on a machine beside the last fetched one."
_CACHED_FOR_S = 86_400.0

PublishProgress = Callable[[str, float], None]
"Receives the current step and the finished share, 0 to 1."


def ignore_progress(what: str, share: float) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """A complete version."""

    version: str
    published_ms: int
    size: int
    "Bytes of all files together."
    files: int


class SnapshotStore:
    """Versions of every engine of every app in one artifact store."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._log = structlog.get_logger()

    # --- reading ------------------------------------------------------------------------------------------

    def manifest(self, app_id: str, engine_id: str, version: str) -> Manifest:
        """Return the manifest of a version.

        Errors:
            NotFound: there is no such version
            Fault: its manifest is damaged, or not signed by this installation
        """
        try:
            return load_manifest(self._store, f"{_place(app_id, engine_id, version)}/{MANIFEST}", KIND)
        except NotFound as error:
            raise NotFound(f"engine {engine_id} of {app_id} has no snapshot {version}") from error

    def versions(self, app_id: str, engine_id: str) -> list[SnapshotInfo]:
        """Return the complete versions, oldest first."""
        sizes: dict[str, tuple[int, int]] = {}
        complete: dict[str, int] = {}
        above = f"{FOLDER}/{app_id}/{engine_id}"
        for entry in self._store.entries(above):
            version, _, name = entry.path[len(above) + 1 :].partition("/")
            files, size = sizes.get(version, (0, 0))
            sizes[version] = files + 1, size + entry.size
            if name == MANIFEST:
                complete[version] = entry.modified_ms
        found = [
            SnapshotInfo(version, at, sizes[version][1], sizes[version][0])
            for version, at in complete.items()
        ]
        return sorted(found, key=lambda one: (one.published_ms, one.version))

    def has(self, app_id: str, engine_id: str, version: str) -> bool:
        """Return whether the version is complete."""
        return self._store.size(f"{_place(app_id, engine_id, version)}/{MANIFEST}") is not None

    def find_version(self, app_id: str, engine_id: str, start: str) -> str:
        """Return the version that is named `start`, or the only one that begins with it.

        Errors:
            NotFound: no version begins with `start`
            Conflict: several versions do
        """
        found = [one.version for one in self.versions(app_id, engine_id) if one.version.startswith(start)]
        if start in found:
            return start
        if not found:
            raise NotFound(f"engine {engine_id} of {app_id} has no snapshot {start}")
        if len(found) > 1:
            raise Conflict(f"{len(found)} snapshots begin with {start}: {', '.join(found[:5])}")
        return found[0]

    def fetch(self, app_id: str, engine_id: str, version: str, cache: Path) -> tuple[Path, Manifest]:
        """Copy a version to this machine; return its folder and the manifest from the artifact store.

        In a local artifact store it stays in place. Callers must use the returned manifest: it was
        authenticated, the one in the folder was not.

        A fetched version is not fetched again; a folder is complete or absent. The bytes matched the manifest when
        they were fetched; the caller that opens the folder verifies them. Of versions unused for a day only
        the newest few stay; a process that has mapped one keeps its data.

        Errors:
            NotFound: there is no such version
            Fault: a file in the artifact store differs from its manifest
            Unavailable: this machine's disk is full, or can't be written
        """
        manifest = self.manifest(app_id, engine_id, version)
        place = _place(app_id, engine_id, version)
        local = self._store.local_path(place)
        if local is not None:
            return local, manifest
        target = cache / app_id / engine_id / version
        try:
            if not (target / MANIFEST).exists():
                self._copy_to_cache(manifest, place, target)
                with contextlib.suppress(OSError):  # other processes fetch and clean up concurrently
                    _delete_old(target)
            os.utime(target)
        except OSError as error:
            raise Unavailable(f"snapshot {version} can't be kept here: {error.strerror or error}") from error
        return target, manifest

    def _copy_to_cache(self, manifest: Manifest, place: str, target: Path) -> None:
        """Copy a version into a folder of this machine atomically."""
        part = target.parent / f".{target.name}.{new_request_id()}.part"
        try:
            for entry in manifest.files:
                data = self._store.read_checked(f"{place}/{entry.name}", size=entry.size, sha256=entry.sha256)
                path = part / entry.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            (part / MANIFEST).write_bytes(manifest.dump())
            try:
                part.rename(target)
            except OSError:
                if not (target / MANIFEST).exists():
                    raise
        finally:
            shutil.rmtree(part, ignore_errors=True)

    # --- writing ------------------------------------------------------------------------------------------

    def publish(
        self, app_id: str, engine_id: str, folder: Path, told: PublishProgress = ignore_progress
    ) -> str:
        """Copy a built folder to the artifact store and return its version; it becomes visible in the last step.

        An interrupted call can be repeated; an existing version is unchanged.

        Errors:
            Fault: a file of the folder differs from its manifest; nothing is published
        """
        manifest = Manifest.parse((folder / MANIFEST).read_bytes(), kind=KIND)
        version = str(manifest.facts["version"])
        place = _place(app_id, engine_id, version)
        if self.has(app_id, engine_id, version):
            return version
        total, done = sum(entry.size for entry in manifest.files) or 1, 0
        for entry in manifest.files:
            body = (folder / entry.name).read_bytes()
            if len(body) != entry.size or checksum(body) != entry.sha256:
                raise Fault(f"built snapshot is damaged: {entry.name}", path=entry.name)
            if self._store.size(f"{place}/{entry.name}") != entry.size:
                self._store.write(f"{place}/{entry.name}", body)
            done += entry.size
            told(f"publish {entry.name}", done / total)
        try:
            save_manifest(self._store, f"{place}/{MANIFEST}", manifest)
        except Conflict:
            return version  # a concurrent attempt of the same training run published it first
        self._log.info("snapshot_published", app=app_id, engine=engine_id, version=version, size=total)
        return version

    def remove(self, app_id: str, engine_id: str, version: str) -> int:
        """Remove a version, the manifest first; return the number of files."""
        place = _place(app_id, engine_id, version)
        gone = int(self._store.remove(f"{place}/{MANIFEST}"))
        return gone + sum(self._store.remove(entry.path) for entry in self._store.entries(place))

    def tidy(
        self, app_id: str, engine_id: str, *, keep: Collection[str], newest: int, older_than_ms: int
    ) -> list[str]:
        """Remove all versions except the newest and those in `keep`, and incomplete ones from before a time.

        Returns the removed versions.
        """
        complete = self.versions(app_id, engine_id)
        kept = {one.version for one in complete[-newest:]} | set(keep) if newest else set(keep)
        gone = [one.version for one in complete if one.version not in kept]
        for version in gone:
            self.remove(app_id, engine_id, version)
        known = {one.version for one in complete}
        above = f"{FOLDER}/{app_id}/{engine_id}"
        for entry in self._store.entries(above):
            version = entry.path[len(above) + 1 :].partition("/")[0]
            if version not in known and entry.modified_ms < older_than_ms:
                self._store.remove(entry.path)
        return gone


def _delete_old(fetched: Path) -> None:
    """Remove versions unused for a day, except the newest few, and incomplete downloads."""
    now_s = fetched.stat().st_mtime
    others = [(folder.stat().st_mtime, folder) for folder in fetched.parent.iterdir() if folder != fetched]
    whole = 0
    for at_s, folder in sorted(others, reverse=True):
        is_part = folder.name.startswith(".")
        whole += not is_part
        if now_s - at_s > _CACHED_FOR_S and (is_part or whole > _CACHED):
            shutil.rmtree(folder, ignore_errors=True)


def _place(app_id: str, engine_id: str, version: str) -> str:
    for name in (app_id, engine_id, version):
        check_name(name)
        if "/" in name:
            raise Fault(f"there is no snapshot of that name: {name[:80]!r}")
    return f"{FOLDER}/{app_id}/{engine_id}/{version}"
