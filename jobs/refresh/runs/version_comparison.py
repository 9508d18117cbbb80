"""Evaluation of the recipes of published versions on the present compacted data."""

from __future__ import annotations

from typing import Any

from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.evaluation.report_models import EvaluationReport
from jobs.refresh.recipe import Recipe, parse_recipe
from jobs.refresh.runs.measurements.learning_curve import measure_learning_curve
from jobs.refresh.runs.plan_evaluation import (
    EVALUATION_USERS,
    apply_confirmation,
    evaluate_plan,
    plan_training,
    split_data,
)
from jobs.refresh.runs.training_source import read_training_source
from jobs.refresh.tuning.variant_training import StepCallback, ignore_step


def load_recipe(snapshots: SnapshotStore, app_id: str, engine_id: str, version: str) -> Recipe:
    """Return the settled recipe of a version."""
    return parse_recipe(snapshots.manifest(app_id, engine_id, version).facts["recipe"])


def compare_versions(
    segments: SegmentStore,
    snapshots: SnapshotStore,
    app_id: str,
    engine_id: str,
    version: str,
    serving: str,
    users: int = EVALUATION_USERS,
) -> EvaluationReport:
    """Train the recipes of two versions on the same split and return the report of the comparison.

    Errors:
        NotFound, Fault: a version is missing or damaged
        Invalid: there is too little data, or a custom learner is not installed
    """
    recipe = load_recipe(snapshots, app_id, engine_id, version)
    against = snapshots.manifest(app_id, engine_id, serving).facts["recipe"] if serving else None
    return evaluate_recipe(
        read_training_source(segments, app_id, recipe).data,
        recipe,
        serving=None if against is None else {"version": serving, "recipe": against},
        users=users,
    )


def evaluate_recipe(
    data: Interactions,
    recipe: Recipe,
    protocol: str = "auto",
    *,
    serving: dict[str, Any] | None = None,
    users: int = EVALUATION_USERS,
    learning_curve: bool = False,
    on_step: StepCallback = ignore_step,
) -> EvaluationReport:
    """Evaluate a recipe with a protocol and return the report; tuning uses only data before the test.

    With `learning_curve`, the settled recipe is trained again on shares of the users.

    Errors:
        Invalid: there is too little data, or the protocol does not fit the data
    """
    on_step(f"split ({protocol})")
    split = split_data(recipe, data, protocol)
    plan = plan_training(recipe, data, split, on_step)
    report = evaluate_plan(plan, split.test, serving=serving, users=users, on_step=on_step)
    if learning_curve:
        settled = apply_confirmation(plan, report).recipe
        curve = measure_learning_curve(settled, split.test, users, report.k, on_step)
        report = report.model_copy(update={"learning_curve": curve})
    return report.model_copy(update={"protocol": protocol})
