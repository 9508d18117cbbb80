"""Figures of a run beside libraries: averages, differences paired by person, and the table of the terminal."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from actors.vectors.types import Floats
from cluster.errors import Invalid
from jobs.refresh.data.split import EvaluationSplit
from jobs.refresh.evaluation.evaluate import bootstrap_interval, sum_by_person
from jobs.refresh.evaluation.significance import correct_p, sign_flip_p
from tests.benchmarks import quality_sets as sets
from tests.benchmarks.command_line import BenchRankingOptions
from tests.benchmarks.peers.split_files import read_lists
from tests.benchmarks.quality_peers import RECIPES, SCORERS, Outcome, PeerRun, compute_figures, tasks
from tests.benchmarks.unmeasured import NO_SET

FIGURE = "ndcg@10"
"The figure that is compared."
_RECIPES = tuple(f"kiosk {recipe}" for recipe in RECIPES)
"What every other scorer is compared with."
CACHE = Path.home() / ".cache" / "kiosk" / "peers"
"The folder that keeps the libraries and what ran, unless `--cache` names another."


def print_peers(options: BenchRankingOptions) -> int:
    """Run the chosen tasks and scorers and print the tables.

    Returns:
        1 when a set is absent or a scorer has no lists, else 0
    Errors:
        Invalid: no task has the given set
    """
    progress = Console(stderr=True)
    chosen = [name for name, task in tasks().items() if not options.sets or task.folder in options.sets]
    if not chosen:
        raise Invalid(f"there is no such task; the tasks are {'; '.join(tasks())}")
    there = [name for name in chosen if sets.has(tasks()[name].folder)]
    for name in chosen:
        if name not in there:
            progress.print(f"{name}: {NO_SET.format(tasks()[name].folder, sets.data_folder())}")
    run = PeerRun(
        options.cache or CACHE, options.minutes * 60, lambda line: progress.print(line, markup=False)
    )
    run.measure(there, options.only)
    report = build_report(run, there)
    document = json.dumps(report, indent=1)
    if options.out:
        options.out.write_text(document + "\n")
    if options.as_json:
        print(document)
    else:
        for task in report["tasks"]:
            Console(width=170).print(_build_table(task))
    rows = [row for task in report["tasks"] for row in task["scorers"]]
    return int(len(there) < len(chosen) or any("figures" not in row for row in rows))


def build_report(run: PeerRun, names: Sequence[str]) -> dict[str, Any]:
    """Return the figures of all tasks as JSON; what never ran is absent, what did not finish has a reason."""
    reports = []
    for name in names:
        split = run.split(name).test
        rows, figures = [], {}
        for scorer in SCORERS:
            outcome = run.read(name, scorer, any_budget=True)
            if outcome is not None:
                row, values = describe_outcome(outcome, split, run.folder(name, scorer))
                rows.append(row)
                if values is not None:
                    figures[scorer] = values[FIGURE]
        compare_scorers(rows, figures, split)
        people = len(split) if split.people is None else len(np.unique(split.people))
        facts = {
            "queries": len(split),
            "people": people,
            "events": len(split.train),
            "items": split.train.n_items,
        }
        reports.append({"name": name, **facts, "scorers": rows})
    machine = {"system": platform.system(), "python": platform.python_version()}
    return {"figure": FIGURE, "machine": machine, "scorers": list(SCORERS), "tasks": reports}


def describe_outcome(
    outcome: Outcome, split: EvaluationSplit, folder: Path
) -> tuple[dict[str, Any], dict[str, Floats] | None]:
    """Return the row of a scorer, and its metrics by query; None if it has no lists."""
    row: dict[str, Any] = {
        "scorer": outcome.scorer,
        "version": outcome.version,
        "budget_min": round(outcome.budget_s / 60, 2),
        "tried": len(outcome.trials),
        "search_s": round(outcome.search_s, 1),
        "reason": outcome.reason,
    }
    if outcome.chosen is None:
        return row, None
    lists = read_lists(folder / outcome.chosen["lists"], split)
    values = compute_figures(lists, split)
    averages = {figure: round(float(each.mean()), 5) for figure, each in values.items()}
    low, high = bootstrap_interval(values[FIGURE], np.random.default_rng(1), split.people)
    trained = np.unique(split.train.item)
    row |= {
        "settings": outcome.chosen["settings"],
        "fit_s": round(outcome.chosen["fit_s"], 1),
        "rank_ms": round(1000 * outcome.chosen["rank_s"] / len(split), 2),
        "peak_mb": outcome.chosen["peak_bytes"] >> 20,
        "figures": {**averages, "low": round(low, 5), "high": round(high, 5)},
        "coverage@10": round(len(np.intersect1d(lists[:, :10], trained)) / len(trained), 4),
    }
    if outcome.recommended is not None:
        recommended = compute_figures(read_lists(folder / outcome.recommended["lists"], split), split)
        row["recommended"] = round(float(recommended[FIGURE].mean()), 5)
    return row, values


def compare_scorers(
    rows: Sequence[dict[str, Any]], figures: Mapping[str, Floats], split: EvaluationSplit
) -> None:
    """Add to each row the recipes' differences to it, with intervals and corrected p of all tests of the task.

    Each person is drawn whole, with all queries.
    """
    rng = np.random.default_rng(95)
    tests: list[dict[str, Any]] = []
    for recipe in _RECIPES:
        for row in rows:
            if recipe not in figures or row["scorer"] not in figures or row["scorer"] == recipe:
                continue
            difference = figures[recipe] - figures[row["scorer"]]
            people = np.arange(len(difference)) if split.people is None else split.people
            low, high = bootstrap_interval(difference, rng, people)
            chance = sign_flip_p(sum_by_person(difference[None], people)[0], rng)[0]
            test = {"difference": difference.mean(), "low": low, "high": high, "p": chance}
            tests.append({name: round(float(value), 5) for name, value in test.items()})
            row.setdefault("against", {})[recipe] = tests[-1]
    corrected = correct_p(np.array([test["p"] for test in tests])) if tests else ()
    for test, chance in zip(tests, corrected, strict=True):
        test["p"] = round(float(chance), 5)


def _build_table(task: Mapping[str, Any]) -> Table:
    table = Table("scorer", "NDCG@10", "R@20", "MRR@20", "cover", "novelty", "default minus it", "search s", "fit s",
                  "MB", "", title=f"{task['name']}, {task['queries']:,} queries")  # fmt: skip
    for row in task["scorers"]:
        if "figures" not in row:
            table.add_row(row["scorer"], *[""] * 9, row["reason"])
            continue
        figures, against = row["figures"], row.get("against", {}).get("kiosk default")
        table.add_row(
            row["scorer"],
            *[f"{figures[name]:.4f}" for name in (FIGURE, "recall@20", "mrr@20")],
            f"{row['coverage@10']:.2f}",
            f"{figures['novelty@10']:.1f}",
            f"{against['low']:+.4f} to {against['high']:+.4f}" if against else "",
            f"{row['search_s']:.0f}",
            f"{row['fit_s']:.0f}",
            f"{row['peak_mb']:,}",
            row["reason"],
        )
    return table
