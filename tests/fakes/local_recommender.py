"""The client of a recommender in the same process."""

from __future__ import annotations

from typing import Any

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.client import unwrap


class LocalRecommenderClient:
    """Sends queries to a host in this process (placement `embedded`)."""

    def __init__(self, host: Any) -> None:
        self._host = host

    async def answer(self, query: UserQuery) -> RecommendationResult:
        return unwrap(await self._host.answer(query))
