"""Corrections and withdrawals of an app's articles, as its library meets them.

Every replica derives the same revisions from the change log, and writes them to the store: they outlive replicas, and a
replica that starts has those of earlier ones.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from actors.archive.passage_index import PassageIndex
from actors.archive.passages import Document, document_from_product
from cluster.records.archive.article_revision import WITHDRAWN, ArticleRevision, revision_of

MOST_REVISIONS = 10_000
"Revisions of one app; the oldest go first."


class ArticleRevisions:
    """The newest revision of each article. Any thread may apply changes and read `by_product`."""

    def __init__(self, stored: Mapping[str, ArticleRevision] | None = None) -> None:
        oldest_first = sorted((stored or {}).items(), key=lambda item: (item[1].at, item[0]))
        self.by_product: dict[str, ArticleRevision] = dict(oldest_first)
        "Revisions by product, the newest last."
        self._unwritten: dict[str, ArticleRevision | None] = {}
        self._lock = threading.Lock()

    def apply_records(self, library: PassageIndex, records: Iterable[Mapping[str, Any]], at_ms: int) -> None:
        """Add records to a library and remove those that have no text any more; keep what changed for readers.

        `at_ms` is the time of the change, in milliseconds since 1970.
        """
        documents = {str(record["product_id"]): document_from_product(record) for record in records}
        self.remove(
            library, [product_id for product_id, document in documents.items() if document is None], at_ms
        )
        present = [document for document in documents.values() if document is not None]
        # An article that becomes a product of another type leaves the archive too.
        others = [library.find(document.product_id) for document in present if not document.is_article]
        library.put(present)
        self._record_withdrawn(others, at_ms)
        # After the text: who reads the new text with the old revision is informed once too often, and never too seldom.
        for document in present:
            if document.is_article:
                self._record_put(document, at_ms)

    def remove(self, library: PassageIndex, product_ids: Iterable[str], at_ms: int) -> None:
        """Remove documents from a library; articles among them are withdrawn."""
        removed = list(product_ids)
        # Looked up before they are removed.
        documents = [library.find(product_id) for product_id in removed]
        library.remove(removed)
        self._record_withdrawn(documents, at_ms)

    def take_unwritten(self) -> dict[str, ArticleRevision | None]:
        """Return the changes that the store does not have, None for one that is no more."""
        with self._lock:
            changes = self._unwritten
            self._unwritten = {}
        return changes

    def put_back(self, changes: Mapping[str, ArticleRevision | None]) -> None:
        """Keep changes that could not be written; later ones win."""
        with self._lock:
            self._unwritten = {**changes, **self._unwritten}

    def _record_withdrawn(self, documents: Iterable[Document | None], at_ms: int) -> None:
        for document in documents:
            if document is not None and document.is_article:
                self._set(document.product_id, _revision(document, "withdrawn", at_ms), at_ms)

    def _record_put(self, document: Document, at_ms: int) -> None:
        before = self.by_product.get(document.product_id)
        if document.corrected_at:
            self._set(document.product_id, _revision(document, "corrected", at_ms), at_ms)
        elif before is not None and before.status == WITHDRAWN:
            self._set(document.product_id, None, at_ms)
        elif before is not None and before.access != document.access:
            self._set(document.product_id, before.model_copy(update={"access": document.access}), at_ms)

    def _set(self, product_id: str, revision: ArticleRevision | None, at_ms: int) -> None:
        with self._lock:
            self._replace(product_id, revision, at_ms)

    def _replace(self, product_id: str, revision: ArticleRevision | None, at_ms: int) -> None:
        before = self.by_product.get(product_id)
        if before is not None:
            is_same = revision is not None and before == revision.model_copy(update={"at": before.at})
            # Another library catches up with changes that this one has already met.
            if is_same or at_ms < before.at:
                return
        # Taken out first, so that the newest revision goes to the end: the first one is the oldest.
        self.by_product.pop(product_id, None)
        self._unwritten[product_id] = revision
        if revision is not None:
            self.by_product[product_id] = revision
        while len(self.by_product) > MOST_REVISIONS:
            oldest = next(iter(self.by_product))
            del self.by_product[oldest]
            self._unwritten[oldest] = None


def _revision(document: Document, status: Any, at_ms: int) -> ArticleRevision:
    corrected = revision_of(document.corrected_at, document.correction_note)
    return ArticleRevision(
        status=status,
        at=at_ms,
        revision=WITHDRAWN if status == WITHDRAWN else corrected,
        title=document.title,
        url=document.url,
        access=document.access,
        corrected_at=document.corrected_at,
        note=document.correction_note,
    )
