"""The tools of an archive that includes others: one search over all of them, with the source in every citation.

Scores are comparable within one archive only. So the score of a passage is multiplied by the share of the question that
its archive covers, relative to the archive that covers most. An included archive that is closed or does not answer is
left out; the answer names those that did not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from actors.archive.messages import ArchiveArticle, Snippet
from cluster.errors import KioskError, NotFound
from deployments.archive.admission import ArchiveCaller
from deployments.archive.archive_tools import (
    NOT_ISSUED,
    NOT_RETURNED_BY_SEARCH,
    ArchiveTools,
    ToolResult,
    split_snippet_id,
)
from deployments.archive.call_context import PLAIN, CallContext
from deployments.archive.citation_rules import citation_format

_LEAST_COVERAGE = 0.01
"Coverage of an archive that covers nothing of a question, so that its passages keep their order."


@dataclass(frozen=True, slots=True)
class SourceArchive:
    """One of the archives that are searched together."""

    app_id: str
    title: str
    tools: ArchiveTools

    def qualify(self, product_id: str) -> str:
        """Return a product in reports of the including archive."""
        return f"{self.app_id}:{product_id}"


@dataclass(frozen=True, slots=True)
class _Passage:
    source: SourceArchive
    snippet: Snippet


class CombinedTools:
    """Answers the tools from an archive and those that it includes."""

    def __init__(self, main: SourceArchive, list_included: Callable[[], Sequence[SourceArchive]]) -> None:
        """`list_included` returns the included archives that are open now."""
        self._main = main
        self._list_included = list_included

    async def ask(
        self, person: ArchiveCaller, arguments: dict[str, Any], context: CallContext = PLAIN
    ) -> ToolResult:
        """Return the result of `ask_archive`, each passage with the title of its archive."""
        question = arguments["question"]
        more = arguments.get("context", "")
        passages, coverage, absent = await self._retrieve(person, question, more, context)
        has_terms = self._main.tools.terms.exist()
        results = []
        for passage in passages:
            source = passage.source
            result = source.tools.describe_snippet(
                source.app_id, person, passage.snippet, self._context_of(source, context), has_terms
            )
            # Those of the whole result are the terms of the including archive.
            source_terms = (
                {} if source is self._main else source.tools.terms.describe(passage.snippet.licence)
            )
            results.append({**result, **source_terms, "archive": source.title})
        document = {"results": results, **self._main.tools.terms.describe("")}
        document |= await self._find_teasers(person, question)
        if absent:
            document["archives_without_answer"] = absent
        return ToolResult(document, self._list_articles(passages), coverage)

    async def search(
        self, person: ArchiveCaller, arguments: dict[str, Any], context: CallContext = PLAIN
    ) -> ToolResult:
        """Return the result of `search`. The title of a passage names its archive."""
        passages, coverage, _ = await self._retrieve(person, arguments["query"], "", context)
        results = []
        for passage in passages:
            source = passage.source
            result = source.tools.describe_link(
                source.app_id, person, passage.snippet, self._context_of(source, context)
            )
            results.append({**result, "title": f"{result['title']} ({source.title})"})
        return ToolResult({"results": results}, self._list_articles(passages), coverage)

    async def article(
        self, person: ArchiveCaller, arguments: dict[str, Any], context: CallContext = PLAIN
    ) -> ToolResult:
        """Return the result of `get_archive_article`, with the title of its archive.

        Errors:
            NotFound: the offset does not belong to this user, or the article is deleted or locked, in the same words
        """
        source, article = await self._find(person, arguments["product_id"], arguments["offset"], NOT_ISSUED)
        document = source.tools.describe_article(article, self._context_of(source, context))
        document["citation_format"] = _cite(document["product_title"], source, document["url"])
        return self._render(source, article, {**document, "archive": source.title})

    async def fetch(
        self, person: ArchiveCaller, arguments: dict[str, Any], context: CallContext = PLAIN
    ) -> ToolResult:
        """Return the result of `fetch`, with the title of its archive.

        Errors:
            NotFound: the id does not belong to this user, or the article is deleted or locked, in the same words
        """
        product_id, offset = split_snippet_id(arguments["id"])
        source, article = await self._find(person, product_id, offset, NOT_RETURNED_BY_SEARCH)
        document = source.tools.describe_fetched(arguments["id"], article, self._context_of(source, context))
        citation = _cite(document["title"], source, document["url"])
        document["metadata"] |= {"archive": source.title, "citation_format": citation}
        return self._render(source, article, document)

    async def _find_teasers(self, person: ArchiveCaller, question: str) -> dict[str, Any]:
        """Return the locked articles of the archives that name some; an archive that does not answer names none."""
        teasers: list[dict[str, Any]] = []
        for source in (self._main, *self._list_included()):
            if source.tools.has_teasers:
                with contextlib.suppress(KioskError):
                    named = await source.tools.find_teasers(source.app_id, person, question)
                    teasers += [
                        {**each, "archive": source.title} for each in named.get("locked_articles", ())
                    ]
        return {"locked_articles": teasers} if teasers else {}

    async def _retrieve(
        self, person: ArchiveCaller, question: str, more: str, context: CallContext
    ) -> tuple[list[_Passage], float | None, list[str]]:
        """Return the best passages of all archives, the best coverage, and titles of archives that did not answer."""
        sources = (self._main, *self._list_included())
        replies = await asyncio.gather(
            *(
                source.tools.retrieve(source.app_id, person, question, more, context.snippet_words)
                for source in sources
            ),
            # Otherwise the first archive that fails would hide the results of all others.
            return_exceptions=True,
        )
        answered: list[tuple[SourceArchive, list[Snippet], float]] = []
        absent: list[str] = []
        for source, reply in zip(sources, replies, strict=True):
            # Only expected errors: a fault must not look like an archive that is away.
            if isinstance(reply, KioskError) and source is not self._main:
                absent.append(source.title)
            elif isinstance(reply, BaseException):
                raise reply
            else:
                answered.append((source, reply[0], reply[1] or 0.0))
        best = max(coverage for _, _, coverage in answered)
        passages = [
            _Passage(source, replace(snippet, score=snippet.score * _weigh(coverage, best)))
            for source, snippets, coverage in answered
            for snippet in snippets
        ]
        passages.sort(key=lambda passage: -passage.snippet.score)
        return passages[: self._main.tools.rows], best, absent

    async def _find(
        self, person: ArchiveCaller, product_id: str, offset: int, refusal: str
    ) -> tuple[SourceArchive, ArchiveArticle]:
        # An offset is signed for one app. The other archives notice this themselves, without a request.
        for source in (self._main, *self._list_included()):
            article = await source.tools.find_article(person, product_id, offset)
            if article is not None:
                return source, article
        raise NotFound(refusal)

    def _context_of(self, source: SourceArchive, context: CallContext) -> CallContext:
        """Return the context for a passage: marks and experiments belong to the archive itself."""
        return context if source is self._main else PLAIN

    def _list_articles(self, passages: Sequence[_Passage]) -> tuple[str, ...]:
        return tuple(self._name_article(passage.source, passage.snippet.product_id) for passage in passages)

    def _name_article(self, source: SourceArchive, product_id: str) -> str:
        return product_id if source is self._main else source.qualify(product_id)

    def _render(self, source: SourceArchive, article: ArchiveArticle, document: dict[str, Any]) -> ToolResult:
        name = self._name_article(source, article.product_id)
        return ToolResult(document, (name,), is_included=source is not self._main)


def _cite(title: str, source: SourceArchive, url: str) -> str:
    return citation_format(f"{title} ({source.title})", url)


def _weigh(coverage: float, best: float) -> float:
    return max(coverage, _LEAST_COVERAGE) / max(best, _LEAST_COVERAGE)
