"""Store the passage snapshots of all apps and find the newest.

    <root>/<app>/passages/<sequence>/

The newest snapshot counts that is undamaged and whose embedder is installed. Snapshots are mapped, so they need a
local disk.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from actors.answers.archive.library import PassageLibrary
from actors.answers.archive.passages import Document
from actors.answers.archive.shared_embedder import SharedEmbedder
from actors.answers.archive.snapshot import MANIFEST, PassageSnapshot
from actors.answers.archive.snapshot_writer import ProgressCallback, WeightedEmbedder, write_snapshot
from actors.language.embedder import Embedder
from cluster.artifacts.manifest import Manifest
from cluster.errors import Fault
from cluster.secrecy import Signer

_FOLDER = "passages"
MAX_SNAPSHOTS = 2
"Snapshots of an app that stay: the newest, and the one before for replicas that still map it."


class PassageSnapshotStore:
    """Snapshots by app below one directory."""

    def __init__(
        self,
        root: Path,
        find_embedder: Callable[[str], Embedder | None] = lambda version: None,
        signer: Signer | None = None,
    ) -> None:
        self._root = root
        self._signer = signer
        self._find_embedder = find_embedder
        "Version -> an installed embedder."
        self._log = structlog.get_logger()

    def open(self, app_id: str) -> tuple[PassageLibrary, str] | None:
        """Open the newest good snapshot; return a library and the product offset up to which it is complete.

        Damaged snapshots are logged and skipped. Without its embedder, a snapshot is searched by words alone.
        """
        for folder in reversed(self.list_folders(app_id)):
            try:
                snapshot = PassageSnapshot.open(
                    folder, signer=self._signer, place=_manifest_path(app_id, folder.name)
                )
                segment = snapshot.open_segment()
            except Fault as error:
                self._log.error("passages_refused", app=app_id, folder=folder.name, reason=error.message)
                continue
            version = str(snapshot.facts["embedder"])
            embedder = snapshot.embedder or self._find_embedder(version)
            if embedder is None:
                self._log.error("embedder_missing", app=app_id, embedder=version)
            library = PassageLibrary(
                embedder,
                base=segment,
                share=float(snapshot.facts["share"]),
                base_version=str(snapshot.facts["version"]),
                writing=self._share_embedder(embedder),
            )
            return library, str(snapshot.facts["offset"])
        return None

    def _share_embedder(self, embedder: Embedder | None) -> Embedder | None:
        """Let replicas of this node share the vectors of a slow embedder."""
        if embedder is None or not getattr(embedder, "is_slow", False):
            return embedder
        return SharedEmbedder(embedder, self._root / "embedded", sleep=time.sleep)

    def newest_sequence(self, app_id: str) -> int:
        """Return the sequence of the newest snapshot, 0 when there is none."""
        return max((int(folder.name) for folder in self.list_folders(app_id)), default=0)

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
        sequence = self.newest_sequence(app_id) + 1
        manifest = write_snapshot(
            documents,
            self._app_folder(app_id) / f"{sequence:09d}",
            offset=offset,
            sequence=sequence,
            written_at_ms=written_at_ms,
            meaning=meaning,
            watch=watch,
            signer=self._signer,
            place=_manifest_path(app_id, f"{sequence:09d}"),
        )
        for folder in self.list_folders(app_id)[:-MAX_SNAPSHOTS]:
            shutil.rmtree(folder, ignore_errors=True)
        return manifest

    def list_folders(self, app_id: str) -> list[Path]:
        """Return the snapshot folders of an app, oldest first."""
        place = self._app_folder(app_id)
        if not place.is_dir():
            return []
        return sorted(one for one in place.iterdir() if one.is_dir() and one.name.isdigit())

    def _app_folder(self, app_id: str) -> Path:
        return self._root / app_id / _FOLDER


def _manifest_path(app_id: str, name: str) -> str:
    """Return the path of a snapshot's manifest below the root; its signature is valid only there."""
    return f"{app_id}/{_FOLDER}/{name}/{MANIFEST}"
