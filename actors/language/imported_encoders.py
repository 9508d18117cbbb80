"""Imported encoders: a folder of this machine, and the artifact store for the other nodes.

<data_dir>/models/<version>/             where `kiosk models import` writes
models/<version>/<file>                  the same in an artifact store that is not below the data directory
models/<version>/manifest.json           signed, written last
"""

from __future__ import annotations

from pathlib import Path

import structlog

from actors.language.encoder import KIND, MANIFEST, MODEL, TOKENIZER, SentenceEncoder, find_encoder
from actors.language.hashing_embedder import Embedder
from cluster.artifacts.file_verification import file_entry_from_path
from cluster.artifacts.manifest import Manifest, check_name, load_manifest, save_manifest
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Conflict, Fault, NotFound, Unavailable

FOLDER = "models"


class EncoderStore:
    """Encoders of one installation."""

    def __init__(self, folder: Path, store: ArtifactStore) -> None:
        self._folder = folder
        self._store = store
        self._log = structlog.get_logger()

    def find(self, version: str = "") -> Embedder | None:
        """Open the encoder of a version, or the one imported last; None if it is not imported.

        One of this machine comes first. An encoder that can't be fetched counts as not imported, and is logged.

        Errors:
            Fault: it is damaged
            Invalid: the extra `meaning` is not installed
        """
        local = find_encoder(self._folder, version)
        if local is not None:
            return local
        try:
            name = version or self._newest()
            return None if not name else self._open_stored(name)
        except NotFound:
            return None
        except Unavailable as error:
            self._log.warning("encoder_not_fetched", version=version, reason=error.message)
            return None

    def publish(self, folder: Path) -> str:
        """Copy an imported encoder to the artifact store, the manifest last; return its version."""
        facts = Manifest.parse((folder / MANIFEST).read_bytes(), kind=KIND).facts
        place = f"{FOLDER}/{facts['version']}"
        files = tuple(file_entry_from_path(folder / name) for name in (MODEL, TOKENIZER))
        for entry in files:
            self._store.upload(f"{place}/{entry.name}", folder / entry.name)
        try:
            save_manifest(self._store, f"{place}/{MANIFEST}", Manifest(KIND, 1, 0, facts, files))
        except Conflict:
            self._log.info("encoder_known", version=facts["version"])
        # The version is made of the content, so a manifest of the same version says the same.
        return str(facts["version"])

    def _newest(self) -> str:
        manifests = [entry for entry in self._store.entries(FOLDER) if entry.path.endswith(f"/{MANIFEST}")]
        return max(manifests, key=lambda entry: entry.modified_ms).path.split("/")[-2] if manifests else ""

    def _open_stored(self, version: str) -> SentenceEncoder:
        check_name(version)
        place = f"{FOLDER}/{version}"
        manifest = load_manifest(self._store, f"{place}/{MANIFEST}", KIND)
        for left in (1, 0):
            folder = self._store.node_copy(f"{place}/{MANIFEST}", place, manifest.files)
            try:
                return SentenceEncoder.open(folder, manifest=manifest)
            except (Fault, NotFound):
                # A damaged copy on this machine is fetched once more.
                if not left or not self._store.discard_copy(folder):
                    raise
        raise AssertionError("the last attempt returns or raises")
