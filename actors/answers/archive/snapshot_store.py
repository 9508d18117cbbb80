"""Store the passage snapshots of all apps and find the newest.

    <root>/<app>/passages/<sequence>/

The newest snapshot counts that is undamaged and whose embedder is installed. Snapshots are mapped, so they need a
local disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import structlog

from actors.answers.archive.library import PassageLibrary
from actors.answers.archive.passages import Document
from actors.answers.archive.snapshot import MANIFEST, PassageSnapshot
from actors.answers.archive.snapshot_writer import ProgressCallback, WeightedEmbedder, write_snapshot
from actors.language.embedder import Embedder, Vectors
from cluster.artifacts.manifest import Manifest
from cluster.errors import Fault
from cluster.secrecy import Signer

# --- one embedding for all replicas -------------------------------------------------------------------------
# Embed each passage once for all replicas of a node, when the embedder is slow.
#
# Every replica follows the log and needs the vectors of new documents. A sentence encoder takes tens of milliseconds
# a passage. So the first replica embeds a document and writes the vectors to a file named after the texts; the others
# wait for it. A replica computes a missing or damaged file again, so a failure only costs time.
#
#     <root>/<embedder>/<aa>/<digest>.npy     float32 [passages, d]
#     <root>/<embedder>/<aa>/<digest>.claim   a replica is embedding them


WAIT_S = 20.0
"Age at which a claim expires: its replica has probably crashed."
MAX_AGE_S = 86_400.0
"Age at which vectors are deleted; a replica that still needs them computes them again."
_POLL_S = 0.02
_SWEEP_EVERY = 500


class SharedEmbedder:
    """An embedder for writers that shares vectors with other replicas. Use from one thread at a time."""

    is_slow = True

    def __init__(
        self, embedder: Embedder, root: Path, *, sleep: Callable[[float], object], wait_s: float = WAIT_S
    ) -> None:
        self._embedder = embedder
        self._root = root / embedder.version
        self._sleep = sleep
        self._looks = max(1, round(wait_s / _POLL_S))
        self._made = 0
        self.version = embedder.version
        self.dimensions = embedder.dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed the passages of one document.

        Shapes:
            returns: float32 [n, d], equal to the embedder's result
        """
        digest = hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
        path = self._root / digest[:2] / f"{digest}.npy"
        for _ in range(self._looks):
            vectors = self._read(path, len(texts))
            if vectors is not None:
                return vectors
            if self._claim(path):
                break
            self._sleep(_POLL_S)
        return self._embed_and_share(texts, path)

    def _embed_and_share(self, texts: Sequence[str], path: Path) -> Vectors:
        try:
            vectors = self._embedder.embed(texts)
            part = path.with_suffix(f".{os.getpid()}-{id(self):x}.part")
            with contextlib.suppress(OSError):  # a full disk costs the others time, and this replica nothing
                with part.open("wb") as stream:
                    np.lib.format.write_array(stream, vectors, version=(1, 0), allow_pickle=False)
                os.replace(part, path)
        finally:
            path.with_suffix(".claim").unlink(missing_ok=True)
        self._made += 1
        if self._made % _SWEEP_EVERY == 0:
            self._sweep(path)
        return vectors

    def _read(self, path: Path, count: int) -> Vectors | None:
        try:
            vectors: Vectors = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        fits = vectors.dtype == np.float32 and vectors.shape == (count, self.dimensions)
        return vectors if fits else None

    @staticmethod
    def _claim(path: Path) -> bool:
        """Claim a document; return False when another replica holds it, and True where nothing can be written."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path.with_suffix(".claim"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        except OSError:
            return True
        return True

    def _sweep(self, newest: Path) -> None:
        """Delete old files in the folder of the new one."""
        oldest = newest.stat().st_mtime - MAX_AGE_S if newest.exists() else 0.0
        for path in self._root.glob("*/*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < oldest:
                    path.unlink()


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
