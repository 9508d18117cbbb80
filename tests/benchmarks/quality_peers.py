"""Recipes beside the libraries implicit, LensKit and RecTools: `kiosk bench quality --peers [--set NAME]`.

Each library runs in an environment of its own and each scorer in a process of its own, with one thread. All of them
get the same training events, rank the whole catalog for the same people, and are judged by the same code. Each has the
same budget of processor time to search on validation, and once more to train: first with the settings that its library
recommends, then with a few others. Of the settings that were tried, validation chooses.

What ran is kept in the cache, so an interrupted run goes on where it ended.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache as remember
from pathlib import Path
from typing import Any

import numpy as np

from actors.vectors.types import Floats
from jobs.refresh.data.split import EvaluationSplit, TrainingSplit
from jobs.refresh.evaluation import metrics
from tests.benchmarks import quality
from tests.benchmarks.peers import environment
from tests.benchmarks.peers.split_files import read_lists, write_split
from tests.benchmarks.quality_regret import last_purchases

ReportProgress = Callable[[str], None]

QUERIES = 4_000
"Most queries of a test; a sample that is the same for every scorer."
_SEARCH_QUERIES = 1_000
"Most queries on which the settings of a library are chosen."
_EPOCHS = (3, 6, 10, 15, 20, 30, 40)
"Lists are ranked after so many epochs of one training; the first is the default of RecTools."


@dataclass(frozen=True)
class Peer:
    """A scorer and the settings that are tried; the first are what its library recommends."""

    name: str
    settings: tuple[Mapping[str, Any], ...]


LIBRARIES = (
    Peer("implicit BM25", ({"K": 20}, {"K": 100}, {"K": 500})),
    Peer("LensKit item-kNN", ({}, {"max_nbrs": 100}, {"max_nbrs": 5})),
    Peer(
        "implicit ALS",
        (
            {},
            {"factors": 128, "alpha": 10.0, "regularization": 0.05},
            {"factors": 32, "alpha": 10.0, "regularization": 0.05},
            {"factors": 128, "alpha": 1.0, "regularization": 0.05},
        ),
    ),
    Peer(
        "implicit BPR",
        (
            {},
            {"factors": 128, "learning_rate": 0.05, "iterations": 60},
            {"factors": 32, "learning_rate": 0.05, "iterations": 60},
        ),
    ),
    Peer("LensKit ALS", ({}, {"embedding_size": 128}, {"embedding_size": 128, "weight": 10.0})),
    Peer(
        "LensKit EASE",
        ({}, {"regularization": 300.0}, {"regularization": 100.0}, {"regularization": 1000.0}),
    ),
    Peer("RecTools SASRec", ({"epochs": _EPOCHS}, {"n_factors": 64, "n_heads": 2, "epochs": _EPOCHS})),
    Peer("RecTools HSTU", ({"epochs": _EPOCHS}, {"n_factors": 64, "n_heads": 2, "epochs": _EPOCHS})),
)
RECIPES = ("fast", "default", "deep")
EVENTS_ALONE = "kiosk default, events alone"
"The recipe without what is known of the items, which the libraries do not get either."
SCORERS = (
    *(peer.name for peer in LIBRARIES[:6]), *(f"kiosk {recipe}" for recipe in RECIPES[:2]), EVENTS_ALONE,
    "kiosk deep", *(peer.name for peer in LIBRARIES[6:]),
)  # fmt: skip
"In the order of the run: what takes long comes last."


@dataclass(frozen=True)
class Trial:
    """Settings, and NDCG@10 on validation."""

    settings: Mapping[str, Any]
    figure: float


@dataclass(frozen=True)
class Outcome:
    """What a scorer reached on a task; lists lie in the same folder."""

    scorer: str
    budget_s: float
    version: str = ""
    trials: tuple[Trial, ...] = ()
    search_s: float = 0.0
    chosen: Mapping[str, Any] | None = None
    "Settings, fit_s, rank_s, peak_bytes and lists: the file, relative to the folder. None if it did not finish."
    recommended: Mapping[str, Any] | None = None
    "The same with the settings that the library recommends; None for recipes of Kiosk."
    reason: str = ""
    "Why there are no lists, or why the search ended early."


@remember
def tasks() -> dict[str, quality.Task]:
    """Return the tasks by their names: every set and protocol of `kiosk bench quality` with one test, and taobao."""
    several = ("ml-latest-small", "by time")
    chosen = [task for task in quality.tasks() if (task.folder, task.protocol) != several]
    chosen.append(quality.Task("taobao-ghcf", "last purchase", lambda: [last_purchases()], has_content=False))
    return {f"{task.folder}, {task.protocol}": task for task in chosen}


def load_split(name: str, *, has_content: bool = True) -> TrainingSplit:
    """Return the splits of a task; the test has users with a history, at most `QUERIES` of them."""
    (split,) = tasks()[name].rounds()
    test = quality.split_by_history(split.test, has_history=True)
    split = replace(split, test=test.sample(QUERIES, np.random.default_rng(1)))
    return split if has_content else quality.without_content(split)


def compute_figures(lists: metrics.RankedLists, split: EvaluationSplit) -> dict[str, Floats]:
    """Return the metrics of each query from its list.

    Shapes:
        lists: int64 [q, 20]; returns: name -> float64 [q]
    """
    hits = metrics.mark_hits(lists, split.targets, split.histories.n_items)
    lengths = split.targets.lengths
    counts = np.bincount(split.train.item, minlength=split.histories.n_items).astype(np.float64)
    return {
        "ndcg@10": metrics.ndcg(hits, lengths, 10),
        "recall@20": metrics.recall(hits, lengths, 20),
        "hit_rate@20": metrics.hit_rate(hits, 20),
        "mrr@20": metrics.reciprocal_rank(hits, 20),
        "novelty@10": metrics.novelty(lists, counts, 10),
    }


class PeerRun:
    """A run over tasks and scorers with a cache."""

    def __init__(self, cache: Path, budget_s: float, report_progress: ReportProgress) -> None:
        self._cache = cache.resolve()
        self._budget_s = budget_s
        self._report_progress = report_progress
        self._splits: dict[str, TrainingSplit] = {}

    def measure(self, names: Sequence[str], only: str = "") -> None:
        """Run what is not in the cache, the quick scorers of all tasks first.

        Errors:
            Invalid: the environment of the libraries cannot be made
        """
        pairs = [(scorer, name) for scorer in SCORERS for name in names if only in f"{name}, {scorer}"]
        for number, (scorer, name) in enumerate(pairs, 1):
            if scorer == EVENTS_ALONE and not tasks()[name].has_content:
                continue
            outcome, began = self.read(name, scorer), time.monotonic()
            if outcome is None:
                outcome = self._measure_scorer(name, scorer)
                self._write(name, outcome)
            spent_s = time.monotonic() - began
            best = max((trial.figure for trial in outcome.trials), default=0.0)
            words = f"validation {best:.4f} of {len(outcome.trials)} settings" if outcome.trials else ""
            self._report_progress(
                f"{number}/{len(pairs)} {name}, {scorer}: {words} {outcome.reason} ({spent_s:.0f} s)"
            )

    def read(self, name: str, scorer: str, *, any_budget: bool = False) -> Outcome | None:
        """Return the outcome in the cache; None if there is none, or a larger budget may reach more."""
        path = self.folder(name, scorer) / "outcome.json"
        if not path.exists():
            return None
        fields = json.loads(path.read_text())
        fields["trials"] = tuple(Trial(**trial) for trial in fields["trials"])
        outcome = Outcome(**fields)
        kept = any_budget or not outcome.reason or outcome.budget_s >= self._budget_s
        return outcome if kept else None

    def folder(self, name: str, scorer: str) -> Path:
        """Return the folder of a scorer on a task."""
        return self._cache / "runs" / name / scorer

    def split(self, name: str) -> TrainingSplit:
        """Return the splits of a task, which are read once."""
        if name not in self._splits:
            self._splits[name] = load_split(name)
        return self._splits[name]

    def _write(self, name: str, outcome: Outcome) -> None:
        path = self.folder(name, outcome.scorer) / "outcome.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(outcome), indent=1))

    def _measure_scorer(self, name: str, scorer: str) -> Outcome:
        for peer in LIBRARIES:
            if peer.name == scorer:
                return self._measure_library(name, peer)
        return self._measure_recipe(name, scorer)

    def _measure_recipe(self, name: str, scorer: str) -> Outcome:
        """Run a recipe, whose search and training share the budget of both."""
        recipe, content = scorer.split()[1].rstrip(","), "none" if scorer == EVENTS_ALONE else "content"
        folder, budget_s = self.folder(name, scorer), self._budget_s
        out = folder / "test"
        command = environment.kiosk_command(recipe, name, content, str(out))
        run = environment.run_process(command, out, 2 * budget_s)
        if not run.rows:
            return Outcome(scorer, budget_s, reason=run.reason)
        row = {**run.rows[0], "lists": "test/lists-0.parquet"}
        return Outcome(scorer, budget_s, run.version, search_s=row.pop("search_s"), chosen=row)

    def _measure_library(self, name: str, peer: Peer) -> Outcome:
        """Search on validation until the budget ends, then train with the recommended and the chosen settings."""
        budget_s = self._budget_s
        interpreter = environment.make_environment(self._cache, self._report_progress)
        trials, search_s, reason = self._search(name, peer, interpreter)
        if not trials:
            return Outcome(peer.name, budget_s, search_s=search_s, reason=reason)
        best = max(trials, key=lambda trial: trial.figure)
        first = recommended_settings(peer)
        runs: dict[str, Mapping[str, Any]] = {}
        versions = ""
        for label, settings in plan_tests(first, best.settings).items():
            run = self._run_library(name, peer, interpreter, settings, (label, budget_s))
            versions = run.version or versions
            reason = run.reason or reason
            for number, row in enumerate(run.rows):
                runs[_key(row["settings"])] = {**row, "lists": f"{label}/lists-{number}.parquet"}
        chosen, recommended = runs.get(_key(best.settings)), runs.get(_key(first))
        return Outcome(
            peer.name, budget_s, versions, trials, search_s, chosen or recommended, recommended, reason
        )

    def _search(self, name: str, peer: Peer, interpreter: Path) -> tuple[tuple[Trial, ...], float, str]:
        """Try the settings of a library in order; return their figures, the seconds and why it ended early."""
        validation, trials = _search_split(self.split(name)), list[Trial]()
        spent_s, longest_s, reason = 0.0, 0.0, ""
        cut = f"search cut after {self._budget_s / 60:.3g} min of one core"
        for number, settings in enumerate(peer.settings):
            left_s = self._budget_s - spent_s
            if left_s < max(longest_s, 5.0):
                reason = cut
                break
            # Settings that take too long leave half of the budget to the others.
            share_s = left_s if number == len(peer.settings) - 1 else left_s / 2
            label = f"search-{number}"
            run = self._run_library(name, peer, interpreter, settings, (label, share_s), part="validation")
            spent_s += run.cpu_s
            for place, row in enumerate(run.rows):
                path = self.folder(name, peer.name) / label / f"lists-{place}.parquet"
                figures = compute_figures(read_lists(path, validation), validation)
                trials.append(Trial(row["settings"], float(figures["ndcg@10"].mean())))
            if run.reason:
                reason = cut if run.rows else run.reason
            else:
                longest_s = max(longest_s, run.cpu_s)
        return tuple(trials), spent_s, reason

    def _run_library(
        self,
        name: str,
        peer: Peer,
        interpreter: Path,
        settings: Mapping[str, Any],
        place: tuple[str, float],
        part: str = "test",
    ) -> environment.Run:
        label, budget_s = place
        out, split = self.folder(name, peer.name) / label, self._split_folder(name, part)
        command = environment.library_command(interpreter, peer.name, settings, split, out)
        return environment.run_process(command, out, budget_s)

    def _split_folder(self, name: str, part: str) -> Path:
        folder = self._cache / "splits" / name / part
        if not (folder / "split.json").exists():
            split = self.split(name)
            write_split(split.test if part == "test" else _search_split(split), folder)
        return folder


def _search_split(split: TrainingSplit) -> EvaluationSplit:
    validation = quality.split_by_history(split.validation[0], has_history=True)
    return validation.sample(_SEARCH_QUERIES, np.random.default_rng(1))


def recommended_settings(peer: Peer) -> Mapping[str, Any]:
    """Return what the library recommends; of numbers of epochs the first."""
    settings = peer.settings[0]
    return {**settings, "epochs": settings["epochs"][0]} if "epochs" in settings else settings


def plan_tests(recommended: Mapping[str, Any], best: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the trainings that rank the test, by label; settings that differ only in epochs share one."""
    rest = [
        {name: value for name, value in settings.items() if name != "epochs"}
        for settings in (recommended, best)
    ]
    if rest[0] == rest[1] and "epochs" in best:
        return {"test": {**best, "epochs": sorted({recommended["epochs"], best["epochs"]})}}
    several = {"recommended": recommended, "test": best} if recommended != best else {"test": best}
    return {
        label: {**settings, "epochs": [settings["epochs"]]} if "epochs" in settings else settings
        for label, settings in several.items()
    }


def _key(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)
