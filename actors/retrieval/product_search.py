"""Lexical and vector search over the products of an app: part of the engine state, kept up to date by the overlay.

`ProductRows` is how indexes read the products of an app: rows, ids and records.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from actors.language.hashing_embedder import Embedder
from actors.retrieval.lexical.messages import TextHits, TextQuery
from actors.retrieval.lexical.product_fields import search_embedding_text
from actors.retrieval.lexical.search_index import RebuiltIndex, SearchIndex
from actors.retrieval.product_vectors import LiveVectorSearch, SnapshotVectorSearch
from actors.retrieval.snapshot_format import SearchSnapshot, product_fingerprint
from actors.vectors.index import VectorIndex
from actors.vectors.types import Mask, Rows, Scores, ensure_capacity


class ProductRows(Protocol):
    """The rows of an app's products. A row is a position that a product keeps; a row may have no product.

    Shapes:
        present: bool [n], True where a row has a product
    """

    product_ids: list[str]

    @property
    def present(self) -> Mask: ...

    def __len__(self) -> int:
        """Count rows, those without a product included."""
        ...

    def record(self, row: int) -> Mapping[str, Any]:
        """Read the product of a row; empty when the row has none."""
        ...


# Only the best 100 of each list are scaled, by their minimum and maximum.
BEST: Final = 100
"So many of each list are scaled."
_LEFT: Final = 1e-3
"Scale of the scores behind the best, which keep their order."


def blend_hits(
    hits: TextHits, nearest: Rows, cosines: Scores, share: float, *, least: float, bend: float = 1.0
) -> TextHits:
    """Blend the hits of a lexical search with those of a vector search.

    Shapes:
        nearest: int64 [m], best first; cosines: float32 [m], to the query
    Units:
        `share` and `least` are 0 to 1; lexical scores are raised to the power `bend`, which the embedder sets
    """
    # Hits by words stay whatever their cosine: `least` only guards products that match no word.
    others = (cosines >= least) & ~np.isin(nearest, hits.rows)
    rows = np.concatenate([hits.rows, nearest[others]])
    if not len(rows):
        return hits
    words = np.zeros(len(rows), np.float32)
    words[: len(hits.rows)] = _scaled(hits.scores if bend == 1.0 else np.power(hits.scores, bend))
    similarity = np.zeros(len(rows), np.float32)
    if len(nearest):
        order = np.argsort(nearest)
        # Clipped: `searchsorted` returns the length for a row above all others, which is no place.
        places = np.minimum(np.searchsorted(nearest[order], rows), len(nearest) - 1)
        is_near = nearest[order][places] == rows
        low = float(cosines.min())
        high = float(cosines.max())
        # Equal cosines have no range: each then counts as the best, where 0 / 0 would be NaN.
        scaled = (cosines - low) / (high - low) if high > low else np.ones_like(cosines)
        similarity[is_near] = scaled[order][places[is_near]]
    # Without a hit by words the cosines alone decide; their share would only lower every score.
    weight = share if len(hits.rows) else 1.0
    scores = (1 - weight) * words + weight * similarity
    # as large as scores by words are, so that both can be compared with the same thresholds
    most = float(hits.scores.max(initial=1.0))
    # Stable: equal scores keep the order of the lexical search on every page.
    best = np.argsort(-scores, kind="stable")
    complete = np.concatenate([hits.complete, np.zeros(len(rows) - len(hits.rows), np.bool_)])
    return replace(
        hits,
        rows=rows[best],
        # Above 0: those behind the best are slightly negative, and a score of 0 means "no match".
        scores=np.maximum(scores[best] * np.float32(most), np.float32(1e-9)),
        complete=complete[best],
    )


def _scaled(scores: Scores) -> Scores:
    """Scale the best to 0..1, and the others to a little below 0."""
    if not len(scores):
        return scores
    high = float(scores[0])
    low = float(scores[min(BEST, len(scores)) - 1])
    scaled = (scores - low) / (high - low) if high > low else np.ones_like(scores)
    behind = scores < low
    scaled[behind] = _LEFT * (scores[behind] / low - 1)
    out: Scores = np.asarray(scaled, np.float32)
    return out


# Products of one step, about half a millisecond: a query waits no longer than one step.
_A_STEP = 4
# Characters of a query that are embedded: more of them cost time and add little.
_LONGEST = 2_000
_FIT = 0.5
"Share of the products that a snapshot must have unchanged to be used."
_SHARE = 0.1
"Weight of vector search beside words if the embedder has no attribute `share`."


class ProductSearch:
    """Finds products by words and, if the query requests it, by vectors."""

    def __init__(self, catalog: ProductRows, vectors: VectorIndex, embedder: Embedder) -> None:
        self._catalog = catalog
        self._index = SearchIndex()
        self._live_vectors = LiveVectorSearch(vectors, embedder, float(getattr(embedder, "share", _SHARE)))
        self._snapshot_vectors: SnapshotVectorSearch | None = None
        self._version = ""
        self._fingerprints: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        # the first entry of a dict is slow to find when many before it were deleted
        self._waiting: OrderedDict[int, None] = OrderedDict()
        "Rows that changed and are not indexed yet."
        self._is_paused = False

    def __len__(self) -> int:
        """Count products that are indexed."""
        return len(self._index)

    @property
    def nbytes(self) -> int:
        return self._index.nbytes + self._fingerprints.nbytes

    @property
    def fingerprint_sum(self) -> int:
        """Return the sum of the fingerprints of all products, below 2 ** 64: it does not depend on their order."""
        return int(self._fingerprints.sum(dtype=np.uint64))

    @property
    def version(self) -> str:
        """Return the snapshot whose index serves; empty if this process built the index."""
        return self._version

    def record(self, row: int, product: Mapping[str, Any] | None) -> None:
        """Record that a product changed, or was removed (None); `index_steps` or the next query indexes it."""
        self._fingerprints = ensure_capacity(self._fingerprints, row + 1)
        # Set now and not when indexed: `bind_rows` compares it with a snapshot before that.
        self._fingerprints[row] = product_fingerprint(product)
        self._waiting[row] = None

    def pause_indexing(self) -> None:
        """Index nothing until `index_all`, unless a query comes: a snapshot may have most of the products."""
        self._is_paused = True

    def index_steps(self) -> Iterator[None]:
        """Index changed products in steps of about half a millisecond."""
        while self._waiting and not self._is_paused:
            self._index_some()
            yield

    def find(self, query: TextQuery, rows: Mask | None, now_ms: int = 0) -> TextHits:
        """Find products by words, best first: all that match.

        Shapes:
            rows: bool [n], rows that may be found
        Cost:
            100,000 products: see tests/benchmarks/search.py
        """
        self._catch_up()
        hits = self._index.find(query, rows)
        if query.meaning <= 0 or not query.text.strip():
            return hits
        present = self._catalog.present
        # Cut to the shorter one: a mask may be older than the newest rows.
        allowed = present if rows is None else rows[: len(present)] & present[: len(rows)]
        vectors = self._live_vectors if self._snapshot_vectors is None else self._snapshot_vectors
        nearest, cosines = vectors.find_nearest_to_text((hits.used or query.text)[:_LONGEST], allowed, BEST)
        # A `meaning` of 0.5 gives the vectors their usual share.
        share = min(2 * query.meaning * vectors.share, 1.0)
        return blend_hits(hits, nearest, cosines, share, least=query.least_meaning, bend=vectors.bend)

    def rows_with_words(
        self,
        text: str,
        *,
        language: str = "",
        together: bool = False,
        tiers: frozenset[str] | None = None,
        allowed: Mask | None = None,
    ) -> Rows:
        """Find the products that have every word of a text; see `SearchIndex.rows_with_words`.

        Shapes:
            allowed: bool [n], rows that may be found; returns: int64 [m], ascending
        """
        self._catch_up()
        return self._index.rows_with_words(
            text, language=language, together=together, tiers=tiers, allowed=allowed
        )

    def plan_rebuild(self) -> tuple[ProductSearch, Callable[[], RebuiltIndex]] | None:
        """Return the owner and a function that rebuilds in another thread; None if no rebuild is needed."""
        return (self, self._index.plan_rebuild()) if self._index.needs_rebuild else None

    def adopt(self, rebuilt: RebuiltIndex) -> None:
        """Serve what `plan_rebuild` rebuilt."""
        self._index.adopt(rebuilt)

    def bind_rows(self, saved: SearchSnapshot) -> None:
        """Serve unchanged products from the index of a snapshot.

        Cost:
            100,000 products: 0.1 s
        """
        if saved.version == self._version:
            return
        count = len(self._catalog)
        self._fingerprints = ensure_capacity(self._fingerprints, count)
        present = self._catalog.present
        rows = saved.rows(self._catalog.product_ids, self._fingerprints[:count], present)
        taken = rows[rows >= 0]
        if len(taken) < _FIT * np.count_nonzero(present):
            return
        self._version = saved.version
        self._index.bind_rows(saved.index, rows)
        for row in taken.tolist():
            self._waiting.pop(row, None)
        self._snapshot_vectors = None if saved.meaning is None else SnapshotVectorSearch(saved.meaning, rows)
        if self._snapshot_vectors is not None:
            # changed products get a vector of the same embedder
            others = present.copy()
            others[taken] = False
            self._waiting.update(dict.fromkeys(np.flatnonzero(others).tolist()))

    def index_all(self, pause: Callable[[], None] = lambda: None) -> None:
        """Index and merge everything now, for use after loading.

        Cost:
            100,000 products: 10 s; 1 s if a snapshot has most of them
        """
        self._is_paused = False
        for _ in self.index_steps():
            pause()
        self._index.adopt(self._index.plan_rebuild(every=True)())

    def _catch_up(self) -> None:
        while self._waiting:
            self._index_some()

    def _index_some(self) -> None:
        """Index a few changed products."""
        # A list first: a dict must not change while it is iterated.
        for row in list(islice(self._waiting, _A_STEP)):
            # Deleted before the work: a product that raises would else fail every query after it.
            del self._waiting[row]
            if not self._catalog.present[row]:
                self._index.remove(row)
                if self._snapshot_vectors is not None:
                    self._snapshot_vectors.remove(row)
                continue
            product = self._catalog.record(row)
            self._index.put(row, product)
            if self._snapshot_vectors is not None:
                self._snapshot_vectors.put(row, search_embedding_text(product))
