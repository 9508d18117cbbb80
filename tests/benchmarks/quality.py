"""`python -m tests.benchmarks.quality [set ...] [--out FILE]`: our ranking beside its peers on public sets.

Every scorer learns from the same events and ranks the whole catalog. Choices (our plan, the peers' settings) are
made on validation trials that end before the test begins. A line is kept when it reaches the figure of the ranking
notes, where there is one, and every peer of the same run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from jobs.refresh.dataset import Interactions
from jobs.refresh.evaluate import Examination, Scorer, examine
from jobs.refresh.fit import fit
from jobs.refresh.plan import make_plan
from jobs.refresh.recipe import load
from jobs.refresh.split import Split, Trial, by_time, leave_last_out, next_in_session
from tests.benchmarks import quality_sets as sets
from tests.benchmarks.peers.ranking import Peer, peers
from tests.benchmarks.quality_more import more_lines


@dataclass(frozen=True)
class Goal:
    """The floor of a protocol."""

    figure: str
    floor: float | None
    second: str = "recall@20"
    second_floor: float | None = None


@dataclass(frozen=True)
class Task:
    """A set in a protocol."""

    name: str
    folder: str
    split: Callable[[], Split]
    goal: Goal
    recipes: tuple[str, ...] = ("default",)
    has_content: bool = True


@dataclass(frozen=True)
class Line:
    """One scorer in one protocol."""

    task: str
    scorer: str
    readers: int
    figures: dict[str, float]
    coverage: float
    fit_s: float
    query_ms: float
    floor: float | None = None
    kept: bool | None = None
    note: str = ""


def tasks() -> list[Task]:
    """List what is measured."""
    return [
        Task("yoochoose sessions", "yoochoose-100k", _sessions, Goal("mrr@20", 0.345, "hit_rate@20", 0.673),
             ("session", "default"), has_content=False),
        Task("online-retail-y1 by time, new items", "online-retail-y1", lambda: _retail("out"),
             Goal("ndcg@10", 0.1171, second_floor=0.1293)),
        Task("online-retail-y1 by time, repeats allowed", "online-retail-y1", lambda: _retail("allowed"),
             Goal("ndcg@10", None)),
        Task("online-retail-y1 leave last out", "online-retail-y1",
             lambda: leave_last_out(sets.online_retail(), 2), Goal("ndcg@10", None)),
        Task("ml-latest-small leave last out", "ml-latest-small",
             lambda: leave_last_out(sets.movielens_small(), 2), Goal("ndcg@10", None)),
        Task("ml-latest-small by time", "ml-latest-small", _films_by_time, Goal("ndcg@10", None)),
        Task("amazon-toys leave last out", "amazon-toys", lambda: leave_last_out(sets.amazon_toys(), 2),
             Goal("ndcg@10", 0.0739, second_floor=0.1408)),
    ]  # fmt: skip


def measure(task: Task, tell: Callable[[str], None]) -> list[Line]:
    """Run all scorers of one task."""
    split = task.split()
    known = _of(split.test, known=True)
    lines = []
    for peer in peers(split.test.train.n_items):
        tell(f"{task.name}: {peer.name}")
        lines.append(_peer_line(task, peer, split, known))
    best = max(line.figures[task.goal.figure] for line in lines)
    for recipe in task.recipes:
        tell(f"{task.name}: kiosk {recipe}")
        lines.append(_own_line(task, recipe, _without_content(split), known, best))
    if task.has_content:
        tell(f"{task.name}: kiosk {task.recipes[0]} with content")
        lines.append(_own_line(task, task.recipes[0], split, known, best, note="with content"))
    return lines


def main() -> int:
    """Measure the sets asked for; exit with 1 when a floor or a peer is missed, 2 when there is no data."""
    parser = argparse.ArgumentParser(prog="quality", description=__doc__)
    parser.add_argument("set", nargs="*", help="folders of sets; all that are there when none is named")
    parser.add_argument("--only", default="", help="only protocols with this text in their name")
    parser.add_argument(
        "--skip-more", action="store_true", help="leave out trending, baskets, new readers, new items"
    )
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    given = parser.parse_args()
    progress = Console(stderr=True)
    there = [task for task in tasks() if sets.has(task.folder) and given.only in task.name]
    chosen = [task for task in there if not given.set or task.folder in given.set]
    if not chosen:
        progress.print(f"no public data in {sets.data_folder()} (set KIOSK_TEST_DATA)")
        return 2
    lines: list[Line] = []
    for task in chosen:
        found = measure(task, progress.print)
        show(task.name, found)
        lines += found
    extra = [] if given.skip_more else more_lines({task.folder for task in chosen}, progress.print)
    if extra:
        show_more(extra)
    if given.out:
        document = {"ranking": [asdict(line) for line in lines], "more": [asdict(line) for line in extra]}
        given.out.write_text(json.dumps(document, indent=2) + "\n")
    verdicts = [line.kept for line in lines] + [line.kept for line in extra]
    return 1 if False in verdicts else 0


def show(title: str, lines: Sequence[Line]) -> None:
    """Print one protocol."""
    shown = ("ndcg@10", "recall@20", "hit_rate@20", "mrr@20")
    table = Table("scorer", "readers", *shown, "coverage", "fit s", "query ms", "floor", "", title=title)
    for line in lines:
        table.add_row(
            f"{line.scorer} [dim]{line.note}[/]",
            f"{line.readers:,}",
            *[f"{line.figures[name]:.4f}" for name in shown],
            f"{line.coverage:.2f}",
            f"{line.fit_s:.1f}",
            f"{line.query_ms:.2f}",
            "" if line.floor is None else f"{line.floor:.4f}",
            {True: "[green]kept[/]", False: "[red]missed[/]", None: ""}[line.kept],
        )
    Console(width=150).print(table)


def show_more(lines: Sequence[Any]) -> None:
    """Print the other endpoints."""
    table = Table("task", "scorer", "figure", "value", "floor", "", title="other endpoints")
    for line in lines:
        mark = {True: "[green]kept[/]", False: "[red]missed[/]", None: ""}[line.kept]
        floor = "" if line.floor is None else f"{line.floor:.4f}"
        table.add_row(line.task, line.scorer, line.figure, f"{line.value:.4f}", floor, mark)
    Console(width=150).print(table)


def _peer_line(task: Task, peer: Peer, split: Split, known: Trial) -> Line:
    """Choose the setting of a peer on validation, then train and examine it."""
    chosen = 0
    if len(peer.settings) > 1:
        trial = _of(split.validation[0], known=True)
        found = [examine(train(trial.train), trial) for _, train in peer.settings]
        chosen = int(np.argmax([examined.figures[task.goal.figure].mean() for examined in found]))
    setting, train = peer.settings[chosen]
    began = time.perf_counter()
    scorer = train(known.train)
    took = time.perf_counter() - began
    return _line(task, peer.name, scorer, known, took, note=setting)


def _own_line(task: Task, recipe: str, split: Split, known: Trial, best_peer: float, note: str = "") -> Line:
    """Plan on validation, fit, examine; kept when floors and peers are reached."""
    began = time.perf_counter()
    plan = make_plan(load(recipe), split.validation)
    planned = time.perf_counter()
    engine = fit(plan.recipe, split.test.train)
    took = time.perf_counter() - planned
    line = _line(task, f"kiosk {recipe}", engine, known, took, note=note)
    goal = task.goal
    kept = line.figures[goal.figure] > best_peer and line.figures[goal.figure] >= (goal.floor or 0.0)
    kept = kept and line.figures[goal.second] >= (goal.second_floor or 0.0)
    weights = ", ".join(f"{name} {weight:g}" for name, weight in dict(plan.recipe.blend.weights).items())  # type: ignore[arg-type]
    note = f"{note} plan {planned - began:.0f} s: {weights}".strip()
    return Line(**{**asdict(line), "floor": goal.floor, "kept": kept, "note": note})


def _line(task: Task, name: str, scorer: Scorer, trial: Trial, took: float, note: str) -> Line:
    examined: Examination = examine(scorer, trial)
    figures = {figure: float(values.mean()) for figure, values in examined.figures.items()}
    return Line(
        task.name, name, len(trial), figures, examined.coverage, took, _query_ms(scorer, trial), note=note
    )


def _query_ms(scorer: Scorer, trial: Trial, count: int = 60) -> float:
    """Time single readers; the median."""
    took = []
    for at in np.linspace(0, len(trial) - 1, count).astype(int).tolist():
        one = trial.histories.block(at, at + 1)
        began = time.perf_counter()
        scorer.score(one)
        took.append(time.perf_counter() - began)
    return float(np.median(took)) * 1000


def _of(trial: Trial, *, known: bool) -> Trial:
    return trial.pick(np.flatnonzero((trial.histories.lengths > 0) == known))


def _without_content(split: Split) -> Split:
    def bare(trial: Trial) -> Trial:
        return Trial(trial.name, _bare(trial.train), trial.histories, trial.targets, trial.seen)

    return Split(tuple(bare(trial) for trial in split.validation), bare(split.test))


def _bare(data: Interactions) -> Interactions:
    fields = {name: getattr(data, name) for name in Interactions.__slots__}
    return Interactions(**{**fields, "content": None})


def _retail(seen: Any) -> Split:
    return by_time(sets.online_retail(), seen=seen, folds=2)


def _films_by_time() -> Split:
    """A third of the ratings is asked for: people rate in one sitting, and a tenth leaves two dozen known readers."""
    return by_time(sets.movielens_small(), share=0.34, seen="out", folds=2)


def _sessions() -> Split:
    data, begins = sets.yoochoose()
    test = next_in_session(data, begins)
    return Split((next_in_session(test.train, begins - 86_400.0),), test)


if __name__ == "__main__":
    sys.exit(main())
