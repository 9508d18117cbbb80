"""Copies of ended runs in MLflow: parameters, figures, lineage and reports, if `MLFLOW_TRACKING_URI` is set.

    experiment   `<app>/<engine>`
    run          the id of our run; an attempt that repeats the copy changes nothing
    parameters   the recipe, a field each: `parts.rules.half_life_days`
    metrics      figures of all users, and `<segment>/<figure>`; `@` becomes `_at_`, which MLflow allows
    tags         lineage: release, code, snapshot, test, who ordered it
    artifacts    `report.json`, `report.md` and the charts

Credentials are MLflow's own: its `MLFLOW_TRACKING_*` variables, or `~/.mlflow/credentials`.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cluster.errors import KioskError, Unavailable
from cluster.records.run import Run
from jobs.refresh.evaluation.plots import draw_reports, render_svg
from jobs.refresh.evaluation.report_models import EvaluationReport, MeasurementRecord
from jobs.refresh.evaluation.reports import list_curve_points, markdown_from_reports

URI_VARIABLE = "MLFLOW_TRACKING_URI"

_MOST_PARAMETERS = 200
_LONGEST_VALUE = 500
"Both are limits of servers of MLflow 1; newer ones take more."
_PATIENCE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}
_STATUS = {"finished": "FINISHED", "failed": "FAILED", "cancelled": "KILLED"}
_TAG = "kiosk.run"


def track_run(run: Run, report: EvaluationReport | MeasurementRecord | None, uri: str) -> str:
    """Copy an ended run and its report to a tracking server; return the id of the copy.

    Errors:
        Unavailable: MLflow is not installed, or its server refuses or does not answer
    """
    for name, value in _PATIENCE.items():
        # An operator's own values win.
        os.environ.setdefault(name, value)
    try:
        import mlflow
    except ImportError as error:
        raise Unavailable(
            "MLflow is not installed; `pip install 'kiosk[mlflow]'` or unset " + URI_VARIABLE
        ) from error
    try:
        return _copy(mlflow.MlflowClient(tracking_uri=uri), run, report)
    except KioskError:
        raise
    except Exception as error:
        # whatever a server, a proxy or a plugin of MLflow raises; the run itself has ended well
        raise Unavailable(
            f"MLflow did not take the run: {type(error).__name__}: {str(error)[:200]}"
        ) from error


def _copy(client: Any, run: Run, report: EvaluationReport | MeasurementRecord | None) -> str:
    from mlflow.entities import Metric, Param

    experiment_id = _open_experiment(client, f"{run.app_id}/{run.engine_id}")
    present = client.search_runs([experiment_id], f"tags.`{_TAG}` = '{run.run_id}'", max_results=1)
    # Copied before: a repeated attempt changes nothing.
    if present and present[0].info.status != "RUNNING":
        return str(present[0].info.run_id)
    # A copy that was interrupted is continued; parameters and metrics may be sent twice.
    if present:
        copy = present[0]
    else:
        name = run.version or run.run_id
        copy = client.create_run(experiment_id, run.started_at or run.created_at, {_TAG: run.run_id}, name)
    run_id = str(copy.info.run_id)
    at_ms = run.finished_at or int(time.time() * 1000)
    metrics = [Metric(name, value, at_ms, 0) for name, value in list_metrics(run, report)]
    parameters = [Param(name, value[:_LONGEST_VALUE]) for name, value in flatten_recipe(run.recipe)]
    for first in range(0, len(metrics), 500):
        client.log_batch(run_id, metrics=metrics[first : first + 500])
    # MLflow takes at most 100 parameters in one batch.
    client.log_batch(run_id, params=parameters[:_MOST_PARAMETERS][:100])
    client.log_batch(run_id, params=parameters[:_MOST_PARAMETERS][100:])
    for name, value in list_tags(run):
        client.set_tag(run_id, name, value)
    if report is not None:
        with tempfile.TemporaryDirectory() as folder:
            _write_artifacts(Path(folder), run, report)
            client.log_artifacts(run_id, folder)
    client.set_terminated(run_id, _STATUS[run.status], run.finished_at)
    return run_id


def _open_experiment(client: Any, name: str) -> str:
    present = client.get_experiment_by_name(name)
    if present is None:
        return str(client.create_experiment(name))
    if present.lifecycle_stage != "active":
        raise Unavailable(f"the experiment {name} is deleted in MLflow; restore it there")
    return str(present.experiment_id)


def flatten_recipe(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of a recipe as name and text: `blend.weights.rules`, `0.9`."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from flatten_recipe(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, str):
        yield path, value
    elif value is not None:
        yield path, json.dumps(value)


def list_metrics(run: Run, report: EvaluationReport | MeasurementRecord | None) -> list[tuple[str, float]]:
    """Return the figures of a run: of all users, of each segment, and seconds of each stage."""
    metrics = [(name, float(value)) for name, value in run.figures.items()]
    for each in _reports(report):
        prefix = f"{each.protocol}/" if each.protocol else ""
        for segment in each.segments:
            group = prefix + segment.name
            metrics += [(f"{group}/{name}", figure.mean) for name, figure in segment.figures.items()]
            metrics.append((f"{group}/users", float(segment.users)))
        metrics += _list_evidence(each, prefix)
        if each.gini is not None:
            metrics.append((f"{prefix}gini", each.gini))
    metrics += [(f"seconds/{stage.name}", stage.seconds) for stage in run.stages]
    # MLflow allows no @ in names.
    return [(name.replace("@", "_at_"), value) for name, value in metrics]


def _list_evidence(report: EvaluationReport, prefix: str) -> Iterator[tuple[str, float]]:
    """Yield corrected p of the paired tests, the calibration error, and the points of the learning curve."""
    for row in () if report.tests is None else report.tests.rows:
        yield f"{prefix}p/{row.against}/{row.figure}", row.p_corrected
    if report.calibration is not None:
        yield f"{prefix}calibration_error", report.calibration.error
        yield f"{prefix}brier", report.calibration.brier
    if report.learning_curve is not None:
        for label, point in list_curve_points(report.learning_curve):
            name = label.replace(" ", "_").replace("%", "_percent")
            yield f"{prefix}learning_curve/{name}", point.mean


def list_tags(run: Run) -> list[tuple[str, str]]:
    """Return where a run comes from and what became of it."""
    facts = {stage.name: stage.facts for stage in run.stages}.get("dataset", {})
    tags = {
        "kiosk.kind": run.kind,
        "kiosk.snapshot": run.version,
        "kiosk.promoted": str(run.promoted).lower() if run.version else "",
        "kiosk.by": run.by,
        "kiosk.code": run.code,
        "kiosk.verdict": run.verdict,
        "kiosk.test": str(run.split.get("sentence", "")),
        "kiosk.data": json.dumps(facts) if facts else "",
        "mlflow.note.content": run.error or run.chosen,
    }
    return [(name, value[:5_000]) for name, value in tags.items() if value]


def _reports(report: EvaluationReport | MeasurementRecord | None) -> list[EvaluationReport]:
    """Return the reports with segments: one of a training, several of an evaluation."""
    several = report.reports if isinstance(report, MeasurementRecord) else [report]
    return [each for each in several if isinstance(each, EvaluationReport) and each.segments]


def _write_artifacts(folder: Path, run: Run, report: EvaluationReport | MeasurementRecord) -> None:
    (folder / "report.json").write_text(json.dumps(report.to_dict(), indent=2))
    if not (reports := _reports(report)):
        return
    (folder / "report.md").write_text(markdown_from_reports(reports, f"{run.app_id}/{run.engine_id}"))
    for name, chart in draw_reports(reports).items():
        (folder / f"{name}.svg").write_text(render_svg(chart))
