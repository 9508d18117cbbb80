"""The words of an app's products, as a part of what an engine knows: followed from the log, asked by the search bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.language.embedder import Embedder
from actors.retrieval.lexical.hybrid_ranking import BEST, blend_hits
from actors.retrieval.lexical.product_fields import search_embedding_text
from actors.retrieval.lexical.search_index import RebuiltIndex, SearchIndex
from actors.retrieval.lexical.text_query import TextHits, TextQuery
from actors.retrieval.product_rows import ProductRows
from actors.retrieval.product_vectors import LiveVectorSearch, SnapshotVectorSearch, VectorSearch
from actors.retrieval.snapshot_format import SearchSnapshot, product_fingerprint
from actors.vectors.index import VectorIndex
from actors.vectors.types import Mask, Rows, ensure_capacity

_A_STEP = 4
_LONGEST = 2_000
_FIT = 0.5
"Share of the products a snapshot must know as they are."
_SHARE = 0.1
"How much the meaning of the built-in vectors counts beside words, where the embedder doesn't say."


class ProductTexts:
    """Finds products by their words and, when asked, by their meaning."""

    def __init__(self, catalog: ProductRows, vectors: VectorIndex, embedder: Embedder) -> None:
        self._catalog = catalog
        self._index = SearchIndex()
        self._live = LiveVectorSearch(vectors, embedder, float(getattr(embedder, "share", _SHARE)))
        self._laid: SnapshotVectorSearch | None = None
        self._version = ""
        self._marks: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._waiting: dict[int, None] = {}
        "Rows that changed and are not indexed yet."
        self._held = False

    def __len__(self) -> int:
        """Count products that are indexed."""
        return len(self._index)

    @property
    def nbytes(self) -> int:
        """Memory held, estimated."""
        return self._index.nbytes + self._marks.nbytes

    @property
    def version(self) -> str:
        """The snapshot whose index serves; empty when all was indexed here."""
        return self._version

    def record(self, row: int, product: Mapping[str, Any] | None) -> None:
        """Learn that a product changed, or is gone; it is indexed by `steps`, or when somebody asks."""
        self._marks = ensure_capacity(self._marks, row + 1)
        self._marks[row] = product_fingerprint(product)
        self._waiting[row] = None

    def pause_indexing(self) -> None:
        """Index nothing until `settle`, unless somebody asks: a snapshot may know most of it."""
        self._held = True

    def index_steps(self) -> Iterator[None]:
        """Index what changed in steps of about half a millisecond."""
        while self._waiting and not self._held:
            self._index_some()
            yield

    def find(self, ask: TextQuery, rows: Mask | None, now_ms: int = 0) -> TextHits:
        """Find products by words, best first: all that match.

        Shapes:
            rows: bool [n], rows that may be found
        Cost:
            100,000 products: see tests/benchmarks/search.py
        """
        self._catch_up()
        found = self._index.find(ask, rows)
        if ask.meaning <= 0 or not ask.text.strip():
            return found
        present = self._catalog.present
        allowed = present if rows is None else rows[: len(present)] & present[: len(rows)]
        meaning: VectorSearch = self._live if self._laid is None else self._laid
        near, likeness = meaning.near((found.used or ask.text)[:_LONGEST], allowed, BEST)
        share = min(2 * ask.meaning * meaning.share, 1.0)
        return blend_hits(found, near, likeness, share, least=ask.least_meaning, bend=meaning.bend)

    def rows_with_words(self, text: str, *, language: str = "", together: bool = False) -> Rows:
        """Find the products that have every word of a text; with `together` as neighbours in their title.

        Shapes:
            returns: int64 [m], ascending
        """
        self._catch_up()
        return self._index.rows_with_words(text, language=language, together=together)

    def plan_rebuild(self) -> tuple[ProductTexts, Callable[[], RebuiltIndex]] | None:
        """Give the work of putting the index in order, for another thread; None when it is in order."""
        return (self, self._index.plan_rebuild()) if self._index.needs_rebuild else None

    def adopt(self, rebuilt: RebuiltIndex) -> None:
        """Let what was put in order serve."""
        self._index.adopt(rebuilt)

    def bind_rows(self, saved: SearchSnapshot) -> None:
        """Let the index of a snapshot speak for all products that are as it has them.

        Cost:
            100,000 products: 0.1 s
        """
        if saved.version == self._version:
            return
        count = len(self._catalog)
        self._marks = ensure_capacity(self._marks, count)
        present = self._catalog.present
        rows = saved.rows(self._catalog.product_ids, self._marks[:count], present)
        taken = rows[rows >= 0]
        if len(taken) < _FIT * np.count_nonzero(present):
            return
        self._version = saved.version
        self._index.bind_rows(saved.index, rows)
        for row in taken.tolist():
            self._waiting.pop(row, None)
        self._laid = None if saved.meaning is None else SnapshotVectorSearch(saved.meaning, rows)
        if self._laid is not None:
            # what changed since gets a vector of the same embedder
            others = present.copy()
            others[taken] = False
            self._waiting.update(dict.fromkeys(np.flatnonzero(others).tolist()))

    def index_all(self, pause: Callable[[], None] = lambda: None) -> None:
        """Put everything in order now: after loading, when nobody waits.

        Cost:
            100,000 products: 10 s; 1 s when a snapshot knows most of them
        """
        self._held = False
        for _ in self.index_steps():
            pause()
        self._index.adopt(self._index.plan_rebuild(every=True)())

    def _catch_up(self) -> None:
        while self._waiting:
            self._index_some()

    def _index_some(self) -> None:
        """Index a few of those that wait."""
        for row in list(islice(self._waiting, _A_STEP)):
            del self._waiting[row]
            if not self._catalog.present[row]:
                self._index.remove(row)
                if self._laid is not None:
                    self._laid.remove(row)
                continue
            product = self._catalog.record(row)
            self._index.put(row, product)
            if self._laid is not None:
                self._laid.put(row, search_embedding_text(product))
