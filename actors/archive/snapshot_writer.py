"""Write documents to a snapshot folder, in two passes and with bounded memory; those of each access separately.

first pass    write documents one behind the other and count their words
training      train the embedder on an even sample, when it is the built-in one
second pass   read passages back and embed them, batch by batch
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.archive.passage_snapshot import (
    PAPERS,
    SCAN,
    SKETCHES,
    MappedDocuments,
    document_to_bytes,
    part_prefix,
    save_arrays,
    save_embedder,
    write_manifest,
)
from actors.archive.passages import Document
from actors.archive.segment import DocumentArrays, day_from_date, detect_language, key_from_product_id
from actors.language import latent_embedder
from actors.language.analysis import Analyzers
from actors.language.hashing_embedder import Embedder
from actors.retrieval.lexical.passage_postings import build_postings
from actors.retrieval.lexical.postings import PassageTermCounts, concatenate_counts, count_terms
from actors.vectors.quantization import QuantizedVectors
from actors.vectors.types import Scores
from cluster.access_tier import MOST_TIERS
from cluster.artifacts.manifest import Manifest
from cluster.crypto import Signer
from cluster.errors import Conflict, Invalid

TRAINED_ON = 20_000
"Maximal number of passages for training the built-in embedder."
_BATCH = 5_000
_ROOM = 1.1
"Factor by which scales exceed the sample's largest values."


@dataclass(frozen=True, slots=True)
class WeightedEmbedder:
    """An embedder and the weight of its similarities."""

    embedder: Embedder
    share: float


ProgressCallback = Callable[[str, int], None]
"Called with a stage and its number of finished documents or passages."


def write_snapshot(
    documents: Iterable[Document],
    folder: Path,
    *,
    offset: str,
    sequence: int,
    written_at_ms: int,
    meaning: WeightedEmbedder | None = None,
    watch: ProgressCallback | None = None,
    signer: Signer | None = None,
    place: str = "",
) -> Manifest:
    """Write a snapshot into a folder that must not exist yet; without `meaning` the built-in embedder is trained.

    Errors:
        Conflict: the folder exists
        Invalid: there are no documents
    Cost:
        300,000 passages: see tests/benchmarks/retrieval.py
    """
    if folder.exists():
        raise Conflict(f"there is a snapshot already: {folder.name}", path=str(folder))
    # In the same folder: `rename` is atomic within one file system only.
    part = folder.parent / f".{folder.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    # The removal above clears the rest of a writer that was killed: its folder has the same name.
    part.mkdir(parents=True)
    try:
        work = _SnapshotWriter(part, watch or (lambda stage, count: None))
        work.read(documents)
        work.embed(meaning)
        facts = {**work.manifest_facts(), "offset": offset}
        manifest = write_manifest(
            part, facts, sequence=sequence, written_at_ms=written_at_ms, signer=signer, place=place
        )
        # A reader sees the whole folder or none; `list_sequences` relies on that.
        os.rename(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return manifest


class _SnapshotWriter:
    """The state of writing one snapshot."""

    def __init__(self, folder: Path, watch: ProgressCallback) -> None:
        self._folder = folder
        self._watch = watch
        self._analyzers = Analyzers()
        self._parts: dict[str, _PartWriter] = {}
        "By access of the documents."
        self._embedder = ""
        self._share = 0.0

    def read(self, documents: Iterable[Document]) -> None:
        """First pass: papers, words, the frame."""
        done = 0
        for batch in _batches(_drop_excess_tiers(documents), _BATCH):
            by_access: dict[str, list[Document]] = {}
            for document in batch:
                by_access.setdefault(document.access, []).append(document)
            for access, of_access in by_access.items():
                self._part(access).add(of_access, self._analyzers)
            done += len(batch)
            self._watch("words", done)
        if not self._parts:
            raise Invalid("there are no articles with text")
        for part in self._parts.values():
            part.write_words()

    def embed(self, meaning: WeightedEmbedder | None) -> None:
        """Second pass: vectors. Open passages train the embedder, so that locked ones change no score of theirs."""
        if meaning is None:
            parts = [self._parts[""]] if "" in self._parts else list(self._parts.values())
            step = max(1, sum(part.passages for part in parts) // TRAINED_ON)
            texts = (text for part in parts for text in part.texts())
            # Every n-th passage, so that all times and subjects of the archive are in the sample.
            sample = [text for at, text in enumerate(texts) if at % step == 0]
            meaning = WeightedEmbedder(latent_embedder.train_embedder(sample), latent_embedder.SHARE)
            self._watch("trained", len(sample))
        save_embedder(self._folder, meaning.embedder)
        self._embedder = meaning.embedder.version
        self._share = meaning.share
        done = 0
        for part in self._parts.values():
            for count in part.write_vectors(meaning.embedder):
                done += count
                self._watch("vectors", done)

    def manifest_facts(self) -> dict[str, Any]:
        """Return the facts of the manifest."""
        parts = self._parts.values()
        locked = [{"access": access, **part.facts()} for access, part in self._parts.items() if access]
        opened = self._parts[""].facts() if "" in self._parts else {"kinds": [], "languages": {}}
        return {
            "documents": sum(part.documents for part in parts),
            "passages": sum(part.passages for part in parts),
            **opened,
            "embedder": self._embedder,
            "share": self._share,
            "has_access": True,
            **({"locked": locked} if locked else {}),
        }

    def _part(self, access: str) -> _PartWriter:
        if access not in self._parts:
            # 0 is kept for open documents: their files have the names of snapshots without locked ones.
            number = len(self._parts.keys() - {""}) + 1 if access else 0
            self._parts[access] = _PartWriter(self._folder, part_prefix(number))
        return self._parts[access]


class _PartWriter:
    """The state of writing the documents of one access."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self.passages = 0
        self._folder = folder
        self._prefix = prefix
        self._papers = folder / f"{prefix}{PAPERS}"
        self._tallies: list[PassageTermCounts] = []
        self._languages: Counter[str] = Counter()
        self._types: dict[str, int] = {}
        self._at: list[int] = [0]
        self._sizes: list[int] = []
        self._keys: list[int] = []
        self._kinds: list[int] = []
        self._days: list[int] = []

    @property
    def documents(self) -> int:
        return len(self._sizes)

    def facts(self) -> dict[str, Any]:
        """Return what the manifest has of this part alone."""
        return {"kinds": list(self._types), "languages": dict(self._languages)}

    def add(self, documents: Sequence[Document], analyzers: Analyzers) -> None:
        """Write documents behind those before, and count their words."""
        self._tallies.append(count_terms(self._terms(documents, analyzers)))
        with self._papers.open("ab") as papers:
            for document in documents:
                data = document_to_bytes(document)
                papers.write(data)
                self._record(document, len(data))

    def write_words(self) -> None:
        """Write postings and frame, when all documents were added."""
        with self._papers.open("ab") as papers:
            # Before the manifest, which says that the papers are complete.
            os.fsync(papers.fileno())
        counted = concatenate_counts(self._tallies)
        # `counted` is a copy of them: both together would raise the peak of memory.
        self._tallies.clear()
        postings = build_postings(counted, float(counted.lengths.mean()))
        self._save_arrays("postings", postings.arrays())
        self._save_arrays("frame", self._frame().arrays())
        self._save_arrays("papers", {"at": np.array(self._at, np.int64)})

    def texts(self) -> Iterator[str]:
        """Read back all passages with their titles."""
        papers = MappedDocuments(np.memmap(self._papers, np.uint8, "r"), np.array(self._at, np.int64))
        for number in range(len(papers)):
            document = papers.document(number)
            for passage in document.passages:
                yield document.passage_text(passage)

    def write_vectors(self, embedder: Embedder) -> Iterator[int]:
        """Embed all passages and write their vectors; yield the size of each batch when it was embedded.

        The first batch determines the scales, and later values beyond them are clipped.
        """
        codes = np.empty((self.passages, embedder.dimensions), np.int8)
        scales: Scores | None = None
        done = 0
        for batch in _batches(self.texts(), _BATCH):
            vectors = embedder.embed(batch)
            # float32 [d]: one scale for each dimension, from the first batch
            if scales is None:
                largest = np.abs(vectors).max(axis=0)
                # Later batches may have larger values; a single batch needs no room and keeps its precision.
                largest *= np.float32(_ROOM if len(codes) > len(batch) else 1.0)
                # value = code * scale, codes from -127 to 127; a dimension of zeros divides by 1
                scales = np.where(largest > 0, largest / np.float32(127), np.float32(1))
            codes[done : done + len(batch)] = np.clip(np.rint(vectors / scales), -127, 127)
            done += len(batch)
            yield len(batch)
        if scales is None:
            scales = np.ones(embedder.dimensions, np.float32)
        compact = QuantizedVectors(codes, scales).with_sketches()
        self._save_arrays("vectors", {"codes": compact.codes, "scales": compact.scales})
        compact.save_scan(self._folder / f"{self._prefix}{SCAN}")
        compact.save_sketches(self._folder / f"{self._prefix}{SKETCHES}")

    def _save_arrays(self, name: str, arrays: dict[str, npt.NDArray[Any]]) -> None:
        save_arrays(self._folder, f"{self._prefix}{name}", arrays)

    def _terms(self, documents: Sequence[Document], analyzers: Analyzers) -> Iterator[list[int]]:
        for document in documents:
            language = detect_language(document, analyzers)
            analyzer = analyzers.get(language)
            self._languages[language] += len(document.passages)
            for passage in document.passages:
                yield analyzer.terms(document.passage_text(passage))

    def _record(self, document: Document, size: int) -> None:
        self.passages += len(document.passages)
        self._at.append(self._at[-1] + size)
        self._sizes.append(len(document.passages))
        self._keys.append(key_from_product_id(document.product_id))
        self._kinds.append(self._types.setdefault(document.type, len(self._types)))
        self._days.append(day_from_date(document.published))

    def _frame(self) -> DocumentArrays:
        keys = np.array(self._keys, np.uint64)
        # Sorted keys with their places: a product is looked up by binary search.
        places = np.argsort(keys, kind="stable").astype(np.uint32)
        sizes = np.array(self._sizes, np.int64)
        return DocumentArrays(
            # owner: number of the document of each passage
            owner=np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes),
            # first [documents + 1]: where the passages of each document begin
            first=np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]),
            keys=keys[places],
            places=places,
            kinds=np.array(self._kinds, np.uint16),
            days=np.array(self._days, np.int32),
        )


def _drop_excess_tiers(documents: Iterable[Document]) -> Iterator[Document]:
    """Leave out the documents of more tiers than an archive may have, as a library does."""
    tiers: set[str] = set()
    for document in documents:
        if document.access and document.access not in tiers:
            if len(tiers) >= MOST_TIERS:
                continue
            tiers.add(document.access)
        yield document


def _batches(things: Iterable[Any], size: int) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for thing in things:
        batch.append(thing)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
