"""The use case that reads an experiment whose unit is the question of an agent of the archive.

`experiments.create` makes one with the method `question`; it is started, paused, completed and edited like any other.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from actors.experiments.question_report import QuestionReport, build_question_report
from cluster.records.experiment import Experiment
from deployments.operations.framework.operation import operation
from deployments.operations.framework.result_table import ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices
from deployments.operations.insight.archive.readership import load_calls
from deployments.operations.insight.experiments import OfExperiment, read_report


@dataclass(frozen=True, slots=True)
class QuestionExperimentView:
    """What came of an experiment, at a time."""

    report: QuestionReport
    now_ms: int

    def to_dict(self) -> dict[str, Any]:
        return {**self.report.to_dict(), "status": self.report.experiment.status_at(self.now_ms)}

    def to_lines(self) -> ResultLines:
        """Return what the command line prints."""
        rows = []
        for line in self.report.variants:
            effect = line.effect
            reach = (
                "-" if effect is None else f"{effect.value:+.4f} ({effect.low:+.4f} to {effect.high:+.4f})"
            )
            questions = f"{line.sample.users:,}"
            visits = f"{line.sample.total:,.0f}"
            rows.append((line.variant.slug, questions, visits, f"{line.sample.mean:.4f}", reach))
        experiment = self.report.experiment
        verdict = f"{self.report.better} is better." if self.report.better else "It is open which is better."
        return (
            f"{experiment.name}, {experiment.status_at(self.now_ms)}",
            ResultTable(("variant", "questions", "visits", "visits per question", "difference"), rows),
            f"The intervals hold at all looks together. {verdict}",
        )


@operation("experiments.questions", "GET", "/apps/{app_id}/question-experiments/{experiment}", "analyst")
async def report_questions(services: AdminServices, given: OfExperiment) -> QuestionExperimentView:
    """Report the visits of articles for each question of agents, by variant. No person is named.

    Errors:
        NotFound: no such app or experiment; Invalid: its unit is not the question of an agent
    Cost:
        reads and counts in another thread, once in 30 seconds
    """
    report = await read_report(
        services, given, "question", lambda experiment: _load_report(services, experiment)
    )
    return QuestionExperimentView(report, services.now_ms())


async def _load_report(services: AdminServices, experiment: Experiment) -> QuestionReport:
    since_ms = max(experiment.created_at, experiment.weights_at)
    _, rows = await load_calls(services, experiment.app_id, since_ms)
    return await asyncio.to_thread(build_question_report, experiment, rows)
