"""The gateway: creates everything that an API replica needs, once per replica. It defines no routes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from functools import partial
from typing import Any

from ray import serve
from ray.exceptions import RayActorError, RayError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, RayServeException

from actors.answers.client import open_question_client
from actors.archive.host import ArchiveHost
from actors.archive.messages import ArchiveQuery
from actors.archive.snapshot_store import PassageSnapshotStore
from actors.experiments.client import ActorExperimentClient, LocalExperimentClient
from actors.experiments.guardrails import GuardrailWatcher
from actors.history.tracker import ThreadTracker
from actors.hosting.memory_budget import MemoryBudget
from actors.language.imported_encoders import EncoderStore
from actors.models.loading.allowed_learners import ALLOWED
from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.admin.allowed_learners import allowed_learners
from cluster.admin.audit_setup import start_audit_log
from cluster.admin.schema import check_schema, record_running
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.build_info import installed_version, package_root
from cluster.clock import SystemClock
from cluster.errors import KioskError
from cluster.ids import new_request_id
from cluster.log import open_stderr, set_up_logging
from cluster.machine_memory import freeze_objects
from cluster.paths import InstallationPaths
from cluster.process.artifact_access import open_artifact_store, sweep_copies_forever
from cluster.process.installation_identity_check import IdentityWatch
from cluster.process.priority import restore_priority
from cluster.process.redis_memory import guard_writes
from cluster.process.tracing import open_tracing
from cluster.records.question import Answer, Question
from cluster.runtime.actors import named_actors
from cluster.runtime.meter import RayMeter
from cluster.runtime.ray_environment import is_behind_haproxy, python_path
from cluster.settings import Settings
from cluster.store.connect import open_stores
from cluster.store.installation.live_metrics import LiveFigureStore
from cluster.store.installation.replica_memory import ReplicaMemoryStore
from cluster.tracing import PROCESS
from deployments.api.http.application import build_application
from deployments.api.http.endpoints import ApiServices, build_endpoints
from deployments.api.http.engine_router import EngineRouter
from deployments.api.http.identity_links import IdentityLinkWriter
from deployments.api.http.query_log_writer import QueryLogWriter
from deployments.api.http.request_handler import RequestHandler
from deployments.api.http.served_log_writer import ServedLogWriter
from deployments.api.http.warmup import load_busy_engines, preload_newly_written_apps
from deployments.api.resources.questions import AskServices, record_in_history
from deployments.archive.archive_config import ArchiveConfig
from deployments.archive.citation_rules import CitationRules
from deployments.archive.oauth.addresses import MCP_PATH
from deployments.archive.oauth.client_identity.document_clients import read_pinned_documents
from deployments.archive.services import build_archive_routes, open_archive
from deployments.demo.browser_script import build_script_routes
from deployments.edge.access.admission import AdmissionServices
from deployments.edge.access.keyring import Keyring
from deployments.edge.http.client_address import ClientAddresses
from deployments.edge.http.request_log import RequestLog
from deployments.edge.limits.leased_buckets import RateLimiter
from deployments.edge.observation.live_metrics import LiveMeter
from deployments.edge.observation.readiness import Readiness
from deployments.edge.observation.request_observer import open_observer
from deployments.edge.scaling import LoadMeter
from deployments.front.admin_routes import build_administration_routes, describe_routes
from deployments.hosts.engine_connections import EngineConnections
from deployments.hosts.gateway import open_answering
from deployments.sign_in.identity_provider import ProviderConfig

ACCESS_SHARE = 0.01
"Share of requests that get a line in the access log."
REPORT_EVERY_S = 5
KEYS_S = 10.0
"Seconds a replica waits for its first keys: without them it would refuse requests that other replicas answer."
_AWAY = (RayError, RayServeException, BackPressureError, DeploymentUnavailableError)
_build_experiments = partial(ActorExperimentClient, lost=_AWAY, local_first=True)
_build_router = partial(EngineRouter, away=_AWAY, overloaded=(BackPressureError,))


class Gateway:
    """One API replica."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._budget_mb = int(options.get("memory_budget_mb") or Settings().memory_mb)
        self._replica = f"api-{new_request_id()}"

    async def __serve_build_asgi_app__(self) -> Any:
        """Open everything and build the Starlette application; Serve calls this inside the replica."""
        set_up_logging(stream=open_stderr(), process="api")
        settings = Settings()
        clock = SystemClock()
        meter = LiveMeter(RayMeter())
        if (address := settings.redis_address) is None:
            raise RuntimeError("no Redis: KIOSK_REDIS_URL is not set and the data directory names none")
        self.loop = asyncio.get_running_loop()
        self._meter = meter
        open_tracing(settings.trace_url, "api")
        self._stores = stores = await check_schema(await open_stores(address, meter=meter, clock=clock))
        self._identity = await IdentityWatch.open(stores, settings, has_key=True)
        vault = await start_audit_log(stores.audit, settings, clock)
        artifact_store = open_artifact_store(settings)
        self._keyring = Keyring(stores.access, vault)
        self._log = RequestLog(ACCESS_SHARE)
        self._limits = RateLimiter(self._stores.limits, clock)
        self._keyring.on_change(self._limits.prune)
        self._identity.follow(artifact_store)
        ALLOWED.set_source(partial(allowed_learners, settings))
        segments = SegmentStore(artifact_store, clock)
        models = SnapshotLoader(SnapshotStore(artifact_store))
        self._budget = budget = MemoryBudget(self._budget_mb << 20, meter, clock)
        self._host = host = EngineHost(stores, segments, clock, meter, budget, models=models)
        run_dir = InstallationPaths.from_data_dir(settings.data_dir).run_dir
        self._connections = EngineConnections(run_dir, stores.engine_activity, _find_handle, (RayActorError,))
        self._engine_router = _build_router(host.engine_records, host, self._connections.connect, clock)
        encoders = EncoderStore(settings.data_dir / "models", artifact_store)
        passages = PassageSnapshotStore(artifact_store, encoders.find)
        self._archive_host = ArchiveHost(self._stores, segments, passages, clock, meter, budget)
        config = archive_config_from_settings(settings)
        self._served_log = ServedLogWriter(stores.served, clock, meter, self._keyring.served_log_of)
        self._archive = open_archive(
            stores,
            vault,
            self._archive_host,
            clock,
            config,
            self._keyring,
            self._log,
            on_call=self._served_log.record_call,
            # A function, because `_open_services` creates the experiments later.
            assign=lambda *question: self._experiments.treatments.assign_question(*question),
            meter=meter,
        )
        self._memory = guard_writes(settings.data_dir, settings.disk_limit, self._stores.infos, meter, clock)
        gate = AdmissionServices(self._keyring, self._limits, meter, most_bytes=settings.max_body_mb << 20)
        gate.why_no_writes = self._memory.refusal_reason
        gate.link_identities = IdentityLinkWriter(self._stores.interactions, meter).record
        observer = open_observer(clock, meter, *settings.observed)
        self.handler = RequestHandler(
            build_endpoints(self._open_services(settings, artifact_store, clock)),
            gate,
            clock=clock,
            replays=stores.idempotency,
            log=self._log,
            addresses=config.client_addresses,
            observer=observer,
            is_behind_haproxy=is_behind_haproxy(os.environ),
            readiness=Readiness(self._host.probe, self._keyring, stores.server, clock, self._identity),
        )
        self._load = LoadMeter(clock, lambda: self.handler.busy_s + self._archive.endpoint.busy_s)
        parts: tuple[Any, ...] = (
            self._keyring,
            host,
            self._archive,
            self._query_log,
            self._served_log,
            self._question_client,
        )
        for part in parts:
            await part.start()
        await self._keyring.wait_until_read(KEYS_S)
        # Everything that stays is open now, and later garbage collections leave it out.
        freeze_objects()
        await load_busy_engines(self._stores, self._engine_router, clock)
        # Only now: until it serves, a replica yields to those that do.
        restore_priority()
        self._loading_task = self.loop.create_task(self._load_in_background(config.app_id))
        self._metrics_task = self.loop.create_task(self._report_metrics())
        guardrails = GuardrailWatcher(
            stores,
            artifact_store,
            self._experiments.treatments,
            clock,
            owner=self._replica,
            list_apps=lambda: self._keyring.app_ids,
        )
        self._guardrails_task = self.loop.create_task(guardrails.run())
        routes = [*build_archive_routes(self._archive, observer), *build_script_routes()]
        if settings.console:
            routes += build_administration_routes(
                stores,
                vault,
                clock,
                artifact_store,
                self._archive,
                self._keyring,
                self.handler,
                self._engine_router,
                settings.data_dir,
                settings.disk_limit,
                _build_environment,
                self._log,
                self._memory.refusal_reason,
            )
        return build_application(
            self.handler,
            version=installed_version(),
            close=self.close,
            more=routes,
            first_path=MCP_PATH,
            pages=settings.console,
            describe_more=describe_routes(config.tools, settings.console),
        )

    def _open_services(
        self, settings: Settings, artifact_store: ArtifactStore, clock: SystemClock
    ) -> ApiServices:
        """Return the services that the endpoints use."""
        self._sweep_task = self.loop.create_task(sweep_copies_forever(artifact_store))
        local_client = LocalExperimentClient(self._stores.experiments, clock, self._meter)
        self._experiments = _build_experiments(_find_assigner, local_client, clock, meter=self._meter)
        self._query_log = QueryLogWriter(self._stores.queries, clock, self._meter)
        history = ThreadTracker(self._stores, clock, open_answering(self._stores))
        keys = self._keyring
        self._question_client = open_question_client(
            self._stores,
            self._archive_host,
            clock,
            self._meter,
            begun=record_in_history(history),
            llm=settings.llm,
            app_ids=lambda: keys.app_ids,
            answered=self._record_answer,
            llm_token_limit=keys.llm_token_limit,
            affiliation_of=keys.affiliation_of,
        )
        ask = AskServices(self._question_client, self._archive_host, self._stores.questions, clock, history)
        return ApiServices(
            self._stores,
            self._engine_router,
            clock,
            self._experiments,
            self._query_log,
            self._served_log,
            ask=ask,
            history=history,
            artifact_store=artifact_store,
            find_unknown_products=self._host.find_unknown_products,
        )

    def _record_answer(self, question: Question, answer: Answer, model_tokens: int) -> None:
        """Record the answer of a question in the log of answers and that of archive calls, and for its experiments."""
        self._served_log.record_question(question, answer)
        self._experiments.treatments.record_answer(question, answer)
        self._archive.workers.usage.record_question(question, answer, model_tokens)

    async def check_health(self) -> None:
        """Raise if this replica follows revoked keys no longer, or is of another installation; not for the store."""
        self._identity.refuse()
        if not (self._keyring.is_following and self._archive.is_following):
            raise RuntimeError("keys or revocations are not followed any more")

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Return the load of this replica."""
        return {"load": self._load.read()}

    async def close(self) -> None:
        """Close everything, dependents first."""
        tasks = (self._metrics_task, self._loading_task, self._sweep_task, self._guardrails_task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._experiments.treatments.flush()
        with contextlib.suppress(KioskError):
            await ReplicaMemoryStore(self._stores.server).delete(self._replica)
        parts: tuple[Any, ...] = (
            self._experiments,
            self._question_client,
            self._query_log,
            self._served_log,
            self._archive,
            self._archive_host,
            self._keyring,
            self._limits,
            self._engine_router,
            self._connections,
            self._host,
            self._identity,
            self._stores,
        )
        for part in parts:
            await part.close()
        await asyncio.to_thread(PROCESS.close)

    async def _load_in_background(self, app_id: str) -> None:
        """Load the archives before the first question, then every app that receives writes."""
        # Without repetitions: the default app may also have an address of its own.
        for archive_app in dict.fromkeys((app_id, *self._keyring.list_archives())):
            with contextlib.suppress(KioskError):
                await self._archive_host.ask(ArchiveQuery(archive_app, "news"))
        await preload_newly_written_apps(self._stores, self._engine_router, lambda: self._keyring.app_ids)

    async def _report_metrics(self) -> None:
        for second in itertools.count(1):
            # Together, so that a slow refresh does not lengthen the second.
            await asyncio.gather(asyncio.sleep(1.0), self._memory.refresh())
            if second % REPORT_EVERY_S == 0:
                self._log.flush(self._meter)
                await self._meter.report(LiveFigureStore(self._stores.server), SystemClock().now_ms())
                self._meter.gauge("kiosk_slow_front", float(not is_behind_haproxy(os.environ)))
                await record_running(self._stores, SystemClock().now_ms())
                await asyncio.gather(self._experiments.treatments.flush(), self._budget.evict())
                await self._report_memory()
            for app_id, counts in self._engine_router.take_counts().items():
                with contextlib.suppress(KioskError):
                    await self._stores.engine_activity.add_requests(app_id, counts, SystemClock().now_ms())
                    await self._connections.count_replicas(app_id, [engine_id for _, engine_id in counts])

    async def _report_memory(self) -> None:
        """Record what the loaded apps take, for `kiosk status`; without Redis nobody reads it."""
        memory = self._budget.describe_use(self._replica, SystemClock().now_ms())
        with contextlib.suppress(KioskError):
            await ReplicaMemoryStore(self._stores.server).record(memory)


def archive_config_from_settings(settings: Settings) -> ArchiveConfig:
    """Return the archive's configuration from the settings."""
    addresses = ClientAddresses(settings.proxy_networks, behind_haproxy=is_behind_haproxy(os.environ))
    return ArchiveConfig(
        app_id=settings.archive_app,
        title=settings.archive_title,
        subjects=settings.archive_subjects,
        connectors=settings.archive_connectors,
        has_teasers=settings.archive_teasers,
        client_documents=settings.archive_client_documents,
        pinned_clients=read_pinned_documents(settings.archive_pinned_clients),
        signed_agents=settings.archive_signed_agents,
        version=installed_version(),
        public_url=settings.public_url,
        edge_url=settings.edge_url,
        host=settings.host,
        port=settings.port,
        plain_sign_in=settings.plain_sign_in,
        client_addresses=addresses,
        origins=tuple(filter(None, map(str.strip, settings.archive_origins.split(",")))),
        citation=CitationRules(settings.archive_licence, settings.archive_citation),
        has_passwords=settings.password_sign_in,
        provider=settings.oidc and ProviderConfig(*settings.oidc),
    )


def _build_environment() -> dict[str, str]:
    """Return the variables of this process, with which programs beside it find Kiosk and its settings."""
    return {**os.environ, **python_path(os.environ, package_root())}


async def _find_handle(application: str) -> Any:
    """Return the Serve handle of an application."""
    # Serve's call blocks until its controller answers.
    return await asyncio.get_running_loop().run_in_executor(None, partial(serve.get_app_handle, application))


async def _find_assigner() -> Any | None:
    """Return the actor that assigns users to variants, or None while it is not running."""
    with contextlib.suppress(RayError):
        return await asyncio.to_thread(named_actors.find_actor, "assigner", installed_version())
    return None
