"""The typed way to an archive, wherever it lives."""

from __future__ import annotations

from typing import Any, Protocol

from actors.answers.messages import ArchiveQuery, ArchiveResult, Article
from cluster.errors import Refusal


class ArchiveClient(Protocol):
    """Finds passages; the same behaviour over every placement."""

    async def ask(self, query: ArchiveQuery) -> ArchiveResult:
        """Find what the app's archive holds about a question; nothing found is an empty result.

        Errors:
            Unavailable: the archive is still loading, or the store is away
        """
        ...

    async def article(self, app_id: str, product_id: str, position: int) -> Article | None:
        """Give the article a passage stands in; None when there is no such passage (any more).

        Errors:
            Unavailable: the archive is still loading, or the store is away
        """
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

    async def article(self, app_id: str, product_id: str, position: int) -> Article | None:
        reply: Article | Refusal | None = await self._host.article(app_id, product_id, position)
        if isinstance(reply, Refusal):
            raise reply.error()
        return reply
