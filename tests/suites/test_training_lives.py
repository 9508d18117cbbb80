"""A training over memory and a real Redis: wherever its worker dies, one artefact or none, and what serves stays."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from actors.intake.compaction import CompactionConfig
from actors.intake.loop import IntakeConfig, IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import FOLDER, MANIFEST, SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import Unavailable
from cluster.meter import SilentMeter
from cluster.process.tracing import OtelTracer
from cluster.records.engine import Engine
from cluster.records.run import LEASE_MS, STAGES, Run
from cluster.store.connect import open_stores
from cluster.store.stores import Stores
from cluster.tracing import PROCESS
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.runs.promotion import roll_back_version
from jobs.refresh.runs.run_commands import cancel_training, create_run
from jobs.refresh.runs.training_stages import KEPT_VERSIONS
from jobs.refresh.runs.uncompacted_data import wait_for_compaction
from jobs.refresh.runs.worker import LEFTOVER_AGE_MS, TrainingWorker, WorkerResources
from tests.fakes import generated_market
from tests.fakes.dying_shelf import DyingArtifactStore, Killed
from tests.fakes.dying_stores import Life, mortal
from tests.fakes.stores.memory import memory_stores
from tests.suites.doing import require
from tests.suites.manual_clock import ManualClock
from tests.suites.test_experiments import an_experiment

pytestmark = [pytest.mark.redis, pytest.mark.slow]

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
RECIPE = load_recipe_file("fast").with_changes({"limits.memory_mb": 4096}).model_dump(mode="json")


@dataclass
class Place:
    """A market with settled interactions, an engine that serves `champion`, and what a worker needs."""

    stores: Stores
    folder: Path
    clock: ManualClock

    @property
    def artifacts(self) -> ArtifactStore:
        return ArtifactStore.open(self.folder / "shelf")

    @property
    def versions(self) -> list[str]:
        return [
            version.version
            for version in SnapshotStore(self.artifacts).versions(generated_market.APP, "default")
        ]

    @property
    def leftovers(self) -> list[str]:
        places = [*(self.folder / "scratch").rglob("*"), *(self.folder / "shelf" / "runs").rglob("*")]
        return [str(path) for path in places if path.is_file()]

    def at(self, **changes: Any) -> WorkerResources:
        place = WorkerResources(
            self.stores,
            self.artifacts,
            self.clock,
            self.folder / "scratch",
            beat_s=0.02,
            patience_s=0.0,
            settle_s=0.0,
        )
        return replace(place, **changes)

    async def serving(self) -> str:
        engine = require(await self.stores.engines.get(generated_market.APP, "default"))
        return engine.snapshot

    async def ordered(self, **options: Any) -> Run:
        recipe = options.pop("recipe", RECIPE)
        now_ms = self.clock.now_ms()
        return await create_run(
            self.stores, generated_market.APP, "default", recipe, now_ms=now_ms, by="a test", **options
        )

    async def until(self, run: Run, is_so: Callable[[Run], bool]) -> None:
        for _ in range(20_000):
            now = await self.stores.runs.get(generated_market.APP, run.run_id)
            if now is not None and is_so(now):
                return
            await asyncio.sleep(0.001)
        raise AssertionError(now)

    async def worked(self, run: Run, owner: str = "worker", **changes: Any) -> Run:
        done = require(await TrainingWorker(self.at(**changes), owner).work(generated_market.APP, run.run_id))
        return done


@pytest.fixture(params=["memory", "redis"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    generated_market.settle(
        SegmentStore(ArtifactStore.open(tmp_path / "shelf")), generated_market.table(600, 60, 30, topics=3)
    )
    clock = ManualClock()
    if request.param == "memory":
        place = Place(memory_stores(clock), tmp_path, clock)
        await generated_market.open_market(place.stores)
        yield place
        return
    server = request.getfixturevalue("redis_server")
    assert server.say("FLUSHALL") == b"+OK\r\n"
    async with open_stores(server.url, hot_s=5.0, slow_s=10.0) as stores:
        await generated_market.open_market(stores)
        yield Place(stores, tmp_path, clock)


async def test_a_training_waits_a_moment_for_what_was_just_accepted(place: Place) -> None:
    offset = await place.stores.interactions.append(
        generated_market.APP, b'[{"type":"click","product_ids":["p1"]}]', []
    )
    offsets: list[str] = []

    async def settle() -> None:
        for _ in range(2_000):
            if requested := await place.stores.changes.requested_compactions(generated_market.APP):
                break
            await asyncio.sleep(0.01)
        offsets.append(requested["interaction"])
        for noun, at in requested.items():
            await place.stores.changes.compact(generated_market.APP, noun, at, place.clock.now_ms())

    settling = asyncio.create_task(settle())
    done = await place.worked(await place.ordered(), settle_s=30.0)
    await settling
    assert (done.status, offsets) == ("finished", [offset])


async def test_a_training_names_accepted_data_that_it_leaves_out(place: Place) -> None:
    await place.stores.interactions.append(
        generated_market.APP, b'[{"type":"click","product_ids":["p1"]}]', []
    )
    await _accept_product(place, "late")
    done = await place.worked(await place.ordered(), settle_s=0.5)
    assert done.status == "finished"
    assert done.message.startswith(
        "1 accepted uploads are not applied and new data is not compacted (interaction), so it is not read"
    )


async def test_a_training_reads_an_upload_that_still_waits_in_the_intake(place: Place) -> None:
    """The intake compacts every half a minute; the training asks for it and has the data within seconds."""
    before = await place.worked(await place.ordered())
    for number in range(3):
        await _accept_product(place, f"new-{number}")
    segments = SegmentStore(place.artifacts)
    meter, rules = SilentMeter(), IntakeConfig(apps_every_s=0.0, compaction=CompactionConfig(every_s=30.0))
    loop = IntakeLoop(
        place.stores, segments, HashingEmbedder(), SystemClock(), meter, owner="intake", rules=rules
    )
    working = asyncio.create_task(loop.run())
    messages: list[str] = []
    try:
        started_s = time.monotonic()
        await wait_for_compaction(place.stores, generated_market.APP, messages.append)
        assert time.monotonic() - started_s < 15
        done = await place.worked(await place.ordered(), settle_s=15.0)
    finally:
        loop.stop()
        await working
    assert messages
    assert (done.status, done.message) == ("finished", "")
    products = [
        {stage.name: stage.facts for stage in run.stages}["dataset"]["products"] for run in (before, done)
    ]
    assert products[1] == products[0] + 3
    assert await wait_for_compaction(place.stores, generated_market.APP, messages.append, stall_s=0.0) == ""


async def _accept_product(place: Place, product_id: str) -> None:
    record = {"product_id": product_id, "name": product_id, "type": "product"}
    await place.stores.intake.accept(
        generated_market.APP,
        "product",
        "put",
        json.dumps([record]).encode(),
        task_id=product_id,
        total=1,
        now_ms=1,
    )


async def test_a_training_publishes_one_snapshot_and_leaves_nothing_behind(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = InMemorySpanExporter()
    monkeypatch.setattr(PROCESS, "tracer", OtelTracer(SimpleSpanProcessor(exporter), "test"))
    monkeypatch.setenv("TRACEPARENT", CALLER)
    ordered = await place.ordered()
    monkeypatch.delenv("TRACEPARENT")  # the worker is another process: the record tells it
    done = await place.worked(ordered)
    spans = {span.name: span for span in exporter.get_finished_spans() if not span.name.startswith("redis ")}
    assert set(spans) == {"training", *(f"training.{stage}" for stage in STAGES)}
    assert {f"{span.context.trace_id:032x}" for span in spans.values()} == {CALLER.split("-")[1]}
    assert (done.status, done.attempt, done.error) == ("finished", 1, "")
    assert place.versions == [done.version]
    assert place.leftovers == []
    assert await place.serving() == ""
    assert await TrainingWorker(place.at(), "another").work(generated_market.APP, done.run_id) is None


async def test_equal_recipe_data_and_seed_give_equal_bytes_and_another_seed_is_another_run(
    place: Place,
) -> None:
    first = await place.worked(await place.ordered())
    before = _bytes(place)
    second = await place.worked(await place.ordered())
    assert second.version == first.version
    assert _bytes(place) == before
    other = await place.worked(await place.ordered(recipe={**RECIPE, "name": "renamed", "seed": 2}))
    assert other.version != first.version
    assert len(place.versions) == 2


async def test_killed_at_any_step_of_the_store_it_ends_with_one_artefact(place: Place) -> None:
    await place.stores.engines.put(
        Engine(app_id=generated_market.APP, engine_id="default", snapshot="champion")
    )
    expected = (await place.worked(await place.ordered())).version
    life = Life()
    await place.worked(await place.ordered(), stores=mortal(place.stores, life), beat_s=9.0)
    steps = list(range(1, life.lived, max(1, life.lived // 9)))
    for step in steps:
        SnapshotStore(place.artifacts).remove(generated_market.APP, "default", expected)
        run = await place.ordered()
        with pytest.raises(Killed):
            await TrainingWorker(place.at(stores=mortal(place.stores, Life(step)), beat_s=9.0), "dies").work(
                generated_market.APP, run.run_id
            )
        assert len(place.versions) <= 1, step
        assert await place.serving() == "champion"
        place.clock.advance(LEASE_MS)
        now = require(await place.stores.runs.get(generated_market.APP, run.run_id))
        done = now if now.has_ended else await place.worked(run, "goes on")
        assert (done.status, done.version) == ("finished", expected), step
        assert place.versions == [expected], step
    assert await place.serving() == "champion"
    print(f"\nkilled at {len(steps)} of {life.lived} half-steps of the store")


async def test_killed_at_any_step_of_the_shelf_it_ends_with_one_artefact(place: Place) -> None:
    expected = (await place.worked(await place.ordered())).version
    step, deaths = 0, 0
    while True:
        SnapshotStore(place.artifacts).remove(generated_market.APP, "default", expected)
        run = await place.ordered()
        artifacts = DyingArtifactStore(place.artifacts)
        artifacts.life = step
        try:
            await TrainingWorker(place.at(artifacts=artifacts), "dies").work(generated_market.APP, run.run_id)
            break
        except Killed:
            deaths += 1
        assert set(place.versions) <= {expected}
        place.clock.advance(LEASE_MS)
        now = require(await place.stores.runs.get(generated_market.APP, run.run_id))
        done = now if now.has_ended else await place.worked(run, "goes on")
        assert (done.status, done.version) == ("finished", expected), step
        assert place.versions == [expected], step
        step += 1 if step < 6 else 7
    assert deaths > 6
    print(f"\nkilled at {deaths} half-steps of the shelf")


async def test_killed_around_its_promotion_it_is_promoted_once(place: Place) -> None:
    life = Life()
    first = await place.worked(
        await place.ordered(promote=True), stores=mortal(place.stores, life), beat_s=9.0
    )
    assert (first.promoted, await place.serving()) == (True, first.version)
    for seed, step in enumerate(range(life.lived - 12, life.lived), 2):
        run = await place.ordered(recipe={**RECIPE, "seed": seed}, promote=True)
        with contextlib.suppress(Killed):
            await TrainingWorker(place.at(stores=mortal(place.stores, Life(step)), beat_s=9.0), "dies").work(
                generated_market.APP, run.run_id
            )
        place.clock.advance(LEASE_MS)
        now = require(await place.stores.runs.get(generated_market.APP, run.run_id))
        done = now if now.has_ended else await place.worked(run, "goes on")
        history = await place.stores.promotions.history(generated_market.APP, "default")
        assert [entry.run_id for entry in history].count(run.run_id) == done.promoted, step
        assert (await place.serving() == done.version) is done.promoted


async def test_what_a_zombie_writes_counts_for_nothing(place: Place) -> None:
    run = await place.ordered()
    zombie = TrainingWorker(place.at(beat_s=9.0), "zombie")
    working = asyncio.create_task(zombie.work(generated_market.APP, run.run_id))
    await place.until(run, lambda now: now.stage not in ("", "dataset"))
    place.clock.advance(LEASE_MS)
    done = await place.worked(run, "heir")
    assert await working is not None
    assert (done.status, done.attempt) == ("finished", 2)
    assert place.versions == [done.version]
    kept = require(await place.stores.runs.get(generated_market.APP, run.run_id))
    assert (kept.status, kept.attempt, kept.version) == ("finished", 2, done.version)


async def test_a_cancelled_run_is_left_and_publishes_nothing(place: Place) -> None:
    run = await place.ordered()
    working = asyncio.create_task(TrainingWorker(place.at(), "worker").work(generated_market.APP, run.run_id))
    await place.until(run, lambda now: now.status == "running")
    await cancel_training(place.stores, generated_market.APP, run.run_id, place.clock.now_ms())
    done = require(await working)
    assert done.status == "cancelled"
    assert place.versions == []
    assert place.leftovers == []


async def test_what_ended_runs_left_behind_goes_with_a_later_training(place: Place) -> None:
    place.clock.advance(int(time.time() * 1000) + 2 * LEFTOVER_AGE_MS - place.clock.now_ms())
    going = await place.ordered()
    for run_id in ("long-gone", going.run_id):
        place.artifacts.write(f"runs/{generated_market.APP}/{run_id}/plan.json", b"left")
        folder = place.folder / "scratch" / generated_market.APP / run_id
        folder.mkdir(parents=True)
        (folder / "x").write_bytes(b"left")
    await place.worked(await place.ordered())
    assert len(place.leftovers) == 2
    assert all(going.run_id in path for path in place.leftovers)


async def test_a_snapshot_that_came_to_serve_during_a_training_is_not_tidied_away(place: Place) -> None:
    old = (await place.worked(await place.ordered())).version
    for number in range(KEPT_VERSIONS + 1):
        place.artifacts.write(
            f"{FOLDER}/{generated_market.APP}/default/{number:016x}/{MANIFEST}", b"newer than the old one"
        )
    await place.stores.interactions.append(
        generated_market.APP, b'[{"type":"click","product_ids":["p1"]}]', []
    )
    run = await place.ordered(recipe={**RECIPE, "seed": 7})
    working = asyncio.create_task(place.worked(run, settle_s=1.0))
    await place.until(run, lambda now: now.attempt == 1)
    stores, now_ms = place.stores, place.clock.now_ms()
    await roll_back_version(
        stores, place.artifacts, generated_market.APP, "default", now_ms=now_ms, by="a test", to=old
    )
    new = (await working).version
    assert {old, new} <= set(place.versions)
    assert len(place.versions) <= KEPT_VERSIONS + 1


async def test_a_snapshot_that_an_experiment_tries_is_not_tidied_away(place: Place) -> None:
    tried = (await place.worked(await place.ordered())).version
    done = (await place.worked(await place.ordered(recipe={**RECIPE, "seed": 5}))).version
    for slug, status, version in (("running", "Active", tried), ("over", "Completed", done)):
        variants = [
            {"variant_id": name, "name": name, "slug": name, "snapshot": snapshot}
            for name, snapshot in (("control", ""), ("other", version))
        ]
        experiment = an_experiment(slug, app_id=generated_market.APP, status=status, variants=variants)
        assert await place.stores.experiments.compare_and_set(
            experiment, await place.stores.experiments.version(generated_market.APP)
        )
    for number in range(KEPT_VERSIONS + 1):
        place.artifacts.write(
            f"{FOLDER}/{generated_market.APP}/default/{number:016x}/{MANIFEST}", b"newer than both"
        )
    await place.worked(await place.ordered(recipe={**RECIPE, "seed": 7}))
    assert tried in place.versions
    assert done not in place.versions


async def test_a_shelf_that_is_away_gives_the_run_back_for_another_attempt(place: Place) -> None:
    class Away(ArtifactStore):
        def write(self, path: str, data: bytes, *, new: bool = False) -> None:
            raise Unavailable("no space left for the shelf; free some, writing goes on by itself")

    away = Away.open(place.folder / "shelf")
    run = await place.ordered()
    back = await place.worked(run, artifacts=away)
    assert (back.status, back.until_ms) == ("running", 0)
    assert "no space left" in back.error
    done = await place.worked(run, "later")
    assert (done.status, done.attempt, done.error) == ("finished", 2, "")


async def test_a_store_that_is_away_for_a_while_costs_no_work(place: Place) -> None:
    calls = {"compare_and_set": 0}

    def trouble(method: str) -> None:
        calls[method] = calls.get(method, 0) + 1
        if method == "compare_and_set" and 3 <= calls["compare_and_set"] < 12:
            raise Unavailable("the store can't be reached")

    run = await place.ordered()
    done = await place.worked(run, stores=mortal(place.stores, Life(), trouble))
    assert calls["compare_and_set"] > 12
    assert (done.status, done.attempt) == ("finished", 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"limits.memory_mb": 64}, r"needs about .* limits\.memory_mb allows 64; most of it is part"),
        ({"events.weights": {"klick": 0.5}}, "no such type of event: klick; known are"),
        ({"parts.mine": {"learner": "no.such.module:Thing"}}, "learner no.such.module:Thing can't be used"),
        ({"parts.mine": {"learner": f"{__name__}:Broken"}}, "stage plan broke: ZeroDivisionError: by design"),
    ],
)
async def test_what_can_not_be_trained_fails_with_what_to_change(
    place: Place, changes: dict[str, Any], words: str, allow_learners: Callable[..., None]
) -> None:
    allow_learners("no.such.module:Thing", f"{__name__}:Broken")
    await place.stores.engines.put(
        Engine(app_id=generated_market.APP, engine_id="default", snapshot="champion")
    )
    recipe = load_recipe_file("fast").with_changes(changes).model_dump(mode="json")
    done = await place.worked(await place.ordered(recipe=recipe, promote=True))
    assert done.status == "failed"
    assert re.search(words, done.error), done.error
    assert place.versions == []
    assert place.leftovers == []
    assert await place.serving() == "champion"


class Broken:
    """A learner that can't learn."""

    def train(self, data: Any, rng: Any) -> Any:
        raise ZeroDivisionError("by design")

    def load(self, parts: Any) -> Any:
        raise AssertionError


def _bytes(place: Place) -> dict[str, bytes]:
    root = place.folder / "shelf" / "snapshots"
    # the manifest says when it was ordered; everything else is data
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.npy")}
