"""The typed way to an archive, wherever it lives."""

from __future__ import annotations

from typing import Any, Protocol

from actors.answers.archive.messages import ArchiveArticle, ArchiveQuery, ArchiveResult, Snippet
from cluster.errors import Refusal
from cluster.records.question import Format, Question
from cluster.store.ports.questions import StoredQuestion


class ArchiveClient(Protocol):
    """Finds passages; the same behaviour over every placement."""

    async def ask(self, query: ArchiveQuery) -> ArchiveResult:
        """Find what the app's archive holds about a question; nothing found is an empty result.

        Errors:
            Unavailable: the archive is still loading, or the store is away
        """
        ...

    async def article(self, app_id: str, product_id: str, position: int) -> ArchiveArticle | None:
        """Give the article a passage stands in; None when there is no such passage (any more).

        Errors:
            Unavailable: the archive is still loading, or the store is away
        """
        ...


class QuestionClient(Protocol):
    """Takes questions and answers them behind the reply; what the answer is stands in the questions' store."""

    async def submit(self, question: Question) -> bool:
        """Write a question down and begin to answer it; False when it was there before.

        Errors:
            TooMany, Unavailable
        """
        ...

    async def refuse(self, question: Question, reason: str) -> bool:
        """Write a question down whose reader may not ask: finished, `forbidden`."""
        ...

    async def render_answer(self, recorded: StoredQuestion, form: Format) -> dict[str, Any]:
        """Show an answer in another format than its question asked for."""
        ...

    async def retrieve(self, query: ArchiveQuery, fq: str = "", boost_fq: str = "") -> list[Snippet]:
        """Find passages as an answer is made from, sieved by filters over their products."""
        ...

    async def suggest_questions(self, app_id: str, text: str, rows: int) -> list[str]:
        """Say what could be asked about a text, of what the archive holds."""
        ...

    async def suggest_product_questions(self, app_id: str, product_id: str, rows: int) -> list[str]:
        """Say what could be asked about a product; nothing for one the archive does not hold."""
        ...

    def highlight_excerpt(self, text: str, question: str, most_chars: int) -> str:
        """Cut a text around the question's words: HTML-escaped, with `<mark>`."""
        ...


class LocalArchiveClient:
    """The host lives in this process (placement `door`)."""

    def __init__(self, host: Any) -> None:
        self._host = host

    async def ask(self, query: ArchiveQuery) -> ArchiveResult:
        reply: ArchiveResult | Refusal = await self._host.ask(query)
        if isinstance(reply, Refusal):
            raise reply.error()
        return reply

    async def article(self, app_id: str, product_id: str, position: int) -> ArchiveArticle | None:
        reply: ArchiveArticle | Refusal | None = await self._host.article(app_id, product_id, position)
        if isinstance(reply, Refusal):
            raise reply.error()
        return reply
