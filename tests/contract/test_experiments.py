"""Experiment events as the specification has them, over each way in."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from cluster.records.apps import AppSettings
from cluster.records.experiment import Experiment
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from deployments.api.resources import experiments
from tests.contract.scenario import Scenario, load
from tests.contract.test_rest import play
from tests.contract.ways import InProcess
from tests.fakes.request_handler import NOW_MS, PLENTY, Corner, open_corner

GREY = {"variant_id": "var-grey", "name": "control", "slug": "grey"}
RED = {
    "variant_id": "var-red",
    "name": "treatment",
    "slug": "red",
    "configuration": {"model": "B", "colours": ["red"]},
}


def an_experiment(app_id: str, slug: str, **fields: Any) -> Experiment:
    return Experiment.model_validate(
        {
            "app_id": app_id, "experiment_id": f"id-{slug}", "slug": slug, "name": slug, "status": "Active",
            "variants": [GREY, RED], "entry_salt": "entry-salt", "variant_salt": "variant-salt", **fields,
        }
    )  # fmt: skip


EXPERIMENTS = [
    an_experiment("shop", "paywall"),
    an_experiment(
        "shop",
        "all-red",
        experiment_id="59d0c5f0-2f5c-4e0f-8b07-4f6d8a1b9c33",
        variants=[{**GREY, "weight": 0}, RED],
    ),
    an_experiment("shop", "draft", status="Draft"),
    an_experiment("shop", "over", ends_at=NOW_MS),
    an_experiment("browsers", "paywall"),
]


async def with_experiments() -> Corner:
    corner = await open_corner()
    settings = AppSettings(limits=PLENTY, publishable_experiments=True)
    await corner.open_app("browsers", settings=settings)
    for experiment in EXPERIMENTS:
        version = await corner.stores.experiments.version(experiment.app_id)
        assert await corner.stores.experiments.compare_and_set(experiment, version) is not None
    return corner


@pytest.fixture(params=["framework", "front"])
async def way(request: pytest.FixtureRequest) -> InProcess:
    corner = await with_experiments()
    app: Any = build_application(corner.handler, version="0")
    if request.param == "front":
        app = HotPathMiddleware(app, lambda: corner.handler)
    return InProcess(corner, app)


@pytest.mark.parametrize(
    "scenario", load(Path(__file__).parent / "experiments"), ids=lambda scenario: scenario.name
)
async def test_experiments_answer_as_specified(scenario: Scenario, way: InProcess, unknown_key: str) -> None:
    await play(scenario, way, unknown_key)


@pytest.mark.parametrize("step", ["start", "schedule"])
async def test_snapshots_of_variants_are_checked_off_the_event_loop(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    monkeypatch.setattr(experiments, "validate_snapshots", lambda *_: threads.append(threading.get_ident()))
    corner = await with_experiments()
    body = {"starts_at": "2026-03-03T08:00:00Z"} if step == "schedule" else None
    answer = await corner.send("POST", f"/v1/experiments/draft/{step}", json=body)
    assert answer.status == 200, answer.body
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
