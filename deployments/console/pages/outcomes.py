"""What followed from the lists that people got, as charts and a table, and as a file."""

from __future__ import annotations

from typing import Any, get_args

from starlette.responses import Response

from cluster.records.field_types.times import moment_ms
from deployments.console.page import NavigationEntry, Page
from deployments.console.pages.experiments import place_intervals
from deployments.console.renderer import file_response
from deployments.console.request import ConsoleRequest
from deployments.operations.insight.outcome_report import UNKNOWABLE, OutcomeGroup, OutcomeReport
from deployments.operations.insight.outcome_sums import Dimension
from deployments.operations.insight.outcomes import MEDIA_TYPES, write_report

OUTCOMES = "/apps/{app_id}/outcomes"
SPANS = ("24h", "7d", "30d", "90d")


async def show_outcomes(request: ConsoleRequest) -> Response:
    """Show the outcomes of a period by one dimension."""
    since, by = _read_choice(request)
    report = await request.perform("outcomes.report", since=since, by=by)
    days = await request.perform("outcomes.report", since=since, by="day")
    text = request.services.text
    charts = [
        _draw(days, text("outcomes.ctr_by_day"), "%", lambda group: 100 * group.ctr.value),
        _draw(days, text("outcomes.revenue_by_day"), days.currency, lambda group: group.revenue.value),
    ]
    if by == "place":
        charts.append(_draw(report, text("outcomes.ctr_by_place"), "%", lambda group: 100 * group.ctr.value))
    return request.page(
        "outcomes/outcomes.html",
        report=report,
        since=since,
        by=by,
        spans=SPANS,
        note=UNKNOWABLE,
        dimensions=[(name, text(f"outcomes.by.{name}")) for name in get_args(Dimension)],
        charts=[chart for chart in charts if len(chart["x"]) > 1],
        most=max((_end(group) for group in report.groups), default=0.0) or 1.0,
        differences=_place_differences(report),
        totals=_compare_totals(request, report.total),
    )


async def download_outcomes(request: ConsoleRequest) -> Response:
    """Return the rows of the report as a file."""
    since, by = _read_choice(request)
    form = "parquet" if request.query.get("form") == "parquet" else "csv"
    report = await request.perform("outcomes.report", since=since, by=by)
    return file_response(write_report(report, form), f"outcomes-{by}.{form}", MEDIA_TYPES[form])


def _end(group: OutcomeGroup) -> float:
    return group.ctr.value if group.ctr.high is None else group.ctr.high


def _place_differences(report: OutcomeReport) -> dict[str, dict[str, float]]:
    """Return where the differences to the first group lie; empty for days and places, which nobody chooses."""
    if report.by in ("day", "place"):
        return {}
    compared = [(group.group, group.ctr_to_first) for group in report.groups]
    return place_intervals(
        {
            name: (figure.low, figure.value, figure.high)
            for name, figure in compared
            if figure is not None and figure.low is not None and figure.high is not None
        }
    )


def _read_choice(request: ConsoleRequest) -> tuple[str, str]:
    since = request.query.get("since", "7d")
    by = request.query.get("by", "engine")
    return since if since in SPANS else "7d", by if by in get_args(Dimension) else "engine"


def _compare_totals(request: ConsoleRequest, total: OutcomeGroup) -> list[tuple[str, float, float | None]]:
    text = request.services.text
    if total.ctr.before is None:
        return []
    return [
        (text("outcomes.revenue"), total.revenue.value, total.revenue.before),
        (text("outcomes.per_1000"), total.revenue_per_1000.value, total.revenue_per_1000.before),
        (f"{text('outcomes.ctr')}, %", 100 * total.ctr.value, 100 * total.ctr.before),
        (
            f"{text('outcomes.conversion')}, %",
            100 * total.conversion.value,
            None if total.conversion.before is None else 100 * total.conversion.before,
        ),
    ]


def _draw(report: OutcomeReport, label: str, unit: str, read: Any) -> dict[str, Any]:
    """Return a chart with a line over days or places."""
    is_time = report.by == "day"
    return {
        "label": label,
        "x": [
            moment_ms(f"{group.group}T00:00") // 1000 if is_time else int(group.group)
            for group in report.groups
        ],
        "series": [
            {"label": label, "values": [round(read(group), 2) for group in report.groups], "kind": "line"}
        ],
        "time": is_time,
        "unit": unit,
    }


PAGES = (
    Page(OUTCOMES, show_outcomes, role="analyst"),
    Page(OUTCOMES + "/file", download_outcomes, role="analyst", example="-"),
)
NAVIGATION = (NavigationEntry("outcomes.nav", OUTCOMES, role="analyst", icon="model"),)
