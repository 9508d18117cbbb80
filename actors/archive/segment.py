"""An immutable part of the corpus: documents, their passages as words and as vectors. Only removals are marked.

owner   uint32 [n]        document of every passage
first   int64 [docs + 1]  first passage of every document
keys    uint64 [docs]     hashes of product ids, sorted; `places` holds the document of each
kinds   uint16 [docs]     number of the product type
days    int32 [docs]      day of publication since 1970; UNKNOWN_DAY when there is none
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, NamedTuple, Protocol

import mmh3
import numpy as np
import numpy.typing as npt

from actors.archive.passages import Document, Passage, split_kind
from actors.language.analysis import Analyzers
from actors.language.embedder import Embedder
from actors.retrieval.lexical.passage_postings import (
    PassagePostings,
    build_postings,
    drop_passages,
    merge_postings,
)
from actors.retrieval.lexical.postings import count_terms
from actors.vectors.compact import CompactVectors
from actors.vectors.types import Mask, Matrix
from cluster.access_tier import NOBODY, may_read

UNKNOWN_DAY = -(1 << 30)
AddressIndex = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]
"Sorted hashes of addresses, and the document of each."
_EPOCH = date(1970, 1, 1).toordinal()
_MOST_MASKS = 32
"Masks of a segment that are kept, one for each set of kinds that somebody may read."


class PassageExcerpt(NamedTuple):
    """A passage and the fields of its document."""

    product_id: str
    position: int
    title: str
    child_title: str
    authors: tuple[str, ...]
    published: str
    url: str
    text: str
    licence: str
    child_id: str
    start: int

    @classmethod
    def from_document(cls, document: Document, position: int) -> PassageExcerpt:
        """Build the excerpt of a document's passage."""
        passage = document.passages[position]
        section = document.sections[passage.section]
        return cls(
            document.product_id,
            position,
            document.title,
            section.title,
            document.authors,
            document.published,
            section.url or document.url,
            document.text[passage.start : passage.end],
            document.licence,
            section.child_id,
            passage.start,
        )


class DocumentSource(Protocol):
    """Documents by number."""

    def __len__(self) -> int: ...

    def document(self, number: int) -> Document:
        """Return a document."""
        ...

    def excerpt(self, number: int, position: int) -> PassageExcerpt:
        """Return a passage of a document."""
        ...

    @property
    def nbytes(self) -> int:
        """Return the bytes in memory, estimated."""
        ...


class MemoryDocuments:
    """Documents in memory."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = list(documents)
        self.nbytes = sum(
            2 * len(document.text) + 120 * len(document.passages) + 500 for document in self._documents
        )

    def __len__(self) -> int:
        return len(self._documents)

    def document(self, number: int) -> Document:
        return self._documents[number]

    def excerpt(self, number: int, position: int) -> PassageExcerpt:
        return PassageExcerpt.from_document(self._documents[number], position)


@dataclass(frozen=True, slots=True)
class SegmentFrame:
    """The small arrays of the module's table."""

    owner: npt.NDArray[np.uint32]
    first: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint64]
    places: npt.NDArray[np.uint32]
    kinds: npt.NDArray[np.uint16]
    days: npt.NDArray[np.int32]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all arrays by name, for writing them to disk.

        Shapes:
            owner [n]; first [docs + 1]; keys, places, kinds, days [docs]
        """
        return {name: getattr(self, name) for name in ("owner", "first", "keys", "places", "kinds", "days")}


@dataclass(slots=True)
class PassageSegment:
    """A segment. One thread at a time may mark removals; any number may read."""

    document_source: DocumentSource
    frame: SegmentFrame
    postings: PassagePostings
    vectors: CompactVectors | None
    kind_names: tuple[str, ...]
    languages: Mapping[str, int] = field(default_factory=dict)
    "Language -> passages."
    alive: Mask = field(init=False)
    removed_count: int = 0
    "Documents that were removed or replaced."
    accesses: frozenset[str] = field(init=False)
    "Tiers that its documents need; empty: open. Only a segment of a snapshot has several."
    has_locked: bool = field(init=False)
    _masks: dict[str | None, Mask | None] = field(default_factory=dict)
    _locked_masks: dict[tuple[int, ...], Mask | None] = field(default_factory=dict)
    _addresses: AddressIndex | None = None
    "Built by the first look-up of an address."

    def __post_init__(self) -> None:
        """Mark all passages as present."""
        self.alive = np.ones(len(self.postings), bool)
        self.accesses = frozenset(split_kind(kind)[1] for kind in self.kind_names)
        self.has_locked = bool(self.accesses - {""})

    def __len__(self) -> int:
        """Return the number of passages, removed ones included."""
        return len(self.postings)

    @property
    def documents(self) -> int:
        """Return the number of documents, removed ones included."""
        return len(self.document_source)

    @property
    def nbytes(self) -> int:
        """Return the bytes in memory or mapped."""
        frame = sum(array.nbytes for array in self.frame.arrays().values())
        vectors = 0 if self.vectors is None else self.vectors.nbytes
        return frame + self.postings.nbytes + vectors + self.document_source.nbytes + len(self)

    def find(self, product_id: str) -> int | None:
        """Return the number of a document that was not removed; None when there is none."""
        key = np.uint64(key_from_product_id(product_id))
        at = int(np.searchsorted(self.frame.keys, key))
        while at < len(self.frame.keys) and self.frame.keys[at] == key:
            number = int(self.frame.places[at])
            if (
                self.alive[self.frame.first[number]]
                and self.document_source.document(number).product_id == product_id
            ):
                return number
            at += 1
        return None

    def find_address(self, address: str) -> str:
        """Return the product of a canonical web address; empty if no document that was not removed has it."""
        if self._addresses is None:
            self._addresses = self._index_addresses()
        keys, places = self._addresses
        key = np.uint64(key_from_product_id(address))
        at = int(np.searchsorted(keys, key))
        while at < len(keys) and keys[at] == key:
            number = int(places[at])
            if self.alive[self.frame.first[number]]:
                document = self.document_source.document(number)
                if address in document.addresses:
                    return document.product_id
            at += 1
        return ""

    def _index_addresses(self) -> AddressIndex:
        pairs = [
            (key_from_product_id(address), number)
            for number in range(self.documents)
            for address in self.document_source.document(number).addresses
        ]
        pairs.sort()
        return np.array([key for key, _ in pairs], np.uint64), np.array([at for _, at in pairs], np.uint32)

    def mark_removed(self, number: int) -> None:
        """Mark a document as removed or replaced."""
        self.alive[self.frame.first[number] : self.frame.first[number + 1]] = False
        self.removed_count += 1
        self._masks = {}
        self._locked_masks = {}

    def mask_of_type(self, kind: str | None, tiers: frozenset[str] = NOBODY) -> Mask | None:
        """Return the mask of present passages of a product type that some tiers may read; None when that is all.

        Shapes:
            returns: bool [n]
        """
        if self.has_locked:
            return self._mask_of_kinds(self._list_kinds(tiers, kind))
        masks = self._masks
        if kind not in masks:
            mask: Mask | None = self.alive
            if kind is not None and set(self.kind_names) != {kind}:
                number = self.kind_names.index(kind) if kind in self.kind_names else -1
                mask = (self.frame.kinds == number)[self.frame.owner] & self.alive
            masks[kind] = None if mask is None or mask.all() else mask
        return masks[kind]

    def has_readable(self, tiers: frozenset[str]) -> bool:
        """Return whether some tiers may read any of its documents."""
        return not self.has_locked or any(may_read(access, tiers) for access in self.accesses)

    def readable_mask(self, tiers: frozenset[str]) -> Mask | None:
        """Return the mask of the present passages that some tiers may read; None where they may read all.

        Shapes:
            returns: bool [n]
        """
        if not self.has_locked or all(may_read(access, tiers) for access in self.accesses):
            return None
        mask = self.mask_of_type(None, tiers)
        return self.alive if mask is None else mask

    def lengths_of(self, access: str) -> npt.NDArray[np.int32]:
        """Return the terms of each passage of one access.

        Shapes:
            returns: int32 [m]
        """
        lengths = self.postings.lengths
        if self.accesses == {access}:
            return lengths
        is_access = np.array([split_kind(kind)[1] == access for kind in self.kind_names], np.bool_)
        return lengths[is_access[self.frame.kinds][self.frame.owner]]

    def _list_kinds(self, tiers: frozenset[str], product_type: str | None = None) -> tuple[int, ...]:
        kinds = enumerate(map(split_kind, self.kind_names))
        return tuple(
            number
            for number, (kind_type, access) in kinds
            if may_read(access, tiers) and product_type in (None, kind_type)
        )

    def _mask_of_kinds(self, kinds: tuple[int, ...]) -> Mask | None:
        masks = self._locked_masks
        if kinds not in masks:
            if len(masks) >= _MOST_MASKS:
                masks.clear()
            allowed = np.zeros(len(self.kind_names), np.bool_)
            allowed[list(kinds)] = True
            mask: Mask = allowed[self.frame.kinds][self.frame.owner] & self.alive
            masks[kinds] = None if mask.all() else mask
        return masks[kinds]

    def mask_of_products(self, product_ids: Iterable[str], allowed: Mask | None) -> Mask:
        """Return the mask of the allowed passages of some products.

        Shapes:
            allowed, returns: bool [n]
        """
        keys = np.array([key_from_product_id(product_id) for product_id in product_ids], np.uint64)
        numbers = self.frame.places[np.isin(self.frame.keys, keys)]
        chosen = np.zeros(self.documents, np.bool_)
        chosen[numbers] = True
        mask: Mask = chosen[self.frame.owner]
        return mask & self.alive if allowed is None else mask & allowed

    @property
    def is_whole(self) -> bool:
        """Return whether all passages have one type and nearly none is removed."""
        return len(self.kind_names) == 1 and 20 * self.removed_count < len(self.document_source)

    def passage(self, row: int) -> tuple[Document, int, Passage]:
        """Return the document of a passage and the passage's number in it."""
        number = int(self.frame.owner[row])
        document = self.document_source.document(number)
        position = row - int(self.frame.first[number])
        return document, position, document.passages[position]

    def excerpt(self, row: int) -> PassageExcerpt:
        """Return the excerpt of a passage."""
        number = int(self.frame.owner[row])
        return self.document_source.excerpt(number, row - int(self.frame.first[number]))


def build_segment(
    documents: Sequence[Document], analyzers: Analyzers, embedder: Embedder | None, mean_length: float
) -> PassageSegment:
    """Build a segment of documents; without an embedder it has no vectors.

    Cost:
        0.5 ms a document of 450 words, without the embedder
    """
    words = [[document.passage_text(passage) for passage in document.passages] for document in documents]
    languages = [detect_language(document, analyzers) for document in documents]
    terms = (
        analyzers.get(language).terms(text)
        for texts, language in zip(words, languages, strict=True)
        for text in texts
    )
    counted = count_terms(terms)
    vectors = None
    if embedder is not None:
        vectors = CompactVectors.of(_embed_passages(words, embedder))
    counts: Counter[str] = Counter()
    for language, texts in zip(languages, words, strict=True):
        counts[language] += len(texts)
    frame, kinds = build_frame(documents)
    return PassageSegment(
        MemoryDocuments(documents), frame, build_postings(counted, mean_length), vectors, kinds, counts
    )


def _embed_passages(words: Sequence[Sequence[str]], embedder: Embedder) -> Matrix:
    """Embed the passages of documents; a slow embedder, which may have cached some, gets them document by document."""
    if getattr(embedder, "is_slow", False) and words:
        return np.concatenate([embedder.embed(texts) for texts in words])
    return embedder.embed([text for texts in words for text in texts])


def merge_segments(segments: Sequence[PassageSegment]) -> PassageSegment:
    """Merge segments into one, without removed documents."""
    documents: list[Document] = []
    for segment in segments:
        living = np.flatnonzero(segment.alive[segment.frame.first[:-1]])
        documents += [segment.document_source.document(number) for number in living.tolist()]
    parts = [
        segment.postings if segment.alive.all() else drop_passages(segment.postings, segment.alive)
        for segment in segments
    ]
    vectors = None
    results = [segment.vectors for segment in segments]
    if all(results):
        rest = [
            segment_vectors.matrix()[segment.alive]
            for segment_vectors, segment in zip(results, segments, strict=True)
            if segment_vectors
        ]
        vectors = CompactVectors.of(np.concatenate(rest))
    languages: Counter[str] = Counter()
    for segment in segments:
        languages.update(segment.languages)
    frame, kinds = build_frame(documents)
    return PassageSegment(MemoryDocuments(documents), frame, merge_postings(parts), vectors, kinds, languages)


def build_frame(documents: Sequence[Document]) -> tuple[SegmentFrame, tuple[str, ...]]:
    """Return the small arrays of documents, and the names of their types."""
    counts = np.array([len(document.passages) for document in documents], np.int64)
    names: dict[str, int] = {}
    kinds = np.array([names.setdefault(document.kind, len(names)) for document in documents], np.uint16)
    keys = np.array([key_from_product_id(document.product_id) for document in documents], np.uint64)
    places = np.argsort(keys, kind="stable").astype(np.uint32)
    frame = SegmentFrame(
        owner=np.repeat(np.arange(len(documents), dtype=np.uint32), counts),
        first=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
        keys=keys[places],
        places=places,
        kinds=kinds,
        days=np.array([day_from_date(document.published) for document in documents], np.int32),
    )
    return frame, tuple(names)


def detect_language(document: Document, analyzers: Analyzers) -> str:
    """Return the language of a document: its `language` field, else a guess from its words."""
    return document.language[:2].lower() or analyzers.detect_language(document.text[:2_000])


def key_from_product_id(product_id: str) -> int:
    """Return the 64-bit hash of a product id."""
    return mmh3.hash64(product_id.encode("utf-8", "surrogatepass"), 23, signed=False)[0]


def day_from_date(published: str) -> int:
    """Return the days since 1970 of a day or time in ISO 8601."""
    try:
        return date.fromisoformat(published[:10]).toordinal() - _EPOCH
    except ValueError:
        return UNKNOWN_DAY
