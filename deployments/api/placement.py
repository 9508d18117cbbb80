"""Which recommender answers: the one in this process or one with a place of its own.

The engine's record says which, and is asked again after a moment, so that an engine moves without a restart
(decision S4).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from actors.recommender.client import RecommenderClient
from actors.recommender.messages import ReaderQuery, RecommendationResult
from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.records.engine import Engine
from cluster.store.ports import EngineStore

_log = structlog.get_logger()

Reach = Callable[[str, str], Awaitable[RecommenderClient]]
"(app id, engine id) -> a client of the engine's own deployment"


@dataclass(slots=True)
class _Known:
    client: RecommenderClient
    until_s: float
    remote: bool


class PlacedRecommenders:
    """A `RecommenderClient` that sends each query to where its engine lives."""

    def __init__(
        self,
        engines: EngineStore,
        local: RecommenderClient,
        reach: Reach,
        clock: Clock,
        *,
        away: tuple[type[Exception], ...] = (),
        keep_s: float = 1.0,
    ) -> None:
        self._engines = engines
        self._local = local
        self._reach = reach
        self._clock = clock
        self._away = away
        self._keep_s = keep_s
        self._known: dict[tuple[str, str], _Known] = {}

    async def answer(self, query: ReaderQuery) -> RecommendationResult:
        """Ask the engine named in the query.

        Errors:
            NotFound: `engine is not found`
            Unavailable: the engine's own deployment is away
        Cost: a dictionary look-up; once a second per engine one read of its record.
        """
        known = self._known.get((query.app_id, query.engine_id))
        if known is None or self._clock.monotonic_s() >= known.until_s:
            known = await self._look(query.app_id, query.engine_id, known)
        if known is None:
            # The host in this process says itself what it says of unknown engines.
            return await self._local.answer(query)
        if not known.remote:
            return await known.client.answer(query)
        try:
            return await known.client.answer(query)
        except self._away as error:
            self._known.pop((query.app_id, query.engine_id), None)
            raise self._missed(query.app_id, query.engine_id, error) from error

    async def _look(self, app_id: str, engine_id: str, known: _Known | None) -> _Known | None:
        try:
            engine = await self._engines.get(app_id, engine_id)
        except Unavailable:
            # An absent store must not stop recommenders that need none: what was true a moment ago still is.
            return known
        if engine is None:
            self._known.pop((app_id, engine_id), None)
            return None
        found = await self._place(engine, known)
        self._known[app_id, engine_id] = found
        return found

    async def _place(self, engine: Engine, known: _Known | None) -> _Known:
        until_s = self._clock.monotonic_s() + self._keep_s
        remote = engine.placement == "own"
        if not remote:
            return _Known(self._local, until_s, remote=False)
        if known is not None and known.remote:
            return _Known(known.client, until_s, remote=True)
        try:
            client = await self._reach(engine.app_id, engine.engine_id)
        except self._away as error:
            raise self._missed(engine.app_id, engine.engine_id, error) from error
        return _Known(client, until_s, remote=True)

    def _missed(self, app_id: str, engine_id: str, error: Exception) -> Unavailable:
        _log.warning("recommender_missed", app=app_id, engine=engine_id, kind=type(error).__name__)
        return Unavailable("the engine's deployment is away", retry_after_s=1)
