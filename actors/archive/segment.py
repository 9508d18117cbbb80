"""An immutable part of the corpus: documents of one access, their passages as words and as vectors.

Only removals are marked. A question reads the segments whose access its user has, and no others.

owner   uint32 [n]        document of every passage
first   int64 [docs + 1]  first passage of every document
keys    uint64 [docs]     hashes of product ids, sorted; `places` holds the document of each
kinds   uint16 [docs]     number of the product type
days    int32 [docs]      day of publication since 1970; UNKNOWN_DAY when there is none
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, NamedTuple, Protocol

import mmh3
import numpy as np
import numpy.typing as npt

from actors.archive.passages import Document, Passage
from actors.language.analysis import Analyzers
from actors.language.hashing_embedder import Embedder
from actors.retrieval.lexical.passage_postings import (
    PassagePostings,
    build_postings,
    drop_passages,
    merge_postings,
)
from actors.retrieval.lexical.postings import count_terms
from actors.vectors.quantization import QuantizedVectors
from actors.vectors.types import Mask, Matrix

UNKNOWN_DAY = -(1 << 30)
AddressIndex = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]
"Sorted hashes of addresses, and the document of each."
_EPOCH = date(1970, 1, 1).toordinal()


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

    def document(self, number: int) -> Document: ...

    def excerpt(self, number: int, position: int) -> PassageExcerpt: ...

    @property
    def nbytes(self) -> int: ...


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
class DocumentArrays:
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
    frame: DocumentArrays
    postings: PassagePostings
    vectors: QuantizedVectors | None
    types: tuple[str, ...]
    languages: Mapping[str, int] = field(default_factory=dict)
    "Language -> passages."
    access: str = ""
    "Tier that its documents need; empty: they are open."
    alive: Mask = field(init=False)
    removed_count: int = 0
    "Documents that were removed or replaced."
    _masks: dict[str | None, Mask | None] = field(default_factory=dict)
    _addresses: AddressIndex | None = None
    "Built by the first look-up of an address."

    def __post_init__(self) -> None:
        """Mark all passages as present."""
        self.alive = np.ones(len(self.postings), bool)

    def __len__(self) -> int:
        """Return the number of passages, removed ones included."""
        return len(self.postings)

    @property
    def documents(self) -> int:
        """Return the number of documents, removed ones included."""
        return len(self.document_source)

    @property
    def nbytes(self) -> int:
        frame = sum(array.nbytes for array in self.frame.arrays().values())
        vectors = 0 if self.vectors is None else self.vectors.nbytes
        return frame + self.postings.nbytes + vectors + self.document_source.nbytes + len(self)

    def find(self, product_id: str) -> int | None:
        """Return the number of a document that was not removed; None when there is none."""
        key = np.uint64(key_from_product_id(product_id))
        at = int(np.searchsorted(self.frame.keys, key))
        # Several ids may have the same key of 64 bits, so the document decides.
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
        """Return the article of a canonical web address; empty if no article that was not removed has it."""
        if self._addresses is None:
            self._addresses = self._index_addresses()
        keys, places = self._addresses
        key = np.uint64(key_from_product_id(address))
        at = int(np.searchsorted(keys, key))
        # As with ids, several addresses may have one hash.
        while at < len(keys) and keys[at] == key:
            number = int(places[at])
            if self.alive[self.frame.first[number]]:
                document = self.document_source.document(number)
                if document.is_article and address in document.addresses:
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
        # Before the masks are dropped: one built between the two steps would keep these passages.
        self.alive[self.frame.first[number] : self.frame.first[number + 1]] = False
        self.removed_count += 1
        # Cached masks hold the passages that were present before.
        self._masks = {}

    def mask_of_type(self, product_type: str | None) -> Mask | None:
        """Return the mask of present passages of a product type; None when that is all.

        Shapes:
            returns: bool [n]
        """
        # Another thread may replace the dictionary meanwhile; a mask of the former passages must not get into
        # the new one.
        masks = self._masks
        if product_type not in masks:
            mask: Mask | None = self.alive
            if product_type is not None and set(self.types) != {product_type}:
                # Kinds are unsigned, so -1 equals none: an unknown type matches no passage.
                number = self.types.index(product_type) if product_type in self.types else -1
                mask = (self.frame.kinds == number)[self.frame.owner] & self.alive
            masks[product_type] = None if mask is None or mask.all() else mask
        return masks[product_type]

    def mask_of_products(self, product_ids: Iterable[str], allowed: Mask | None) -> Mask:
        """Return the mask of the allowed passages of some products.

        Shapes:
            allowed, returns: bool [n]
        """
        keys = np.array([key_from_product_id(product_id) for product_id in product_ids], np.uint64)
        # By hash alone: two products with the same 64 bits are too improbable for a look into the documents.
        numbers = self.frame.places[np.isin(self.frame.keys, keys)]
        chosen = np.zeros(self.documents, np.bool_)
        chosen[numbers] = True
        mask: Mask = chosen[self.frame.owner]
        return mask & self.alive if allowed is None else mask & allowed

    @property
    def is_uniform(self) -> bool:
        """Return whether all passages have one type and nearly none is removed."""
        return len(self.types) == 1 and 20 * self.removed_count < len(self.document_source)

    def passage(self, row: int) -> tuple[Document, int, Passage]:
        """Return the document of a passage and the passage's number in it."""
        number = int(self.frame.owner[row])
        document = self.document_source.document(number)
        position = row - int(self.frame.first[number])
        return document, position, document.passages[position]

    def excerpt(self, row: int) -> PassageExcerpt:
        number = int(self.frame.owner[row])
        return self.document_source.excerpt(number, row - int(self.frame.first[number]))


def build_segment(
    documents: Sequence[Document], analyzers: Analyzers, embedder: Embedder | None, mean_length: float
) -> PassageSegment:
    """Build a segment of documents of one access; without an embedder it has no vectors.

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
        vectors = QuantizedVectors.of(_embed_passages(words, embedder))
    counts: Counter[str] = Counter()
    for language, texts in zip(languages, words, strict=True):
        counts[language] += len(texts)
    frame, types = build_document_arrays(documents)
    return PassageSegment(
        MemoryDocuments(documents),
        frame,
        build_postings(counted, mean_length),
        vectors,
        types,
        counts,
        documents[0].access if documents else "",
    )


def _embed_passages(words: Sequence[Sequence[str]], embedder: Embedder) -> Matrix:
    """Embed the passages of documents; a slow embedder, which may have cached some, gets them document by document."""
    if getattr(embedder, "is_slow", False) and words:
        return np.concatenate([embedder.embed(texts) for texts in words])
    return embedder.embed([text for texts in words for text in texts])


def merge_segments(segments: Sequence[PassageSegment]) -> PassageSegment:
    """Merge segments of one access into one, without removed documents."""
    documents: list[Document] = []
    for segment in segments:
        # A document is removed as a whole, so its first passage tells.
        living = np.flatnonzero(segment.alive[segment.frame.first[:-1]])
        documents += [segment.document_source.document(number) for number in living.tolist()]
    parts = [
        segment.postings if segment.alive.all() else drop_passages(segment.postings, segment.alive)
        for segment in segments
    ]
    vectors = None
    results = [segment.vectors for segment in segments]
    # Without the vectors of one part there are none: row numbers of vectors and postings must agree.
    if all(results):
        rest = [
            segment_vectors.matrix()[segment.alive]
            for segment_vectors, segment in zip(results, segments, strict=True)
            if segment_vectors
        ]
        vectors = QuantizedVectors.of(np.concatenate(rest))
    languages: Counter[str] = Counter()
    for segment in segments:
        languages.update(segment.languages)
    frame, types = build_document_arrays(documents)
    return PassageSegment(
        MemoryDocuments(documents),
        frame,
        merge_postings(parts),
        vectors,
        types,
        languages,
        segments[0].access,
    )


def split_by_access(segment: PassageSegment, accesses: Sequence[str]) -> list[PassageSegment]:
    """Copy the documents of a segment with several accesses into a segment for each.

    `accesses` has the access of each type of the segment, by number. Snapshots were written so once; the next one has
    separate files for each access.
    """
    parts = []
    for access in dict.fromkeys(accesses):
        is_access = np.array([each == access for each in accesses], np.bool_)
        # `alive` is no field of `__init__`: the copy gets a mask of its own, and the segment keeps its mask.
        part = replace(segment, access=access)
        part.alive = is_access[segment.frame.kinds][segment.frame.owner]
        parts.append(merge_segments([part]))
    return parts


def build_document_arrays(documents: Sequence[Document]) -> tuple[DocumentArrays, tuple[str, ...]]:
    """Return the small arrays of documents, and the names of their types."""
    counts = np.array([len(document.passages) for document in documents], np.int64)
    names: dict[str, int] = {}
    kinds = np.array([names.setdefault(document.type, len(names)) for document in documents], np.uint16)
    keys = np.array([key_from_product_id(document.product_id) for document in documents], np.uint64)
    places = np.argsort(keys, kind="stable").astype(np.uint32)
    frame = DocumentArrays(
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
    # A lone surrogate in an id is no UTF-8, and must not fail here.
    return mmh3.hash64(product_id.encode("utf-8", "surrogatepass"), 23, signed=False)[0]


def day_from_date(published: str) -> int:
    """Return the days since 1970 of a day or time in ISO 8601."""
    try:
        return date.fromisoformat(published[:10]).toordinal() - _EPOCH
    except ValueError:
        return UNKNOWN_DAY
