"""Pages of interleaving: the form of its two sides, and the report of the side that users prefer."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from deployments.console.argument_form import arguments_from_form, list_inputs
from deployments.console.page import FormPage, Page
from deployments.console.pages.experiments import INTERLEAVING, NEXT_STEPS
from deployments.console.request import ConsoleRequest
from deployments.operations.insight.interleaving import InterleaveSides, InterleavingView

NEW = "/apps/{app_id}/interleavings/new"
IN_ADDRESS = frozenset({"app_id"})


async def show_sides(request: ConsoleRequest) -> Response:
    """Show the form of a new interleaving."""
    return request.page("experiments/sides.html", inputs=list_inputs(InterleaveSides, exclude=IN_ADDRESS))


async def start_interleaving(request: ConsoleRequest) -> Response:
    """Start an interleaving from the form."""
    given = arguments_from_form(InterleaveSides, request.form, exclude=IN_ADDRESS)
    started = await request.perform("experiments.interleave", **given)
    experiment = started.experiment
    values = {"interleaving": experiment.experiment_id, "name": experiment.name, "status": started.status}
    return request.redirect(INTERLEAVING, "experiments.changed", **values)


async def show_interleaving(request: ConsoleRequest) -> Response:
    """Show which side users prefer, and the steps that an interleaving can take."""
    view: InterleavingView = await request.perform(
        "experiments.interleaving", experiment=request.path["interleaving"]
    )
    experiment = view.report.experiment
    stage = experiment.status_at(view.now_ms)
    return request.page(
        "experiments/interleaving.html",
        one=experiment,
        stage=stage,
        report=view.report,
        rows=list_sides(view),
        bar=share_bar(view),
        steps=NEXT_STEPS[stage],
        promotion=view.promotion,
    )


def list_sides(view: InterleavingView) -> list[tuple[str, int, int, bool]]:
    """Return name, clicks, days won, and whether it is better, of each side."""
    report = view.report
    result = view.report.result
    first, second = report.experiment.variants
    return [
        (first.name, result.first_clicks, result.first_wins, report.better == first.slug),
        (second.name, result.second_clicks, result.second_wins, report.better == second.slug),
    ]


def share_bar(view: InterleavingView) -> dict[str, Any]:
    """Return where the interval of the share begins, how wide it is, and its value, in percent of the width."""
    share = view.report.result.share
    return {
        "left": round(share.low * 100, 2),
        "width": round(max((share.high - share.low) * 100, 0.4), 2),
        "point": round(share.value * 100, 2),
    }


PAGES = (
    Page(NEW, show_sides, role="editor"),
    FormPage(NEW, start_interleaving, role="editor"),
    Page(INTERLEAVING, show_interleaving, example="-"),
)
