"""Recommenders with a place of their own: `deployments.hosts.app:build_recommender`.

One Serve application per engine (decision S4, placement `own`), without a route: doors reach it through its handle
under the name `application_name` gives. Serve scales it by the requests that are under way.
"""

from __future__ import annotations

from typing import Any

import structlog
from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig

from actors.recommender.host import RecommenderHost
from actors.recommender.messages import ReaderQuery, RecommendationResult
from cluster.artifacts.segments import SegmentShelf
from cluster.artifacts.shelf import Shelf
from cluster.clock import SystemClock
from cluster.errors import Invalid, Refusal, Unavailable
from cluster.ids import DEFAULT_ENGINE
from cluster.meter import SilentMeter
from cluster.runtime.connecting import connect
from cluster.settings import Settings
from cluster.store.connect import OpenStores

DEPLOYMENT = "recommender"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")


def application_name(app_id: str, engine_id: str = DEFAULT_ENGINE) -> str:
    """Name the Serve application of an engine."""
    return f"recommender-{app_id}-{engine_id}"


def build_recommender(args: dict[str, Any]) -> Application:
    """Build the application of one engine.

    `args` holds `app_id` and may hold `engine_id`, `replicas_min`, `replicas_max`, `memory_budget_mb`, `num_cpus`
    and `target_requests` (under way per replica before another one starts); no secrets.

    Errors:
        Invalid: no `app_id`
    """
    if not args.get("app_id"):
        raise Invalid("build_recommender needs an app_id")
    deployment = serve.deployment(
        RecommenderReplica,
        name=DEPLOYMENT,
        autoscaling_config=AutoscalingConfig(
            min_replicas=int(args.get("replicas_min", 1)),
            max_replicas=int(args.get("replicas_max", 2)),
            target_ongoing_requests=float(args.get("target_requests", 4)),
            look_back_period_s=10.0,
            upscale_delay_s=5.0,
            downscale_delay_s=120.0,
        ),
        # beyond these a caller is told to come back instead of waiting in a queue nobody sees
        max_ongoing_requests=64,
        max_queued_requests=512,
        health_check_period_s=5.0,
        health_check_timeout_s=10.0,
        graceful_shutdown_timeout_s=20.0,
        ray_actor_options={
            "num_cpus": float(args.get("num_cpus", 0.1)),
            "runtime_env": {"env_vars": dict.fromkeys(_THREADS, "1")},
        },
        user_config={
            "app_id": str(args["app_id"]),
            "engine_id": str(args.get("engine_id", DEFAULT_ENGINE)),
            "memory_budget_mb": int(args.get("memory_budget_mb", 1024)),
        },
    )
    return deployment.bind()


class RecommenderReplica:
    """One replica of an engine's deployment: a host with stores of its own."""

    def __init__(self) -> None:
        self._host: RecommenderHost | None = None
        self._stores: OpenStores | None = None
        self._log = structlog.get_logger()

    async def reconfigure(self, options: dict[str, Any]) -> None:
        """Open stores and host and load the engine; Serve calls it before the first query and on every change."""
        await self.close()
        settings = Settings()
        self._stores = connect(settings)
        segments = SegmentShelf(Shelf.open(settings.shelf_dir))
        self._host = RecommenderHost(
            self._stores, segments, SystemClock(), SilentMeter(), int(options["memory_budget_mb"])
        )
        await self._host.start()
        warm = ReaderQuery(
            kind="user_to_trending", app_id=options["app_id"], engine_id=options["engine_id"], rows=1
        )
        answer = await self._host.answer(warm)
        if isinstance(answer, Refusal):
            # an engine may get its place before its first product
            self._log.info("recommender_not_warm", app=options["app_id"], reason=answer.message)

    async def answer(self, query: ReaderQuery) -> RecommendationResult | Refusal:
        """Answer one query."""
        if self._host is None:
            return Refusal.of(Unavailable("the recommender is not open yet", retry_after_s=1))
        return await self._host.answer(query)

    async def close(self) -> None:
        """Close what is open."""
        host, stores = self._host, self._stores
        self._host = self._stores = None
        if host is not None:
            await host.close()
        if stores is not None:
            await stores.close()
