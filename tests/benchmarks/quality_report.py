"""`kiosk bench quality`: what is asked for, and one table of what came out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks import quality_sets as sets
from tests.benchmarks.quality import FIGURES, Line, chosen_tasks, measure
from tests.benchmarks.quality_more import MoreLine, more_lines
from tests.benchmarks.quality_served import served_lines
from tests.benchmarks.quality_views import view_lines

_MARK = {True: "[green]kept[/]", False: "[red]missed[/]", None: ""}


def main(arguments: Sequence[str]) -> int:
    """Measure the sets asked for; 1 when a floor or a peer is missed, 2 when there is no data."""
    parser = argparse.ArgumentParser(prog="kiosk bench quality", description=__doc__)
    parser.add_argument("--set", action="append", default=[], dest="sets", help="folder of a set; else all")
    parser.add_argument("--only", default="", help="only protocols with this text in their name")
    parser.add_argument("--part", choices=("ranking", "more", "served"), action="append", default=[])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON instead of the tables")
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    given = parser.parse_args(arguments)
    progress = Console(stderr=True)
    chosen = chosen_tasks(given.sets, given.only)
    if not chosen:
        progress.print(f"no public data in {sets.data_folder()} (set KIOSK_TEST_DATA)")
        return 2
    parts = given.part or ["ranking", "more", "served"]
    folders = {task.folder for task in chosen}
    lines: list[Line] = []
    for task in chosen if "ranking" in parts else []:
        lines += measure(task, progress.print)
    more: list[MoreLine] = more_lines(folders, progress.print) if "more" in parts else []
    if "served" in parts:
        more += served_lines(folders, progress.print) + view_lines(folders, progress.print)
    document = json.dumps(
        {"ranking": [asdict(line) for line in lines], "more": [asdict(line) for line in more]}, indent=1
    )
    if given.out:
        given.out.write_text(document + "\n")
    if given.json:
        print(document)
    else:
        show(lines, more)
    return 1 if any(line.kept is False for line in (*lines, *more)) else 0


def show(lines: Sequence[Line], more: Sequence[MoreLine]) -> None:
    """Print the tables."""
    console = Console(width=170)
    if lines:
        console.print(_ranking(lines))
    if more:
        table = Table("task", "scorer", "figure", "value", "floor", "", title="other endpoints")
        for line in more:
            floor = "" if line.floor is None else f"{line.floor:.4f}"
            table.add_row(line.task, line.scorer, line.figure, f"{line.value:.4f}", floor, _MARK[line.kept])
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
            f"{line.readers:,}",
            *[f"{line.figures[name]:.4f}" for name in FIGURES],
            f"{line.coverage:.2f}",
            "" if line.new_ndcg is None else f"{line.new_ndcg:.4f} ({line.new_readers:,})",
            f"{line.fit_s:.1f}",
            f"{line.query_ms:.2f}",
            _MARK[line.kept],
        )
        before = title
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
