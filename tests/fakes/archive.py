"""A whole archive door in this process: a small archive, memory stores, and people with tokens."""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.applications import Starlette

from actors.archive.citations import check_citations
from actors.archive.messages import (
    ArchiveArticle,
    ArchiveQuery,
    ArchiveResult,
    Citation,
    CitationState,
    Snippet,
)
from actors.archive.passage_index import PassageIndex
from actors.archive.passages import document_from_product
from actors.archive.teasers import list_teasers
from cluster.access_tier import may_read
from cluster.crypto import Vault
from cluster.external_fetcher import ExternalFetcher
from cluster.meter import Meter
from cluster.records.account import Grant
from cluster.records.archive.article_revision import WITHDRAWN, ArticleRevision, revision_of
from cluster.store.stores import Stores
from deployments.archive.archive_apps import ArchiveApps
from deployments.archive.archive_config import ArchiveConfig
from deployments.archive.services import ArchiveServices, build_archive_routes, open_archive
from tests.fakes.asgi import Answer, call
from tests.fakes.request_handler import MASTER, StillClock
from tests.fakes.stores.memory import memory_stores

ORIGIN = "https://news.example.com"
HOST = "news.example.com"
RESOURCE = f"{ORIGIN}/mcp"
WORDS = re.compile(r"\w+")
NOT_ISSUED = (
    "Invalid arguments for get_archive_article: product_id and offset were not returned by ask_archive; "
    "call ask_archive first"
)


@dataclass
class SmallArchive:
    """Finds passages that share words with the question, and remembers what it was asked."""

    articles: dict[str, ArchiveArticle] = field(default_factory=dict)
    queries: deque[ArchiveQuery] = field(default_factory=lambda: deque(maxlen=1_000))
    "The latest questions: of all, a soak would measure their list."
    access: dict[str, str] = field(default_factory=dict)
    "Product -> the tier that its readers need."
    changes: dict[str, ArticleRevision] = field(default_factory=dict)
    wrong: Exception | None = None
    gate: asyncio.Event | None = None
    "Calls wait until it is set."

    async def ask(self, query: ArchiveQuery) -> ArchiveResult:
        """Find passages: an article's paragraphs."""
        self.queries.append(query)
        await self._trouble()
        if query.teasers:
            return list_teasers(self._library(), query, 0)
        words = set(WORDS.findall(query.question.lower()))
        scored = []
        for article in self.articles.values():
            if not may_read(self.access.get(article.product_id, ""), query.tiers):
                continue
            for position, text in enumerate(article.content.split("\n\n")):
                share = len(words & set(WORDS.findall(f"{article.title} {text}".lower()))) / max(
                    1, len(words)
                )
                if share > 0:
                    scored.append((share, _snippet(article, position, text, share)))
        scored.sort(key=lambda pair: -pair[0])
        best = scored[0][0] if scored else 0.0
        return ArchiveResult(tuple(snippet for _, snippet in scored[: query.rows]), coverage=best)

    async def article(
        self, app_id: str, product_id: str, position: int, tiers: frozenset[str] = frozenset()
    ) -> ArchiveArticle | None:
        """Give an article while it is there."""
        await self._trouble()
        article = self.articles.get(product_id)
        if not may_read(self.access.get(product_id, ""), tiers):
            return None
        if article is None or position >= len(article.content.split("\n\n")):
            return None
        return article

    async def check(
        self, app_id: str, citations: Sequence[Citation], tiers: frozenset[str] = frozenset()
    ) -> tuple[CitationState, ...]:
        """Check citations against a library of the articles."""
        await self._trouble()
        return check_citations(self._library(), self.changes, citations, tiers)

    def _library(self) -> PassageIndex:
        library = PassageIndex(None)
        library.put(
            document
            for article in self.articles.values()
            if (document := document_from_product(_record(article, self.access.get(article.product_id, ""))))
            is not None
        )
        return library

    def locked_accesses(self, app_id: str) -> frozenset[str] | None:
        """Return the accesses of the articles that a test locked."""
        return frozenset(self.access.values()) - {""}

    async def get_article_revisions(self, app_id: str) -> Mapping[str, ArticleRevision]:
        """Return the corrections and withdrawals that a test put."""
        return self.changes

    def correct(self, product_id: str, content: str, note: str, corrected_at: str = "2026-01-02") -> None:
        """Correct an article, as a follower of the change log does."""
        article = replace(
            self.articles[product_id], content=content, corrected_at=corrected_at, correction_note=note
        )
        self.articles[product_id] = article
        self.changes[product_id] = ArticleRevision(
            status="corrected", at=1_767_312_000_000, revision=revision_of(corrected_at, note), title=article.title,
            url=article.url, access=self.access.get(product_id, ""), corrected_at=corrected_at, note=note,
        )  # fmt: skip

    def withdraw(self, product_id: str) -> None:
        """Remove an article, as a follower of the change log does."""
        article = self.articles.pop(product_id)
        self.changes[product_id] = ArticleRevision(
            status="withdrawn", at=1_767_312_000_000, revision=WITHDRAWN, title=article.title, url=article.url,
            access=self.access.get(product_id, ""),
        )  # fmt: skip

    async def _trouble(self) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.wrong is not None:
            raise self.wrong


def _record(article: ArchiveArticle, access: str) -> dict[str, Any]:
    return {
        "product_id": article.product_id, "type": "article", "title": article.title, "url": article.url,
        "paragraphs": article.content.split("\n\n"), "access": access, "corrected_at": article.corrected_at,
        "correction_note": article.correction_note,
    }  # fmt: skip


def _snippet(article: ArchiveArticle, position: int, text: str, score: float) -> Snippet:
    return Snippet(
        article.product_id, position, article.title, article.child_title, article.authors,
        article.published, article.url, text, score, article.licence,
    )  # fmt: skip


def sample_articles() -> dict[str, ArchiveArticle]:
    """Three articles, one of them with next to nothing known about it."""
    river = ArchiveArticle(
        "na-1002",
        "Parliament votes on river water rules",
        "Metering",
        ("L. Brandt", "S. Iyer"),
        "2020-11-19",
        "https://news.example.com/articles/na-1002",
        "Farms must meter water from April.\n\nThe river rules passed by nine votes.",
        "CC BY 2.5",
    )
    odd = ArchiveArticle(
        "na-7 (b)",
        r"Sums [of] \ parts",
        "",
        ("O. Odd",),
        "",
        "https://news.example.com/a b/(7)",
        "Nothing but brackets and a comet.",
        "",
    )
    bare = ArchiveArticle(
        "na-8", "A comet returns", "", (), "", "", "The comet was seen again in June.", "CC BY-SA 4.0"
    )
    return {article.product_id: article for article in (river, odd, bare)}


@dataclass
class ArchiveCorner:
    """Everything a test of the archive's door needs."""

    stores: Stores
    clock: StillClock
    vault: Vault
    archive: SmallArchive
    services: ArchiveServices
    app: Any

    def token(
        self,
        user_id: str = "ida",
        client: str = "client-1",
        name: str = "Example Agent",
        resource: str = RESOURCE,
    ) -> str:
        """Make an access token as a finished sign-in would."""
        now_ms = self.clock.now_ms()
        grant = Grant(
            grant_id=f"grant-{user_id}-{client}",
            user_id=user_id,
            username=user_id,
            client_id=client,
            client_name=name,
            resource=resource,
            created_at=now_ms,
        )
        return self.services.oauth.access_tokens.issue(grant, 3600)

    async def post(
        self,
        body: bytes,
        *,
        token: str | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        method: str = "POST",
        target: str = "/mcp",
    ) -> Answer:
        """Send raw bytes, signed in as `ida` unless `token` says otherwise (empty: not at all)."""
        chosen = self.token() if token is None else token
        sent: dict[str, str | bytes] = {"host": HOST, **(headers or {})}
        if chosen and "authorization" not in sent:
            sent["authorization"] = f"Bearer {chosen}"
        return await call(self.app, method, target, headers=sent, body=body)

    async def rpc(self, method: str, params: Any = None, *, token: str | None = None, id: Any = 1) -> Any:
        """Call a method and give the whole answer."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not None:
            message["params"] = params
        answer = await self.post(json.dumps(message).encode(), token=token)
        assert answer.status == 200, answer
        return answer.json()

    async def tool(self, name: str, arguments: Any, *, token: str | None = None) -> Any:
        """Call a tool and give the whole answer."""
        return await self.rpc("tools/call", {"name": name, "arguments": arguments}, token=token)

    async def ask(self, question: str, *, token: str | None = None, **more: Any) -> list[dict[str, Any]]:
        """Ask the archive."""
        answer = await self.tool("ask_archive", {"question": question, **more}, token=token)
        results: list[dict[str, Any]] = answer["result"]["structuredContent"]["results"]
        return results


async def open_archive_corner(
    stores: Stores | None = None,
    clock: StillClock | None = None,
    apps: ArchiveApps | None = None,
    *,
    meter: Meter | None = None,
    key_documents: ExternalFetcher | None = None,
    **config: Any,
) -> ArchiveCorner:
    """Open an archive at https://news.example.com with three articles."""
    clock = clock or StillClock()
    stores = stores or memory_stores(clock)
    vault = Vault(MASTER)
    archive = SmallArchive(sample_articles())
    given: dict[str, Any] = {
        "public_url": ORIGIN,
        "origins": ("https://tools.example.org", "Chrome-Extension://abcdef"),
        **config,
    }
    services = open_archive(
        stores, vault, archive, clock, ArchiveConfig(**given), apps, meter=meter, key_documents=key_documents
    )
    return ArchiveCorner(
        stores, clock, vault, archive, services, Starlette(routes=build_archive_routes(services))
    )
