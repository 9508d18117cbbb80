"""Model snapshots in the artifact store: one folder for each version, never changed after it is complete.

    snapshots/<app>/<engine>/<version>/<file>         as the folder was built
    snapshots/<app>/<engine>/<version>/manifest.json  written last: without it there is no such version

The version is a digest of the content, so publishing the same content twice yields one version. The engine's record
(`Engine.snapshot`), not the artifact store, names the served one. All methods block: call them from a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import structlog

from cluster.artifacts.erasure_log import ErasureLog
from cluster.artifacts.file_verification import sha256_of_file
from cluster.artifacts.manifest import Manifest, check_name, load_manifest, save_manifest
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Conflict, Fault, KioskError, NotFound


@dataclass(frozen=True, slots=True)
class MarkedSnapshot:
    """A version trained on data of erased users."""

    engine_id: str
    version: str
    erasures: int
    "Erasures, since its training, of rows it was trained on."


def find_marked_snapshots(store: ArtifactStore, app_id: str, seen: int = 0) -> list[MarkedSnapshot]:
    """Return the marked versions of all engines of an app, including deleted engines.

    With `seen`, only erasures after so many count.

    Cost:
        one small file for each version
    """
    log = SegmentStore(store).erasures(app_id)
    if not log.count:
        return []
    snapshots = SnapshotStore(store)
    above = f"{FOLDER}/{app_id}"
    marked = list[MarkedSnapshot]()
    for entry in store.entries(above):
        engine_id, _, rest = entry.path[len(above) + 1 :].partition("/")
        version, _, name = rest.partition("/")
        # Without a manifest it is no version, and no replica serves it.
        if name != MANIFEST:
            continue
        try:
            count = count_erasures_since(snapshots.manifest(app_id, engine_id, version), log, seen)
        except KioskError:  # it is being removed or damaged, so no replica can serve it
            continue
        if count:
            marked.append(MarkedSnapshot(engine_id, version, count))
    return marked


def count_erasures_since(manifest: Manifest, log: ErasureLog, seen: int = 0) -> int:
    """Return the number of erasures, after the first `seen`, of rows that a snapshot was trained on."""
    facts = manifest.facts
    return log.since(max(seen, int(facts.get("erasures", 0))), facts.get("offsets", {}))


FOLDER = "snapshots"
KIND = "snapshot"
MANIFEST = "manifest.json"

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
            # The manifest is written last: a folder without one is incomplete.
            if name == MANIFEST:
                complete[version] = entry.modified_ms
        infos = [
            SnapshotInfo(version, at, sizes[version][1], sizes[version][0])
            for version, at in complete.items()
        ]
        return sorted(infos, key=lambda info: (info.published_ms, info.version))

    def has(self, app_id: str, engine_id: str, version: str) -> bool:
        """Return whether the version is complete."""
        return self._store.size(f"{_place(app_id, engine_id, version)}/{MANIFEST}") is not None

    def find_version(self, app_id: str, engine_id: str, start: str) -> str:
        """Return the version that is named `start`, or the only one that begins with it.

        Errors:
            NotFound: no version begins with `start`
            Conflict: several versions do
        """
        matches = [
            info.version for info in self.versions(app_id, engine_id) if info.version.startswith(start)
        ]
        if start in matches:
            return start
        if not matches:
            raise NotFound(f"engine {engine_id} of {app_id} has no snapshot {start}")
        if len(matches) > 1:
            raise Conflict(f"{len(matches)} snapshots begin with {start}: {', '.join(matches[:5])}")
        return matches[0]

    def fetch(self, app_id: str, engine_id: str, version: str) -> tuple[Path, Manifest]:
        """Return the folder of a version on this machine, copied there if need be, and the stored manifest.

        Callers must use the returned manifest: it was authenticated. The bytes matched the manifest when they were
        copied; the caller that opens the folder verifies them.

        Errors:
            NotFound: there is no such version
        """
        manifest = self.manifest(app_id, engine_id, version)
        place = _place(app_id, engine_id, version)
        return self._store.node_copy(f"{place}/{MANIFEST}", place, manifest.files), manifest

    def discard_copy(self, folder: Path) -> bool:
        """Remove a damaged copy of this machine; return False when the folder is the artifact store's own."""
        return self._store.discard_copy(folder)

    def publish(
        self, app_id: str, engine_id: str, folder: Path, report_progress: PublishProgress = ignore_progress
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
        total = sum(entry.size for entry in manifest.files) or 1
        done = 0
        for entry in manifest.files:
            path = folder / entry.name
            if path.stat().st_size != entry.size or sha256_of_file(path) != entry.sha256:
                raise Fault(f"built snapshot is damaged: {entry.name}", path=entry.name)
            # Uploaded by an interrupted attempt. The version is a digest of the content, so equal names
            # hold equal bytes.
            if self._store.size(f"{place}/{entry.name}") != entry.size:
                self._store.upload(f"{place}/{entry.name}", path)
            done += entry.size
            report_progress(f"publish {entry.name}", done / total)
        try:
            save_manifest(self._store, f"{place}/{MANIFEST}", manifest)
        except Conflict:
            return version  # a concurrent attempt of the same training run published it first
        self._log.info("snapshot_published", app=app_id, engine=engine_id, version=version, size=total)
        return version

    def remove(self, app_id: str, engine_id: str, version: str) -> int:
        """Remove a version, the manifest first; return the number of files."""
        place = _place(app_id, engine_id, version)
        # First, so that nobody begins to load a version that is half gone.
        gone = int(self._store.remove(f"{place}/{MANIFEST}"))
        return gone + sum(self._store.remove(entry.path) for entry in self._store.entries(place))

    def tidy(
        self, app_id: str, engine_id: str, *, keep: Collection[str], newest: int, older_than_ms: int
    ) -> list[str]:
        """Remove all versions except the newest and those in `keep`, and incomplete ones from before a time.

        Returns the removed versions.
        """
        complete = self.versions(app_id, engine_id)
        # `[-0:]` would keep all of them.
        kept = {info.version for info in complete[-newest:]} | set(keep) if newest else set(keep)
        gone = [info.version for info in complete if info.version not in kept]
        for version in gone:
            self.remove(app_id, engine_id, version)
        versions = {info.version for info in complete}
        above = f"{FOLDER}/{app_id}/{engine_id}"
        for entry in self._store.entries(above):
            version = entry.path[len(above) + 1 :].partition("/")[0]
            # A younger one may be a publication that is under way.
            if version not in versions and entry.modified_ms < older_than_ms:
                self._store.remove(entry.path)
        return gone


def _place(app_id: str, engine_id: str, version: str) -> str:
    for name in (app_id, engine_id, version):
        check_name(name)
        if "/" in name:
            raise Fault(f"there is no snapshot of that name: {name[:80]!r}")
    return f"{FOLDER}/{app_id}/{engine_id}/{version}"
