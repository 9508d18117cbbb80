"""Learning curves: the quality of a settled recipe with fewer training users, and with shorter histories.

The test stays the same. A share of the users trains, whatever their test, and all test users keep their histories. For
the second curve the complete training data stay, and only the newest events of each history are given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from actors.models.model import Batch
from actors.models.user_histories import UserHistories
from actors.vectors.row_selection import expand_runs
from actors.vectors.types import Floats, Rows
from jobs.refresh.build.fit import train_engine
from jobs.refresh.data.split import EvaluationSplit
from jobs.refresh.evaluation.evaluate import Scorer, bootstrap_interval, evaluate
from jobs.refresh.evaluation.report_models import CurvePoint, LearningCurve
from jobs.refresh.learners.registry import build_rng
from jobs.refresh.recipe import Recipe
from jobs.refresh.tuning.variant_training import StepCallback, ignore_step

SHARES = (0.1, 0.25, 0.5, 1.0)
"Shares of the training users; each includes the users of the smaller ones."
HISTORIES = (1, 3, 10, 30)
"Numbers of newest events of a history; the last point of the curve has all events."


@dataclass(frozen=True, slots=True)
class ShortenedHistoryScorer:
    """A scorer that is given the newest events of each history only."""

    scorer: Scorer
    newest: int

    def score(self, histories: UserHistories) -> Batch:
        """Return the score of each item for each shortened history.

        Shapes:
            returns: float32 [q, n]
        """
        return self.scorer.score(shorten_histories(histories, self.newest))


def shorten_histories(histories: UserHistories, newest: int) -> UserHistories:
    """Return the newest events of each history."""
    lengths = np.minimum(histories.lengths, newest)
    rows = expand_runs(histories.starts[1:] - lengths, lengths)
    return replace(
        histories,
        starts=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        items=histories.items[rows],
        at_s=histories.at_s[rows],
        weights=histories.weights[rows],
    )


def measure_learning_curve(
    recipe: Recipe, trial: EvaluationSplit, users: int, k: int, on_step: StepCallback = ignore_step
) -> LearningCurve:
    """Train a settled recipe on shares of the users and evaluate it with histories of several lengths.

    Each point has the mean NDCG with its 95 % interval, and its paired difference to the last point, which has
    everything.

    Cost:
        one training for each share, and one scoring of the catalog for each point and user
    """
    sample = trial.sample(users, build_rng(recipe.seed, "examine"))
    figure = f"ndcg@{k}"
    order = build_rng(recipe.seed, "learning curve").permutation(trial.train.n_readers)
    engine: Scorer | None = None
    points: list[tuple[dict[str, Any], Floats]] = []
    for share in SHARES:
        on_step(f"train on {share:.0%} of the users")
        chosen = np.zeros(trial.train.n_readers, np.bool_)
        # One order for all shares: each larger one adds users, so the curve has no noise of new draws.
        chosen[order[: max(round(share * len(order)), 1)]] = True
        train = trial.train.pick(chosen[trial.train.reader])
        engine = train_engine(recipe, train)
        facts = {"share": share, "events": len(train)}
        points.append((facts, evaluate(engine, sample, k=k, deep=k).figures[figure]))
    assert engine is not None
    complete = points[-1][1]
    histories: list[tuple[dict[str, Any], Floats]] = []
    for newest in HISTORIES:
        on_step(f"rank by the newest {newest} events")
        scored = evaluate(ShortenedHistoryScorer(engine, newest), sample, k=k, deep=k)
        histories.append(({"newest": newest}, scored.figures[figure]))
    histories.append(({"newest": None}, complete))
    rng = build_rng(recipe.seed, "intervals")
    return LearningCurve(
        figure=figure,
        users=len(sample),
        data=[_curve_point(*point, complete, rng, sample.people) for point in points],
        history=[_curve_point(*point, complete, rng, sample.people) for point in histories],
    )


def _curve_point(
    facts: dict[str, Any], values: Floats, complete: Floats, rng: np.random.Generator, people: Rows | None
) -> CurvePoint:
    low, high = bootstrap_interval(values, rng, people)
    difference = values - complete
    difference_low, difference_high = bootstrap_interval(difference, rng, people)
    estimates = {
        "mean": values.mean(),
        "low": low,
        "high": high,
        "difference": difference.mean(),
        "difference_low": difference_low,
        "difference_high": difference_high,
    }
    return CurvePoint(**facts, **{name: round(float(value), 6) for name, value in estimates.items()})
