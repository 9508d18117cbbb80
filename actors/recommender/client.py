"""The typed way to a recommender, wherever it lives."""

from __future__ import annotations

from typing import Any, Protocol

from actors.recommender.messages import ReaderQuery, RecommendationResult
from cluster.errors import Refusal


class RecommenderClient(Protocol):
    """Answers recommendation queries; the same behaviour over every placement."""

    async def answer(self, query: ReaderQuery) -> RecommendationResult:
        """Ask the engine named in the query.

        Errors:
            NotFound: `engine is not found`
            Unavailable: the engine's replicas are away or overloaded
        """
        ...


class LocalRecommenderClient:
    """The host lives in this process (placement `door`)."""

    def __init__(self, host: Any) -> None:
        self._host = host

    async def answer(self, query: ReaderQuery) -> RecommendationResult:
        return _unwrap(await self._host.answer(query))


class RemoteRecommenderClient:
    """The host is a Serve deployment (placement `own`); `handle` is its deployment handle."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def answer(self, query: ReaderQuery) -> RecommendationResult:
        return _unwrap(await self._handle.answer.remote(query))


def _unwrap(reply: RecommendationResult | Refusal) -> RecommendationResult:
    if isinstance(reply, Refusal):
        raise reply.error()
    return reply
