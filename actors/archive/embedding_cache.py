"""Embed each passage once for all replicas of a node, when the embedder is slow.

Every replica follows the log and needs the vectors of new documents. A sentence encoder takes tens of milliseconds
a passage. So the first replica embeds a document and writes the vectors to a file named after the texts; the others
wait for it. A replica computes a missing or damaged file again, so a failure only costs time.

    <root>/<embedder>/<aa>/<digest>.npy     float32 [passages, d]
    <root>/<embedder>/<aa>/<digest>.claim   a replica is embedding them
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from actors.language.hashing_embedder import Embedder, Vectors

WAIT_S = 20.0

"Age at which a claim expires: its replica has probably crashed."

MAX_AGE_S = 86_400.0

"Age at which vectors are deleted; a replica that still needs them computes them again."

_POLL_S = 0.02

_SWEEP_EVERY = 500


class CachingEmbedder:
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
            # Written beside the file and renamed, so that no replica reads half of it.
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
            # Of two replicas, O_EXCL lets one create the file.
            os.close(os.open(path.with_suffix(".claim"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        except OSError:
            return True
        return True

    def _sweep(self, newest: Path) -> None:
        """Delete old files of this embedder."""
        oldest = newest.stat().st_mtime - MAX_AGE_S if newest.exists() else 0.0
        for path in self._root.glob("*/*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < oldest:
                    path.unlink()
