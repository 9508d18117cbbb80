"""Recipes beside other libraries: the page and the chart of `peers.json`, which a run of the benchmark writes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from docs.generate.markdown import write_page, write_table
from jobs.refresh.evaluation.plots import BarChart, PlotBox, PlotLabel, PlotLine, render_svg

Row = Mapping[str, Any]

CHART = "peers.svg"
RECIPES = ("kiosk fast", "kiosk default", "kiosk deep")
_INTRO = """
The recipes of Kiosk and the libraries implicit, LensKit and RecTools on the same public data. The first command
measures and writes the figures of this page, the second writes the page.

```bash
kiosk bench quality --peers --minutes 30 --out docs/generate/peers.json
python -m docs.generate
```

- Every scorer learns from the same events, ranks the whole catalog for the same people and is judged by the same code.
  At most 4,000 lists of a set count, drawn once.
- Libraries run in an environment of their own. Each scorer has a process of its own with one thread. Seeds are fixed.
- Every scorer may search on validation data that ends before the test begins. A library starts with its recommended
  settings, then tries a few others until its budget of processor time ends. For each training it has the budget once
  more. A recipe has the budget twice for both. The tables show the settings that validation chose. All had 30
  minutes, but SASRec and HSTU 6; to train on yoochoose-100k, leave last out, SASRec had 15. There it reached 0.2835
  in an earlier run, whose search ended after 15 epochs.
- Recipes also use titles, categories and brands of items, which the libraries do not get.
- Intervals have 95 % by the bootstrap; those of differences are paired by person. p is of a paired sign-flip test,
  corrected by Holm's method for all tests of a table. Novelty is the mean self-information in bits.
- Times are processor time of one core, on a machine that others used too. Memory is the peak of the process that
  trained with the chosen settings; that of a recipe includes its search.
"""
_COLOURS = {"implicit": "#8a5a8c", "LensKit": "#7a9a4b", "RecTools": "#d08c3a", "kiosk": "#2f6f8f"}
_PIXELS = {"row": 16, "left": 210, "right": 70, "width": 720}


@cache
def read_report() -> dict[str, Any]:
    """Read the figures of the last published run."""
    report: dict[str, Any] = json.loads(Path(__file__).with_name("peers.json").read_text("utf-8"))
    return report


def build_page() -> str:
    """Write the page."""
    report = read_report()
    tasks = report["tasks"]
    gaps = list_gaps(report)
    sections = [
        "\n".join([*list_verdicts(tasks), *_list_unmeasured(report)]),
        f"![NDCG@10 of every scorer, by data set]({CHART})",
        "## Beside the best library\n\nThe best library of a set is the best of those that finished, by its "
        "figure on the test. Differences are recipe minus library.\n\n" + _summarise(tasks),
        *(_write_task(task) for task in tasks),
        "## What is missing\n\n" + "\n".join(gaps) if gaps else "",
    ]
    return write_page("Ranking beside other libraries", _INTRO, sections)


def build_chart() -> str:
    """Draw NDCG@10 of every scorer with its interval: a group of bars for each task, the best first."""
    row_px, left, width = _PIXELS["row"], _PIXELS["left"], _PIXELS["width"]
    chart = BarChart(0, title="NDCG@10 of every scorer, by data set")
    y = 8
    for task in read_report()["tasks"]:
        rows = sorted(list_ranked(task), key=lambda row: -ndcg(row))
        scale = (width - left - _PIXELS["right"]) / max(row["figures"]["high"] for row in rows)
        y += 2 * row_px
        chart.shapes.append(PlotLabel(8, y - 6, task["name"], size=14))
        for row in rows:
            end, middle = left + ndcg(row) * scale, y + row_px / 2 - 1
            low, high = (left + row["figures"][name] * scale for name in ("low", "high"))
            chart.shapes += [
                PlotLabel(left - 6, y + row_px - 4, label(row["scorer"]).replace("`", ""), "end", 11),
                PlotBox(left, y, end - left, row_px - 3, _COLOURS[row["scorer"].split()[0]]),
                PlotLine(low, middle, high, middle, "#222222"),
                PlotLabel(high + 6, y + row_px - 4, f"{ndcg(row):.4f}", size=11),
            ]
            y += row_px
    chart.height = y + row_px
    return render_svg(chart)


def label(scorer: str) -> str:
    """Return the name of a scorer for the page: recipes stand in code marks."""
    return re.sub(r"^kiosk (\w+)", r"Kiosk `\1`", scorer)


def list_ranked(task: Row) -> list[Row]:
    """Return the rows of the scorers that finished."""
    return [row for row in task["scorers"] if "figures" in row]


def ndcg(row: Row) -> float:
    """Return NDCG@10 of a row."""
    return float(row["figures"]["ndcg@10"])


def compare_with_best_library(task: Row, recipe: str) -> tuple[Row, Row] | None:
    """Return the best library and the test of a recipe against it; None if one of them did not finish."""
    libraries = [row for row in list_ranked(task) if not row["scorer"].startswith("kiosk")]
    if not libraries:
        return None
    best = max(libraries, key=ndcg)
    test = best.get("against", {}).get(recipe)
    return (best, test) if test else None


def judge(test: Row) -> str:
    """Return `above`, `below` or `level with`: where 0 lies beside the interval of a difference."""
    if test["low"] > 0:
        return "above"
    return "below" if test["high"] < 0 else "level with"


def list_verdicts(tasks: Sequence[Row]) -> list[str]:
    """Say for each recipe where it is above, level with and below the best library."""
    lines = []
    for recipe in RECIPES:
        names: dict[str, list[str]] = {"above": [], "level with": [], "below": []}
        for task in tasks:
            compared = compare_with_best_library(task, recipe)
            if compared:
                names[judge(compared[1])].append(task["name"])
        measured = sum(map(len, names.values()))
        parts = [
            f"{verdict} the best library on {len(several)}"
            + ("" if verdict == "above" else f" ({'; '.join(several)})")
            for verdict, several in names.items()
            if several
        ]
        line = f"- {label(recipe)}, {measured} of {len(tasks)} tasks measured"
        lines.append(f"{line}: {', '.join(parts)}." if parts else f"{line}.")
    return lines


def _list_unmeasured(report: Mapping[str, Any]) -> list[str]:
    """Name the scorers that have no figures on any task."""
    ranked = {row["scorer"] for task in report["tasks"] for row in list_ranked(task)}
    absent = [label(scorer) for scorer in report["scorers"] if scorer not in ranked]
    return (
        [f"- Not measured on any task yet: {'; '.join(absent)}. See the end of the page."] if absent else []
    )


def list_gaps(report: Mapping[str, Any]) -> list[str]:
    """Say which scorers have no figures on which tasks, and why."""
    lines = []
    for scorer in report["scorers"]:
        tasks_by_reason: dict[str, list[str]] = {}
        for task in report["tasks"]:
            rows = [row for row in task["scorers"] if row["scorer"] == scorer]
            if not rows or "figures" not in rows[0]:
                reason = rows[0]["reason"] if rows else "not run"
                tasks_by_reason.setdefault(reason, []).append(task["name"])
        for reason, names in tasks_by_reason.items():
            where = "all tasks" if len(names) == len(report["tasks"]) else "; ".join(names)
            lines.append(f"- {label(scorer)}: {reason} ({where}).")
    return lines


def _summarise(tasks: Sequence[Row]) -> str:
    rows = []
    for task in tasks:
        figures = {row["scorer"]: ndcg(row) for row in list_ranked(task)}
        cells = [task["name"], ""]
        for recipe in RECIPES:
            compared = compare_with_best_library(task, recipe)
            if compared:
                best, test = compared
                cells[1] = f"{best['scorer']}, {ndcg(best):.4f}"
            cells += [
                f"{figures[recipe]:.4f}" if recipe in figures else "",
                _interval(test) if compared else "",
            ]
        rows.append(cells)
    return write_table(
        [
            "Task",
            "Best library",
            *(word for recipe in RECIPES for word in (f"`{recipe.split()[1]}`", "Difference")),
        ],
        rows,
    )


def _interval(test: Row) -> str:
    return f"{test['difference']:+.4f} ({test['low']:+.4f} to {test['high']:+.4f})"


def _write_task(task: Row) -> str:
    rows = []
    for row in task["scorers"]:
        name = f"{label(row['scorer'])} {row['version']}".strip()
        if "figures" not in row:
            rows.append([name, *[""] * 10, row["reason"]])
            continue
        figures, against = row["figures"], row.get("against", {}).get("kiosk default")
        rows.append([
            name, f"{ndcg(row):.4f}", f"{row['recommended']:.4f}" if "recommended" in row else "",
            f"{_interval(against)}, p {against['p']:.4f}" if against else "",
            f"{figures['recall@20']:.4f}", f"{figures['mrr@20']:.4f}", f"{row['coverage@10']:.2f}",
            f"{figures['novelty@10']:.1f}", f"{row['search_s']:.0f} + {row['fit_s']:.0f}",
            f"{row['rank_ms']:.1f}", f"{row['peak_mb']:,}", _settings(row),
        ])  # fmt: skip
    headings = [
        "Scorer", "NDCG@10", "As recommended", "`default` minus it", "Recall@20", "MRR@20", "Coverage@10", "Novelty",
        "Search + training, s", "ms a list", "MB", "Chosen settings",
    ]  # fmt: skip
    facts = (
        f"{task['queries']:,} lists for {task['people']:,} people, {task['events']:,} training events, "
        f"{task['items']:,} items."
    )
    return f"## {task['name']}\n\n{facts}\n\n{write_table(headings, rows)}"


def _settings(row: Row) -> str:
    values = row["settings"].items()
    text = ", ".join(f"{name} {value:g}" for name, value in values) or "as recommended"
    return f"{text}; {row['reason']}" if row["reason"] else text
