"""Trainings on a real Ray: the named trainer sends workers, a killed worker's run goes on, schedules fire."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from cluster.admin.master_keys import ensure_master_key
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.signing import sign_manifests
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.process.artifact_access import open_artifact_store
from cluster.process.installation_processes import is_alive
from cluster.records.run import Run, Schedule
from cluster.settings import Settings
from cluster.store.connect import OpenStores, open_stores
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.runs.run_commands import create_run
from tests.fakes import generated_market
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_waiting import EASY
from tests.suites.waiting import until

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(180)]

FAST = load_recipe_file("fast").model_dump(mode="json")


@dataclass
class Place:
    connect: Callable[[], OpenStores]
    stores: OpenStores
    artifacts: ArtifactStore
    folder: Path

    @property
    def trainer_arguments(self) -> tuple[Any, ...]:
        return (
            self.connect,
            partial(ArtifactStore.open, str(self.folder / "shelf")),
            str(self.folder / "scratch"),
        )

    @property
    def versions(self) -> list[str]:
        return [
            version.version
            for version in SnapshotStore(self.artifacts).versions(generated_market.APP, "default")
        ]

    async def order(self, **options: Any) -> Run:
        now_ms = SystemClock().now_ms()
        return await create_run(
            self.stores, generated_market.APP, "default", FAST, now_ms=now_ms, by="a test", **options
        )

    async def until(self, run: Run, is_so: Callable[[Run], bool]) -> Run:
        async def has_come() -> bool:
            nonlocal run
            stored = await self.stores.runs.get(generated_market.APP, run.run_id)
            assert stored is not None
            run = stored
            return is_so(run)

        await until(has_come, 90.0)  # a machine that does other work trains slowly
        return run


@pytest.fixture
async def place(
    local_ray: None, private_server: RedisProcess, easy_stores: OpenStores, tmp_path: Path
) -> Place:
    artifacts = ArtifactStore.open(tmp_path / "shelf")
    await generated_market.open_market(easy_stores)
    generated_market.settle(SegmentStore(artifacts), generated_market.table(60_000, 2_000, 1_000))
    return Place(partial(open_stores, private_server.url, **EASY), easy_stores, artifacts, tmp_path)


@pytest.fixture
def trainer(place: Place) -> Iterator[Any]:
    import ray

    from cluster.runtime.actors import named_actors

    name = f"test-{os.getpid()}"
    yield named_actors.find_or_create(
        "trainer", name, "jobs.refresh.driver:Trainer", *place.trainer_arguments, round_s=0.2
    )
    named_actors.kill_releases("trainer")
    assert ray.is_initialized()


@pytest.mark.usefixtures("trainer")
async def test_an_ordered_run_is_trained_published_and_promoted(place: Place) -> None:
    run = await place.order(promote=True)
    done = await place.until(run, lambda run: run.has_ended)
    assert (done.status, done.error) == ("finished", "")
    done = await place.until(run, lambda run: run.promoted)
    engine = await place.stores.engines.get(generated_market.APP, "default")
    assert engine is not None
    assert place.versions == [done.version] == [engine.snapshot]
    assert [stage.name for stage in done.stages] == ["dataset", "plan", "evaluate", "train", "publish"]
    assert [
        entry.run_id for entry in await place.stores.promotions.history(generated_market.APP, "default")
    ] == [run.run_id]


@pytest.mark.usefixtures("trainer")
async def test_a_killed_workers_run_goes_on_and_publishes_once(place: Place) -> None:
    run = await place.order()
    await place.until(run, lambda run: run.stage in ("plan", "evaluate", "train"))
    killed_s = time.monotonic()
    (worker,) = [process for process in psutil.process_iter(["cmdline"]) if _is_worker(process)]
    assert worker.nice() >= 10
    worker.send_signal(signal.SIGKILL)
    done = await place.until(run, lambda run: run.has_ended)
    print(f"\nended {time.monotonic() - killed_s:.1f} s after the kill, attempt {done.attempt}")
    assert (done.status, done.attempt) == ("finished", 2)
    assert place.versions == [done.version]
    engine = await place.stores.engines.get(generated_market.APP, "default")
    assert engine is not None
    assert engine.snapshot == ""


@pytest.mark.drill
async def test_when_the_trainer_dies_with_its_worker_another_one_goes_on(place: Place, trainer: Any) -> None:
    run = await place.order()
    await place.until(run, lambda run: run.stage in ("plan", "evaluate", "train"))
    killed_s = time.monotonic()
    os.kill((await trainer.health.remote())["pid"], signal.SIGKILL)
    done = await place.until(run, lambda run: run.has_ended)
    print(f"\nended {time.monotonic() - killed_s:.1f} s after the trainer was killed, attempt {done.attempt}")
    assert done.status == "finished"
    assert place.versions == [done.version]
    assert (await trainer.health.remote())["alive"]


@pytest.mark.usefixtures("trainer")
async def test_a_schedule_fires_and_a_cancelled_run_publishes_nothing(place: Place) -> None:
    schedule = Schedule(
        app_id=generated_market.APP,
        name="often",
        engine_id="default",
        when="every 1m",
        recipe=FAST,
        created_at=1,
    )
    await place.stores.schedules.add(schedule)

    async def fired() -> bool:
        return bool(await place.stores.runs.list_open(generated_market.APP))

    await until(fired)
    (run,) = await place.stores.runs.list_open(generated_market.APP)
    assert run.by == "schedule often"
    assert await place.stores.schedules.remove(generated_market.APP, "often")
    from jobs.refresh.runs.run_commands import cancel_training

    await place.until(run, lambda run: run.status == "running")
    await cancel_training(place.stores, generated_market.APP, run.run_id, SystemClock().now_ms())
    await until(lambda: not any(_is_worker(process) for process in psutil.process_iter(["cmdline"])), 30.0)
    assert place.versions == []


async def test_from_python_it_is_the_same(place: Place) -> None:
    from jobs.refresh.driver import train

    seen: list[str] = []
    settings = Settings(data_dir=place.folder)
    ensure_master_key(settings)
    sign_manifests(open_artifact_store(settings), foreign=False)
    run = await asyncio.to_thread(
        train,
        generated_market.APP,
        recipe="fast",
        connect=place.connect,
        settings=settings,
        watch=lambda run: seen.append(run.stage),
    )
    assert run.status == "finished"
    assert place.versions == [run.version]
    assert seen[-1] == "publish"


async def test_variants_of_a_sweep_are_examined_side_by_side(place: Place) -> None:
    from jobs.refresh.driver import run_sweep_on_ray
    from jobs.refresh.runs.checkpoint import CheckpointStore
    from jobs.refresh.runs.measurements.sweep import build_variants, result_rows
    from jobs.refresh.runs.training_source import read_training_source

    recipe = load_recipe_file("fast")
    variants = build_variants(recipe, ["parts.rules.window=3,10"])
    CheckpointStore(place.artifacts, generated_market.APP, "s", folder="sweeps").put_source(
        read_training_source(SegmentStore(place.artifacts), generated_market.APP, recipe)
    )
    results: list[tuple[Any, Any]] = []
    await asyncio.to_thread(
        run_sweep_on_ray,
        variants,
        partial(ArtifactStore.open, str(place.folder / "shelf")),
        generated_market.APP,
        "s",
        lambda *result: results.append(result),
    )
    table = result_rows(results)
    assert sorted(row["parts.rules.window"] for row in table) == [3, 10]
    assert not any(row["error"] for row in table)


def _is_worker(process: psutil.Process) -> bool:
    words = process.info["cmdline"] or [""]
    return words[0].startswith("ray::_work") and is_alive(process.pid)
