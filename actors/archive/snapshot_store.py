"""Store the passage snapshots of all apps and find the newest.

    <app>/passages/<sequence>/<file>
    <app>/passages/<sequence>/manifest.json    written last

The newest snapshot counts that is undamaged and whose embedder is installed. Snapshots are mapped, so those of a bucket
or a network file system are copied to this node first.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from actors.archive.embedding_cache import CachingEmbedder
from actors.archive.passage_index import PassageIndex
from actors.archive.passage_snapshot import KIND, MANIFEST, PassageSnapshot
from actors.archive.passages import Document
from actors.archive.snapshot_writer import ProgressCallback, WeightedEmbedder, write_snapshot
from actors.language.hashing_embedder import Embedder
from cluster.artifacts.manifest import Manifest, load_manifest
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Conflict, Fault, NotFound

_FOLDER = "passages"
MAX_SNAPSHOTS = 2
"Snapshots of an app that stay: the newest, and the one before for replicas that still map it."
LOOK_S = 15.0
"Pause between two listings of an app's snapshots in a bucket, where each costs a request."


class PassageSnapshotStore:
    """Snapshots by app in one artifact store."""

    def __init__(
        self,
        store: ArtifactStore,
        find_embedder: Callable[[str], Embedder | None] = lambda version: None,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._find_embedder = find_embedder
        "Version -> an installed embedder."
        self._monotonic_s = monotonic_s
        self._listed: dict[str, tuple[float, int]] = {}
        "App -> when its snapshots were listed, and the newest sequence."
        self._log = structlog.get_logger()

    def open(self, app_id: str) -> tuple[PassageIndex, str] | None:
        """Open the newest good snapshot; return a library and the product offset up to which it is complete.

        Damaged snapshots are logged and skipped. Without its embedder, a snapshot is searched by words alone.
        """
        # Newest first: an older good one answers better than none.
        for sequence in reversed(self.list_sequences(app_id)):
            try:
                snapshot = self._open_snapshot(app_id, sequence)
                segments = snapshot.open_segments()
            except (Fault, NotFound) as error:
                self._log.error("passages_refused", app=app_id, folder=sequence, reason=error.message)
                continue
            version = str(snapshot.facts["embedder"])
            embedder = snapshot.embedder or self._find_embedder(version)
            if embedder is None:
                self._log.error("embedder_missing", app=app_id, embedder=version)
            library = PassageIndex(
                embedder,
                segments=segments,
                share=float(snapshot.facts["share"]),
                snapshot_version=str(snapshot.facts["version"]),
                writing=self._share_embedder(embedder),
                knows_access=bool(snapshot.facts.get("has_access")),
            )
            return library, str(snapshot.facts["offset"])
        return None

    def open_embedder(self, app_id: str) -> Embedder | None:
        """Return the embedder of the newest snapshot without reading its passages; None if it is not at hand."""
        sequences = self.list_sequences(app_id) if self._store.in_place else []
        if not sequences:
            return None
        place = f"{_app_folder(app_id)}/{sequences[-1]}"
        path = f"{place}/{MANIFEST}"
        # Nothing is copied: the caller above refuses stores that are not in place, such as a bucket.
        folder = self._store.node_copy(path, place, ())
        snapshot = PassageSnapshot.open(folder, verify=False, signer=self._store.signer, place=path)
        return snapshot.embedder or self._find_embedder(str(snapshot.facts["embedder"]))

    def _open_snapshot(self, app_id: str, sequence: str) -> PassageSnapshot:
        place = f"{_app_folder(app_id)}/{sequence}"
        if self._store.in_place:
            path = f"{place}/{MANIFEST}"
            return PassageSnapshot.open(
                self._store.node_copy(path, place, ()), signer=self._store.signer, place=path
            )
        manifest = load_manifest(self._store, f"{place}/{MANIFEST}", KIND)
        # A copy on this node may be damaged while the original is whole: it is copied once more.
        for _ in range(2):
            folder = self._store.node_copy(f"{place}/{MANIFEST}", place, manifest.files)
            try:
                return PassageSnapshot.open(folder, manifest=manifest)
            except Fault as error:
                self._log.warning("copy_damaged", app=app_id, folder=sequence, reason=error.message)
                self._store.discard_copy(folder)
        raise Fault(f"copies of the passages {sequence} of {app_id} do not stay whole on this node")

    def _share_embedder(self, embedder: Embedder | None) -> Embedder | None:
        """Enable replicas of this node to share the vectors of a slow embedder."""
        if embedder is None or not getattr(embedder, "is_slow", False):
            return embedder
        folder = self._store.node_folder("embedded")
        return embedder if folder is None else CachingEmbedder(embedder, folder, sleep=time.sleep)

    def newest_sequence(self, app_id: str) -> int:
        """Return the sequence of the newest snapshot, 0 when there is none; in a bucket up to 15 s late.

        Errors:
            Unavailable: the bucket does not answer; the next call within the pause returns the last known
            sequence
        """
        at_s, newest = self._listed.get(app_id, (0.0, 0))
        now_s = self._monotonic_s()
        if not self._store.in_place and app_id in self._listed and now_s - at_s < LOOK_S:
            return newest
        # Noted before the request: while the bucket is away, it is asked every 15 s and not at every call.
        self._listed[app_id] = now_s, newest
        newest = self._last_sequence(app_id)
        self._listed[app_id] = now_s, newest
        return newest

    def _last_sequence(self, app_id: str) -> int:
        return max(map(int, self.list_sequences(app_id)), default=0)

    def write(
        self,
        app_id: str,
        documents: Iterable[Document],
        *,
        offset: str,
        written_at_ms: int,
        meaning: WeightedEmbedder | None = None,
        watch: ProgressCallback | None = None,
    ) -> Manifest:
        """Write a new newest snapshot and delete those before the last.

        Errors:
            Invalid: there are no documents
            Conflict: another process wrote one meanwhile
        """
        # Listed anew and not from `newest_sequence`, whose answer may be 15 s old.
        number = self._last_sequence(app_id) + 1
        place = f"{_app_folder(app_id)}/{number:09d}"
        local = self._store.local_path(place)
        with tempfile.TemporaryDirectory(prefix="kiosk-passages-") as scratch:
            manifest = write_snapshot(
                documents,
                local if local is not None else Path(scratch) / "built",
                offset=offset,
                sequence=number,
                written_at_ms=written_at_ms,
                meaning=meaning,
                watch=watch,
                signer=self._store.signer,
                place=f"{place}/{MANIFEST}",
            )
            if local is None:
                self._publish(Path(scratch) / "built", place, manifest)
        for sequence in self.list_sequences(app_id)[:-MAX_SNAPSHOTS]:
            self._delete(f"{_app_folder(app_id)}/{sequence}")
        return manifest

    def _publish(self, built: Path, place: str, manifest: Manifest) -> None:
        """Copy a built folder to the bucket, the manifest last.

        Errors:
            Conflict: another process wrote this sequence meanwhile
        """
        if self._store.size(f"{place}/{MANIFEST}") is not None:
            raise Conflict(f"there is a snapshot already: {place}", path=place)
        # All files before the manifest: a writer that is killed leaves files that no reader lists.
        for entry in manifest.files:
            self._store.upload(f"{place}/{entry.name}", built / entry.name)
        self._store.write(f"{place}/{MANIFEST}", (built / MANIFEST).read_bytes(), new=True)

    def _delete(self, place: str) -> None:
        local = self._store.local_path(place)
        if local is not None:
            shutil.rmtree(local, ignore_errors=True)
            return
        # The manifest first: a snapshot without files but with a manifest would look like a damaged one.
        self._store.remove(f"{place}/{MANIFEST}")
        for entry in self._store.entries(place):
            self._store.remove(entry.path)

    def list_sequences(self, app_id: str) -> list[str]:
        """Return the names of the snapshot folders of an app, oldest first."""
        if self._store.local_path(app_id) is not None:  # renamed into place: each folder is complete
            return [name for name in self._store.folders(_app_folder(app_id)) if name.isdigit()]
        paths = [entry.path.split("/") for entry in self._store.entries(_app_folder(app_id))]
        return [path[-2] for path in paths if path[-1] == MANIFEST and path[-2].isdigit()]


def _app_folder(app_id: str) -> str:
    return f"{app_id}/{_FOLDER}"
