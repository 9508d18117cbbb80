"""Ended runs are copied to MLflow with their figures, lineage and reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.records.run import Run
from cluster.store.stores import Stores
from jobs.refresh.runs.mlflow_tracking import flatten_recipe, track_run
from jobs.refresh.runs.run_commands import create_run
from jobs.refresh.runs.worker import TrainingWorker, WorkerResources
from tests.fakes import generated_market
from tests.fakes.generated_market import APP
from tests.fakes.stores.memory import memory_stores
from tests.suites.doing import require
from tests.suites.manual_clock import ManualClock

mlflow = pytest.importorskip("mlflow", reason="needs the extra `mlflow`")

RECIPE = {
    "name": "small",
    "parts": {"rules": {"learner": "rules"}, "trend": {"learner": "popularity"}},
    "blend": {"weights": {"rules": 1.0, "trend": 0.1}, "weights_new": {"trend": 1.0}},
}


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    # MLflow serves from a database; its client alone can keep runs in a folder
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    return (tmp_path / "mlruns").as_uri()


@pytest.fixture
async def stores() -> Stores:
    opened = memory_stores(ManualClock())
    await generated_market.open_market(opened)
    return opened


@pytest.fixture
def place(tmp_path: Path, stores: Stores, uri: str) -> WorkerResources:
    artifacts = ArtifactStore.open(tmp_path / "artifacts")
    generated_market.settle(SegmentStore(artifacts), generated_market.table(600, 60, 30, topics=3))
    return WorkerResources(
        stores, artifacts, ManualClock(), tmp_path / "scratch", beat_s=0.02, settle_s=0.0, tracking_uri=uri
    )


async def train(place: WorkerResources, **options: Any) -> Run:
    run = await create_run(place.stores, APP, "default", RECIPE, now_ms=5, by="ada", **options)
    done = require(await TrainingWorker(place, "worker").work(APP, run.run_id))
    return done


async def test_a_training_is_copied_with_its_figures_lineage_and_reports(
    place: WorkerResources, uri: str
) -> None:
    done = await train(place)
    assert done.status == "finished"
    assert "copied to MLflow: " in done.log[-1]
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(f"{APP}/default")
    (copy,) = client.search_runs([experiment.experiment_id])
    assert copy.info.status == "FINISHED"
    assert copy.info.run_name == done.version
    assert copy.data.params["parts.rules.learner"] == "rules"
    assert copy.data.metrics["ndcg_at_10"] == pytest.approx(done.figures["ndcg@10"])
    expected = {"heavy/ndcg_at_10", "popular targets/recall_at_20", "gini", "seconds/train"}
    assert expected <= set(copy.data.metrics)
    assert {"p/popularity/ndcg_at_10", "calibration_error"} <= set(copy.data.metrics)
    assert copy.data.tags["kiosk.snapshot"] == done.version
    assert copy.data.tags["kiosk.by"] == "ada"
    assert {entry.path for entry in client.list_artifacts(copy.info.run_id)} >= {"report.json", "report.md"}
    # the copy is repeated without a second run
    assert track_run(done, None, uri) == copy.info.run_id
    assert len(client.search_runs([experiment.experiment_id])) == 1


async def test_a_server_that_is_away_fails_no_training(place: WorkerResources) -> None:
    done = await train(replace(place, tracking_uri="http://127.0.0.1:9"))
    assert (done.status, done.error) == ("finished", "")
    assert "MLflow did not take the run" in done.log[-1]


async def test_a_failed_run_is_copied_with_its_error(place: WorkerResources, uri: str) -> None:
    run = await create_run(place.stores, APP, "default", {**RECIPE, "parts": {}}, now_ms=5, by="ada")
    done = require(await TrainingWorker(place, "worker").work(APP, run.run_id))
    assert done.status == "failed"
    client = mlflow.MlflowClient(tracking_uri=uri)
    (copy,) = client.search_runs([client.get_experiment_by_name(f"{APP}/default").experiment_id])
    assert copy.info.status == "FAILED"
    assert copy.data.tags["mlflow.note.content"] == done.error


def test_parameters_are_the_leaves_of_a_recipe() -> None:
    recipe = {"a": {"b": 1, "c": {}, "d": None}, "e": "text", "f": [1, "x"]}
    assert dict(flatten_recipe(recipe)) == {"a.b": "1", "a.c": "{}", "e": "text", "f": '[1, "x"]'}
