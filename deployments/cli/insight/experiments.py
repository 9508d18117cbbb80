"""`kiosk experiments`: make experiments, lead them through their lives, and read what came of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from actors.experiments.lifecycle import parse_drafts
from actors.experiments.report import ExperimentReport, VariantReport
from actors.experiments.statistics import EffectEstimate
from cluster.clock import iso_ms
from cluster.errors import Invalid, Malformed
from cluster.records.experiment import Experiment, Variant
from cluster.records.times import moment_ms
from cluster.records.validation.json_limits import load_json
from deployments.cli.frame import screen
from deployments.cli.frame.charts import BAR_COLOUR, WIDTH, build_bar_chart, write_charts
from deployments.cli.frame.installation import Installation
from deployments.operations.insight.experiments import ExperimentDetails, ExperimentList
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

EDIT_EPILOG = """
[bold]Examples[/]

  kiosk experiments edit development paywall --traffic 0.8
  kiosk experiments edit development paywall --weight three=1 --weight five=3
  kiosk experiments edit development paywall --weight five=0          takes nobody new
  kiosk experiments edit development paywall --until 2026-12-15T08:00:00Z

While it runs: name, end, weights, and traffic upwards. Everything else only of a draft. After a change of weights the
report counts the people who met it since.
"""

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Name = Annotated[str, typer.Argument(metavar="APP", help="The app.")]
Named = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="Id or slug.")]


@app.command("create", epilog=CREATE_EPILOG)
def create(
    name: Name,
    file: Annotated[str, typer.Argument(help="JSON file; - for standard input.")],
    as_json: AsJson = False,
) -> None:
    """Make experiments, all or none; they are drafts until they are started."""
    drafts = _items(file)
    made: ExperimentList = Installation().perform("experiments.create", app_id=name, experiments=drafts)
    if as_json:
        screen.print_json({"app_id": name, "created": made.to_dict()["experiments"]})
        return
    for one in made.experiments:
        screen.out().print(f"{one.slug} made, a draft; `kiosk experiments start {name} {one.slug}` starts it")


@app.command("list")
def list_experiments(name: Name, as_json: AsJson = False) -> None:
    """List the experiments of an app."""
    listed: ExperimentList = Installation().perform("experiments.list", app_id=name)
    if as_json:
        screen.print_json({"app_id": name, **listed.to_dict()})
        return
    show_list(listed.experiments, listed.now_ms)


@app.command("show")
def show(name: Name, experiment: Named, as_json: AsJson = False) -> None:
    """Show one experiment."""
    shown: ExperimentDetails = Installation().perform("experiments.get", app_id=name, experiment=experiment)
    if as_json:
        screen.print_json(shown.to_dict())
        return
    show_one(shown.experiment, shown.now_ms)


@app.command("start")
def start(name: Name, experiment: Named, as_json: AsJson = False) -> None:
    """Let it run from now on, also one that was paused. In force everywhere within a second."""
    _step(name, as_json, "start", experiment)


@app.command("schedule")
def schedule(
    name: Name,
    experiment: Named,
    at: Annotated[str, typer.Option(help="Moment, as 2026-12-01T08:00:00+01:00; no offset is UTC.")],
    until: Annotated[str, typer.Option(help="Moment at which it ends.")] = "",
    as_json: AsJson = False,
) -> None:
    """Let it run from a moment on; nobody has to be awake."""
    begins, ends = _moment(at, "--at"), _moment(until, "--until") if until else None
    _step(name, as_json, "schedule", experiment, starts_at=begins, ends_at=ends)


@app.command("edit", epilog=EDIT_EPILOG)
def edit(
    name: Name,
    experiment: Named,
    title: Annotated[str | None, typer.Option("--name", help="Another name.")] = None,
    traffic: Annotated[float | None, typer.Option(help="Share of the users, 0 to 1.")] = None,
    weight: Annotated[
        list[str] | None, typer.Option(help="Variant and weight, as blue=2; again for others.")
    ] = None,
    until: Annotated[str, typer.Option(help="Moment at which it ends.")] = "",
    goal: Annotated[str, typer.Option(help="Types of interactions, separated by commas.")] = "",
    layer: Annotated[str | None, typer.Option(help="Layer.")] = None,
    part: Annotated[str, typer.Option("--slice", help="Part of the layer, as 0,0.5.")] = "",
    reports_exposure: Annotated[
        bool | None,
        typer.Option(help="Your own code reports who met a variant; variants may serve the same."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change one, also while it runs; nobody who has a variant gets another."""
    wanted: dict[str, Any] = {
        "name": title,
        "traffic": traffic,
        "weights": _weights(weight or []) or None,
        "ends_at": _moment(until, "--until") if until else None,
        "goal": tuple(kind.strip() for kind in goal.split(",")) if goal else None,
        "layer": layer,
        "slice": _slice(part) if part else None,
        "reports_exposure": reports_exposure,
    }
    changes = {word: value for word, value in wanted.items() if value is not None}
    if not changes:
        raise Invalid("say what is to be changed; `kiosk experiments edit --help` lists it")
    edited: ExperimentDetails = Installation().perform(
        "experiments.edit", app_id=name, experiment=experiment, **changes
    )
    if as_json:
        screen.print_json(edited.to_dict())
        return
    show_one(edited.experiment, edited.now_ms)


@app.command("pause")
def pause(name: Name, experiment: Named, as_json: AsJson = False) -> None:
    """Pause an experiment; users keep their variants until it continues."""
    _step(name, as_json, "pause", experiment)


@app.command("complete")
def complete(name: Name, experiment: Named, as_json: AsJson = False) -> None:
    """End it for good."""
    _step(name, as_json, "complete", experiment)


@app.command("archive")
def archive(name: Name, experiment: Named, as_json: AsJson = False) -> None:
    """Put one away that is over or never began."""
    _step(name, as_json, "archive", experiment)


@app.command("report", epilog=REPORT_EPILOG)
def report_experiment(
    name: Name,
    experiment: Named,
    charts: Annotated[Path | None, typer.Option(help="Folder for chart files.", metavar="DIR")] = None,
    forms: Annotated[str, typer.Option(help="Forms of the chart files, separated by commas.")] = "svg",
    as_json: AsJson = False,
) -> None:
    """Report what came of it: conversions, the split, latency and errors. No person is named."""
    found: ExperimentReport = Installation().perform("experiments.report", app_id=name, experiment=experiment)
    wanted = [form.strip() for form in forms.split(",") if form.strip()]
    files = write_charts(charts, build_charts(found), wanted) if charts is not None else []
    if as_json:
        screen.print_json({"app_id": name, **found.to_dict(), "charts": [str(path) for path in files]})
        return
    show_report(found)
    for path in files:
        screen.print_lines(str(path))


def _step(name: str, as_json: bool, step: str, experiment: str, **more: Any) -> None:
    changed: ExperimentDetails = Installation().perform(
        f"experiments.{step}", app_id=name, experiment=experiment, **more
    )
    if as_json:
        screen.print_json(changed.to_dict())
        return
    screen.out().print(f"{changed.experiment.slug} of {name} is {changed.status}")


def _moment(text: str, option: str) -> int:
    try:
        return moment_ms(text)
    except ValueError:
        raise Invalid(f"{option}: {text!r} is no moment; write it as 2026-12-01T08:00:00Z") from None


def _weights(given: list[str]) -> dict[str, float]:
    found = {}
    for text in given:
        variant, mark, weight = text.rpartition("=")
        try:
            found[variant] = float(weight)
        except ValueError:
            mark = ""
        if not mark:
            raise Invalid(f"--weight: {text!r} is no variant and its weight; write it as blue=2")
    return found


def _slice(text: str) -> tuple[float, float]:
    try:
        first, last = (float(part) for part in text.split(","))
    except ValueError:
        raise Invalid(f"--slice: {text!r} is no part of a layer; write it as 0,0.5") from None
    return first, last


def _items(file: str) -> list[Any]:
    try:
        found = load_json(_bytes_of(file), refuse_duplicates=True)
    except Malformed as error:
        reason = error.facts["detail"][0]["msg"]
        raise Invalid(f"{file} is not what JSON should be: {reason}") from error
    drafts = parse_drafts(found)
    if drafts is None:
        raise Invalid(
            'there are no experiments in the file: one, an array of them, or {"experiments": [...]}'
        )
    return drafts


def _bytes_of(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise Invalid(f"{file} can't be read: {error.strerror}") from error


_LEFT, _RIGHT, _TOP, _ROW = 200, 40, 80, 34


def show_list(experiments: Sequence[Experiment], now_ms: int) -> None:
    """Show a table of experiments."""
    table = screen.build_table("experiment", "status", "variants", "traffic", "layer", "goal")
    for one in experiments:
        layer = f"{one.layer} {one.slice[0]:g} to {one.slice[1]:g}" if one.layer else ""
        variants = ", ".join(variant.slug for variant in one.variants)
        table.add_row(
            one.slug, one.status_at(now_ms), variants, f"{one.traffic:.0%}", layer, ", ".join(one.goal)
        )
    screen.out().print(
        table if experiments else "There are no experiments; `kiosk experiments create` makes some."
    )


def show_one(experiment: Experiment, now_ms: int) -> None:
    """Show one with its variants."""
    out = screen.out()
    out.print(screen.quote_text(f"{experiment.name} ({experiment.slug}, {experiment.experiment_id})"))
    begin = iso_ms(experiment.starts_at) if experiment.starts_at else "not set"
    end = iso_ms(experiment.ends_at) if experiment.ends_at is not None else "open"
    out.print(
        f"{experiment.status_at(now_ms)}, from {begin} to {end}, {experiment.traffic:.0%} of the users\n"
    )
    table = screen.build_table("variant", "weight", "status", "does")
    for variant in experiment.variants:
        table.add_row(
            screen.quote_text(variant.slug), f"{variant.weight:g}", variant.status, _describe_variant(variant)
        )
    out.print(table)


def show_report(found: ExperimentReport) -> None:
    """Show a report: conversions, guardrails, and what is wrong with the split."""
    out = screen.out()
    out.print(screen.quote_text(f"{found.experiment.name}: {', '.join(found.experiment.goal)}\n"))
    table = screen.build_table(
        "variant", "users", "converted", "rate", "difference", "95% CI (sequential)", "verdict"
    )
    for line in found.lines:
        table.add_row(
            screen.quote_text(line.variant.slug), f"{line.people:,}", f"{line.converted:,}", f"{line.rate:.2%}",
            "" if line.lift is None else f"{line.lift.value:+.2%}", _format_interval(line.lift), _format_verdict(line),
        )  # fmt: skip
    out.print(table, "")
    if found.settling:
        one = found.settling == 1
        out.print(
            f"{found.settling:,} more conversion{'' if one else 's'} {'is' if one else 'are'} settling and will "
            "be counted within a minute.\n"
        )
    if found.experiment.weights_at:
        out.print(
            f"Counted: who met it since the weights were changed, {iso_ms(found.experiment.weights_at)}.\n"
        )
    if any(line.served.requests for line in found.lines):
        table = screen.build_table("variant", "requests", "failed", "p50 ms", "p95 ms", "against the control")
        for line in found.lines:
            served = line.served
            table.add_row(
                screen.quote_text(line.variant.slug), f"{served.requests:,}", f"{served.failed:,}",
                f"{served.p50_ms or '-'}", f"{served.p95_ms or '-'}", _format_guardrails(line),
            )  # fmt: skip
        out.print(table, "")
    split = found.split
    if split.mismatch:
        where = f"; it comes from {split.slice} (p = {split.slice_p_value:.2g})" if split.slice else ""
        out.print(f"The split is not as intended (p = {split.p_value:.2g}){where}. Trust none of the above.")
    else:
        out.print(f"Traffic split is healthy (p = {split.p_value:.2g}).")
    forced = sum(line.forced for line in found.lines)
    if forced:
        out.print(f"{forced:,} people whose variant was chosen by name are left out.")


def build_charts(found: ExperimentReport) -> dict[str, BarChart]:
    """Draw a report, one chart a question."""
    people = [(line.variant.slug, line.people) for line in found.lines]
    converted = [(line.variant.slug, line.converted) for line in found.lines]
    days = [(day, sum(counts.values())) for day, counts in found.days.items()]
    note = found.experiment.name
    return {
        "people": build_bar_chart("People by variant", people, note),
        "converted": build_bar_chart("Converted people by variant", converted, note),
        "days": build_bar_chart("People by day", days[-60:], note),
        "difference": build_interval_chart("Difference to the control, for all looks", found.lines[1:], note),
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
    reach = max(ends, default=0) or 1.0
    middle, room = (_LEFT + WIDTH - _RIGHT) / 2, (WIDTH - _LEFT - _RIGHT) / 2
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


def _describe_variant(variant: Variant) -> str:
    parts = {"engine": variant.engine_id, "snapshot": variant.snapshot, "rule": variant.boost_rule}
    return "; ".join(f"{word} {value}" for word, value in parts.items() if value)


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
