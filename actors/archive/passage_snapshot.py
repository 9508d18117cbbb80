"""The passages of an app on disk: written by a job, mapped by every replica, verified byte by byte.

    <folder>/manifest.json        kind `passages`; written last
    <folder>/papers.bin           documents as JSON, one behind the other; `papers-at.npy` says where
    <folder>/frame-*.npy          owner, first, keys, places, kinds, days        (segment)
    <folder>/postings-*.npy       terms, starts, rows, levels, peaks, lengths    (lexical)
    <folder>/vectors-*.npy        codes, scales; `vectors-scan.faiss`, `vectors-sketches.faiss`    (compact)
    <folder>/embedder-*.npy       what the built-in trained embedder learned     (latent)

These are the open documents. Those of each tier have the same files with a number in front, from `1-papers.bin` on.

Facts of the manifest: `offset` (of the product log, up to which it is complete), `kinds` (types), `languages`,
`locked` (access, types and languages of each tier), `documents`, `passages`, `embedder` (version), `share` (of
meaning), `version` (digest of all files).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from actors.archive.passages import Document, DocumentSection, Passage, split_kind
from actors.archive.segment import DocumentArrays, PassageExcerpt, PassageSegment, split_by_access
from actors.language.hashing_embedder import Embedder
from actors.language.latent_embedder import LatentEmbedder
from actors.retrieval.lexical.passage_postings import PassagePostings
from actors.vectors.quantization import QuantizedVectors
from cluster.artifacts.file_verification import damaged_file_error, file_entry_from_path, verify_file
from cluster.artifacts.manifest import Manifest
from cluster.crypto import Signer
from cluster.errors import Fault

KIND = "passages"
MANIFEST = "manifest.json"
PAPERS = "papers.bin"
PAPERS_AT = "papers-at.npy"
SCAN = "vectors-scan.faiss"
SKETCHES = "vectors-sketches.faiss"

_FACTS = 11
"Members of every document; a corrected one has two more, its time and its note."
_FRAME = ("owner", "first", "keys", "places", "kinds", "days")
_POSTINGS = ("terms", "starts", "rows", "levels", "peaks", "lengths")


class MappedDocuments:
    """Documents read from a mapped file when they are needed."""

    def __init__(self, data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> None:
        # A memoryview: its slices copy nothing, and the JSON parser reads them directly.
        self._data: memoryview = data.view(np.ndarray).data
        self._at = at
        self.nbytes = int(data.nbytes + at.nbytes)

    def __len__(self) -> int:
        return len(self._at) - 1

    def document(self, number: int) -> Document:
        """Return a document; 15 us for one of 3 KB."""
        return document_from_bytes(self._bytes(number))

    def excerpt(self, number: int, position: int) -> PassageExcerpt:
        """Return a passage of a document; 5 us, because the rest of the document is not parsed."""
        facts = orjson.loads(self._bytes(number))[:_FACTS]
        product_id, _, title, authors, published, url, licence, _, text, sections, passages = facts
        start, end, section = passages[position]
        _, child_title, child_id, child_url = sections[section]
        shown = child_url or url, text[start:end], licence, child_id, start
        return PassageExcerpt(product_id, position, title, child_title, tuple(authors), published, *shown)

    def _bytes(self, number: int) -> memoryview:
        return self._data[self._at[number] : self._at[number + 1]]


def part_prefix(number: int) -> str:
    """Return the beginning of the names of the files of a part: 0 has the open documents, the others one tier each."""
    return f"{number}-" if number else ""


def document_to_bytes(document: Document) -> bytes:
    """Serialize a document."""
    correction = [document.corrected_at, document.correction_note] if document.corrected_at else []
    return orjson.dumps(
        [
            document.product_id,
            document.kind,
            document.title,
            document.authors,
            document.published,
            document.url,
            document.licence,
            document.language,
            document.text,
            [[part.start, part.title, part.child_id, part.url] for part in document.sections],
            [[part.start, part.end, part.section] for part in document.passages],
            *correction,
        ]
    )


def document_from_bytes(data: bytes | memoryview) -> Document:
    """Deserialize the result of `document_to_bytes`."""
    facts = orjson.loads(data)
    product_id, kind, title, authors, published, url, licence, language, text, sections, passages = facts[
        :_FACTS
    ]
    # Only corrected documents have these two members, so older snapshots read unchanged.
    corrected_at, correction_note = facts[_FACTS:] or ("", "")
    product_type, access = split_kind(kind)
    return Document(
        product_id=product_id,
        type=product_type,
        title=title,
        authors=tuple(authors),
        published=published,
        url=url,
        licence=licence,
        language=language,
        text=text,
        sections=tuple(DocumentSection(*values) for values in sections),
        passages=tuple(Passage(*values) for values in passages),
        access=access,
        corrected_at=corrected_at,
        correction_note=correction_note,
    )


class PassageSnapshot:
    """An opened snapshot."""

    def __init__(self, folder: Path, manifest: Manifest, embedder: LatentEmbedder | None) -> None:
        self.folder = folder
        self.manifest = manifest
        self.embedder = embedder
        "The trained embedder of the snapshot; None when another embedder made the vectors."

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        verify: bool = True,
        signer: Signer | None = None,
        place: str = "",
        manifest: Manifest | None = None,
    ) -> PassageSnapshot:
        """Open a snapshot. Without `verify` only sizes are compared; with a signer, unsigned snapshots are refused.

        If the caller passes an authenticated manifest, it is used in place of the manifest in the folder.

        Errors:
            Fault: the manifest is not signed for this place, or a file is missing, has another size or checksum, or
                does not match the manifest; fact `path`
        Cost:
            verifying: 0.5 s per GB from memory; mapping: some ms
        """
        try:
            if manifest is None:
                data = (folder / MANIFEST).read_bytes()
                manifest = Manifest.parse(data, kind=KIND, signer=signer, place=place)
        except OSError as error:
            raise damaged_file_error(MANIFEST, "it is missing") from error
        # All files before any is mapped: a damaged array could lead to any place of another one.
        for entry in manifest.files:
            verify_file(folder / entry.name, entry, verify=verify)
        embedder = None
        if any(entry.name == "embedder-features.npy" for entry in manifest.files):
            features, projection = (
                _map_array(folder, f"embedder-{name}.npy") for name in ("features", "projection")
            )
            embedder = LatentEmbedder(features, projection, str(manifest.facts["embedder"]))
        return cls(folder, manifest, embedder)

    @property
    def facts(self) -> Any:
        return self.manifest.facts

    def open_segments(self) -> list[PassageSegment]:
        """Map all files as segments: the open documents, and those of each tier."""
        segments = []
        if self.facts["kinds"]:
            types, accesses = zip(*map(split_kind, self.facts["kinds"]), strict=True)
            segment = self._open_segment("", types, self.facts)
            segments = split_by_access(segment, accesses) if any(accesses) else [segment]
        for number, facts in enumerate(self.facts.get("locked", ()), 1):
            segments.append(self._open_segment(part_prefix(number), tuple(facts["kinds"]), facts))
        return segments

    def _open_segment(self, prefix: str, types: tuple[str, ...], facts: Mapping[str, Any]) -> PassageSegment:
        folder = self.folder
        names = {entry.name for entry in self.manifest.files}
        frame = DocumentArrays(**{name: _map_array(folder, f"{prefix}frame-{name}.npy") for name in _FRAME})
        postings = PassagePostings(
            **{name: _map_array(folder, f"{prefix}postings-{name}.npy") for name in _POSTINGS}
        )
        papers = MappedDocuments(
            np.memmap(folder / f"{prefix}{PAPERS}", np.uint8, "r"), _map_array(folder, f"{prefix}{PAPERS_AT}")
        )
        vectors = None
        if f"{prefix}vectors-codes.npy" in names:
            codes, scales = (
                _map_array(folder, f"{prefix}vectors-{name}.npy") for name in ("codes", "scales")
            )
            optional = (f"{prefix}{SCAN}", f"{prefix}{SKETCHES}")
            scan, sketches = (folder / name if name in names else None for name in optional)
            vectors = QuantizedVectors.open(codes, scales, scan, sketches)
        # Whole files may still come from different writes; equal lengths are the least that must hold.
        if not len(frame.owner) == len(postings) == int(frame.first[-1]) or len(papers) != len(frame.keys):
            raise Fault("snapshot is damaged: its arrays do not fit each other", path=str(folder))
        access = str(facts.get("access", ""))
        return PassageSegment(papers, frame, postings, vectors, types, dict(facts["languages"]), access)


def write_manifest(
    folder: Path,
    facts: dict[str, Any],
    *,
    sequence: int,
    written_at_ms: int,
    signer: Signer | None = None,
    place: str = "",
) -> Manifest:
    """Write the manifest of all files in a folder, signed for its place if there is a signer."""
    files = tuple(file_entry_from_path(path) for path in sorted(folder.iterdir()) if path.name != MANIFEST)
    # Facts and checksums alone, not the time: equal files have one version.
    digest = hashlib.sha256(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS))
    for entry in files:
        digest.update(f"{entry.name} {entry.sha256}".encode())
    manifest = Manifest(KIND, sequence, written_at_ms, {**facts, "version": digest.hexdigest()[:16]}, files)
    # Written after the files and synced: a manifest on the disk means that its files are there.
    with (folder / MANIFEST).open("wb") as stream:
        stream.write(manifest.dump(signer, place))
        stream.flush()
        os.fsync(stream.fileno())
    return manifest


def save_array(folder: Path, name: str, array: npt.NDArray[Any]) -> None:
    """Write an array as `<name>.npy`, little-endian, never pickled.

    Shapes:
        array: any
    """
    # Little-endian whatever the machine, so that a snapshot can be mapped on another one.
    plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    with (folder / f"{name}.npy").open("wb") as stream:
        np.lib.format.write_array(stream, plain, version=(1, 0), allow_pickle=False)
        stream.flush()
        os.fsync(stream.fileno())


def save_embedder(folder: Path, embedder: Embedder) -> None:
    """Write the arrays of the built-in trained embedder; other embedders have files elsewhere."""
    if isinstance(embedder, LatentEmbedder):
        for name, array in embedder.arrays().items():
            save_array(folder, f"embedder-{name}", array)


def save_arrays(
    folder: Path, prefix: str, arrays: dict[str, npt.NDArray[Any]], names: Sequence[str] = ()
) -> None:
    """Write several arrays with a prefix.

    Shapes:
        arrays: any
    """
    for name in names or arrays:
        save_array(folder, f"{prefix}-{name}", arrays[name])


def _map_array(folder: Path, name: str) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = np.load(folder / name, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError) as error:
        raise damaged_file_error(name, f"it is no array: {error}") from error
    # a plain view: every slice of a memmap object would cost extra bookkeeping
    return array.view(np.ndarray)
