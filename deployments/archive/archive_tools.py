"""The tools: answer a user's question from the archive, and return the article of a snippet that the user got.

`search` and `fetch` do the same in the form of connectors. `ask_archive` returns pairs of product and offset. Only
Kiosk can create an offset, and every replica can verify it.

An offset names one passage of one product for one user. It is an integer below 2^53, because JavaScript keeps no
larger ones. It has two parts:

    40 bits  tag      keyed digest of archive, user, product and position
    13 bits  sealed   position, covered by a keyed digest of the tag (and of the same names)

This is deterministic authenticated encryption with a synthetic nonce. The same passage has the same offset in every
answer, before and after restarts, on every replica. Nothing is stored. Offsets hide positions and their order, and an
offset of one user is invalid for another user. A guessed offset is right once in 2^40 guesses: at a hundred guesses a
second, once in 350 years.

Source: RFC 5297 (the idea: the tag is the nonce); specification, rule 1
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from actors.archive.client import ArchiveClient
from actors.archive.messages import ArchiveArticle, ArchiveQuery, Snippet
from cluster.errors import NotFound
from deployments.archive.admission import ArchiveCaller
from deployments.archive.call_context import PLAIN, CallContext, link_address
from deployments.archive.citation_rules import (
    CitationRules,
    citation_format,
    citation_instruction,
    sanitize_url,
)
from deployments.archive.licence_terms import LicenceTerms
from deployments.archive.text_fence import fence_line, fence_text, remove_invisible
from deployments.archive.tools import FETCH, GET, MOST_CONTEXT, SEARCH

PURPOSE = "archive offsets"
"Purpose of the derived key."

_POSITION_BITS = 13
_TAG_BYTES = 5
MOST_POSITIONS = 1 << _POSITION_BITS
"Passages of one product that can have an offset; so many passages hold a million words."
_LIMIT = 1 << 53


@dataclass(frozen=True, slots=True)
class OffsetSigner:
    """Signs offsets with the first of its keys, and verifies what any of them signed."""

    keys: tuple[bytes, ...]
    "32 bytes each, the same on all replicas."

    def sign(self, app_id: str, user_id: str, product_id: str, position: int) -> int:
        """Return the offset of a passage; `position` is below `MOST_POSITIONS`. Cost: 4 microseconds."""
        names = _names(app_id, user_id, product_id)
        key = self.keys[0]
        tag = _digest(key, b"tag", names + position.to_bytes(4, "big"))[:_TAG_BYTES]
        # The other keys are older ones. Agents still have offsets that they signed.
        sealed = position ^ _mask(key, names, tag)
        return int.from_bytes(tag, "big") << _POSITION_BITS | sealed

    def verify(self, app_id: str, user_id: str, product_id: str, offset: int) -> int | None:
        """Return the passage of an offset; None if it was not signed for this user and product."""
        # The number comes from a client, and `to_bytes` raises for a negative or a larger one.
        if not 0 <= offset < _LIMIT:
            return None
        names = _names(app_id, user_id, product_id)
        tag = (offset >> _POSITION_BITS).to_bytes(_TAG_BYTES, "big")
        for key in self.keys:
            position = (offset & MOST_POSITIONS - 1) ^ _mask(key, names, tag)
            # With a wrong key this is any position; only the tag decides.
            right = _digest(key, b"tag", names + position.to_bytes(4, "big"))[:_TAG_BYTES]
            # In constant time: with `==` the time would reveal a guessed tag byte by byte.
            if hmac.compare_digest(tag, right):
                return position
        return None


def _mask(key: bytes, names: bytes, tag: bytes) -> int:
    return int.from_bytes(_digest(key, b"cover", names + tag)[:2], "big") & MOST_POSITIONS - 1


def _digest(key: bytes, person: bytes, message: bytes) -> bytes:
    return hashlib.blake2b(message, digest_size=16, key=key, person=person).digest()


def _names(app_id: str, user_id: str, product_id: str) -> bytes:
    """Join names so that two different lists of names never give the same text."""
    return _user_prefix(app_id, user_id) + _length_prefixed(product_id)


@lru_cache(maxsize=1_024)
def _user_prefix(app_id: str, user_id: str) -> bytes:
    # Cached, because all passages of an answer name the same app and user.
    return _length_prefixed(app_id) + _length_prefixed(user_id)


def _length_prefixed(name: str) -> bytes:
    part = name.encode("utf-8", "surrogatepass")
    return len(part).to_bytes(4, "big") + part


NOT_ISSUED = (
    f"Invalid arguments for {GET}: product_id and offset were not returned by ask_archive; "
    "call ask_archive first"
)
NOT_RETURNED_BY_SEARCH = (
    f"Invalid arguments for {FETCH}: id was not returned by {SEARCH}; call {SEARCH} first"
)
_OFFSET = re.compile(r"[0-9]{1,16}", re.ASCII)

MOST_TEASERS = 3
"Locked articles that an answer names, where the publisher allows it."
MOST_TITLE = 300
"Characters of a title."
_MOST_AUTHORS = 50
_MOST_NAME = 120


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The reply of a tool, and data that only the usage report uses."""

    document: dict[str, Any]
    articles: tuple[str, ...]
    "Product ids."
    coverage: float | None = None
    is_included: bool = False
    "Whether the article belongs to another archive, which this one includes."


@dataclass(frozen=True, slots=True)
class ArchiveTools:
    """Answers the tools from one archive."""

    find_app: Callable[[], str]
    "Returns the app that agents read at present."
    archive: ArchiveClient
    issuer: OffsetSigner
    fence_key: bytes
    citation: CitationRules
    terms: LicenceTerms
    rows: int = 10
    has_teasers: bool = False
    "Whether locked articles that fit a question are named, by title and link."

    async def ask(
        self, person: ArchiveCaller, arguments: dict[str, Any], context: CallContext = PLAIN
    ) -> ToolResult:
        """Return the result of `ask_archive`."""
        app_id = self.find_app()
        snippets, coverage = await self.retrieve(
            app_id, person, arguments["question"], arguments.get("context", ""), context.snippet_words
        )
        # Read once: most archives have no terms, and each passage would ask again.
        has_terms = self.terms.exist()
        document: dict[str, Any] = {
            "results": [
                self.describe_snippet(app_id, person, snippet, context, has_terms) for snippet in snippets
            ]
        }
        if has_terms:
            document |= self.terms.describe("")
        if self.has_teasers:
            document |= await self.find_teasers(app_id, person, arguments["question"])
        return ToolResult(document, tuple(snippet.product_id for snippet in snippets), coverage)

    async def search(
        self, person: ArchiveCaller, arguments: dict[str, Any], context: CallContext = PLAIN
    ) -> ToolResult:
        """Return the result of `search`: the passages of `ask_archive` as connectors read them."""
        app_id = self.find_app()
        snippets, coverage = await self.retrieve(
            app_id, person, arguments["query"], "", context.snippet_words
        )
        results = [self.describe_link(app_id, person, snippet, context) for snippet in snippets]
        return ToolResult({"results": results}, tuple(snippet.product_id for snippet in snippets), coverage)

    async def retrieve(
        self, app_id: str, person: ArchiveCaller, question: str, context: str, snippet_words: int
    ) -> tuple[list[Snippet], float | None]:
        """Return the best passages for a question, and how much of it they cover."""
        query = ArchiveQuery(
            app_id,
            remove_invisible(question),
            context=remove_invisible(context[:MOST_CONTEXT]),
            rows=self.rows,
            tiers=person.tiers,
            snippet_words=snippet_words,
        )
        passages = await self.archive.ask(query)
        # Later passages don't fit into the bits of an offset.
        snippets = [snippet for snippet in passages.snippets if snippet.position < MOST_POSITIONS]
        return snippets, passages.coverage

    async def find_teasers(self, app_id: str, person: ArchiveCaller, question: str) -> dict[str, Any]:
        """Return the locked articles that fit a question, as a member of a result; without any it is left out."""
        query = ArchiveQuery(
            app_id, remove_invisible(question), rows=self.rows, tiers=person.tiers, teasers=MOST_TEASERS
        )
        teasers = (await self.archive.ask(query)).teasers
        named = [
            {
                "product_title": fence_line(teaser.title[:MOST_TITLE], self.fence_key),
                "url": sanitize_url(teaser.url),
            }
            for teaser in teasers
            if sanitize_url(teaser.url)
        ]
        return {"locked_articles": named} if named else {}

    async def article(
        self, person: ArchiveCaller, arguments: dict[str, Any], context: CallContext = PLAIN
    ) -> ToolResult:
        """Return the result of `get_archive_article`.

        Errors:
            NotFound: the offset does not belong to this user, or the article is deleted or locked, in the same words
        """
        article = await self.find_article(person, arguments["product_id"], arguments["offset"])
        # The same words for deleted and locked articles: other words would reveal which of them exist.
        if article is None:
            raise NotFound(NOT_ISSUED)
        return ToolResult(self.describe_article(article, context), (article.product_id,))

    async def fetch(
        self, person: ArchiveCaller, arguments: dict[str, Any], context: CallContext = PLAIN
    ) -> ToolResult:
        """Return the result of `fetch`: an article as connectors read it.

        Errors:
            NotFound: the id does not belong to this user, or the article is deleted or locked, in the same words
        """
        product_id, offset = split_snippet_id(arguments["id"])
        article = await self.find_article(person, product_id, offset)
        if article is None:
            raise NotFound(NOT_RETURNED_BY_SEARCH)
        return ToolResult(self.describe_fetched(arguments["id"], article, context), (article.product_id,))

    def describe_fetched(
        self, joined_id: str, article: ArchiveArticle, context: CallContext
    ) -> dict[str, Any]:
        """Return an article as connectors read it."""
        whole = self.describe_article(article, context)
        metadata = {name: whole[name] for name in ("citation_format", "citation_instruction")}
        if whole["authors"]:
            metadata["authors"] = ", ".join(whole["authors"])
        optional = ("published_date", "corrected_at", "correction_note", "license_url", "content_usage")
        metadata |= {name: whole[name] for name in optional if name in whole}
        return {
            "id": joined_id,
            "title": _plain_title(article.title),
            "text": whole["content"],
            "url": _citable_address(article.product_id, article.url, context),
            "metadata": metadata,
        }

    async def find_article(
        self, person: ArchiveCaller, product_id: str, offset: int
    ) -> ArchiveArticle | None:
        """Return an article; None if the offset is of another archive or user, or it is deleted or locked."""
        app_id = self.find_app()
        position = self.issuer.verify(app_id, person.user_id, product_id, offset)
        if position is None:
            return None
        article = await self.archive.article(app_id, product_id, position, person.tiers)
        # Its type may have changed since the offset was signed.
        return article if article is not None and article.is_article else None

    def describe_link(
        self, app_id: str, person: ArchiveCaller, snippet: Snippet, context: CallContext
    ) -> dict[str, Any]:
        """Return a passage as a result of `search`."""
        offset = self.issuer.sign(app_id, person.user_id, snippet.product_id, snippet.position)
        return {
            "id": f"{offset}.{snippet.product_id}",
            "title": _plain_title(snippet.title),
            "url": _citable_address(snippet.product_id, snippet.url, context),
            "text": fence_line(snippet.text, self.fence_key),
        }

    def describe_snippet(
        self, app_id: str, person: ArchiveCaller, snippet: Snippet, context: CallContext, has_terms: bool
    ) -> dict[str, Any]:
        """Return a passage as a result of `ask_archive`, with its terms if there are any."""
        product_id = snippet.product_id
        result: dict[str, Any] = {
            "product_id": product_id,
            "offset": self.issuer.sign(app_id, person.user_id, product_id, snippet.position),
            "product_title": fence_line(snippet.title[:MOST_TITLE], self.fence_key),
        }
        if snippet.child_title:
            result["child_title"] = fence_line(snippet.child_title[:MOST_TITLE], self.fence_key)
        result["snippet"] = fence_line(snippet.text, self.fence_key)
        result["authors"] = _authors(snippet.authors)
        if snippet.published:
            result["published_date"] = snippet.published
        address = sanitize_url(snippet.url)
        if address:
            result["url"] = address if context is PLAIN else link_address(context, product_id, address)
        result["score"] = round(snippet.score, 4)
        if has_terms:
            result |= self.terms.describe(snippet.licence, only_other=True)
        return result

    def describe_article(self, article: ArchiveArticle, context: CallContext) -> dict[str, Any]:
        """Return an article with its citation."""
        title = remove_invisible(article.title[:MOST_TITLE])
        address = link_address(context, article.product_id, sanitize_url(article.url))
        rules = self.citation if context.citation is None else replace(self.citation, extra=context.citation)
        authors = _authors(article.authors)
        result: dict[str, Any] = {"product_id": article.product_id, "product_title": title}
        if article.child_title:
            result["child_title"] = remove_invisible(article.child_title[:MOST_TITLE])
        result["authors"] = authors
        if article.published:
            result["published_date"] = article.published
        if article.corrected_at:
            result["corrected_at"] = article.corrected_at
        if article.correction_note:
            result["correction_note"] = fence_line(article.correction_note, self.fence_key)
        result["content"] = fence_text(article.content, self.fence_key)
        result["url"] = address
        result["citation_format"] = citation_format(title, address)
        result["citation_instruction"] = citation_instruction(
            rules, article.licence, authors, linked=bool(address)
        )
        return result | self.terms.describe(article.licence)


def split_snippet_id(joined: str) -> tuple[str, int]:
    """Return product and offset of an id that `search` returned; another id has the offset -1, which names nothing."""
    # The offset comes first, because product ids may contain dots.
    offset, _, product_id = joined.partition(".")
    return product_id, int(offset) if _OFFSET.fullmatch(offset) else -1


def _authors(names: Sequence[str]) -> list[str]:
    return [" ".join(remove_invisible(name[:_MOST_NAME]).split()) for name in names[:_MOST_AUTHORS]]


def _plain_title(title: str) -> str:
    """Return a title that a connector shows as a link; it is never empty."""
    return " ".join(remove_invisible(title[:MOST_TITLE]).split()) or "Untitled"


def _citable_address(product_id: str, url: str, context: CallContext) -> str:
    """Return the address of an article; without one a name, because connectors refuse an empty address."""
    address = link_address(context, product_id, sanitize_url(url))
    return address or f"urn:article:{quote(product_id, safe='', errors='replace')}"
