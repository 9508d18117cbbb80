"""Bar charts of metrics with their intervals, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from jobs.refresh.evaluation.report_models import (
    Calibration,
    EvaluationReport,
    LearningCurve,
    MeanInterval,
    ProtocolReport,
)
from jobs.refresh.evaluation.reports import list_curve_points

_COLOURS = ("#2f6f8f", "#d08c3a", "#7a9a4b", "#8a5a8c")
_WIDTH = 720
_PLOT = 240
_TOP = 72
_LEFT = 56
_BOTTOM = 56
_INK = "#000000"
_GRID = "#dddddd"
_WHISKER = "#222222"
_PAPER = "#ffffff"
_AXIS = "mean over users (0 to 1); lines: 95 % intervals"


@dataclass(frozen=True, slots=True)
class PlotBar:
    """One bar; `low` and `high` are its interval, if it has one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class PlotBox:
    """A filled rectangle; `hint` is its tooltip."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class PlotLine:
    """A straight line."""

    x: float
    y: float
    to_x: float
    to_y: float
    colour: str


@dataclass(frozen=True, slots=True)
class PlotLabel:
    """A line of text; `anchor` is `start`, `middle` or `end`."""

    x: float
    y: float
    words: str
    anchor: str = "start"
    size: int = 12
    colour: str = _INK


@dataclass(slots=True)
class BarChart:
    """A chart, in pixels at scale 1."""

    height: int
    shapes: list[PlotBox | PlotLine | PlotLabel] = field(default_factory=list)
    width: int = _WIDTH
    title: str = ""
    "Text for screen readers."


def draw_bars(title: str, groups: Mapping[str, Mapping[str, PlotBar]], axis: str = _AXIS) -> BarChart:
    """Return a chart with groups of bars above an axis with round ticks and a label."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    # The upper end of the interval, or a whisker would leave the chart.
    most = max((bar.high or bar.value for group in groups.values() for bar in group.values()), default=0.0)
    marks = choose_ticks(most)
    scale = _PLOT / marks[-1]
    step = (_WIDTH - _LEFT - 16) / max(len(groups), 1)
    # Four fifths of a group's room for its bars, so that groups stay apart.
    width = min(48.0, step * 0.8 / max(len(names), 1))
    baseline = _TOP + _PLOT
    chart = BarChart(baseline + _BOTTOM, [PlotLabel(_LEFT, 20, title, size=15)])
    for at, name in enumerate(names):
        x = _LEFT + at * 160
        chart.shapes += [PlotBox(x, 32, 12, 12, _colour_at(at)), PlotLabel(x + 18, 42, name)]
    chart.shapes.append(PlotLabel(8, _TOP - 10, axis, size=11))
    # As many digits as the step needs: 1e-9 keeps log10 of 0.001 from being just below -3.
    decimals = max(0, -math.floor(math.log10(marks[1]) + 1e-9)) if len(marks) > 1 else 0
    decimals += any(round(mark, decimals) != round(mark, 9) for mark in marks)
    for mark in marks:
        y = baseline - mark * scale
        chart.shapes.append(PlotLine(_LEFT, y, _WIDTH - 16, y, _GRID))
        chart.shapes.append(PlotLabel(_LEFT - 6, y + 4, f"{mark:.{decimals}f}", "end"))
    for place, (label, group) in enumerate(groups.items()):
        middle = _LEFT + step * (place + 0.5)
        first = middle - width * len(group) / 2
        for at, (name, bar) in enumerate(group.items()):
            chart.shapes += _bar_shapes(
                bar, first + at * width, width, baseline, scale, _colour_at(names.index(name))
            )
        chart.shapes.append(PlotLabel(middle, baseline + 20, label, "middle"))
    return chart


def choose_ticks(most: float) -> list[float]:
    """Return four to eight round ticks (steps of 1, 2 or 5 times a power of ten) from 0 to at least a value."""
    if most <= 0:
        return [0.0, 0.5, 1.0]
    # Some four steps of this power of ten reach the value; the next line rounds them to 1, 2 or 5.
    power = 10.0 ** math.floor(math.log10(most / 4))
    step = next(factor * power for factor in (1, 2, 5, 10) if most / (factor * power) <= 6)
    # 1e-9: a value on a tick needs no further tick because of rounding.
    count = math.ceil(most / step - 1e-9)
    return [round(step * at, 12) for at in range(count + 1)]


def render_svg(chart: BarChart) -> str:
    """Return a chart as SVG; all texts are escaped."""
    named = (
        f'viewBox="0 0 {chart.width} {chart.height}" role="img" aria-label="{escape(chart.title)}" '
        if chart.title
        else ""
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{chart.width}" height="{chart.height}" '
        f'{named}font-family="sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="{_PAPER}"/>',
    ]
    for shape in chart.shapes:
        if isinstance(shape, PlotBox):
            hint = f"<title>{escape(shape.hint)}</title>" if shape.hint else ""
            lines.append(
                f'<rect x="{shape.x:.1f}" y="{shape.y:.1f}" width="{shape.width:.1f}" '
                f'height="{shape.height:.1f}" fill="{shape.colour}">{hint}</rect>'
            )
        elif isinstance(shape, PlotLine):
            lines.append(
                f'<line x1="{shape.x:.1f}" y1="{shape.y:.1f}" x2="{shape.to_x:.1f}" y2="{shape.to_y:.1f}" '
                f'stroke="{shape.colour}"/>'
            )
        else:
            lines.append(
                f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" font-size="{shape.size}" '
                f'fill="{shape.colour}" text-anchor="{shape.anchor}">{escape(shape.words)}</text>'
            )
    return "\n".join([*lines, "</svg>", ""])


def render_reports_svg(reports: Sequence[ProtocolReport]) -> dict[str, str]:
    """Return the charts of `draw_reports` by file name."""
    return {f"{name}.svg": render_svg(chart) for name, chart in draw_reports(reports).items()}


def draw_reports(reports: Sequence[ProtocolReport]) -> dict[str, BarChart]:
    """Return the charts of reports by name: metrics of all users, NDCG by segment, calibration, and learning curve."""
    drawn = {}
    for report in reports:
        if not isinstance(report, EvaluationReport) or not report.segments:
            continue
        name = report.protocol or "auto"
        k = report.k
        figures = [f"ndcg@{k}", f"recall@{k}", f"hit_rate@{k}", f"mrr@{k}"]
        drawn[f"{name}-figures"] = draw_bars(
            f"{report.trial}: {report.recipe}, all users",
            {figure: _comparison_bars(report, "all", figure, report.everybody[figure]) for figure in figures},
        )
        drawn[f"{name}-segments"] = draw_bars(
            f"{report.trial}: NDCG@{k} by the user's history and by the targets",
            {
                f"{segment.name} ({segment.users:,})": _comparison_bars(
                    report, segment.name, figures[0], segment.figures[figures[0]]
                )
                for segment in report.segments
            },
            f"NDCG@{k}, {_AXIS}",
        )
        if report.calibration is not None:
            drawn[f"{name}-calibration"] = _draw_calibration(report.trial, report.calibration)
        if report.learning_curve is not None:
            drawn[f"{name}-learning-curve"] = _draw_learning_curve(report.trial, report.learning_curve)
    return drawn


def _draw_calibration(trial: str, calibration: Calibration) -> BarChart:
    groups = {
        f"{row.predicted:.2g}": {
            "predicted": PlotBar(row.predicted),
            "observed": PlotBar(row.observed, row.low, row.high),
        }
        for row in calibration.rows
    }
    return draw_bars(
        f"{trial}: predicted and observed rate of relevant places",
        groups,
        "rate (0 to 1), tenths of the places; lines: 95 % intervals",
    )


def _draw_learning_curve(trial: str, curve: LearningCurve) -> BarChart:
    groups = {
        label.removesuffix(" of the users"): {curve.figure: PlotBar(point.mean, point.low, point.high)}
        for label, point in list_curve_points(curve)
    }
    return draw_bars(f"{trial}: share of the training users, and events of a history", groups)


def _comparison_bars(
    report: EvaluationReport, segment: str, figure: str, ours: MeanInterval
) -> dict[str, PlotBar]:
    group = {"this recipe": PlotBar(ours.mean, ours.low, ours.high)}
    for name, other in report.beside.items():
        value = other.mean(segment, figure)
        if value is not None:
            group[name] = PlotBar(value, *other.interval(segment, figure))
    return group


def _bar_shapes(
    bar: PlotBar, x: float, width: float, baseline: float, scale: float, colour: str
) -> list[PlotBox | PlotLine]:
    # SVG refuses negative heights.
    height = max(bar.value, 0.0) * scale
    shapes: list[PlotBox | PlotLine] = [
        PlotBox(x, baseline - height, width - 2, height, colour, f"{bar.value:.4f}")
    ]
    if bar.low is not None and bar.high is not None:
        middle = x + width / 2 - 1
        top = baseline - bar.high * scale
        bottom = baseline - bar.low * scale
        shapes.append(PlotLine(middle, top, middle, bottom, _WHISKER))
        shapes += [PlotLine(middle - 4, y, middle + 4, y, _WHISKER) for y in (top, bottom)]
    return shapes


def _colour_at(at: int) -> str:
    return _COLOURS[at % len(_COLOURS)]
