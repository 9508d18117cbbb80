"""What `kiosk train` prints of a run that ended, and when its exit code stops a pipeline."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.records.run import Run
from deployments.cli.training.train import is_failure, run_to_dict, show_run
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.runs.plan_evaluation import report_without_interactions

VERSION = "c6afd147b3db7535"
REFUSED = f"{VERSION} was not promoted, it is certainly worse: ndcg@10 0.0321 against 0.3324 of what serves"


def _run(**fields: Any) -> Run:
    return Run(
        app_id="bookshop", run_id="run-1", engine_id="default", recipe={}, created_at=0, by="a test",
        **{"status": "finished", "version": VERSION, **fields},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "failed"),
    [
        ({}, False),
        ({"promote": True, "promoted": True}, False),
        ({"promote": True, "promoted": False}, True),
        ({"status": "failed"}, True),
        ({"status": "cancelled"}, True),
        ({"status": "queued", "promote": True}, False),
    ],
)
def test_a_pipeline_stops_when_the_requested_version_does_not_serve(
    fields: dict[str, Any], failed: bool
) -> None:
    assert is_failure(_run(**fields)) is failed


def test_a_refusal_of_the_gate_names_what_would_pass_it(capsys: pytest.CaptureFixture[str]) -> None:
    show_run(_run(promote=True, verdict=REFUSED), as_json=False)
    output = capsys.readouterr().out
    assert f"{VERSION} was not promoted" in output.replace("\n", " ")
    assert f'kiosk promote bookshop {VERSION} --engine default --force "..."' in output
    assert "Let it serve: kiosk promote" not in output


def test_a_training_without_promotion_names_the_command_to_promote(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_run(_run(figures={"ndcg@10": 0.3}, verdict="certainly better: x"), as_json=False)
    output = capsys.readouterr().out
    assert "Certainly better: x" in output
    assert f"Let it serve: kiosk promote bookshop {VERSION}" in output.replace("\n", " ")


def test_a_training_without_interactions_does_not_propose_to_promote(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = report_without_interactions(load_recipe_file("shop"))
    assert report.verdict is not None
    show_run(_run(figures=report.figures, verdict=report.verdict.sentence), as_json=False)
    printed = capsys.readouterr().out
    assert "No interactions have settled" in printed
    assert "there is no reason to promote it yet" in printed
    assert "kiosk promote" not in printed


def test_what_came_of_each_part_stands_below_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = "chosen: rules 1; counts adds nothing and is left out"
    parts = ({"part": "counts", "learner": "mine:Counts", "outcome": "adds_nothing", "reason": "no gain"},)
    run = _run(figures={"ndcg@10": 0.3}, chosen=chosen, parts=parts, verdict="certainly better: x")
    show_run(run, as_json=False)
    output = capsys.readouterr().out.replace("\n", " ")
    assert "Chosen: rules 1; counts adds nothing and is left out" in output
    assert output.index("0.3000") < output.index("Chosen") < output.index("Certainly better")
    assert "kiosk runs show bookshop run-1" in output
    assert run_to_dict(run)["chosen"] == chosen
    assert run_to_dict(run)["parts"][0]["outcome"] == "adds_nothing"
