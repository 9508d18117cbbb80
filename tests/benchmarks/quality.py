"""Our ranking beside its peers on public sets, every protocol: `kiosk bench quality [--set NAME ...] [--json]`.

Every scorer learns from the same events and ranks the whole catalog. Choices (our plan, the peers' settings) are
made on validation trials that end before the test begins. Our line is kept when it reaches the figure of the ranking
notes, where there is one, and is above every peer of the same run.

    leave last out     the last item of every user
    by time            one instant for everybody, as a service meets it; users nobody knew before are told apart.
                       Where few users are known at any instant, several instants are put together.
    sessions           every next item of the sessions of the last day
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from actors.vectors.types import Floats
from jobs.refresh.build.fit import train_engine
from jobs.refresh.data.split import (
    EvaluationSplit,
    TrainingSplit,
    leave_last_out,
    split_by_time,
    split_next_in_session,
)
from jobs.refresh.evaluation.evaluate import Scorer, evaluate
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.tuning.plan import make_plan
from tests.benchmarks import quality_sets as sets
from tests.benchmarks.peers.ranking import Peer, peers
from tests.benchmarks.unmeasured import reason_of

ReportProgress = Callable[[str], None]

FIGURES = ("ndcg@10", "recall@10", "recall@20", "hit_rate@20", "mrr@20")
"What the table shows."


@dataclass(frozen=True)
class Task:
    """A set in a protocol."""

    folder: str
    protocol: str
    rounds: Callable[[], Sequence[TrainingSplit]]
    "Usually one; figures of several are put together."
    goal: str = "ndcg@10"
    "The figure that is compared."
    floors: dict[str, float] = field(default_factory=dict)
    recipes: tuple[str, ...] = ("default",)
    has_content: bool = True
    depends: bool = True
    "Does the run's verdict depend on it?"


@dataclass(frozen=True)
class Line:
    """One scorer in one protocol."""

    set: str
    protocol: str
    scorer: str
    users: int
    figures: dict[str, float]
    coverage: float
    fit_s: float
    query_ms: float
    floors: dict[str, float] = field(default_factory=dict)
    kept: bool | None = None
    new_users: int = 0
    new_ndcg: float | None = None
    "NDCG@10 of users without a history."
    note: str = ""


def tasks() -> list[Task]:
    """List what is measured."""
    return [
        Task("yoochoose-100k", "sessions", _sessions, "mrr@20", {"mrr@20": 0.345, "hit_rate@20": 0.676},
             recipes=("default", "session"), has_content=False),
        Task("yoochoose-100k", "leave last out", lambda: [leave_last_out(sets.yoochoose()[0])],
             recipes=("default",), has_content=False),
        Task("online-retail-y1", "by time", lambda: [split_by_time(sets.online_retail(), seen="out", folds=2)],
             floors={"ndcg@10": 0.1171, "recall@20": 0.1293}),
        Task("online-retail-y1", "by time, repeats allowed",
             lambda: [split_by_time(sets.online_retail(), seen="allowed", folds=2)]),
        Task("online-retail-y1", "leave last out", lambda: [leave_last_out(sets.online_retail(), 2)]),
        Task("ml-latest-small", "by time", _films_by_time),
        Task("ml-latest-small", "leave last out", lambda: [leave_last_out(sets.movielens_small(), 2)]),
        Task("amazon-toys", "leave last out", lambda: [leave_last_out(sets.amazon_toys(), 2)],
             floors={"ndcg@10": 0.0739, "recall@20": 0.1408}),
    ]  # fmt: skip


def measure(
    task: Task, report_progress: ReportProgress, skip: Callable[[str, str], None] = lambda peer, reason: None
) -> Iterator[Line]:
    """Run all scorers of one task, the peers first; `skip` takes the peers that can't be measured, with the reason."""
    rounds = list(task.rounds())
    best = 0.0
    for peer in peers(rounds[0].test.train.n_items):
        report_progress(f"{task.folder}, {task.protocol}: {peer.name}")
        try:
            line = _peer_line(task, peer, rounds)
        except Exception as error:  # noqa: BLE001 - a peer that fails here is no reason to measure nothing else
            skip(peer.name, reason_of(error))
            continue
        best = max(best, line.figures[task.goal])
        yield line
    bare = [without_content(split) for split in rounds]
    for number, recipe in enumerate(task.recipes):
        report_progress(f"{task.folder}, {task.protocol}: kiosk {recipe}")
        line = _kiosk_line(task, recipe, rounds)
        yield _judged(task, line, best) if number == 0 else line
        if task.has_content:
            yield replace(_kiosk_line(task, recipe, bare), scorer=f"kiosk {recipe}, content unknown")


@dataclass
class _Sum:
    """Figures of the users of all rounds."""

    returning: list[dict[str, Floats]] = field(default_factory=list)
    new: list[Floats] = field(default_factory=list)
    coverage: list[float] = field(default_factory=list)
    fit_s: float = 0.0
    query_ms: float = 0.0
    notes: list[str] = field(default_factory=list)

    def add(self, scorer: Scorer, test: EvaluationSplit, fit_s: float, note: str) -> None:
        """Examine one round."""
        returning = split_by_history(test, has_history=True)
        examined = evaluate(scorer, returning)
        self.returning.append(dict(examined.figures))
        self.coverage.append(examined.coverage)
        self.fit_s += fit_s
        self.query_ms = _query_ms(scorer, returning)
        self.notes.append(note)
        new = split_by_history(test, has_history=False)
        if len(new):
            self.new.append(evaluate(scorer, new).figures["ndcg@10"])

    def line(self, task: Task, name: str) -> Line:
        """Give the means over all users."""
        figures = {
            name: np.concatenate([part[name] for part in self.returning]) for name in self.returning[0]
        }
        new = np.concatenate(self.new) if self.new else np.zeros(0)
        return Line(
            set=task.folder,
            protocol=task.protocol,
            scorer=name,
            users=len(figures["ndcg@10"]),
            figures={name: float(values.mean()) for name, values in figures.items()},
            coverage=float(np.mean(self.coverage)),
            fit_s=self.fit_s / len(self.returning),
            query_ms=self.query_ms,
            new_users=len(new),
            new_ndcg=float(new.mean()) if len(new) else None,
            note="; ".join(dict.fromkeys(note for note in self.notes if note)),
        )


def _peer_line(task: Task, peer: Peer, rounds: Sequence[TrainingSplit]) -> Line:
    """Choose the setting of a peer on validation, then train and examine it."""
    total = _Sum()
    for split in rounds:
        chosen = 0
        if len(peer.settings) > 1:
            trial = split_by_history(split.validation[0], has_history=True)
            evaluations = [evaluate(train(trial.train), trial) for _, train in peer.settings]
            chosen = int(np.argmax([examined.figures[task.goal].mean() for examined in evaluations]))
        setting, train = peer.settings[chosen]
        began = time.perf_counter()
        scorer = train(split.test.train)
        total.add(scorer, split.test, time.perf_counter() - began, setting)
    return total.line(task, peer.name)


def _kiosk_line(task: Task, recipe: str, rounds: Sequence[TrainingSplit]) -> Line:
    """Plan on validation, fit, examine."""
    total = _Sum()
    for split in rounds:
        began = time.perf_counter()
        plan = make_plan(load_recipe_file(recipe), split.validation)
        planned = time.perf_counter()
        engine = train_engine(plan.recipe, split.test.train)
        weights = dict(plan.recipe.blend.weights)  # type: ignore[arg-type]
        note = ", ".join(f"{name} {weight:g}" for name, weight in weights.items())
        total.add(engine, split.test, time.perf_counter() - planned, f"plan {planned - began:.0f} s: {note}")
    return total.line(task, f"kiosk {recipe}")


def _judged(task: Task, line: Line, best_peer: float) -> Line:
    """Say whether floors and peers are reached."""
    kept = all(line.figures[name] >= floor for name, floor in task.floors.items())
    kept = kept and line.figures[task.goal] > best_peer
    return replace(line, floors={**task.floors, f"best peer {task.goal}": best_peer}, kept=kept)


def _query_ms(scorer: Scorer, trial: EvaluationSplit, count: int = 60) -> float:
    """Time single users; the median."""
    took = []
    for at in np.linspace(0, len(trial) - 1, count).astype(int).tolist():
        history = trial.histories.select_block(at, at + 1)
        began = time.perf_counter()
        scorer.score(history)
        took.append(time.perf_counter() - began)
    return float(np.median(took)) * 1000


def split_by_history(trial: EvaluationSplit, *, has_history: bool) -> EvaluationSplit:
    return trial.pick(np.flatnonzero((trial.histories.lengths > 0) == has_history))


def without_content(split: TrainingSplit) -> TrainingSplit:
    def bare(trial: EvaluationSplit) -> EvaluationSplit:
        return replace(trial, train=replace(trial.train, content=None))

    return TrainingSplit(tuple(bare(trial) for trial in split.validation), bare(split.test))


def _films_by_time() -> list[TrainingSplit]:
    """Five instants, each asked about until the next: people rate in one sitting, so few are known at any time."""
    data = sets.movielens_small()
    splits = []
    for share in (0.5, 0.6, 0.7, 0.8, 0.9):
        instant, until = (float(np.quantile(data.at_s, at)) for at in (share, share + 0.1))
        splits.append(
            split_by_time(data.pick(data.at_s <= until), share=0.2, seen="out", at_s=instant, folds=3)
        )
    return splits


def _sessions() -> list[TrainingSplit]:
    data, begins = sets.yoochoose()
    test = split_next_in_session(data, begins)
    return [TrainingSplit((split_next_in_session(test.train, begins - 86_400.0),), test)]


def chosen_tasks(names: Sequence[str], only: str) -> list[Task]:
    """Select tasks by the folder of their set and by words of their protocol, whether their data are here or not."""
    return [task for task in tasks() if only in task.protocol and (not names or task.folder in names)]


def as_rows(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Write lines as plain rows."""
    return [{name: getattr(line, name) for name in Line.__dataclass_fields__} for line in lines]
