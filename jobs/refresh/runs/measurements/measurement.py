"""Evaluations and sweeps: which recipe to measure, the reports, and runs that measure and publish nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Invalid, KioskError
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.evaluation.off_policy_report import list_figures, summarize
from jobs.refresh.evaluation.report_models import (
    EvaluationReport,
    FailedEvaluation,
    MeasurementRecord,
)
from jobs.refresh.evaluation.report_store import ReportStore
from jobs.refresh.evaluation.reports import protocol_note
from jobs.refresh.recipe import Recipe, load_recipe_file
from jobs.refresh.runs.measurements import sweep
from jobs.refresh.runs.measurements.off_policy_evaluation import (
    LoggedTarget,
    LogPeriod,
    LogServices,
    evaluate_log,
)
from jobs.refresh.runs.plan_evaluation import PROTOCOLS as ALL_PROTOCOLS
from jobs.refresh.runs.run_attempt import RunAttempt, RunStage, RunStages
from jobs.refresh.runs.training_source import TrainingSource
from jobs.refresh.runs.training_stages import describe_source, load_source, read_recipe, train
from jobs.refresh.runs.version_comparison import evaluate_recipe, load_recipe
from jobs.refresh.tuning.variant_training import StepCallback

PROTOCOLS = ("by_time", "leave_last_out")
"Those of an evaluation that names none."
KEPT_REPORTS = 50
"Newest reports of evaluations and sweeps of an engine that are kept."


@dataclass(frozen=True, slots=True)
class EvaluationTarget:
    """What an evaluation measures."""

    recipe: Recipe
    serving: dict[str, Any] | None
    "The serving version and its recipe to compare with; None: nothing serves, or it is what is measured."
    is_fallback: bool = False
    "Nothing was named and nothing serves, so this is the default recipe."


def select_target(
    artifacts: ArtifactStore, app_id: str, engine_id: str, now: str, recipe: Recipe | None, snapshot: str
) -> EvaluationTarget:
    """Return the recipe to measure: the given one, that of a version, or that of the serving version `now`.

    Errors:
        NotFound: the version does not exist
    """
    snapshots = SnapshotStore(artifacts)
    # The serving version itself: it has nothing to be compared with.
    if recipe is None and (snapshot or now) in ("", now):
        if not now:
            return EvaluationTarget(load_recipe_file("default"), None, is_fallback=True)
        return EvaluationTarget(load_recipe(snapshots, app_id, engine_id, now), None)
    chosen = recipe or load_recipe(snapshots, app_id, engine_id, snapshot)
    if not now:
        return EvaluationTarget(chosen, None)
    facts = snapshots.manifest(app_id, engine_id, now).facts
    return EvaluationTarget(chosen, {"version": now, "recipe": facts["recipe"]})


def check_protocols(protocols: Sequence[str]) -> tuple[str, ...]:
    """Return the protocols of an evaluation; without any, the usual two.

    Errors:
        Invalid: one does not exist
    """
    if unknown := [word for word in protocols if word not in ALL_PROTOCOLS]:
        raise Invalid(f"there is no protocol {unknown[0]!r}; choose from {', '.join(ALL_PROTOCOLS)}")
    return tuple(protocols) or PROTOCOLS


def evaluate_protocols(
    data: Interactions,
    recipe: Recipe,
    serving: dict[str, Any] | None,
    protocols: Sequence[str],
    users: int,
    on_step: StepCallback,
    *,
    learning_curve: bool = False,
) -> list[EvaluationReport | FailedEvaluation]:
    """Return a report for each protocol, or why it does not fit the data."""
    reports: list[EvaluationReport | FailedEvaluation] = []
    for protocol in protocols:
        try:
            report = evaluate_recipe(
                data,
                recipe,
                protocol,
                serving=serving,
                users=users,
                learning_curve=learning_curve,
                on_step=on_step,
            )
            note = protocol_note(protocol, data)
            reports.append(report.model_copy(update={"note": note}) if note else report)
        # The others may fit: a report for each protocol, or its reason.
        except KioskError as error:
            reports.append(FailedEvaluation(protocol=protocol, error=error.message))
    return reports


def select_complete_reports(reports: Sequence[EvaluationReport | FailedEvaluation]) -> list[EvaluationReport]:
    """Return the reports of the protocols that fit the data.

    Errors:
        Invalid: none fits
    """
    complete = [report for report in reports if isinstance(report, EvaluationReport)]
    failed = [report for report in reports if isinstance(report, FailedEvaluation)]
    if failed and not complete:
        raise Invalid(failed[0].error)
    return complete


class MeasuredFields(NamedTuple):
    """Fields that a measurement gives the run record; the report is stored under the id of the run."""

    figures: dict[str, float]
    split: dict[str, Any]
    verdict: str
    facts: dict[str, Any]


def measure(attempt: RunAttempt) -> RunStages:
    """Yield the stages of an evaluation or a sweep, which publishes nothing."""
    recipe = read_recipe(attempt.run)
    if "logged" in attempt.run.options:
        measured: MeasuredFields = yield RunStage("evaluate", partial(_judge, attempt, recipe), _describe)
    else:
        source: TrainingSource = yield RunStage(
            "dataset", partial(load_source, attempt, recipe), describe_source
        )
        act = _sweep if attempt.run.kind == "sweep" else _evaluate
        measured = yield attempt.stage("evaluate", source, partial(act, attempt, recipe, source), _describe)
    return {"figures": measured.figures, "split": measured.split, "verdict": measured.verdict, "error": ""}


def open_stages(attempt: RunAttempt) -> RunStages:
    """Return the stages of a run of any kind."""
    return (train if attempt.run.kind == "training" else measure)(attempt)


def _describe(measured: MeasuredFields) -> dict[str, Any]:
    return measured.facts


def _evaluate(attempt: RunAttempt, recipe: Recipe, source: TrainingSource) -> MeasuredFields:
    options = attempt.run.options
    reports = evaluate_protocols(
        source.data,
        recipe,
        attempt.serving if options["compare"] else None,
        options["protocols"],
        options["readers"],
        attempt.build_step_reporter(20 * len(options["protocols"])),
        learning_curve=options.get("learning_curve", False),
    )
    complete = select_complete_reports(reports)
    _store_report(attempt, recipe, reports=reports)
    facts = {"protocols": [report.protocol for report in complete]}
    return MeasuredFields(complete[0].figures, complete[0].split, "", facts)


def _judge(attempt: RunAttempt, recipe: Recipe) -> MeasuredFields:
    """Evaluate by the log of answers."""
    run = attempt.run
    context = attempt.context
    given = run.options["logged"]
    report = evaluate_log(
        LogServices(context.artifacts, context.segments, context.salt),
        run.app_id,
        run.engine_id,
        given["serving"],
        LoggedTarget(
            recipe if given["is_recipe"] else None,
            given["engine_id"],
            given["version"],
            given.get("pauses", {}),
            given.get("serving_pauses", {}),
        ),
        LogPeriod(given["since_ms"], given["until_ms"], given["most"]),
        attempt.build_step_reporter(60),
    )
    _store_report(attempt, recipe, reports=[report])
    return MeasuredFields(list_figures(report), {}, summarize(report), {"lists": report.lists})


def _sweep(attempt: RunAttempt, recipe: Recipe, source: TrainingSource) -> MeasuredFields:
    run = attempt.run
    context = attempt.context
    variants = sweep.build_variants(recipe, run.options["sweep"])
    name, checkpoints = sweep.open_sweep(
        context.artifacts, context.segments, run.app_id, variants, lambda: source
    )
    results: list[tuple[sweep.SweepVariant, sweep.SweepReport]] = []

    def add_result(variant: sweep.SweepVariant, report: sweep.SweepReport) -> None:
        results.append((variant, report))
        attempt.report(f"{len(results)} of {len(variants)} examined", len(results) / len(variants))

    sweep.run_sweep(variants, checkpoints, add_result)
    title = f"{recipe.name} on {run.app_id}/{run.engine_id}"
    table = sweep.finish_sweep(context.artifacts, run.app_id, name, checkpoints, results, title)[0]
    if all(row["error"] for row in table):
        raise Invalid(table[0]["error"])
    split = sweep.find_split(results)
    summary = sweep.compare_rows(table)
    _store_report(attempt, recipe, sweep=name, rows=table, summary=summary, split=split)
    figures = {key: table[0][key] for key in sweep.METRICS if key in table[0]}
    return MeasuredFields(figures, split, "", {"variants": len(table)})


def _store_report(attempt: RunAttempt, recipe: Recipe, **measured: Any) -> None:
    run = attempt.run
    reports = ReportStore(attempt.context.artifacts)
    record = MeasurementRecord(**measured, kind=run.kind, recipe=recipe.name)
    reports.put(run.app_id, run.engine_id, run.run_id, record)
    # After the new one is stored, so that a crash between leaves one too many and not one too few.
    reports.delete_old_runs(run.app_id, run.engine_id, KEPT_REPORTS)
