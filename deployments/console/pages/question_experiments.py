"""The page of an experiment whose unit is the question of an agent of the archive."""

from __future__ import annotations

from starlette.responses import Response

from deployments.console.page import Page
from deployments.console.pages.experiments import NEXT_STEPS, QUESTIONS
from deployments.console.request import ConsoleRequest
from deployments.operations.insight.archive.question_experiments import QuestionExperimentView


async def show_questions(request: ConsoleRequest) -> Response:
    """Show the visits for each question by variant, and the steps that the experiment can take."""
    view: QuestionExperimentView = await request.perform(
        "experiments.questions", experiment=request.path["question_experiment"]
    )
    experiment = view.report.experiment
    stage = experiment.status_at(view.now_ms)
    return request.page(
        "experiments/question_report.html",
        one=experiment,
        stage=stage,
        report=view.report,
        steps=NEXT_STEPS[stage],
    )


PAGES = (Page(QUESTIONS, show_questions, role="analyst", example="-"),)
