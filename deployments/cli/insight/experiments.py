"""`kiosk experiments`: make experiments, lead them through their lives, and read what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from actors.experiments.goal_report import GoalReport
from actors.experiments.report import ExperimentReport, VariantReport
from actors.experiments.statistics import EffectEstimate
from cluster.clock import iso_ms
from deployments.cli.framework import screen
from deployments.cli.framework.chart_files import BAR_COLOUR, WIDTH, Forms, build_bar_chart, write_charts
from deployments.cli.framework.installation import Installation
from deployments.cli.framework.operation_commands import OperationCommand, add_commands
from deployments.operations.insight import experiment_plan, experiments, interleaving
from deployments.operations.insight.archive import question_experiments
from jobs.refresh.evaluation.plots import BarChart, PlotBox, PlotLabel

app = typer.Typer(help="Experiments: which variant works.", no_args_is_help=True)

CREATE_EPILOG = """
[bold]Examples[/]

  kiosk experiments create development paywall.json
  kiosk experiments create development -             read standard input

The file holds one experiment, an array, or an object with "experiments". The first variant is the control:

  {"name": "Paywall", "goal": \\["subscribe"], "variants": \\[{"name": "three"}, {"name": "five", "weight": 2}]}

Also: slug, traffic (0 to 1), layer and slice (\\[0, 0.5]), engines. A variant may have a configuration for your own
code, or engine_id, snapshot or boost_rule, which recommendations and completions then obey by themselves. Give such a
rule a tag, or it applies to everybody. Variants that serve the same start only with "reports_exposure": true, which
says that your own code reports who met a variant.
"""
REPORT_EPILOG = """
[bold]Examples[/]

  kiosk experiments report development paywall
  kiosk experiments report development paywall --json
  kiosk experiments report development paywall --charts ./charts

Read it as often as you like: the intervals hold for all looks together.
"""

INTERLEAVE_EPILOG = """
[bold]Examples[/]

  kiosk experiments interleave development "New weights" --snapshot 3f2a
  kiosk experiments interleave development "Blue" --rival-engine blue
  kiosk experiments interleaving development new-weights      read it
  kiosk experiments complete development new-weights          end it

Both sides fill the same lists by turns, and clicks decide. Read it as often as you like.
"""
EDIT_EPILOG = """
[bold]Examples[/]

  kiosk experiments edit development paywall --traffic 0.8
  kiosk experiments edit development paywall --weight three=1 --weight five=3
  kiosk experiments edit development paywall --weight five=0          takes nobody new
  kiosk experiments edit development paywall --until 2026-12-15T08:00:00Z

While it runs: name, end, weights, and traffic upwards. Everything else only of a draft. After a change of weights the
report counts the people who met it since.
"""

PLAN_EPILOG = """
[bold]Examples[/]

  kiosk experiments plan development --relative-lift 0.05                   checkouts, as in the last two weeks
  kiosk experiments plan development --relative-lift 0.05 --goal revenue
  kiosk experiments plan development --relative-lift 0.1 --rate 0.04 --people-per-day 2000
  kiosk experiments plan development --relative-lift 0.1 --mean 3.2 --spread 14 --correlation 0.5

Figures that you leave out are measured. The report may be read every day, so it needs more people than a test that is
read once.
"""

COMMANDS = (
    OperationCommand(
        "create", "experiments.create", CREATE_EPILOG, {"experiments": "FILE"}, {"created": "experiments"}
    ),
    OperationCommand(
        "interleave", "experiments.interleave", INTERLEAVE_EPILOG, {"name": "NAME", "engine_id": "--engine"}
    ),
    OperationCommand("interleaving", "experiments.interleaving"),
    OperationCommand("questions", "experiments.questions"),
    OperationCommand("list", "experiments.list"),
    OperationCommand("show", "experiments.get"),
    OperationCommand("start", "experiments.start"),
    OperationCommand("schedule", "experiments.schedule", options={"starts_at": "--at", "ends_at": "--until"}),
    OperationCommand(
        "edit",
        "experiments.edit",
        EDIT_EPILOG,
        {"weights": "--weight", "guardrails": "--guardrail", "ends_at": "--until"},
    ),
    OperationCommand("pause", "experiments.pause"),
    OperationCommand("complete", "experiments.complete"),
    OperationCommand("archive", "experiments.archive"),
    OperationCommand("plan", "experiments.plan", PLAN_EPILOG),
)
add_commands(app, COMMANDS, experiments, experiment_plan, interleaving, question_experiments)


@app.command("report", epilog=REPORT_EPILOG)
def report_experiment(
    name: Annotated[str, typer.Argument(metavar="APP", help="The app.")],
    experiment: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="Id or slug.")],
    charts: Annotated[Path | None, typer.Option(help="Folder for chart files.", metavar="DIR")] = None,
    forms: Forms = "svg",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Report what came of it: conversions, the split, latency and errors. No person is named."""
    report: ExperimentReport = Installation().perform(
        "experiments.report", app_id=name, experiment=experiment
    )
    files = write_charts(charts, build_charts(report)) if charts is not None else []
    if as_json:
        screen.print_json({"app_id": name, **report.to_dict(), "charts": [str(path) for path in files]})
        return
    show_report(report)
    for path in files:
        screen.print_lines(str(path))


_LEFT = 200
_RIGHT = 40
_TOP = 80
_ROW = 34


def show_report(report: ExperimentReport) -> None:
    """Show a report: conversions, guardrails, and what is wrong with the split."""
    out = screen.out()
    out.print(screen.quote_text(f"{report.experiment.name}: {', '.join(report.experiment.goal)}\n"))
    table = screen.build_table(
        "variant", "users", "converted", "rate", "difference", "95% CI (sequential)", "verdict"
    )
    for line in report.lines:
        table.add_row(
            screen.quote_text(line.variant.slug),
            f"{line.people:,}",
            f"{line.converted:,}",
            f"{line.rate:.2%}",
            "" if line.lift is None else f"{line.lift.value:+.2%}",
            _format_interval(line.lift),
            _format_verdict(line),
        )
    out.print(table, "")
    if report.settling:
        is_single = report.settling == 1
        out.print(
            f"{report.settling:,} more conversion{'' if is_single else 's'} {'is' if is_single else 'are'} settling "
            "and will be counted within a minute.\n"
        )
    if report.experiment.weights_at:
        out.print(
            f"Counted: who met it since the weights were changed, {iso_ms(report.experiment.weights_at)}.\n"
        )
    if any(line.served.requests for line in report.lines):
        table = screen.build_table("variant", "requests", "failed", "p50 ms", "p95 ms", "against the control")
        for line in report.lines:
            served = line.served
            table.add_row(
                screen.quote_text(line.variant.slug),
                f"{served.requests:,}",
                f"{served.failed:,}",
                f"{served.p50_ms or '-'}",
                f"{served.p95_ms or '-'}",
                _format_guardrails(line),
            )
        out.print(table, "")
    for title, goals in (("goal", report.goals), ("segment", report.segments)):
        if goals:
            out.print(build_goal_table(title, report, goals), "")
    if report.goals:
        out.print(
            "The primary goal decides by its interval; the verdicts of the others are corrected for their number.\n"
        )
    if report.experiment.paused_by:
        out.print(screen.quote_text(f"Paused by the guardrail {report.experiment.paused_by}.\n"))
    split = report.split
    if split.mismatch:
        where = f"; it comes from {split.slice} (p = {split.slice_p_value:.2g})" if split.slice else ""
        out.print(f"The split is not as intended (p = {split.p_value:.2g}){where}. Trust none of the above.")
    else:
        out.print(f"Traffic split is healthy (p = {split.p_value:.2g}).")
    forced = sum(line.forced for line in report.lines)
    if forced:
        out.print(f"{forced:,} people whose variant was chosen by name are left out.")


def build_goal_table(
    title: str, report: ExperimentReport, goals: Sequence[GoalReport]
) -> screen.ResponsiveTable:
    """Return a table of goals, or of the parts of segments, with a row for each variant."""
    names = {variant.variant_id: variant.slug for variant in report.experiment.variants}
    table = screen.build_table(
        title, "variant", "users", "mean", "difference", "95% CI (sequential)", "adjusted p", "verdict"
    )
    for goal in goals:
        what = f"{goal.segment} {goal.part}" if goal.segment else goal.goal.name
        for side in goal.variants:
            lift = side.lift
            p_value = side.adjusted_p_value
            interval = "" if lift is None else "not enough yet"
            if lift is not None and isfinite(lift.low):
                interval = f"{lift.low:+.4g} to {lift.high:+.4g}"
            table.add_row(
                screen.quote_text(f"{what}{' (primary)' if goal.is_primary else ''}"),
                screen.quote_text(names[side.variant_id]),
                f"{side.people:,}",
                f"{side.mean:.4g}",
                "" if lift is None else f"{lift.value:+.4g}",
                interval,
                "" if p_value is None else f"{p_value:.2g}",
                side.verdict,
            )
    return table


def build_charts(report: ExperimentReport) -> dict[str, BarChart]:
    """Draw a report, one chart a question."""
    people = [(line.variant.slug, line.people) for line in report.lines]
    converted = [(line.variant.slug, line.converted) for line in report.lines]
    days = [(day, sum(counts.values())) for day, counts in report.days.items()]
    note = report.experiment.name
    return {
        "people": build_bar_chart("People by variant", people, note),
        "converted": build_bar_chart("Converted people by variant", converted, note),
        "days": build_bar_chart("People by day", days[-60:], note),
        "difference": build_interval_chart(
            "Difference to the control, for all looks", report.lines[1:], note
        ),
    }


def build_interval_chart(title: str, lines: Sequence[VariantReport], note: str) -> BarChart:
    """Draw an interval a line around a common zero; words replace an endless one."""
    chart = BarChart(_TOP + _ROW * max(1, len(lines)) + 40, width=WIDTH, title=title)
    chart.shapes += [PlotLabel(24, 30, title, size=18), PlotLabel(24, 50, note)]
    ends = [
        abs(end)
        for line in lines
        if line.lift is not None
        for end in (line.lift.low, line.lift.high)
        if isfinite(end)
    ]
    # Without finite ends there is nothing to scale by.
    reach = max(ends, default=0) or 1.0
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    room = (WIDTH - _LEFT - _RIGHT) / 2
    bottom = _TOP + _ROW * max(1, len(lines))
    chart.shapes.append(PlotBox(middle - 0.5, _TOP - 8, 1, bottom - _TOP + 8, BAR_COLOUR))
    for words, x in ((f"{-reach:+.2%}", middle - room), ("0", middle), (f"{reach:+.2%}", middle + room)):
        chart.shapes.append(PlotLabel(x, bottom + 18, words, "end" if x > middle else "start", 11))
    for at, line in enumerate(lines):
        y = _TOP + at * _ROW
        chart.shapes.append(PlotLabel(_LEFT - 10, y + 16, line.variant.slug[:24], "end", 13))
        if line.lift is None or not isfinite(line.lift.low):
            chart.shapes.append(PlotLabel(_LEFT, y + 16, "not enough people yet"))
            continue
        left, right = (middle + room * end / reach for end in (line.lift.low, line.lift.high))
        point = middle + room * line.lift.value / reach
        chart.shapes += [
            PlotBox(left, y + 11, max(right - left, 1), 2, BAR_COLOUR),
            PlotBox(point - 3, y + 7, 6, 10, BAR_COLOUR),
        ]
    return chart


def _format_interval(lift: EffectEstimate | None) -> str:
    if lift is None:
        return ""
    return f"{lift.low:+.2%} to {lift.high:+.2%}" if isfinite(lift.low) else "not enough yet"


def _format_guardrails(line: VariantReport) -> str:
    """Say which guardrails a variant breaks."""
    if line.lift is None:
        return "control"
    return f"worse: {', '.join(line.broken)}" if line.broken else "not worse so far"


def _format_verdict(line: VariantReport) -> str:
    if line.lift is None:
        return "control"
    if not line.lift.decided:
        return "open"
    return "better" if line.lift.value > 0 else "worse"
