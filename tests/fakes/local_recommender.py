"""The client of a recommender in the same process, and the interface over it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.client import unwrap
from actors.serving.host import EngineHost
from cluster.clock import Clock
from cluster.meter import SilentMeter
from cluster.store.stores import Stores
from tests.fakes.request_handler import Corner, open_corner


class LocalRecommenderClient:
    """Sends queries to a host in this process (placement `embedded`)."""

    def __init__(self, host: Any) -> None:
        self._host = host

    async def answer(self, query: UserQuery) -> RecommendationResult:
        return unwrap(await self._host.answer(query))


@asynccontextmanager
async def open_recommending_corner(clock: Clock, stores: Stores, **more: Any) -> AsyncIterator[Corner]:
    """Open the interface over an engine in this process; `more` are arguments of `open_corner`."""
    host = EngineHost(stores, None, clock, SilentMeter())
    await host.start()
    corner = await open_corner(clock=clock, stores=stores, client=LocalRecommenderClient(host), **more)
    try:
        yield corner
    finally:
        await corner.close()
        await host.close()
