"""The two tools: answer a user's question from the archive, and return the article of a snippet that the user got."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from actors.answers.archive.client import ArchiveClient
from actors.answers.archive.messages import ArchiveArticle, ArchiveQuery, Snippet
from cluster.errors import NotFound
from deployments.archive.caller import ArchiveCaller
from deployments.archive.citation import (
    CitationRules,
    citation_format,
    citation_instruction,
    web_address,
)
from deployments.archive.signed_offsets import MOST_POSITIONS, OffsetSigner
from deployments.archive.text_fence import fence_line, fence_text, remove_invisible
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
    """The reply of a tool, and data for the usage report only."""

    document: dict[str, Any]
    coverage: float | None = None


@dataclass(frozen=True, slots=True)
class ArchiveTools:
    """Answers the tools from one archive."""

    app_id: str
    archive: ArchiveClient
    issuer: OffsetSigner
    fence_key: bytes
    citation: CitationRules
    rows: int = 10

    async def ask(self, person: ArchiveCaller, arguments: dict[str, Any]) -> ToolResult:
        """Return the result of `ask_archive`."""
        query = ArchiveQuery(
            self.app_id,
            remove_invisible(arguments["question"]),
            context=remove_invisible(arguments.get("context", "")[:MOST_CONTEXT]),
            rows=self.rows,
        )
        found = await self.archive.ask(query)
        snippets = [one for one in found.snippets if one.position < MOST_POSITIONS]
        document = {"results": [self._result(person, one) for one in snippets]}
        return ToolResult(document, coverage=found.coverage)

    async def article(self, person: ArchiveCaller, arguments: dict[str, Any]) -> ToolResult:
        """Return the result of `get_archive_article`.

        Errors:
            NotFound: the offset is not one of this user, or the article is deleted; both have the same message
        """
        product_id = arguments["product_id"]
        position = self.issuer.verify(self.app_id, person.user_id, product_id, arguments["offset"])
        if position is None:
            raise NotFound(NOT_ISSUED)
        found = await self.archive.article(self.app_id, product_id, position)
        if found is None:
            raise NotFound(NOT_ISSUED)
        return ToolResult(self._article(found))

    def _result(self, person: ArchiveCaller, snippet: Snippet) -> dict[str, Any]:
        product_id = snippet.product_id
        result: dict[str, Any] = {
            "product_id": product_id,
            "offset": self.issuer.sign(self.app_id, person.user_id, product_id, snippet.position),
            "product_title": fence_line(snippet.title[:MOST_TITLE], self.fence_key),
        }
        if snippet.child_title:
            result["child_title"] = fence_line(snippet.child_title[:MOST_TITLE], self.fence_key)
        result["snippet"] = fence_line(snippet.text, self.fence_key)
        result["authors"] = _authors(snippet.authors)
        if snippet.published:
            result["published_date"] = snippet.published
        address = web_address(snippet.url)
        if address:
            result["url"] = address
        result["score"] = round(snippet.score, 4)
        return result

    def _article(self, article: ArchiveArticle) -> dict[str, Any]:
        title, address = remove_invisible(article.title[:MOST_TITLE]), web_address(article.url)
        authors = _authors(article.authors)
        result: dict[str, Any] = {"product_id": article.product_id, "product_title": title}
        if article.child_title:
            result["child_title"] = remove_invisible(article.child_title[:MOST_TITLE])
        result["authors"] = authors
        if article.published:
            result["published_date"] = article.published
        result["content"] = fence_text(article.content, self.fence_key)
        result["url"] = address
        result["citation_format"] = citation_format(title, address)
        result["citation_instruction"] = citation_instruction(
            self.citation, article.licence, authors, linked=bool(address)
        )
        return result


def _authors(names: Sequence[str]) -> list[str]:
    return [" ".join(remove_invisible(name[:_MOST_NAME]).split()) for name in names[:_MOST_AUTHORS]]
