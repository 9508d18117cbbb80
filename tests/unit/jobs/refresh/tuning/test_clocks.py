"""Logs whose clocks say little: what is chosen on them must not lose to what is chosen without a clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from actors.models.user_histories import DAY_S
from jobs.refresh.build.fit import train_engine
from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame
from jobs.refresh.data.split import leave_last_out
from jobs.refresh.evaluation.evaluate import evaluate
from jobs.refresh.recipe import Recipe, parse_recipe
from jobs.refresh.tuning.plan import make_plan
from jobs.refresh.tuning.split_selection import is_coarse_clock, split_for_recipe

ITEMS = 120
BEGIN_S = 1.6e9


def recipe_of() -> Recipe:
    return parse_recipe(
        {
            "parts": {
                "rules": {
                    "learner": "rules",
                    "window": 2,
                    "tune": {"fading": [{"half_life_items": 0.5}, {"half_life_items": 3.0}]},
                },
                "trend": {"learner": "popularity", "half_life_days": 7.0},
                "popularity": {"learner": "popularity", "half_life_days": None},
            },
            "blend": {"start": {"rules": 1.0, "trend": 0.1}},
        }
    )


def walks(count: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make users who walk round a circle of items and often jump; returns user, item and place in the walk.

    After a jump, the steps before it lead elsewhere: who does not know which step was the last guesses.
    """
    rng = np.random.default_rng(3)
    rows = []
    for user in range(count):
        item = int(rng.integers(ITEMS))
        for place in range(int(rng.integers(8, 16))):
            rows.append((user, item, place))
            item = int(rng.integers(ITEMS)) if rng.random() < 0.4 else (item + 1) % ITEMS
    user, item, place = np.array(rows).T
    return user, item, place


def log(clock: str) -> Interactions:
    """Give the walks clocks of a kind."""
    user, item, place = walks()
    rng = np.random.default_rng(4)
    length = np.bincount(user)[user]
    day = rng.integers(0, 365, user.max() + 1)[user]
    at = {
        "none": place * 1.0,
        "same minute": BEGIN_S + user % 60 - 20.0 * (length - place),
        "one sitting a year": BEGIN_S + DAY_S * day + 20.0 * place,
        "five events a second": BEGIN_S + DAY_S * day + place // 5,
        "one instant": np.full(len(place), BEGIN_S),
        "shuffled": BEGIN_S + DAY_S * 3_650 * rng.random(user.max() + 1)[user] + 60.0 * place,
    }[clock]
    frame = pl.DataFrame(
        {
            "reader": [f"r{number:03d}" for number in user.tolist()],
            "item": [f"i{number:02d}" for number in item.tolist()],
            "at": at,
        }
    )
    return interactions_from_frame(frame, FrameColumns(at=None if clock == "none" else "at"))


def figure_of(data: Interactions) -> float:
    """Choose on everything but each user's last item, and ask for that."""
    test = leave_last_out(data).test
    plan = make_plan(recipe_of(), split_for_recipe(recipe_of(), test.train).validation)
    return float(evaluate(train_engine(plan.recipe, test.train), test).figures["ndcg@10"].mean())


@pytest.fixture(scope="module")
def without_clock() -> float:
    return figure_of(log("none"))


@pytest.mark.parametrize(
    "clock", ["same minute", "one sitting a year", "five events a second", "one instant", "shuffled"]
)
def test_a_coarse_clock_costs_nothing(clock: str, without_clock: float) -> None:
    """If ties count as equally recent, the last step of a walk is unknown."""
    assert figure_of(log(clock)) >= 0.97 * without_clock


def test_a_clock_is_coarse_where_separate_events_share_their_moment() -> None:
    assert is_coarse_clock(log("five events a second"))
    assert not is_coarse_clock(log("one sitting a year"))
    assert not is_coarse_clock(log("none"))
    data = log("five events a second")
    moments = np.unique(np.stack((data.reader, data.at_s.astype(np.int64))), axis=1, return_inverse=True)[1]
    assert not is_coarse_clock(replace(data, basket=moments)), (
        "lines of one basket are meant to be equally recent"
    )
