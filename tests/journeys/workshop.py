"""Stores and a shelf with the ring of products on them, trainings over it, and replicas that serve what they made."""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock, iso_ms
from cluster.meter import SilentMeter
from cluster.records.apps import App
from cluster.records.run import Run
from cluster.store.stores import Stores
from jobs.refresh.runs.promotion import promote_version
from jobs.refresh.runs.run_attempt import RunAttempt, TrainingContext
from tests.fakes.corner_shop import APP, happen, upload
from tests.fakes.run_stages import run_stages
from tests.fakes.stores.memory import memory_stores
from tests.fakes.trained_snapshot import RECIPE, ring_products, ring_walks

DAY_MS = 86_400_000


@dataclass
class Workshop:
    """One installation without Ray: everything a replica or a training needs, below one folder."""

    folder: Path
    stores: Stores = field(default_factory=lambda: memory_stores(SystemClock()))
    now_ms: int = field(default_factory=SystemClock().now_ms)
    replicas: list[EngineHost] = field(default_factory=list)

    @property
    def artifacts(self) -> ArtifactStore:
        return ArtifactStore.open(self.folder / "shelf")

    @property
    def segments(self) -> SegmentStore:
        return SegmentStore(self.artifacts)

    async def settle_the_ring(self, *more: dict[str, Any]) -> None:
        """Let the ring's products, some more, and a month-old walk round the ring stand in the artifact store."""
        await upload(self.stores, [*ring_products(), *more])
        await happen(self.stores, self._walks())
        await self.stores.access.put_app(App(app_id=APP, environment="development", created_at=0))
        intake = IntakeLoop(
            self.stores, self.segments, HashingEmbedder(), SystemClock(), SilentMeter(), owner="test"
        )
        await intake.apply_round()
        assert await intake.compact_round(at_once=True) > 0

    def _walks(self) -> list[dict[str, Any]]:
        walks = sorted(ring_walks(users=120), key=lambda walk: walk[2])
        newest_s = walks[-1][2]
        return [
            {
                "type": "click",
                "user_id": user_key.removeprefix("u:"),
                "product_ids": [product_id],
                "timestamp": iso_ms(int(self.now_ms - 30 * DAY_MS + (at_s - newest_s) * 1000)),
            }
            for user_key, product_id, at_s, _ in walks
        ]

    def train(self) -> str:
        """Train as a worker does, stage by stage, twice: the same version comes out."""
        versions = {self._trained(run_id) for run_id in ("one", "two")}
        assert len(versions) == 1
        return versions.pop()

    def _trained(self, run_id: str) -> str:
        run = Run(app_id=APP, engine_id="default", run_id=run_id, recipe=RECIPE, created_at=5)
        bench = TrainingContext(self.artifacts, self.segments, self.folder / "scratch" / run_id, "release")
        attempt = RunAttempt(run, bench, lambda what, share: None)
        version = str(run_stages(attempt)["version"])
        attempt.clean_up()
        return version

    async def promote(self, version: str) -> None:
        """Let a version serve."""
        await promote_version(
            self.stores,
            self.artifacts,
            APP,
            "default",
            version,
            now_ms=self.now_ms,
            by="test",
            force="a test",
        )

    def replica(self) -> EngineHost:
        """Open one more replica of the engine."""
        models = SnapshotLoader(SnapshotStore(self.artifacts))
        self.replicas.append(
            EngineHost(self.stores, self.segments, SystemClock(), SilentMeter(), models=models)
        )
        return self.replicas[-1]

    async def close(self) -> None:
        """Close every replica."""
        for replica in self.replicas:
            await replica.close()


def is_mapped(array: Any) -> bool:
    """Are an array's numbers pages of a file, which every replica of the machine shares?"""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)
