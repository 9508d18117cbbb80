"""The gateway: makes everything a replica of the doors needs, once, inside the replica. No routes here."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from functools import partial
from random import Random
from typing import Any

from ray import serve
from ray.exceptions import RayActorError, RayError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, RayServeException

from actors.answers.archive.client import LocalArchiveClient
from actors.answers.archive.host import AnswersHost
from actors.answers.archive.messages import ArchiveQuery
from actors.answers.archive.snapshot_store import PassageShelf
from actors.answers.wiring import open_questions
from actors.experiments.client import ActorExperimentClient, LocalExperimentClient
from actors.history.client import LocalHistoryClient
from actors.language.encoder import find_encoder
from actors.models.allowed_learners import ALLOWED
from actors.serving.client import LocalRecommenderClient
from actors.serving.host import RecommenderHost
from actors.serving.model_registry import Models
from cluster.admin.allowed_learners import allowed_learners
from cluster.admin.vault import vault_of
from cluster.artifacts.artifact_store import Shelf
from cluster.artifacts.segments import SegmentShelf
from cluster.artifacts.snapshots import SnapshotShelf
from cluster.build_info import version
from cluster.clock import SystemClock
from cluster.errors import HouseError
from cluster.log import set_up_logging
from cluster.paths import Places
from cluster.runtime import roster
from cluster.runtime.artifact_access import open_shelf
from cluster.runtime.memory import guard_writes
from cluster.runtime.meter import RayMeter
from cluster.runtime.priority import come_first
from cluster.runtime.ray_environment import is_behind_haproxy
from cluster.settings import Settings
from cluster.store.connect import open_stores
from deployments.api.http.endpoints import Means, endpoints
from deployments.api.http.engine_router import PlacedRecommenders
from deployments.api.http.identity_links import IdentityLinks
from deployments.api.http.query_log_writer import QueryBook
from deployments.api.http.request_handler import Door
from deployments.api.http.routes import ordinary_way
from deployments.api.http.warmup import warm_up, warm_written
from deployments.api.resources.questions import AskMeans, noted_in
from deployments.archive.citation import CitationRules
from deployments.archive.services import ArchiveConfig, archive_routes, open_archive
from deployments.edge.admission import Gate
from deployments.edge.client_address import ClientAddresses
from deployments.edge.keyring import Keyring
from deployments.edge.limits import Limits
from deployments.edge.request_log import Tally
from deployments.edge.scaling import Load
from deployments.edge.trace import AccessLog
from deployments.hosts.engine_connections import Reaching
from deployments.hosts.gateway import answering

ACCESS_SHARE = 0.01
"Share of requests that get an access line."
TELL_EVERY_S = 5
MEMORY_BUDGET_MB = 512
"For the engines a replica holds in its own memory."
ARCHIVE_BUDGET_MB = 2_048
"For archives: mapped files, which replicas of a node share."
_AWAY = (RayError, RayServeException, BackPressureError, DeploymentUnavailableError)
_place = partial(PlacedRecommenders, away=_AWAY, overloaded=(BackPressureError,))


class Gateway:
    """One replica of the doors."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._budget_mb = int(options.get("memory_budget_mb", MEMORY_BUDGET_MB))

    async def __serve_build_asgi_app__(self) -> Any:
        """Open everything and build the ordinary way in; Serve calls it inside the replica."""
        set_up_logging()
        settings, clock, meter = Settings(), SystemClock(), RayMeter()
        url = settings.redis_url
        if url is None:
            raise RuntimeError("no Redis: KIOSK_REDIS_URL is not set and the data directory names none")
        self.loop, self._meter = asyncio.get_running_loop(), meter
        self._stores = await open_stores(url.get_secret_value(), meter=meter, clock=clock)
        vault = vault_of(settings)
        self._keyring = Keyring(self._stores.access, vault)
        self._limits = Limits(self._stores.limits, clock)
        self._keyring.on_change(self._limits.forget)
        self._tally = Tally()
        shelf = open_shelf(settings)
        ALLOWED.read_from(partial(allowed_learners, settings))
        segments = SegmentShelf(shelf, clock)
        models = Models(SnapshotShelf(shelf), settings.snapshot_cache_dir)
        self._host = RecommenderHost(self._stores, segments, clock, meter, self._budget_mb, models=models)
        run_dir = Places.of(settings.data_dir).run_dir
        self._reaching = Reaching(run_dir, self._stores.engine_watch, _find_handle, (RayActorError,))
        here = LocalRecommenderClient(self._host)
        self._placed = _place(self._stores.engines, here, self._reaching.reach, clock)
        find = partial(find_encoder, settings.data_dir / "models")
        passages = PassageShelf(settings.shelf_dir, find, shelf.signer)
        self._answers = AnswersHost(self._stores, segments, passages, clock, meter, ARCHIVE_BUDGET_MB)
        config = archive_config(settings)
        self._library = LocalArchiveClient(self._answers)
        self._archive = open_archive(self._stores, vault, self._library, clock, config, tally=self._tally)
        self._memory = guard_writes(settings.data_dir, settings.disk_limit, self._stores.info, meter, clock)
        gate = Gate(self._keyring, self._limits, meter, most_bytes=settings.max_body_mb << 20)
        gate.why_no_writes = self._memory.reason
        gate.link_identities = IdentityLinks(self._stores.interactions, meter).record
        means = self._open_means(settings, shelf, clock)
        self.door = Door(
            endpoints(means), gate, replays=self._stores.idempotency, clock=clock, tally=self._tally,
            access_log=AccessLog(ACCESS_SHARE, Random()), addresses=config.client_addresses,
        )  # fmt: skip
        self._load = Load(clock, lambda: self.door.busy_s + self._archive.endpoint.busy_s)
        await self._keyring.start()
        await self._host.start()
        await self._answers.start()
        await self._archive.start()
        await self._query_book.start()
        await self._asking.start()
        await warm_up(self._stores, self._placed, clock)
        come_first()
        self._warming = self.loop.create_task(self._warm(config.app_id))
        self._telling = self.loop.create_task(self._tell())
        return ordinary_way(
            self.door, version=version(), close=self.close, more=archive_routes(self._archive)
        )

    def _open_means(self, settings: Settings, shelf: Shelf, clock: SystemClock) -> Means:
        """Make what the endpoints work with."""
        here = LocalExperimentClient(self._stores.experiments, clock, self._meter)
        self._experiments = ActorExperimentClient(
            _find_assigner, here, clock, lost=_AWAY, meter=self._meter, here_first=True
        )
        self._query_book = QueryBook(self._stores.queries, clock, self._meter)
        history = LocalHistoryClient(self._stores, clock, answering(self._stores))
        self._asking = open_questions(
            self._stores, self._library, clock, self._meter, app_ids=lambda: self._keyring.app_ids,
            begun=noted_in(history), llm=settings.llm, tokens_of=self._keyring.tokens_of,
        )  # fmt: skip
        ask = AskMeans(self._asking, self._library, self._stores.questions, clock, history)
        return Means(
            self._stores, self._placed, clock, self._experiments, self._query_book, ask=ask, history=history,
            shelf=shelf,
        )  # fmt: skip

    async def check_health(self) -> None:
        """Fail when keys are no longer followed: a revoked one would be let in. An absent store is no reason."""
        if not self._keyring.is_following:
            raise RuntimeError("keys are not followed any more")
        if not self._archive.is_following:
            raise RuntimeError("revocations are not followed any more")

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Report how busy this replica is."""
        return {"load": self._load.read()}

    async def close(self) -> None:
        """Close everything in the order of dependence."""
        for task in (self._telling, self._warming):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._experiments.treatments.flush()
        await self._experiments.close()
        await self._asking.close()
        await self._query_book.close()
        await self._archive.close()
        await self._answers.close()
        await self._keyring.close()
        await self._limits.close()
        await self._placed.close()
        await self._reaching.close()
        await self._host.close()
        await self._stores.close()

    async def _warm(self, app_id: str) -> None:
        """Load the archive before somebody asks, and from then on the apps that are written."""
        with contextlib.suppress(HouseError):
            await self._answers.ask(ArchiveQuery(app_id, "news"))
        await warm_written(self._stores, self._placed, lambda: self._keyring.app_ids)

    async def _tell(self) -> None:
        for second in itertools.count(1):
            await asyncio.sleep(1.0)
            await self._memory.look()
            if second % TELL_EVERY_S == 0:
                self._tally.tell(self._meter)
                self._meter.gauge("kiosk_slow_front", float(not is_behind_haproxy(os.environ)))
                await self._experiments.treatments.flush()
            for app_id, asked in self._placed.take_counts().items():
                with contextlib.suppress(HouseError):
                    await self._stores.engine_watch.count(app_id, asked, SystemClock().now_ms())
                    await self._reaching.count_replicas(app_id, [engine_id for _, engine_id in asked])


def archive_config(settings: Settings) -> ArchiveConfig:
    """Take what the archive is told from the settings."""
    return ArchiveConfig(
        app_id=settings.archive_app,
        title=settings.archive_title,
        version=version(),
        public_url=settings.public_url,
        host=settings.host,
        port=settings.port,
        origins=tuple(origin.strip() for origin in settings.archive_origins.split(",") if origin.strip()),
        citation=CitationRules(settings.archive_licence, settings.archive_citation),
        plain_sign_in=settings.plain_sign_in,
        client_addresses=ClientAddresses(
            settings.proxy_networks, behind_haproxy=is_behind_haproxy(os.environ)
        ),
    )


async def _find_handle(application: str) -> Any:
    """Find the handle of an application."""
    return await asyncio.get_running_loop().run_in_executor(None, partial(serve.get_app_handle, application))


async def _find_assigner() -> Any | None:
    """Find the actor that gives readers variants; None while it is not there."""
    with contextlib.suppress(RayError):
        look = partial(roster.find, "assigner", version())
        return await asyncio.get_running_loop().run_in_executor(None, look)
    return None
