"""A promoted snapshot that hurts is taken back by the named trainer on a real Ray, while a host answers."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.recommender.rerank.exploration import is_in_trial
from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.artifacts.logs.day_files import DAY_MS, name_day
from cluster.artifacts.logs.outcomes import COLUMNS as OUTCOMES
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.records.apps import App, AppSettings
from cluster.records.engine import Engine
from cluster.records.served_list import ServedAnswer
from cluster.store.connect import OpenStores, open_stores
from cluster.store.stores import Stores
from jobs.refresh.automation.supervisor import LEASE
from jobs.refresh.automation.trial_samples import SETTLING_MS
from jobs.refresh.runs.promotion import promote_version
from tests.fakes.corner_shop import APP, upload
from tests.fakes.trained_snapshot import publish_ring_snapshot, ring_products
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_waiting import EASY
from tests.suites.waiting import until

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(240)]

PEOPLE = 6_000
WITHIN_S = 5.0


@dataclass
class Load:
    """Requests one after the other, of one person after the other."""

    host: EngineHost
    answers: int = 0
    failures: int = 0
    version: str = ""
    "The snapshot of the newest answer to a person of the larger group."

    async def drive(self, trial: Any) -> None:
        while True:
            for number in range(PEOPLE):
                query = UserQuery("user_to_products", APP, "default", user_id=f"p{number}", rows=5)
                answered = await self.host.answer(query)
                self.answers += 1
                if not isinstance(answered, RecommendationResult) or len(answered.products) != 5:
                    self.failures += 1
                elif answered.placements is not None and not is_in_trial(trial, query):
                    self.version = answered.placements.snapshot
                await asyncio.sleep(0.002)


@pytest.fixture
def trainer(local_ray: None, private_server: RedisProcess, tmp_path: Path) -> Iterator[None]:
    from cluster.runtime.actors import named_actors

    connect = partial(open_stores, private_server.url, **EASY)
    open_artifacts = partial(ArtifactStore.open, str(tmp_path / "artifacts"))
    named_actors.find_or_create(
        "trainer", f"test-{os.getpid()}", "jobs.refresh.driver:Trainer", connect, open_artifacts,
        str(tmp_path / "scratch"), round_s=0.5,
    )  # fmt: skip
    yield
    named_actors.kill_releases("trainer")


def log_people(artifacts: ArtifactStore, trial: Any, new: str, since_ms: int, *, clicks_of_new: int) -> None:
    """Write an answer for each person to the log; people of the holdback click, of the others one in so many."""
    answers, clicks = [], []
    for number in range(PEOPLE):
        in_share = is_in_trial(trial, UserQuery("user_to_products", APP, "default", user_id=f"p{number}"))
        at_ms, version = since_ms + number, trial.version if in_share else new
        facts: dict[str, Any] = {"engine_id": "default", "snapshot": version, "user": f"p{number}"}
        answers.append(
            ServedAnswer(f"s{number}", at_ms, "user_to_products", took_ms=5.0, products=("ring-01",), **facts)
        )
        if number % (2 if in_share else clicks_of_new) == 0:
            row = {
                "at": at_ms + 1,
                "type": "click",
                "endpoint": "user_to_products",
                "service_id": f"s{number}",
                "answered_at": at_ms,
                "value": 0.0,
            }
            clicks.append({**row, **facts})
    table = pa.Table.from_pylist(clicks, schema=OUTCOMES)
    OutcomeStore(artifacts).replace_days(APP, {name_day(since_ms // DAY_MS): table}, {})
    ServedLogStore(artifacts).append(APP, answers, f"{since_ms}-0")


@pytest.mark.usefixtures("trainer")
async def test_a_bad_snapshot_is_rolled_back_within_five_seconds_and_no_request_fails(
    easy_stores: OpenStores, tmp_path: Path
) -> None:
    stores: Stores = easy_stores
    artifacts = ArtifactStore.open(tmp_path / "artifacts")
    snapshots = SnapshotStore(artifacts)
    old, new = (publish_ring_snapshot(snapshots, tmp_path / str(seed), APP, seed=seed) for seed in (6, 7))
    await upload(stores, ring_products())
    settings = AppSettings(automatic_models=True)
    await stores.access.put_app(App(app_id=APP, environment="production", created_at=0, settings=settings))
    await stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=old))
    # the trial began two minutes ago, so its first minute is over
    since_ms = SystemClock().now_ms() - 120_000
    await promote_version(stores, artifacts, APP, "default", new, now_ms=since_ms, by="a test")
    engine = await stores.engines.get(APP, "default")
    assert engine is not None
    trial = engine.trial
    assert trial is not None
    host = EngineHost(stores, None, SystemClock(), SilentMeter(), models=SnapshotLoader(snapshots))
    load = Load(host)
    driving = asyncio.create_task(load.drive(trial))

    async def serves(version: str) -> bool:
        return load.version == version

    async def is_watched() -> bool:
        # another owner gets no lease while the supervisor of the trainer has it
        return not await stores.leases.hold(LEASE, "a test", 1)

    await until(lambda: serves(new), 60.0)
    await until(is_watched, 90.0)
    await asyncio.to_thread(log_people, artifacts, trial, new, since_ms + SETTLING_MS, clicks_of_new=50)
    certain_s = time.monotonic()
    await until(lambda: serves(old), 60.0)
    took_s = time.monotonic() - certain_s
    await asyncio.sleep(1.0)
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    await host.close()
    print(
        f"\nrolled back in {took_s:.2f} s after the last row, {load.answers:,} answers, {load.failures} failed"
    )
    assert load.failures == 0
    assert took_s <= WITHIN_S
    entry = (await stores.promotions.history(APP, "default"))[0]
    assert (entry.kind, entry.version, entry.by) == ("rolled_back", old, "automatic_models")
    assert entry.evidence["outcome"] == "worse"
    ((_, row),) = await stores.audit.begun()
    assert (row.operation, row.after["candidate"]["version"]) == ("promotions.roll_back", new)
