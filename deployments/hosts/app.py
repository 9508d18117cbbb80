"""The Serve application of a dedicated engine: `deployments.hosts.app:build_recommender`.

Each dedicated engine (placement `own` or `dedicated`) has a separate Serve application without a route. API replicas
send queries through its Serve handle, or over a local channel on the same machine. Serve scales the application by the
requests in flight that its replicas report.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from pydantic import ValidationError
from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy
from ray.serve.schema import LoggingConfig

from actors.hosting.memory_budget import MemoryBudget
from actors.models.loading.allowed_learners import ALLOWED
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.engine_messages import answer_message
from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.admin.allowed_learners import allowed_learners
from cluster.admin.schema import check_schema
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.build_info import installed_version
from cluster.clock import SystemClock
from cluster.errors import Invalid, Refusal, Unavailable
from cluster.ids import DEFAULT_ENGINE
from cluster.log import open_stderr, set_up_logging
from cluster.paths import InstallationPaths
from cluster.process.artifact_access import open_artifact_store, sweep_copies_forever
from cluster.process.installation_identity_check import IdentityWatch
from cluster.process.priority import restore_priority
from cluster.process.store_connections import connect
from cluster.process.tracing import open_tracing
from cluster.records.engine import Engine, Scaling, application_name
from cluster.runtime.meter import RayMeter
from cluster.runtime.replica_resources import reserved_bytes
from cluster.settings import Settings
from cluster.store.connect import OpenStores
from cluster.tracing import PROCESS
from deployments.edge.scaling import POLICY, LoadMeter
from deployments.hosts.local_channel import LocalChannelServer

DEPLOYMENT = "recommender"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
DRAINING_S = 2
"Seconds a stopping replica waits for late requests, as Serve's replicas without HTTP do; HAProxy sends it none."


def build_recommender(args: dict[str, Any]) -> Application:
    """Build the Serve application of one engine.

    `args` holds `app_id`. It may also hold `engine_id` and the fields of `Scaling`. It holds no secrets.

    Errors:
        Invalid: `app_id` is missing, or the scaling fields are invalid
    """
    if not args.get("app_id"):
        raise Invalid("build_recommender needs an app_id")
    engine_id = str(args.get("engine_id", DEFAULT_ENGINE))
    given = {name: value for name, value in args.items() if name in Scaling.model_fields}
    try:
        scaling = Scaling.model_validate(given)
        engine = Engine(
            app_id=str(args["app_id"]),
            engine_id=engine_id,
            scaling=scaling,
            max_replicas_per_node=args.get("max_replicas_per_node", 0),
        )
    except ValidationError as error:
        raise Invalid(f"build_recommender: {error.errors()[0]['msg']}") from error
    deployment = serve.deployment(
        RecommenderReplica,
        name=DEPLOYMENT,
        autoscaling_config=AutoscalingConfig(
            min_replicas=scaling.replicas_min,
            max_replicas=scaling.replicas_max,
            target_ongoing_requests=scaling.target_requests,
            look_back_period_s=scaling.look_back_s,
            # At least two reports must fall into the window over which Serve averages.
            metrics_interval_s=min(10.0, scaling.look_back_s / 2),
            upscale_delay_s=scaling.upscale_delay_s,
            downscale_delay_s=scaling.downscale_delay_s,
            policy=AutoscalingPolicy(policy_function=POLICY),
        ),
        # API replicas limit concurrent requests. If this limit were lower than theirs, Serve would retry with growing
        # pauses, and a request could wait for seconds.
        max_ongoing_requests=512,
        max_replicas_per_node=engine.max_replicas_per_node or None,
        max_queued_requests=512,
        health_check_period_s=5.0,
        health_check_timeout_s=10.0,
        graceful_shutdown_timeout_s=20.0,
        # With the access log on, Serve builds a log record for every call before it drops the record.
        logging_config=LoggingConfig(enable_access_log=False, log_level="WARNING"),
        ray_actor_options={
            "num_cpus": scaling.num_cpus,
            **({"memory": reserved_bytes(scaling.memory_budget_mb)} if Settings().reserve_memory else {}),
            "runtime_env": {"env_vars": _replica_environment()},
            **Settings().node_options("engine"),
        },
        # Complete: the engine operator compares these options with the engine's record.
        user_config=engine.deployment_arguments(),
    )
    # Serve restarts all replicas when the version changes. Without a version it generates one for each deployment.
    return deployment.options(version=_version(scaling), _internal=True).bind()


def _version(scaling: Scaling) -> str:
    """Return the version of what only new replicas can apply: the release and the CPUs that Ray reserves."""
    reserved = f" memory={scaling.memory_budget_mb}" if Settings().reserve_memory else ""
    return f"{installed_version()} cpus={scaling.num_cpus}{reserved}"


def _replica_environment() -> dict[str, str]:
    """Return the variables of a replica's process."""
    # Serve would let each engine wait as long as an API replica, which a replaced HAProxy may still route to.
    return dict.fromkeys(_THREADS, "1") | {"RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": str(DRAINING_S)}


class RecommenderReplica:
    """One replica of a dedicated engine: an `EngineHost` with its stores."""

    def __init__(self) -> None:
        set_up_logging(stream=open_stderr(), process="engine")
        self._host: EngineHost | None = None
        self._stores: OpenStores | None = None
        self._opened: tuple[str, str, int] | None = None
        self._identity: IdentityWatch | None = None
        self._channel_server: LocalChannelServer | None = None
        self._sweep_task: asyncio.Task[None] | None = None
        self._busy_s = 0.0
        self._target = Scaling().target_requests
        # Only queries count: the process also follows the change log and loads snapshots.
        self._load = LoadMeter(
            SystemClock(), lambda: self._busy_s, lambda: 0.0, full_in_flight=lambda: self._target
        )
        self._meter = RayMeter()
        self._log = structlog.get_logger()

    async def reconfigure(self, options: dict[str, Any]) -> None:
        """Open stores and host and load the engine.

        Serve calls this before the first query and after every change of the options. Queries continue meanwhile: the
        old host is closed when the new one is ready. If only the number of replicas changes, the host stays.
        """
        self._target = float(options["target_requests"])
        opened = (options["app_id"], options["engine_id"], int(options["memory_budget_mb"]))
        # Serve calls this for each change of the options; the same engine stays open.
        if self._host is not None and opened == self._opened:
            return
        # The host before answers until the new one has loaded.
        before = self._host, self._stores
        settings = Settings()
        if PROCESS.tracer is None:
            open_tracing(settings.trace_url, "engine")
        stores = connect(settings, is_serving=True)
        await check_schema(stores)
        artifact_store = open_artifact_store(settings)
        if self._identity is not None:
            await self._identity.close()
        self._identity = IdentityWatch(stores, settings, has_key=False)
        self._identity.follow(artifact_store)
        ALLOWED.set_source(partial(allowed_learners, settings))
        models = SnapshotLoader(SnapshotStore(artifact_store))
        clock = SystemClock()
        budget = MemoryBudget(opened[2] << 20, self._meter, clock)
        host = EngineHost(stores, SegmentStore(artifact_store), clock, self._meter, budget, models=models)
        await host.start()
        warm = UserQuery(kind="user_to_trending", app_id=opened[0], engine_id=opened[1], rows=1)
        answer = await host.answer(warm)
        if isinstance(answer, Refusal):
            # an engine can become dedicated before its first product
            self._log.info("recommender_not_warm", app=opened[0], reason=answer.message)
        self._host = host
        self._stores = stores
        self._opened = opened
        if self._sweep_task is None:
            self._sweep_task = asyncio.get_running_loop().create_task(sweep_copies_forever(artifact_store))
        await _close(*before)
        if self._channel_server is None:
            await self._open_local_channel(
                InstallationPaths.from_data_dir(settings.data_dir).run_dir, *opened[:2]
            )
        # Only now: until it serves, a replica yields to those that do.
        restore_priority()

    async def answer(self, payload: bytes) -> bytes:
        """Return the result of one query, or a refusal, both encoded by `ENGINE_MESSAGES`."""
        return await answer_message(self._answer, payload)

    async def _answer(self, query: UserQuery) -> RecommendationResult | Refusal:
        if self._host is None:
            return Refusal.of(Unavailable("the recommender is not open yet", retry_after_s=1))
        began_s = time.monotonic()
        try:
            if query.traceparent:
                with PROCESS.trace("engine.answer", query.traceparent, kind="server"):
                    return await self._host.answer(query)
            return await self._host.answer(query)
        finally:
            self._busy_s += time.monotonic() - began_s

    async def check_health(self) -> None:
        """Raise if this replica has the artifact store of another installation."""
        if self._identity is not None:
            self._identity.refuse()

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Return the load of this replica, for queries over Serve and over local channels."""
        return {"load": self._load.read()}

    async def close(self) -> None:
        """Close the channel server, the host and the stores."""
        host = self._host
        stores = self._stores
        # First of all, so that later queries are refused and do not meet a closed host.
        self._host = self._stores = None
        if self._identity is not None:
            await self._identity.close()
        if self._channel_server is not None:
            await self._channel_server.close()
        await _close(host, stores)
        PROCESS.close()

    async def _open_local_channel(self, run_dir: Path, app_id: str, engine_id: str) -> None:
        server = LocalChannelServer(self.answer, run_dir, application_name(app_id, engine_id))
        try:
            await server.open()
        except OSError as error:
            # API replicas use the Serve handle, as those on other machines do
            self._log.warning("lines_not_opened", app=app_id, engine=engine_id, reason=str(error))
            return
        self._channel_server = server


async def _close(host: EngineHost | None, stores: OpenStores | None) -> None:
    if host is not None:
        await host.close()
    if stores is not None:
        await stores.close()
