"""Bar charts of reports as files, drawn and written like the plots of evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cluster.errors import Invalid
from jobs.refresh.evaluation.plots import BarChart, PlotBox, PlotLabel, render_svg

Forms = Annotated[str, typer.Option(hidden=True, help="Has no effect: charts are SVG.")]
"An option of earlier releases, which also wrote PNG; scripts that give it keep working."
WIDTH = 760
BAR_COLOUR = "#3b6ea5"
_LINE = 26
_LABEL = 300
_MARGIN = 24
_TOP = 64
_PALE = "#5b6472"
_MOST_LETTERS = 42


def build_bar_chart(
    title: str, rows: Sequence[tuple[str, int]], note: str = "", *, unit: str = ""
) -> BarChart:
    """Draw one bar a row, the longest as wide as the page allows; `unit` stands behind each number."""
    most = max((count for _, count in rows), default=0)
    height = _TOP + _LINE * max(1, len(rows)) + _MARGIN
    chart = BarChart(height, width=WIDTH, title=title)
    chart.shapes.append(PlotLabel(_MARGIN, 30, title, size=18))
    chart.shapes.append(PlotLabel(_MARGIN, 50, note, colour=_PALE))
    room = WIDTH - _LABEL - 2 * _MARGIN - 60
    for at, (label, count) in enumerate(rows):
        y = _TOP + at * _LINE
        width = room * count / most if most else 0
        chart.shapes.append(PlotLabel(_LABEL, y + 17, _shorten_label(label), "end", size=13))
        chart.shapes.append(PlotBox(_LABEL + 10, y + 4, max(width, 1), _LINE - 9, BAR_COLOUR))
        chart.shapes.append(PlotLabel(_LABEL + 18 + width, y + 17, f"{count:,}{unit}", size=13, colour=_PALE))
    if not rows:
        chart.shapes.append(PlotLabel(_MARGIN, _TOP + 17, "nothing yet", size=13, colour=_PALE))
    return chart


def write_charts(folder: Path, charts: dict[str, BarChart]) -> list[Path]:
    """Write each chart as SVG; returns the files.

    Errors:
        Invalid: the folder can't be written to
    """
    files = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, chart in charts.items():
            path = folder / f"{name}.svg"
            path.write_text(render_svg(chart), "utf-8")
            files.append(path)
    except OSError as error:
        raise Invalid(f"charts can't be written to {folder}: {error.strerror}") from error
    return files


def _shorten_label(label: str) -> str:
    plain = "".join(char if char.isprintable() else " " for char in label)
    return plain if len(plain) <= _MOST_LETTERS else plain[: _MOST_LETTERS - 1] + "…"
