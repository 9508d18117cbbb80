"""The host of recommenders: engines on demand, recent lists, memory budget. Embedded in an API replica or dedicated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

import structlog

from actors.hosting.loaded_apps import LoadedAppLabels, LoadedApps
from actors.hosting.memory_budget import DEFAULT_MB, MemoryBudget
from actors.language.hashing_embedder import Embedder, HashingEmbedder
from actors.recommender.messages import RecommendationResult, UserQuery, with_repeat_pauses
from actors.recommender.ranking.pipeline_inputs import Draw
from actors.recommender.rerank.exploration import draw_exploration
from actors.serving.app_follower import AppFollower
from actors.serving.interleaved_answers import AnswerQuery, answer_interleaved
from actors.serving.model_registry import SnapshotLoader
from actors.serving.snapshot_trial_router import SnapshotTrialRouter
from cluster.artifacts.segments import SegmentStore
from cluster.clock import Clock
from cluster.errors import KioskError, NotFound, Refusal, Unavailable, messages
from cluster.ids import DEFAULT_ENGINE, new_request_id
from cluster.machine_memory import available_memory
from cluster.meter import Meter
from cluster.records.engine import Engine
from cluster.store.refreshing_cache import EngineRecordsCache
from cluster.store.stores import Stores

_LOG_EVERY = 500
"One answer in so many is logged."

_INDEX_SHARE = 4
"An index of completions may always take this part of the free memory of the machine."

_LABELS = LoadedAppLabels("the engine is still loading", "recommender_left", "kiosk_recommender_memory_bytes")


class EngineHost:
    """Answers the queries of every app and engine. The first query of an app loads it."""

    def __init__(
        self,
        stores: Stores,
        segments: SegmentStore | None,
        clock: Clock,
        meter: Meter,
        budget: MemoryBudget | None = None,
        *,
        make_embedder: Callable[[], Embedder] = HashingEmbedder,
        models: SnapshotLoader | None = None,
    ) -> None:
        name = f"recommender-{new_request_id()}"
        self._stores = stores
        self._clock = clock
        self._meter = meter
        self.engine_records = EngineRecordsCache(stores.engines, clock)
        "The one cache of engine records of this process."
        self._apps_with_products: set[str] = set()
        self._answered = 0
        self._trial_router = SnapshotTrialRouter(stores, clock, meter)
        self._log = structlog.get_logger()
        # One for all apps: a renewal holds the state twice, so two of them at once could pass the memory
        # budget.
        renewing = asyncio.Lock()
        budget = MemoryBudget(DEFAULT_MB << 20, meter, clock) if budget is None else budget
        self._followers = LoadedApps(
            lambda app_id: AppFollower(
                app_id,
                name,
                stores,
                segments,
                clock,
                meter,
                make_embedder,
                models,
                self.engine_records,
                renewing=renewing,
                index_bytes=max(budget.budget_bytes, available_memory() // _INDEX_SHARE),
                has_room=budget.has_room,
            ),
            budget,
            _LABELS,
            clock,
        )

    async def start(self) -> None:
        """Start without loading data: an app without queries costs nothing."""

    async def close(self) -> None:
        await self._followers.close()

    @property
    def loaded(self) -> list[tuple[str, AppFollower]]:
        return self._followers.list_ready()

    async def answer(self, query: UserQuery) -> RecommendationResult | Refusal:
        """Answer one query; an expected error is returned as a refusal."""
        try:
            engine = self.engine_records.find(query.app_id, query.engine_id)
            # The usual case is answered from memory: no read of the store before a recommendation.
            if engine is None or query.app_id not in self._apps_with_products:
                engine = await self._check_engine(query.app_id, query.engine_id)
            draw = draw_exploration(engine.exploration, query) if engine.exploration.share else None
            if engine.repeat_after_days:
                query = with_repeat_pauses(query, engine.repeat_after_days)
            follower = await self._followers.get(query.app_id)
            recent = await self._read_recent(query)
            is_drawn = not query.snapshot and query.interleaving is None
            # a trial that is over draws nobody, even where no supervisor runs that ends it
            if is_drawn and engine.trial is not None and self._clock.now_ms() < engine.trial.ends_at:
                answer = partial(self._answer, follower=follower, recent=recent, draw=draw)
                result = await self._trial_router.answer(engine, query, follower.model_registry, answer)
            elif query.interleaving is None and not query.pagination_id:
                result = await follower.answer(query, recent, (), draw)
            else:
                result = await self._answer(query, follower, recent, draw)
            self._record_answer(query, result, follower)
            return result
        except KioskError as error:
            return Refusal.of(error)

    def find_unknown_products(self, app_id: str, product_ids: Iterable[str]) -> list[str]:
        """Return the ids that the catalog of an app lacks; none while the app is not loaded here."""
        follower = self._followers.find(app_id)
        return [] if follower is None else follower.find_unknown_products(product_ids)

    async def probe(self) -> bool | None:
        """Answer a small query from memory; return whether there was an answer, None if no app is loaded.

        Errors:
            KioskError: the engine can't answer
        """
        newest = self._followers.newest()
        if newest is None:
            return None
        app_id, follower = newest
        await follower.answer(UserQuery("user_to_trending", app_id, DEFAULT_ENGINE, rows=1), (), ())
        return True

    def _record_answer(self, query: UserQuery, result: RecommendationResult, follower: AppFollower) -> None:
        """Count the answer, and log one of many."""
        self._meter.count("kiosk_answers_total", kind=query.kind, served_by=result.served_by)
        self._answered += 1
        if self._answered % _LOG_EVERY == 1:
            self._log.info(
                "recommendation_served",
                app=query.app_id,
                engine=query.engine_id,
                kind=query.kind,
                served_by=result.served_by,
                snapshot=follower.serving_version(query.engine_id),
                products=len(result.products),
                groups=len(result.groups),
            )

    async def _answer(
        self, query: UserQuery, follower: AppFollower, recent: list[bytes], draw: Draw
    ) -> RecommendationResult:
        answer = follower.answer
        if query.interleaving is not None:
            answer = partial(answer_interleaved, follower, self.engine_records)
        if query.pagination_id:
            return await self._answer_page(query, answer, recent, draw)
        return await answer(query, recent, (), draw)

    async def _answer_page(
        self, query: UserQuery, answer: AnswerQuery, recent: list[bytes], draw: Draw
    ) -> RecommendationResult:
        """Answer one page and store its products; while the store is away, answer without earlier pages."""
        page = (query.app_id, query.user_keys[0] if query.user_keys else "", query.pagination_id)
        try:
            shown = await self._stores.shown_products.read(*page)
            result = await answer(query, recent, shown, draw)
            if result.products:
                product_ids = [product["product_id"] for product in result.products]
                # After the answer, because its products are not known before; two pages asked at once may
                # overlap.
                await self._stores.shown_products.record(*page, product_ids, is_strangers=query.is_strangers)
            return result
        except Unavailable:
            # A page that repeats products is better than no page.
            self._meter.count("kiosk_page_misses_total")
            return await answer(query, recent, (), draw)

    async def _read_recent(self, query: UserQuery) -> list[bytes]:
        """Read the recent list of the user; while the store is away, answer without it."""
        user_keys = query.user_keys
        if not user_keys:
            return []
        try:
            return await self._stores.interactions.recent(query.app_id, user_keys)
        except Unavailable:
            self._meter.count("kiosk_recent_misses_total")
            return []

    async def _check_engine(self, app_id: str, engine_id: str) -> Engine:
        """Return the record of an engine; while the store is unreachable, the last good one.

        Errors:
            NotFound: there is no such engine, or the app never had a product
        """
        engine = await self.engine_records.read_engine(app_id, engine_id)
        if engine is None:
            self._apps_with_products.discard(app_id)
            raise NotFound(messages.ENGINE_NOT_FOUND)
        # Only a product that was seen is remembered: an app without products may get some at any moment.
        if app_id not in self._apps_with_products:
            if not await self._stores.records.seen(app_id, "product"):
                raise NotFound(messages.ENGINE_NOT_FOUND)
            self._apps_with_products.add(app_id)
        return engine
