"""Measure the quality of trending, baskets, cold-start users and cold-start items beside reference figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.models.user_histories import DAY_S, UserHistories
from actors.vectors.vocabulary import Vocabulary
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.split import split_by_time
from jobs.refresh.evaluation import metrics
from jobs.refresh.evaluation.evaluate import Scorer, evaluate
from jobs.refresh.learners.cohorts import CohortRecipe, train_cohorts
from jobs.refresh.learners.neighbours.baskets import BasketsLearner, BasketsRecipe
from jobs.refresh.learners.popularity import PopularityLearner, PopularityRecipe, compute_decayed_counts
from tests.benchmarks import quality_cold
from tests.benchmarks import quality_sets as sets
from tests.fakes.basket_split import split_baskets

ReportProgress = Callable[[str], None]


@dataclass(frozen=True)
class MoreLine:
    """One figure."""

    task: str
    scorer: str
    figure: str
    value: float
    floor: float | None = None
    reason: str = ""
    "Why there is no value."

    @property
    def kept(self) -> bool | None:
        """Is the floor reached? None where there is none, or no value."""
        return None if self.floor is None or self.reason else self.value >= self.floor


def unmeasured_line(task: str, reason: str, scorer: str = "") -> MoreLine:
    """Make the line of a task, or of one scorer in it, that could not be measured."""
    return MoreLine(task, scorer, "", math.nan, reason=reason)


def more_lines(folders: set[str], report_progress: ReportProgress) -> list[MoreLine]:
    """Measure what the sets at hand allow."""
    lines: list[MoreLine] = []
    if "online-retail-y1" in folders:
        report_progress("trending, baskets, new readers")
        lines += _trending() + _baskets() + _new_readers()
    for folder, floor in (("ml-latest-small", 0.0945), ("amazon-toys", 0.0829)):
        if folder in folders:
            report_progress(f"new items of {folder}")
            cold_figures = quality_cold.measure(folder)
            task = f"new items of {folder}, among themselves"
            label_of_kiosk = cold_figures[-1][0]
            lines += [
                MoreLine(task, label, "ndcg@10", value, floor if label == label_of_kiosk else None)
                for label, value in cold_figures
            ]
    return lines


def _trending() -> list[MoreLine]:
    """A list made every morning of the last tenth of the days, against what sells on that day and in the week."""
    data = sets.online_retail(guests=True)
    day = (data.at_s // DAY_S).astype(np.int64)
    days = np.unique(day)
    mornings = days[int(len(days) * 0.9) :]
    lines = []
    for span, floor in ((1, 0.805), (7, 0.907)):
        for label, half_life, bound in (("half-life 7 days", 7.0, floor), ("all time", None, None)):
            gains = [
                _gain(data, day, morning, span, half_life)
                for morning in mornings
                if morning + span <= days[-1] + 1
            ]
            task = f"trending, best sellers of {span} day{'s' if span > 1 else ''}"
            lines.append(MoreLine(task, label, "ndcg@20", float(np.mean(gains)), bound))
    return lines


def _gain(data: Interactions, day: Any, morning: int, span: int, half_life: float | None) -> float:
    """NDCG@20 of one morning's list; an item is worth the baskets it is in."""
    counts = compute_decayed_counts(data.pick(day < morning), half_life, float(morning) * DAY_S)
    later = data.pick((day >= morning) & (day < morning + span))
    lines = np.unique(np.stack((later.basket, later.item)), axis=1)
    worth = np.bincount(lines[1], minlength=data.n_items).astype(np.float64)
    discounts = metrics.rank_discounts(20)
    best = float(np.sort(worth)[::-1][:20] @ discounts)
    return float(worth[np.argsort(-counts, kind="stable")[:20]] @ discounts) / best


def _baskets() -> list[MoreLine]:
    """One line of every basket of the last tenth is given; the others are asked for."""
    data = sets.online_retail(guests=True)
    instant = float(np.quantile(data.at_s, 0.9))
    trial = split_baskets(data, instant, np.random.default_rng(1))
    rng = np.random.default_rng(1)
    recipes: list[tuple[str, BasketsRecipe, float | None, float | None]] = [
        ("raw co-count", BasketsRecipe(kinds=(), damping=0.0), None, None),
        ("kiosk baskets", BasketsRecipe(kinds=()), 0.205, 0.43),
        ("kiosk baskets, half-life 60 days", BasketsRecipe(kinds=(), half_life_days=60.0), None, None),
    ]
    popular: Scorer = PopularityLearner(PopularityRecipe(half_life_days=None)).train(trial.train, rng)
    scorers = [("popularity", popular, None, None)]
    scorers += [
        (name, BasketsLearner(recipe).train(trial.train, rng), *floors) for name, recipe, *floors in recipes
    ]
    lines = []
    for name, scorer, floor, coverage in scorers:
        examined = evaluate(scorer, trial)
        lines.append(
            MoreLine("bought together", name, "ndcg@10", float(examined.figures["ndcg@10"].mean()), floor)
        )
        lines.append(MoreLine("bought together", name, "coverage@10", examined.coverage, coverage))
    return lines


def _new_readers() -> list[MoreLine]:
    """Compare global popularity with popularity by country for users whose first purchase is in the last tenth."""
    data = sets.online_retail()
    trial = split_by_time(data, seen="out").test
    owners = np.unique(data.pick(data.at_s > float(np.quantile(data.at_s, 0.9))).reader)
    new = trial.pick(np.flatnonzero(trial.histories.lengths == 0))
    has_history = np.zeros(data.n_readers, np.bool_)
    has_history[trial.train.reader] = True
    new_owners = owners[~has_history[owners]]
    where = sets.countries()
    named = [where.get(name, "") for name in data.readers.names.to_pylist()]
    profiles = Vocabulary.from_names(named).codes(named).astype(np.int32)[:, None]
    rng = np.random.default_rng(1)
    lines = []
    for label, half_life in (("all time", None), ("half-life 7 days", 7.0)):
        counted = PopularityLearner(PopularityRecipe(half_life_days=half_life)).train(trial.train, rng)
        value = float(evaluate(counted, new).figures["ndcg@10"].mean())
        lines.append(
            MoreLine("new readers", f"everybody, {label}", "ndcg@10", value, 0.112 if half_life else None)
        )
        recipe = CohortRecipe(prior=2_000.0, half_life_days=half_life)
        cohorts = train_cohorts(recipe, trial.train, profiles)
        scored = _Given(cohorts.score(profiles[new_owners]))
        value = float(evaluate(scored, replace(new, name="by country")).figures["ndcg@10"].mean())
        lines.append(MoreLine("new readers", f"country with prior, {label}", "ndcg@10", value))
    return lines


class _Given:
    """Scores that were worked out before, in the order of the users of a trial of one block."""

    def __init__(self, scores: npt.NDArray[np.float32]) -> None:
        self._scores = scores

    def score(self, histories: UserHistories) -> npt.NDArray[np.float32]:
        assert len(histories) == len(self._scores), "the trial must fit one block"
        return self._scores.copy()
