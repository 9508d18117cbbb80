"""An imported sentence encoder: ONNX in 8 bits through onnxruntime.

    <models>/<version>/manifest.json     kind `encoder`; facts `version`, `dimensions`, `tokens`
    <models>/<version>/model.onnx        ids, mask, positions -> vectors of length 1
    <models>/<version>/tokenizer.json

Nothing is downloaded, ever; onnxruntime and tokenizers are an extra (`meaning`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from actors.language.hashing_embedder import Embedder, Vectors
from cluster.artifacts.file_verification import file_entry_from_path
from cluster.artifacts.manifest import Manifest
from cluster.errors import Fault, Invalid, NotFound

KIND = "encoder"
MANIFEST = "manifest.json"
MODEL = "model.onnx"
TOKENIZER = "tokenizer.json"
SHARE = 0.5
"Weight of its vectors beside BM25."

_BATCH = 16


class SentenceEncoder:
    """Embeds by a neural network; a few milliseconds a question."""

    is_slow = True

    def __init__(self, session: Any, tokenizer: Any, version: str, dimensions: int) -> None:
        self._session = session
        self._tokenizer = tokenizer
        self.version = version
        self.dimensions = dimensions

    @classmethod
    def open(cls, folder: Path, *, threads: int = 1, manifest: Manifest | None = None) -> SentenceEncoder:
        """Load an imported encoder; its files are compared with a manifest, by default the one in the folder.

        Errors:
            NotFound: the folder has no encoder
            Fault: its files are damaged
            Invalid: the extra `meaning` is not installed
        """
        manifest = _verify_files(folder, manifest)
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as error:
            raise Invalid("this encoder needs the extra: pip install 'kiosk[meaning]'") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(
            str(folder / MODEL), options, providers=["CPUExecutionProvider"]
        )
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        # Padded below to the longest text of a batch, not to a fixed length.
        tokenizer.no_padding()
        tokenizer.enable_truncation(int(manifest.facts["tokens"]))
        return cls(session, tokenizer, str(manifest.facts["version"]), int(manifest.facts["dimensions"]))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts, those of like length together.

        Shapes:
            returns: float32 [n, d], rows of length 1 (zeros for an empty text)
        Cost:
            2.5 ms for a question, 30 to 40 ms for a passage, one thread
        """
        out = np.zeros((len(texts), self.dimensions), np.float32)
        token_ids = [encoded.ids for encoded in self._tokenizer.encode_batch([text or "" for text in texts])]
        # Batches of like length waste few positions on padding.
        order = sorted(
            (at for at, text in enumerate(texts) if text.strip()), key=lambda at: len(token_ids[at])
        )
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            out[batch] = self._run([token_ids[at] for at in batch])
        return out

    def _run(self, batch: Sequence[Sequence[int]]) -> Vectors:
        longest = max(map(len, batch))
        ids = np.zeros((len(batch), longest), np.int64)
        mask = np.zeros((len(batch), longest), np.float32)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        positions = np.arange(longest, dtype=np.int64)
        vectors: Vectors = self._session.run(["vectors"], {"ids": ids, "mask": mask, "positions": positions})[
            0
        ]
        return vectors


def list_models(folder: Path) -> list[Path]:
    """List the folders of imported encoders, the one imported last first."""
    if not folder.is_dir():
        return []
    folders = [
        entry for entry in folder.iterdir() if (entry / MANIFEST).is_file() and not entry.name.startswith(".")
    ]
    return sorted(folders, key=lambda entry: (entry / MANIFEST).stat().st_mtime, reverse=True)


def find_encoder(folder: Path, version: str = "") -> Embedder | None:
    """Open the encoder of a version, or the one imported last; None if it is not imported."""
    for entry in list_models(folder):
        if version in ("", entry.name):
            return SentenceEncoder.open(entry)
    return None


def seal_model(folder: Path, facts: dict[str, Any]) -> None:
    """Write the manifest with the checksums of an encoder's files."""
    files = tuple(file_entry_from_path(folder / name) for name in (MODEL, TOKENIZER))
    (folder / MANIFEST).write_bytes(Manifest(KIND, 1, 0, facts, files).dump())


def _verify_files(folder: Path, manifest: Manifest | None) -> Manifest:
    try:
        if manifest is None:
            manifest = Manifest.parse((folder / MANIFEST).read_bytes(), kind=KIND)
        damaged = [
            entry.name for entry in manifest.files if file_entry_from_path(folder / entry.name) != entry
        ]
    except OSError as error:
        raise NotFound(f"no encoder in {folder.name}: {error.strerror}") from error
    if damaged:
        raise Fault(f"encoder {folder.name} is damaged: {damaged[0]}", path=str(folder / damaged[0]))
    return manifest
