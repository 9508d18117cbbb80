"""Reports that earlier releases stored load into the models, and their JSON stays what it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Fault
from jobs.refresh.data.split import leave_last_out
from jobs.refresh.evaluation.plots import draw_reports
from jobs.refresh.evaluation.report_models import EvaluationReport, MeasurementRecord, ReportModel
from jobs.refresh.evaluation.report_store import FOLDER, ReportStore
from jobs.refresh.evaluation.reports import markdown_from_reports
from jobs.refresh.runs.measurements.sweep import SweepReport
from jobs.refresh.runs.plan_evaluation import add_reranker_outcome, evaluate_plan, plan_training
from tests.unit.jobs.refresh.tuning.test_two_choices import habits, recipe_of

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded_reports.json").read_text())


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("training", EvaluationReport),
        ("training of 0.1.0", EvaluationReport),
        ("variant", SweepReport),
        ("evaluation", MeasurementRecord),
        ("sweep", MeasurementRecord),
    ],
)
def test_a_recorded_report_is_written_again_as_it_was(name: str, model: type[ReportModel]) -> None:
    recorded = json.dumps(RECORDED[name], indent=2)
    loaded = model.model_validate_json(recorded)
    assert json.dumps(loaded.to_dict(), indent=2) == recorded
    assert not _list_unknown_fields(loaded)


def test_a_report_of_an_early_release_has_text_and_pictures() -> None:
    report = EvaluationReport.model_validate(RECORDED["training of 0.1.0"])
    assert "| popularity |" in markdown_from_reports([report], "shop/default")
    assert set(draw_reports([report])) == {"auto-figures", "auto-segments"}


def test_a_field_of_a_later_release_is_kept() -> None:
    later = {**RECORDED["training"], "surprise": {"mean": 0.5}}
    assert EvaluationReport.model_validate(later).to_dict() == later


def test_a_new_report_has_the_fields_of_the_recorded_one_in_their_order() -> None:
    split = leave_last_out(habits(), seen="allowed")
    report = evaluate_plan(plan_training(recipe_of(), habits(), split), split.test)
    report = add_reranker_outcome(report, "reranker", {"kept": True, "sentence": "is in"})
    facts = report.model_copy(update={"run_id": "run-7"}).to_dict()
    assert list(facts) == list(RECORDED["training"])


def test_a_damaged_report_is_a_fault(tmp_path: Path) -> None:
    artifacts = ArtifactStore.open(tmp_path)
    for number, body in enumerate((b"{", b"[]", b'{"segments": 3}')):
        artifacts.write(f"{FOLDER}/shop/default/v{number}.json", body)
        with pytest.raises(Fault, match="report is damaged"):
            ReportStore(artifacts).get("shop", "default", f"v{number}")
    assert ReportStore(artifacts).get("shop", "default", "absent") is None


def _list_unknown_fields(value: object) -> list[str]:
    """Return the fields of a report and its parts that no model names."""
    if isinstance(value, ReportModel):
        unknown = [f"{type(value).__name__}.{name}" for name in value.model_extra or ()]
        return unknown + [name for _, inner in value for name in _list_unknown_fields(inner)]
    if isinstance(value, dict):
        return [name for inner in value.values() for name in _list_unknown_fields(inner)]
    if isinstance(value, list):
        return [name for inner in value for name in _list_unknown_fields(inner)]
    return []
