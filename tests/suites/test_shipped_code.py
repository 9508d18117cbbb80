"""A run whose learner was shipped with it: a worker that knows the class from nowhere else trains and publishes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.records.run import Run
from jobs.refresh.evaluation.report_store import ReportStore
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.runs.run_commands import create_run
from jobs.refresh.runs.shipped_code import code_path, pack_and_store
from jobs.refresh.runs.worker import TrainingWorker, WorkerResources
from tests.fakes import generated_market
from tests.fakes.stores.memory import memory_stores
from tests.suites.doing import require
from tests.suites.manual_clock import ManualClock

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
LEARNER = "my_learner:NextItem"


async def trained(folder: Path, *, code: str) -> Run:
    """Order and work on a run of the example's recipe."""
    generated_market.settle(
        SegmentStore(ArtifactStore.open(folder / "shelf")), generated_market.table(600, 60, 30, topics=3)
    )
    clock = ManualClock()
    stores = memory_stores(clock)
    await generated_market.open_market(stores)
    recipe = load_recipe_file(EXAMPLES / "my_recipe.toml").model_dump(mode="json")
    run = await create_run(
        stores, generated_market.APP, "default", recipe, now_ms=clock.now_ms(), by="a test", code=code
    )  # fmt: skip
    place = WorkerResources(
        stores, ArtifactStore.open(folder / "shelf"), clock, folder / "scratch",
        beat_s=0.02, patience_s=0.0, settle_s=0.0, code_dir=code_path(folder),
    )  # fmt: skip
    done = require(await TrainingWorker(place, "worker").work(generated_market.APP, run.run_id))
    return done


def test_it_trains_with_the_code_and_reports_the_outcome_of_the_part(
    tmp_path: Path, allow_learners: Callable[..., None]
) -> None:
    allow_learners(LEARNER)
    recipe = load_recipe_file(EXAMPLES / "my_recipe.toml").model_dump(mode="json")
    run = asyncio.run(trained(tmp_path, code=pack_and_store(EXAMPLES, recipe, tmp_path)))
    assert run.status == "finished", run.error
    assert "my_learner" not in sys.modules
    parts = {part["part"]: part for part in run.parts}
    assert parts["next_item"]["learner"] == LEARNER
    assert "next_item" in run.chosen
    artifacts = ArtifactStore.open(tmp_path / "shelf")
    assert (
        SnapshotStore(artifacts).manifest(generated_market.APP, "default", run.version).facts["code"]
        == run.code
    )
    report = require(ReportStore(artifacts).get(generated_market.APP, "default", run.version))
    assert report.chosen == run.chosen


def test_without_the_code_the_run_fails_and_names_the_cure(
    tmp_path: Path, allow_learners: Callable[..., None]
) -> None:
    allow_learners(LEARNER)
    run = asyncio.run(trained(tmp_path, code=""))
    assert run.status == "failed"
    assert "kiosk train --working-dir DIR" in run.error
    gone = asyncio.run(trained(tmp_path / "two", code="0" * 64))
    assert (gone.status, "not on this machine" in gone.error) == ("failed", True)


def test_a_class_that_is_not_allowed_is_not_imported_though_it_was_shipped(tmp_path: Path) -> None:
    recipe = load_recipe_file(EXAMPLES / "my_recipe.toml").model_dump(mode="json")
    code = pack_and_store(EXAMPLES, recipe, tmp_path)
    with pytest.raises(Exception, match="is not allowed in this installation"):
        asyncio.run(trained(tmp_path, code=code))
