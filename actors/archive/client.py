"""The typed client of an archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from actors.archive.messages import (
    ArchiveArticle,
    ArchiveQuery,
    ArchiveResult,
    Citation,
    CitationState,
)
from cluster.access_tier import NOBODY
from cluster.records.archive.article_revision import ArticleRevision


class ArchiveClient(Protocol):
    """Finds passages; the same behaviour in every placement."""

    async def ask(self, query: ArchiveQuery) -> ArchiveResult:
        """Return the passages of the app's archive for a question; the result may be empty.

        Errors:
            Unavailable: the archive is still loading, or the store is unreachable
        """
        ...

    async def article(
        self, app_id: str, product_id: str, position: int, tiers: frozenset[str] = NOBODY
    ) -> ArchiveArticle | None:
        """Return the article of a passage; None when it does not exist (any more), or is locked for the tiers.

        Errors:
            Unavailable: the archive is still loading, or the store is unreachable
        """
        ...

    async def check(
        self, app_id: str, citations: Sequence[Citation], tiers: frozenset[str] = NOBODY
    ) -> tuple[CitationState, ...]:
        """Return what became of citations, in order, as a user with these tiers may know it.

        Errors:
            Unavailable: the archive is still loading, or the store is unreachable
        """
        ...

    async def get_article_revisions(self, app_id: str) -> Mapping[str, ArticleRevision]:
        """Return the corrections and withdrawals by product, the newest last; the mapping goes on changing.

        Errors:
            Unavailable: the archive is still loading, or the store is unreachable
        """
        ...

    def locked_accesses(self, app_id: str) -> frozenset[str] | None:
        """Return the accesses of an app's locked articles; None while its archive is not loaded."""
        ...
