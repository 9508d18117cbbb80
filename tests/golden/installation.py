"""Everything that answers, in this process: REST, archive, sign-in and pages over stores in memory and a folder."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.crypto import Vault
from cluster.meter import SilentMeter
from cluster.records.run import Run
from cluster.records.validation.boost_rules import read_rules
from cluster.store.stores import Stores
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from deployments.api.http.query_log_writer import QueryLogWriter
from deployments.archive.archive_config import ArchiveConfig
from deployments.archive.services import ArchiveServices, build_archive_routes, open_archive
from deployments.archive.tools import SUBJECTS
from jobs.refresh.runs.promotion import promote_version
from jobs.refresh.runs.run_attempt import RunAttempt, TrainingContext
from tests.fakes.archive_oauth import ORIGIN, an_account
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import MASTER, Corner, StillClock, open_corner
from tests.fakes.run_stages import run_stages
from tests.fakes.stores.memory import memory_stores

MARKET, SHOP = "market", "shop"
RECIPE: dict[str, Any] = {
    "name": "golden",
    "seed": 3,
    "parts": {
        "rules": {"learner": "rules", "window": 10},
        "ease": {"learner": "ease", "regularisation": 50.0},
        "item_knn": {"learner": "item_knn"},
        "sessions": {"learner": "session_knn"},
        "content": {"learner": "content_knn"},
        "repeats": {"learner": "repeats"},
        "trend": {"learner": "popularity", "half_life_days": 7.0},
        "always": {"learner": "popularity", "half_life_days": None},
    },
    "blend": {
        "weights": {
            "rules": 0.5,
            "ease": 1.0,
            "item_knn": 0.3,
            "sessions": 0.2,
            "content": 0.2,
            "repeats": 0.1,
            "trend": 0.1,
            "always": 0.02,
        },
        "weights_new": {"trend": 1.0, "always": 0.1},
    },
    "validation": {"readers": 200},
    "baskets": {"kinds": ["checkout"]},
    "cohorts": {},
    "content": {},
}
RULES = [
    {"name": "kitchen week", "boost_fq": "brand:Birk", "context": {"week": ["kitchen"]}},
    {"name": "guests", "boost_fq": "tags:gift", "boosting_tags": ["guest"], "position": [2]},
    {
        "name": "no hoes",
        "boost": [{"field": "brand", "query": "Mori", "action": "remove"}],
        "context": {"season": ["spring"]},
    },
    {"name": "lanterns", "boost_fq": "title:lantern", "position": [1], "query": "light"},
]


@dataclass
class World:
    """What outlives a process: stores, a folder, the time."""

    folder: Path
    clock: StillClock = field(default_factory=StillClock)
    stores: Stores = field(init=False)

    def __post_init__(self) -> None:
        self.stores = memory_stores(self.clock)

    @property
    def artifacts(self) -> ArtifactStore:
        """The directory of segments and snapshots."""
        return ArtifactStore.open(self.folder / "shelf")

    async def settle(self) -> None:
        """Apply what was accepted and write it to segments."""
        intake = IntakeLoop(
            self.stores,
            SegmentStore(self.artifacts),
            HashingEmbedder(),
            self.clock,
            SilentMeter(),
            owner="golden",
        )
        while await intake.apply_round():
            pass
        await intake.compact_round(at_once=True)

    async def apply(self) -> None:
        """Apply what was accepted."""
        intake = IntakeLoop(self.stores, None, HashingEmbedder(), self.clock, SilentMeter(), owner="golden")
        while await intake.apply_round():
            pass

    def train(self, app_id: str, recipe: dict[str, Any], run_id: str = "golden-run") -> str:
        """Train stage by stage, as a worker does, and return the version."""
        run = Run(app_id=app_id, engine_id="default", run_id=run_id, recipe=recipe, created_at=5)
        bench = TrainingContext(
            self.artifacts, SegmentStore(self.artifacts), self.folder / "scratch" / run_id, "release"
        )
        attempt = RunAttempt(run, bench, lambda what, share: None)
        version = str(run_stages(attempt)["version"])
        attempt.clean_up()
        return version

    async def promote(self, app_id: str, version: str) -> None:
        """Let a version serve."""
        await promote_version(
            self.stores,
            self.artifacts,
            app_id,
            "default",
            version,
            now_ms=self.clock.now_ms(),
            by="golden",
            force="recording",
        )


@dataclass
class Installation:
    """One process over a world. What changed in the stores is seen by the next one."""

    world: World
    corner: Corner
    archive: ArchiveServices
    app: Any
    """The application with all routes."""
    _closing: AsyncExitStack

    @classmethod
    async def open(cls, world: World, *, logs_queries: bool = False) -> Installation:
        """Start everything that answers."""
        stores, clock, meter = world.stores, world.clock, SilentMeter()
        models = SnapshotLoader(SnapshotStore(world.artifacts))
        host = EngineHost(stores, SegmentStore(world.artifacts), clock, meter, models=models)
        await host.start()
        closing = AsyncExitStack()
        closing.push_async_callback(host.close)
        book = QueryLogWriter(stores.queries, clock, meter) if logs_queries else None
        client = LocalRecommenderClient(host)
        corner = await open_corner(
            clock=clock, stores=stores, client=client, artifacts=world.artifacts, query_log=book
        )
        await corner.open_app(MARKET)
        await corner.asking.start()
        closing.push_async_callback(corner.close)
        if book is not None:
            await book.start()
            closing.push_async_callback(book.close)
        config = ArchiveConfig(
            app_id=SHOP,
            subjects=SUBJECTS,
            public_url=ORIGIN,
            origins=("https://tools.example.org", "chrome-extension://abcdef"),
        )
        archive = open_archive(stores, Vault(MASTER), corner.archive, clock, config)
        await archive.start()
        closing.push_async_callback(archive.close)
        inner = build_application(corner.handler, version="0.1.0", more=build_archive_routes(archive))
        return cls(world, corner, archive, HotPathMiddleware(inner, lambda: corner.handler), closing)

    async def close(self) -> None:
        """Stop everything."""
        await self._closing.aclose()


async def put_rules_and_people(world: World) -> None:
    """Write what no endpoint writes: boost rules and an account."""
    await world.stores.boost_rules.put(MARKET, read_rules(RULES))
    await world.stores.accounts.add(an_account())


def parsed(body: bytes) -> Any:
    """Parse an answer."""
    return orjson.loads(body)
