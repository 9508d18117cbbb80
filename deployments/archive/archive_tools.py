"""What the two tools do: ask the archive for a person, and hand out the article behind a snippet of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from actors.answers.archive.client import ArchiveClient
from actors.answers.archive.messages import ArchiveQuery, Article, Snippet
from cluster.errors import NotFound
from deployments.archive.caller import Person
from deployments.archive.citation import (
    CitationRules,
    citation_format,
    citation_instruction,
    web_address,
)
from deployments.archive.signed_offsets import MOST_POSITIONS, Issuer
from deployments.archive.text_fence import fenced, fenced_line, readable
from deployments.archive.tools import GET, MOST_CONTEXT

NOT_ISSUED = (
    f"Invalid arguments for {GET}: product_id and offset were not returned by ask_archive; "
    "call ask_archive first"
)

MOST_TITLE = 300
"Characters of a title."
_MOST_AUTHORS = 50
_MOST_NAME = 120


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answers, and what only the report is told."""

    document: dict[str, Any]
    coverage: float | None = None


@dataclass(frozen=True, slots=True)
class Research:
    """One archive, asked on behalf of people."""

    app_id: str
    archive: ArchiveClient
    issuer: Issuer
    fence_key: bytes
    citation: CitationRules
    rows: int = 10

    async def ask(self, person: Person, arguments: dict[str, Any]) -> ToolResult:
        """Answer `ask_archive`."""
        query = ArchiveQuery(
            self.app_id,
            readable(arguments["question"]),
            context=readable(arguments.get("context", "")[:MOST_CONTEXT]),
            rows=self.rows,
        )
        found = await self.archive.ask(query)
        snippets = [one for one in found.snippets if one.position < MOST_POSITIONS]
        document = {"results": [self._result(person, one) for one in snippets]}
        return ToolResult(document, coverage=found.coverage)

    async def article(self, person: Person, arguments: dict[str, Any]) -> ToolResult:
        """Answer `get_archive_article`.

        Errors:
            NotFound: no pair of this person's, or the article is gone; one sentence for both
        """
        product_id = arguments["product_id"]
        position = self.issuer.position(self.app_id, person.user_id, product_id, arguments["offset"])
        if position is None:
            raise NotFound(NOT_ISSUED)
        found = await self.archive.article(self.app_id, product_id, position)
        if found is None:
            raise NotFound(NOT_ISSUED)
        return ToolResult(self._article(found))

    def _result(self, person: Person, snippet: Snippet) -> dict[str, Any]:
        product_id = snippet.product_id
        result: dict[str, Any] = {
            "product_id": product_id,
            "offset": self.issuer.offset(self.app_id, person.user_id, product_id, snippet.position),
            "product_title": fenced_line(snippet.title[:MOST_TITLE], self.fence_key),
        }
        if snippet.child_title:
            result["child_title"] = fenced_line(snippet.child_title[:MOST_TITLE], self.fence_key)
        result["snippet"] = fenced_line(snippet.text, self.fence_key)
        result["authors"] = _authors(snippet.authors)
        if snippet.published:
            result["published_date"] = snippet.published
        address = web_address(snippet.url)
        if address:
            result["url"] = address
        result["score"] = round(snippet.score, 4)
        return result

    def _article(self, article: Article) -> dict[str, Any]:
        title, address = readable(article.title[:MOST_TITLE]), web_address(article.url)
        authors = _authors(article.authors)
        result: dict[str, Any] = {"product_id": article.product_id, "product_title": title}
        if article.child_title:
            result["child_title"] = readable(article.child_title[:MOST_TITLE])
        result["authors"] = authors
        if article.published:
            result["published_date"] = article.published
        result["content"] = fenced(article.content, self.fence_key)
        result["url"] = address
        result["citation_format"] = citation_format(title, address)
        result["citation_instruction"] = citation_instruction(
            self.citation, article.licence, authors, linked=bool(address)
        )
        return result


def _authors(names: Sequence[str]) -> list[str]:
    return [" ".join(readable(name[:_MOST_NAME]).split()) for name in names[:_MOST_AUTHORS]]
