"""The words of an app's products, as a part of what an engine knows: followed from the log, asked by the search bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from actors.language.embed import Embedder
from actors.recommender.catalog import Catalog
from actors.search.products.blend import blended
from actors.search.products.found import TextAsk, TextFound
from actors.search.products.index import Rebuilt, SearchIndex
from actors.vectors.index import VectorIndex
from actors.vectors.types import Mask, Rows

_A_STEP = 4
_SHARE = 0.1
"How much the meaning of the built-in vectors counts beside words, where the embedder doesn't say."


class ProductTexts:
    """Finds products by their words and, when asked, by their meaning."""

    def __init__(self, catalog: Catalog, vectors: VectorIndex, embedder: Embedder) -> None:
        self._catalog = catalog
        self._vectors = vectors
        self._embedder = embedder
        self._index = SearchIndex()
        self._waiting: dict[int, Mapping[str, Any] | None] = {}
        "Rows that changed and are not indexed yet."
        catalog.watch(self.note)

    def __len__(self) -> int:
        """Count products that are indexed."""
        return len(self._index)

    @property
    def nbytes(self) -> int:
        """Memory held, estimated."""
        return self._index.nbytes

    def note(self, row: int, product: Mapping[str, Any] | None) -> None:
        """Learn that a product changed, or is gone; it is indexed by `steps`, or when somebody asks."""
        self._waiting[row] = product

    def steps(self) -> Iterator[None]:
        """Index what changed in steps of about half a millisecond."""
        while self._waiting:
            for row in list(self._waiting)[:_A_STEP]:
                product = self._waiting.pop(row)
                if product is None:
                    self._index.remove(row)
                else:
                    self._index.put(row, product)
            yield

    def find(self, ask: TextAsk, rows: Mask | None, now_ms: int = 0) -> TextFound:
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
        likeness = self._likeness(found.used or ask.text)
        if likeness is None:
            return found
        allowed = self._catalog.present if rows is None else rows & self._catalog.present[: len(rows)]
        share = min(2 * ask.meaning * float(getattr(self._embedder, "share", _SHARE)), 1.0)
        bend = float(getattr(self._embedder, "bend", 1.0))
        return blended(found, likeness, allowed, share, least=ask.least_meaning, bend=bend)

    def having(self, text: str, *, language: str = "", together: bool = False) -> Rows:
        """Find the products that have every word of a text; with `together` as neighbours in their title.

        Shapes:
            returns: int64 [m], ascending
        """
        self._catch_up()
        return self._index.having(text, language=language, together=together)

    def rebuilding(self) -> tuple[ProductTexts, Callable[[], Rebuilt]] | None:
        """Give the work of putting the index in order, for another thread; None when it is in order."""
        return (self, self._index.rebuilding()) if self._index.wants_rebuild else None

    def adopt(self, rebuilt: Rebuilt) -> None:
        """Let what was put in order serve."""
        self._index.adopt(rebuilt)

    def settle(self) -> None:
        """Put everything in order now: after loading, when nobody waits.

        Cost:
            100,000 products: 3 s
        """
        self._catch_up()
        self._index.adopt(self._index.rebuilding(every=True)())

    def _catch_up(self) -> None:
        for _ in self.steps():
            pass

    def _likeness(self, text: str) -> Any:
        """Say how alike every product is to a text, by row; None when the text means nothing."""
        vector = self._embedder.embed([text])[0]
        if not vector.any():
            return None
        return np.asarray(self._vectors.scores(vector), np.float32)
