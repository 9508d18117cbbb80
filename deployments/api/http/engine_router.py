"""Routes each query to the engine: embedded in this API replica, or dedicated in a deployment.

The placement stands in the engine's record, so that an engine moves without a restart. When an engine becomes embedded
again, its deployment answers until this process has loaded it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.client import RecommenderClient, unwrap
from cluster.clock import Clock
from cluster.errors import KioskError, Refusal, TooMany, Unavailable, messages
from cluster.records.engine import Engine, Placement
from cluster.store.refreshing_cache import EngineRecordsCache
from cluster.tracing import current_trace, current_traceparent

_log = structlog.get_logger()

ConnectToEngine = Callable[[str, str], Awaitable[RecommenderClient]]
"(app id, engine id) -> a client of the deployment of a dedicated engine"
_LOADING_TRIES = 20


class QueryAnswerer(Protocol):
    """Answers queries: the host in this process, or a client of another deployment."""

    async def answer(self, query: UserQuery) -> RecommendationResult | Refusal:
        """Return the result of one query; an expected error may be returned as a refusal."""
        ...


@dataclass(slots=True)
class _CachedRoute:
    engine: Engine
    client: QueryAnswerer
    remote: bool
    retry_s: float = math.inf
    "Monotonic time of the next attempt to finish a move of the engine."
    loading_task: asyncio.Task[None] | None = None
    "Loads the engine into this process, because it becomes embedded again."
    queries: int = 0
    "Queries since the counts were last reported."


class EngineRouter:
    """A `RecommenderClient` that sends each query to the deployment of its engine."""

    def __init__(
        self,
        engine_records: EngineRecordsCache,
        local: QueryAnswerer,
        connect: ConnectToEngine,
        clock: Clock,
        *,
        away: tuple[type[Exception], ...] = (),
        overloaded: tuple[type[Exception], ...] = (),
        retry_s: float = 1.0,
    ) -> None:
        self._engine_records = engine_records
        self._local = local
        self._connect = connect
        self._clock = clock
        self._away = away
        self._overloaded = overloaded
        self._retry_s = retry_s
        self._routes: dict[tuple[str, str], _CachedRoute] = {}

    def take_counts(self) -> dict[str, dict[tuple[Placement, str], int]]:
        """Return and reset the number of queries of each engine: app id -> (placement, engine id) -> queries."""
        taken: dict[str, dict[tuple[Placement, str], int]] = {}
        for (app_id, engine_id), route in self._routes.items():
            if route.queries:
                place: Placement = "own" if route.remote else "door"
                taken.setdefault(app_id, {})[place, engine_id] = route.queries
                route.queries = 0
        return taken

    async def close(self) -> None:
        """Cancel the loading of engines."""
        loading = [route.loading_task for route in self._routes.values() if route.loading_task is not None]
        for task in loading:
            task.cancel()
        await asyncio.gather(*loading, return_exceptions=True)

    async def answer(self, query: UserQuery) -> RecommendationResult:
        """Send the query to the engine that it names and return the result.

        Errors:
            NotFound: `engine is not found`
            TooMany: too many queries wait for the engine
        Cost: two dictionary look-ups while the record is fresh.
        """
        trace = current_trace()
        if trace is None:
            return await self._answer(query)
        facts = {"kiosk.engine": query.engine_id, "kiosk.query": query.kind}
        with trace.stage("engine", attributes=facts):
            return await self._answer(query)

    async def _answer(self, query: UserQuery) -> RecommendationResult:
        route = self._routes.get((query.app_id, query.engine_id))
        if (
            route is None
            or self._engine_records.find(query.app_id, query.engine_id) is not route.engine
            # Only an engine that moves has a time of the next attempt.
            or route.retry_s is not math.inf
        ):
            route = await self._refresh(query.app_id, query.engine_id, route)
        if route is None or not route.remote:
            if route is not None:
                route.queries += 1
            # The host in this process also refuses unknown engines.
            result = await self._local.answer(query)
            if isinstance(result, Refusal):
                raise result.error()
            return result
        route.queries += 1
        try:
            return unwrap(await _ask_dedicated(route.client, query))
        except self._overloaded as error:
            raise TooMany(messages.OVERLOADED, retry_after_s=1) from error
        except self._away as error:
            # The next query connects anew, because the deployment may have been replaced.
            self._routes.pop((query.app_id, query.engine_id), None)
            if route.loading_task is not None:
                # The engine is becoming embedded and its deployment may be gone, so this process answers.
                return unwrap(await self._local.answer(query))
            raise self._unavailable(query.app_id, query.engine_id, error) from error

    async def _refresh(self, app_id: str, engine_id: str, route: _CachedRoute | None) -> _CachedRoute | None:
        try:
            engine = await self._engine_records.read_engine(app_id, engine_id)
        except Unavailable:
            # The last known route stays valid while the store is unavailable.
            return route
        if engine is None:
            self._routes.pop((app_id, engine_id), None)
            return None
        now_s = self._clock.monotonic_s()
        if route is not None:
            if route.engine is engine and now_s < route.retry_s:
                return route
            # one request changes the route; the others use the old one meanwhile
            route.engine = engine
            route.retry_s = now_s + self._retry_s
        fresh = await self._route(engine, route)
        # Queries are counted by placement: those of the other placement must not count for the new one.
        if route is not None and fresh is not route and route.remote == fresh.remote:
            fresh.queries = route.queries
        self._routes[app_id, engine_id] = fresh
        return fresh

    async def _route(self, engine: Engine, route: _CachedRoute | None) -> _CachedRoute:
        if engine.placement == "door":
            if route is None or not route.remote:
                return _CachedRoute(engine, self._local, remote=False)
            # Until this replica has loaded the engine, the dedicated one goes on answering.
            if route.loading_task is None:
                route.loading_task = asyncio.get_running_loop().create_task(self._load(engine))
            elif route.loading_task.done():
                return _CachedRoute(engine, self._local, remote=False)
            return route
        if route is not None and route.remote:
            return _CachedRoute(engine, route.client, remote=True)
        try:
            client = await self._connect(engine.app_id, engine.engine_id)
        except self._away as error:
            # Only the look-up failed: the route that worked before may still work.
            if route is not None:
                return route
            raise self._unavailable(engine.app_id, engine.engine_id, error) from error
        return _CachedRoute(engine, client, remote=True)

    async def _load(self, engine: Engine) -> None:
        """Load an engine into the host of this process by a small query."""
        query = UserQuery(kind="user_to_trending", app_id=engine.app_id, engine_id=engine.engine_id, rows=1)
        for _ in range(_LOADING_TRIES):
            try:
                unwrap(await self._local.answer(query))
                return
            except Unavailable:
                # loading a large engine takes longer than the deadline of one query
                await asyncio.sleep(self._retry_s)
            except KioskError as error:
                _log.warning("recommender_not_loaded", app=engine.app_id, reason=error.message)
                return

    def _unavailable(self, app_id: str, engine_id: str, error: Exception) -> Unavailable:
        _log.warning("recommender_missed", app=app_id, engine=engine_id, kind=type(error).__name__)
        return Unavailable("the engine's deployment is away", retry_after_s=1)


async def _ask_dedicated(client: QueryAnswerer, query: UserQuery) -> RecommendationResult | Refusal:
    """Send a query to another process; a traced one carries its trace along."""
    trace = current_trace()
    if trace is None or trace.span is None:
        return await client.answer(query)
    with trace.stage("hop", "client"):
        return await client.answer(replace(query, traceparent=current_traceparent()))
