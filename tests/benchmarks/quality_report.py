"""`kiosk bench quality`: the ranking of public sets beside other libraries, as tables or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cluster.errors import Invalid
from tests.benchmarks import quality_sets as sets
from tests.benchmarks.command_line import BenchRankingOptions, RankingPart
from tests.benchmarks.quality import FIGURES, Line, ReportProgress, Task, chosen_tasks, measure, tasks
from tests.benchmarks.quality_more import MoreLine, more_lines, unmeasured_line
from tests.benchmarks.quality_served import served_lines
from tests.benchmarks.quality_views import view_lines
from tests.benchmarks.unmeasured import NO_SET, reason_of

_MARK = {True: "[green]kept[/]", False: "[red]missed[/]", None: ""}


def print_tables(options: BenchRankingOptions) -> int:
    """Measure the chosen sets and print the tables.

    Returns:
        1 when a bound or a peer is missed, or something could not be measured; else 0

    Errors:
        Invalid: no task has the given set and protocol
    """
    if options.peers:
        from tests.benchmarks import quality_peers_report

        return quality_peers_report.print_peers(options)
    progress = Console(stderr=True)
    chosen = chosen_tasks(options.sets, options.only)
    if not chosen:
        names = ", ".join(sorted({task.folder for task in tasks()}))
        raise Invalid(f"there is no such task; the sets are {names}")
    parts = {part.value for part in options.parts or RankingPart}
    lines: list[Line] = []
    more = [
        unmeasured_line(f"{task.folder}, {task.protocol}", NO_SET.format(task.folder, sets.data_folder()))
        for task in chosen
        if not sets.has(task.folder)
    ]
    there = [task for task in chosen if sets.has(task.folder)]
    for task in there if "ranking" in parts else []:
        more += _measure_task(task, lines, progress.print)
    for part, measured in (("more", more_lines), ("served", served_lines), ("served", view_lines)):
        for folder in sorted({task.folder for task in there}) if part in parts else []:
            try:
                more += measured({folder}, progress.print)
            except Exception as error:  # noqa: BLE001 - what can't be measured is a line, see `unmeasured`
                more.append(unmeasured_line(f"{folder}, {part}", reason_of(error)))
    document = json.dumps(
        {"ranking": [asdict(line) for line in lines], "more": [_row(line) for line in more]}, indent=1
    )
    if options.out:
        options.out.write_text(document + "\n")
    if options.as_json:
        print(document)
    else:
        show(lines, more)
    missed = any(line.kept is False for line in (*lines, *more))
    return int(missed or any(line.reason for line in more))


def _measure_task(task: Task, lines: list[Line], report_progress: ReportProgress) -> list[MoreLine]:
    """Add the lines of a task; return those of what can't be measured."""
    name, skipped = f"{task.folder}, {task.protocol}", list[MoreLine]()
    try:
        lines.extend(
            measure(
                task,
                report_progress,
                lambda peer, reason: skipped.append(unmeasured_line(name, reason, peer)),
            )
        )
    except Exception as error:  # noqa: BLE001 - what can't be measured is a line, see `unmeasured`
        skipped.append(unmeasured_line(name, reason_of(error)))
    return skipped


def _row(line: MoreLine) -> dict[str, Any]:
    return {**asdict(line), "value": None if line.reason else line.value}


def show(lines: Sequence[Line], more: Sequence[MoreLine]) -> None:
    """Print the tables."""
    console = Console(width=170)
    if lines:
        console.print(_ranking(lines))
    if more:
        table = Table("task", "scorer", "figure", "value", "floor", "", title="other endpoints")
        for line in more:
            floor = "" if line.floor is None else f"{line.floor:.4f}"
            value = "not measured" if line.reason else f"{line.value:.4f}"
            mark = escape(line.reason) or _MARK[line.kept]
            table.add_row(line.task, line.scorer, line.figure, value, floor, mark)
        console.print(table)
    for line in lines:
        if line.scorer.startswith("kiosk"):
            console.print(f"[dim]{line.set}, {line.protocol}, {line.scorer}: {line.note}[/]", soft_wrap=True)


def _ranking(lines: Sequence[Line]) -> Table:
    names = [name.replace("hit_rate", "HR").replace("recall", "R").upper() for name in FIGURES]
    table = Table(
        "set, protocol", "scorer", "readers", *names, "cover", "new readers NDCG@10", "fit s", "ms", "",
        title="reader to products",
    )  # fmt: skip
    before = ""
    for line in lines:
        title = f"{line.set}, {line.protocol}"
        if before and title != before:
            table.add_section()
        table.add_row(
            title if title != before else "",
            line.scorer if line.scorer.startswith("kiosk") else f"{line.scorer} [dim]{line.note}[/]",
            f"{line.users:,}",
            *[f"{line.figures[name]:.4f}" for name in FIGURES],
            f"{line.coverage:.2f}",
            "" if line.new_ndcg is None else f"{line.new_ndcg:.4f} ({line.new_users:,})",
            f"{line.fit_s:.1f}",
            f"{line.query_ms:.2f}",
            _MARK[line.kept],
        )
        before = title
    return table
