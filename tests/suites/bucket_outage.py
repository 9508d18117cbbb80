"""A bucket with a fault while an engine serves, a training runs and a compaction works; and what became of each."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from actors.intake.loop import IntakeConfig, IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import Unavailable
from cluster.ids import new_task_id
from cluster.meter import SilentMeter
from cluster.records.engine import Engine
from cluster.records.intake import Noun
from cluster.store.stores import Stores
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.runs.run_commands import create_run
from jobs.refresh.runs.worker import TrainingWorker, WorkerResources
from tests.fakes import generated_market
from tests.fakes.generated_market import APP

RECIPE = load_recipe_file("fast").with_changes({"limits.memory_mb": 4096}).model_dump(mode="json")
OpenStore = Callable[[str], ArtifactStore]
"Opens the bucket for a node of a name."


@dataclass
class OutageResult:
    """What was seen."""

    answers: int = 0
    errors: int = 0
    took_ms: list[float] = field(default_factory=list)
    gave_way: int = 0
    "Rounds of the compaction that the bucket refused."
    waited: bool = False
    "Neither the training nor the compaction had ended when the fault did."
    trained_s: float = 0.0
    compacted_s: float = 0.0
    "Seconds after the end of the fault until everything was compacted."
    attempts: int = 0
    versions: int = 0

    @property
    def p99_ms(self) -> float:
        return sorted(self.took_ms)[math.ceil(len(self.took_ms) * 0.99) - 1]

    def __str__(self) -> str:
        return (
            f"{self.answers:,} answers, {self.errors} errors, p99 {self.p99_ms:.1f} ms; "
            f"training {self.trained_s:.1f} s in {self.attempts} attempts; compaction refused {self.gave_way} "
            f"times, complete {self.compacted_s:.1f} s after the fault"
        )


@dataclass
class Outage:
    """A market whose engine serves a snapshot of the bucket."""

    stores: Stores
    open_store: OpenStore
    scratch: Path

    async def prepare(self, interactions: int = 600, users: int = 60, products: int = 30) -> None:
        """Fill the bucket, train once and serve the result."""
        await generated_market.open_market(self.stores)
        segments = SegmentStore(self.open_store("writer"))
        await asyncio.to_thread(
            generated_market.settle, segments, generated_market.table(interactions, users, products, topics=3)
        )
        await asyncio.to_thread(
            generated_market.settle_products, segments, generated_market.products(products)
        )
        self.loop = IntakeLoop(
            self.stores, SegmentStore(self.open_store("intake")), HashingEmbedder(), SystemClock(), SilentMeter(),
            owner="one", rules=IntakeConfig(apps_every_s=0.0),
        )  # fmt: skip
        await self._upload("product", '[{"product_id":"p0","title":"Thing 0"}]')
        version, _ = await self.train(1)
        await self.stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=version))
        serving = self.open_store("serving")
        models = SnapshotLoader(SnapshotStore(serving))
        self.host = EngineHost(
            self.stores, SegmentStore(serving), SystemClock(), SilentMeter(), models=models
        )
        await self.host.start()
        await self.ask()
        follower = await self.host._followers.get(APP)
        assert follower.serving_version("default") == version
        self.first = version

    async def ask(self) -> bool:
        result = await self.host.answer(UserQuery("user_to_products", APP, "default", rows=5, user_id="u1"))
        return isinstance(result, RecommendationResult) and len(result.products) == 5

    async def train(self, seed: int) -> tuple[str, int]:
        """Train to the end, as the scheduler does: a run that was given back is claimed again."""
        recipe = {**RECIPE, "seed": seed}
        now_ms = SystemClock().now_ms()
        run = await create_run(self.stores, APP, "default", recipe, now_ms=now_ms, by="a test")
        place = WorkerResources(
            self.stores,
            self.open_store("trainer"),
            SystemClock(),
            self.scratch,
            beat_s=0.5,
            patience_s=0.2,
            settle_s=0.0,
        )
        for _ in range(run.most_attempts):
            done = await TrainingWorker(place, "worker").work(APP, run.run_id)
            assert done is not None
            if done.has_ended:
                assert (done.status, done.error) == ("finished", ""), done.error
                return done.version, done.attempt
        raise AssertionError(f"the training did not end: {done.error}")

    async def run(self, fault: AbstractContextManager[None], fault_s: float) -> OutageResult:
        """Serve, train and compact while the fault lasts and after it, and compare what was published."""
        result, over = OutageResult(), asyncio.Event()
        keeper = asyncio.create_task(self._keep_asking(result, over))
        began_s = time.monotonic()
        with fault:
            training = asyncio.create_task(self.train(2))
            compacting = asyncio.create_task(self._compact_until_done(result, began_s + fault_s))
            await asyncio.sleep(fault_s)
            result.waited = not training.done() and not compacting.done()
        version, result.attempts = await training
        result.trained_s = time.monotonic() - began_s
        await compacting
        over.set()
        await keeper
        await self.host.close()
        fresh = self.open_store("fresh")
        snapshots = SnapshotStore(fresh)
        versions = {entry.version for entry in snapshots.versions(APP, "default")}
        assert versions == {self.first, version}
        for visible in versions:  # whatever is visible is whole
            SnapshotLoader(snapshots).load(APP, "default", visible)
        last = await asyncio.to_thread(SegmentStore(fresh).load, APP)
        written = {f'{{"user_id":"late{n}"}}'.encode() for n in range(3)}
        assert set(SegmentStore(fresh).records(APP, "user")) == written
        assert last.damaged == ()
        result.versions = len(versions)
        return result

    async def _upload(self, noun: Noun, records: str) -> None:
        now_ms, task_id = SystemClock().now_ms(), new_task_id()
        await self.stores.intake.accept(
            APP, noun, "put", records.encode(), task_id=task_id, total=1, now_ms=now_ms
        )
        while await self.loop.apply_round(0):
            pass

    async def _keep_asking(self, result: OutageResult, over: asyncio.Event) -> None:
        while not over.is_set():
            began_s = time.perf_counter()
            result.errors += not await self.ask()
            result.took_ms.append((time.perf_counter() - began_s) * 1000)
            result.answers += 1
            await asyncio.sleep(0.005)

    async def _compact_until_done(self, result: OutageResult, fault_ends_s: float) -> None:
        loop = self.loop
        for number in range(3):
            await self._upload("user", f'[{{"user_id":"late{number}"}}]')
        while True:
            try:
                await loop.compact_round(at_once=True)
                break
            except Unavailable:
                result.gave_way += 1
                await asyncio.sleep(0.2)
        result.compacted_s = max(0.0, time.monotonic() - fault_ends_s)
