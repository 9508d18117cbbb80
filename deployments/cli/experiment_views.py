"""How experiments and their reports are shown: to programs, to people, as drawings."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from actors.experiments.report import ExperimentReport, VariantReport
from actors.experiments.statistics import EffectEstimate
from cluster.clock import iso_ms
from cluster.records.experiment import Experiment, Variant
from deployments.cli import screen
from deployments.cli.charts import WIDTH, Chart, ChartBar, ChartText, build_bar_chart

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
        f"{experiment.status_at(now_ms)}, from {begin} to {end}, {experiment.traffic:.0%} of the readers\n"
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
        "variant", "people", "converted", "rate", "difference", "95 % for all looks", "verdict"
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
        out.print(f"The split is as intended (p = {split.p_value:.2g}).")
    forced = sum(line.forced for line in found.lines)
    if forced:
        out.print(f"{forced:,} people whose variant was chosen by name are left out.")


def build_charts(found: ExperimentReport) -> dict[str, Chart]:
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


def build_interval_chart(title: str, lines: Sequence[VariantReport], note: str) -> Chart:
    """Draw an interval a line around a common zero; an endless one is told in words."""
    drawing = Chart(title, _TOP + _ROW * max(1, len(lines)) + 40)
    drawing.texts.extend((ChartText(24, 30, title, 18), ChartText(24, 50, note, 12)))
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
    drawing.bars.append(ChartBar(middle - 0.5, _TOP - 8, 1, bottom - _TOP + 8))
    for words, x in ((f"{-reach:+.2%}", middle - room), ("0", middle), (f"{reach:+.2%}", middle + room)):
        drawing.texts.append(ChartText(x, bottom + 18, words, 11, anchor="end" if x > middle else "start"))
    for at, line in enumerate(lines):
        y = _TOP + at * _ROW
        drawing.texts.append(ChartText(_LEFT - 10, y + 16, line.variant.slug[:24], anchor="end"))
        if line.lift is None or not isfinite(line.lift.low):
            drawing.texts.append(ChartText(_LEFT, y + 16, "not enough people yet", 12))
            continue
        left, right = (middle + room * end / reach for end in (line.lift.low, line.lift.high))
        drawing.bars.append(ChartBar(left, y + 11, max(right - left, 1), 2))
        drawing.bars.append(ChartBar(middle + room * line.lift.value / reach - 3, y + 7, 6, 10))
    return drawing


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
