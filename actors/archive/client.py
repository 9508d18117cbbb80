"""Typed clients of an archive and of questions, in any placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from actors.archive.messages import (
    ArchiveArticle,
    ArchiveQuery,
    ArchiveResult,
    Citation,
    CitationState,
    Snippet,
)
from cluster.access_tier import NOBODY
from cluster.records.archive.article_revision import ArticleRevision
from cluster.records.question import Format, Question
from cluster.store.archive.user_questions import StoredQuestion


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

    async def revisions(self, app_id: str) -> Mapping[str, ArticleRevision]:
        """Return the corrections and withdrawals by product, the newest last; the mapping goes on changing.

        Errors:
            Unavailable: the archive is still loading, or the store is unreachable
        """
        ...

    def locked_accesses(self, app_id: str) -> frozenset[str] | None:
        """Return the accesses of an app's locked articles; None while its archive is not loaded."""
        ...


class QuestionClient(Protocol):
    """Accepts questions and answers them after the reply; the question store holds the answers."""

    @property
    def can_generate(self) -> bool:
        """Return whether a language model that writes texts is configured."""
        ...

    async def submit(self, question: Question, entitled: Question | None = None) -> bool:
        """Store a question, with its entitled one, and begin to answer; return False when it existed before.

        Errors:
            TooMany, Unavailable
        """
        ...

    async def refuse(self, question: Question, reason: str) -> bool:
        """Store a question of a user without permission: finished, `forbidden`."""
        ...

    async def render_answer(self, recorded: StoredQuestion, form: Format) -> dict[str, Any]:
        """Render an answer in another format than its question requested."""
        ...

    async def retrieve(self, query: ArchiveQuery, fq: str = "", boost_fq: str = "") -> list[Snippet]:
        """Return the passages from which an answer would be made, after filters over their products."""
        ...

    async def suggest_questions(self, app_id: str, text: str, rows: int) -> list[str]:
        """Return questions about a text that the archive can answer."""
        ...

    async def suggest_product_questions(self, app_id: str, product_id: str, rows: int) -> list[str]:
        """Return questions about a product; none for a product that is not in the archive."""
        ...

    def highlight_excerpt(self, text: str, question: str, most_chars: int) -> str:
        """Return an excerpt of a text around the question's words: HTML-escaped, with `<mark>`."""
        ...
