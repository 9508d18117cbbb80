"""An app that the supervisor of models looks after: stores in memory, artifacts, and snapshots of the ring."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from cluster.artifacts.logs.day_files import DAY_MS, name_day
from cluster.artifacts.logs.outcomes import COLUMNS, OutcomeStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.records.apps import App, AppSettings
from cluster.records.engine import Engine
from cluster.store.stores import Stores
from jobs.refresh.automation.supervisor import ModelSupervisor
from jobs.refresh.build.model_snapshot import SnapshotOrigin
from tests.fakes import generated_market
from tests.fakes.stores.memory import memory_stores
from tests.fakes.trained_snapshot import publish_ring_snapshot
from tests.suites.manual_clock import ManualClock

APP = generated_market.APP
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2


@dataclass
class SupervisedShop:
    """The app at noon; `folder` holds its artifacts."""

    folder: Path
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOON_MS))
    stores: Stores = field(init=False)
    artifacts: ArtifactStore = field(init=False)
    supervisor: ModelSupervisor = field(init=False)

    def __post_init__(self) -> None:
        self.stores = memory_stores(self.clock)
        self.artifacts = ArtifactStore.open(self.folder / "artifacts")
        self.supervisor = ModelSupervisor(self.stores, self.artifacts, self.clock, owner="first")

    def publish(self, seed: int, *, learned_from_people: bool = False) -> str:
        """Publish a snapshot and return its version; one that learned from people ends when one is erased."""
        origin = SnapshotOrigin(offsets={"interaction": "9-0"} if learned_from_people else {})
        snapshots = SnapshotStore(self.artifacts)
        return publish_ring_snapshot(snapshots, self.folder / str(seed), APP, seed=seed, origin=origin)

    async def engine(self) -> Engine:
        """Return the record of the default engine."""
        engine = await self.stores.engines.get(APP, "default")
        assert engine is not None
        return engine

    async def set_switch(self, is_on: bool, environment: Any = "production", **settings: Any) -> None:
        """Let the supervisor look after the app, or not."""
        chosen = AppSettings(automatic_models=is_on, **settings)
        app = App(app_id=APP, environment=environment, created_at=0, settings=chosen)
        await self.stores.access.put_app(app)

    def write_outcomes(self, rows: list[dict[str, Any]]) -> None:
        """Replace the outcomes of the day."""
        table = pa.Table.from_pylist(rows, schema=COLUMNS)
        OutcomeStore(self.artifacts, self.clock).replace_days(APP, {name_day(NOON_MS // DAY_MS): table}, {})

    async def look(self, after_ms: int = 60_000) -> None:
        """Let time pass, and let the supervisor look once."""
        self.clock.advance(after_ms)
        await self.supervisor.run_once()
