"""Write documents to a snapshot folder, in two passes and with bounded memory.

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
import structlog

from actors.archive.passages import Document, split_kind
from actors.archive.segment import SegmentFrame, day_from_date, detect_language, key_from_product_id
from actors.archive.snapshot import (
    PAPERS,
    SCAN,
    SKETCHES,
    MappedDocuments,
    document_to_bytes,
    save_array,
    save_arrays,
    save_embedder,
    write_manifest,
)
from actors.language import latent_embedder
from actors.language.analysis import Analyzers
from actors.language.embedder import Embedder, Vectors
from actors.retrieval.lexical.passage_postings import build_postings
from actors.retrieval.lexical.postings import PassageTermCounts, concatenate_counts, count_terms
from actors.vectors.compact import CompactVectors
from actors.vectors.types import Scores
from cluster.access_tier import MOST_TIERS
from cluster.artifacts.manifest import Manifest
from cluster.errors import Conflict, Invalid
from cluster.secrecy import Signer

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
    part = folder.parent / f".{folder.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        work = _SnapshotWriter(part, watch or (lambda stage, count: None))
        work.read(documents)
        work.embed(meaning)
        facts = {**work.manifest_facts(), "offset": offset}
        manifest = write_manifest(
            part, facts, sequence=sequence, written_at_ms=written_at_ms, signer=signer, place=place
        )
        os.rename(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return manifest


class _SnapshotWriter:
    """The state of writing one snapshot."""

    def __init__(self, folder: Path, watch: ProgressCallback) -> None:
        self._folder = folder
        self._watch = watch
        self._log = structlog.get_logger()
        self._analyzers = Analyzers()
        self._languages: Counter[str] = Counter()
        self._kinds: dict[str, int] = {}
        self._at: list[int] = [0]
        self._sizes: list[int] = []
        self._keys: list[int] = []
        self._kind: list[int] = []
        self._days: list[int] = []
        self._embedder = ""
        self._share = 0.0

    def read(self, documents: Iterable[Document]) -> None:
        """First pass: papers, words, the frame."""
        tallies: list[PassageTermCounts] = []
        with (self._folder / PAPERS).open("wb") as papers:
            for batch in _batches(_drop_excess_tiers(documents), _BATCH):
                tallies.append(count_terms(self._terms(batch)))
                for document in batch:
                    data = document_to_bytes(document)
                    papers.write(data)
                    self._record(document, len(data))
                self._watch("words", len(self._sizes))
            papers.flush()
            os.fsync(papers.fileno())
        if not self._sizes:
            raise Invalid("there are no articles with text")
        counted = concatenate_counts(tallies)
        tallies.clear()
        # The mean of open passages: a locked one changes no score of an open one.
        is_open = np.array([not split_kind(kind)[1] for kind in self._kinds], np.bool_)[self._kind]
        lengths = counted.lengths[np.repeat(is_open, self._sizes)]
        mean = float((lengths if len(lengths) else counted.lengths).mean())
        save_arrays(self._folder, "postings", build_postings(counted, mean).arrays())
        save_arrays(self._folder, "frame", self._frame().arrays())
        save_array(self._folder, "papers-at", np.array(self._at, np.int64))

    def embed(self, meaning: WeightedEmbedder | None) -> None:
        """Second pass: vectors."""
        if meaning is None:
            step = max(1, sum(self._sizes) // TRAINED_ON)
            sample = [text for at, text in enumerate(self._texts(only_open=True)) if at % step == 0]
            sample = sample or [text for at, text in enumerate(self._texts()) if at % step == 0]
            meaning = WeightedEmbedder(latent_embedder.train(sample), latent_embedder.SHARE)
            self._watch("trained", len(sample))
        embedder = meaning.embedder
        save_embedder(self._folder, embedder)
        self._embedder = embedder.version
        self._share = meaning.share
        vectors = self._vectors(embedder).with_sketches()
        save_array(self._folder, "vectors-codes", vectors.codes)
        save_array(self._folder, "vectors-scales", vectors.scales)
        vectors.save_scan(self._folder / SCAN)
        vectors.save_sketches(self._folder / SKETCHES)

    def manifest_facts(self) -> dict[str, Any]:
        """Return the facts of the manifest."""
        return {
            "documents": len(self._sizes),
            "passages": sum(self._sizes),
            "kinds": list(self._kinds),
            "languages": dict(self._languages),
            "embedder": self._embedder,
            "share": self._share,
            "has_access": True,
        }

    def _terms(self, documents: Sequence[Document]) -> Iterator[list[int]]:
        for document in documents:
            language = detect_language(document, self._analyzers)
            analyzer = self._analyzers.get(language)
            self._languages[language] += len(document.passages)
            for passage in document.passages:
                yield analyzer.terms(document.passage_text(passage))

    def _record(self, document: Document, size: int) -> None:
        self._at.append(self._at[-1] + size)
        self._sizes.append(len(document.passages))
        self._keys.append(key_from_product_id(document.product_id))
        self._kind.append(self._kinds.setdefault(document.kind, len(self._kinds)))
        self._days.append(day_from_date(document.published))

    def _frame(self) -> SegmentFrame:
        keys = np.array(self._keys, np.uint64)
        places = np.argsort(keys, kind="stable").astype(np.uint32)
        sizes = np.array(self._sizes, np.int64)
        return SegmentFrame(
            owner=np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes),
            first=np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]),
            keys=keys[places],
            places=places,
            kinds=np.array(self._kind, np.uint16),
            days=np.array(self._days, np.int32),
        )

    def _texts(self, *, only_open: bool = False) -> Iterator[str]:
        """Read back all passages with their titles, or those that everybody may read."""
        papers = MappedDocuments(
            np.memmap(self._folder / PAPERS, np.uint8, "r"), np.array(self._at, np.int64)
        )
        for number in range(len(papers)):
            document = papers.document(number)
            if only_open and document.access:
                continue
            for passage in document.passages:
                yield document.passage_text(passage)

    @staticmethod
    def _scales(vectors: Vectors, room: float) -> Scores:
        largest = np.abs(vectors).max(axis=0) * np.float32(room)
        return np.where(largest > 0, largest / np.float32(127), np.float32(1))

    def _vectors(self, embedder: Embedder) -> CompactVectors:
        """Embed all passages; the first batches determine the scales, and later values beyond them are clipped."""
        codes = np.empty((sum(self._sizes), embedder.dimensions), np.int8)
        scales: Scores | None = None
        if any(split_kind(kind)[1] for kind in self._kinds):
            # Open passages alone determine the scales, so that locked ones change no score of theirs.
            first = next(_batches(self._texts(only_open=True), _BATCH), [""])
            scales = self._scales(embedder.embed(first), _ROOM)
        done = 0
        for batch in _batches(self._texts(), _BATCH):
            vectors = embedder.embed(batch)
            if scales is None:
                scales = self._scales(vectors, _ROOM if len(codes) > len(batch) else 1.0)
            codes[done : done + len(batch)] = np.clip(np.rint(vectors / scales), -127, 127)
            done += len(batch)
            self._watch("vectors", done)
        return CompactVectors(codes, np.ones(embedder.dimensions, np.float32) if scales is None else scales)


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
