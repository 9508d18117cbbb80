"""What came of each part of a recipe, and that a blend never loses to a part of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from actors.models.blend import Part
from actors.models.model import Batch, Parts
from actors.models.user_histories import Histories
from jobs.refresh.build.fit import fit
from jobs.refresh.recipe import Recipe, parse
from jobs.refresh.runs.stages import confirmed, examined, plan_facts, plan_of, planned
from jobs.refresh.tuning.confirmation import confirm
from jobs.refresh.tuning.outcomes import sentence_of
from jobs.refresh.tuning.plan import make_plan
from jobs.refresh.tuning.split_protocol import split_of
from tests.unit.jobs.refresh.test_training import circles

COUNTS = f"{__name__}:Counts"


class Scores:
    """A model that says the same to everybody, from what it was given."""

    def __init__(self, row: np.ndarray) -> None:
        self._row = row.astype(np.float32)

    def score(self, histories: Histories) -> Batch:
        return np.tile(self._row, (len(histories), 1))

    def save(self) -> Parts:
        return Parts({"row": self._row})


class Counts:
    """A learner of an integrator: how often an item was taken."""

    def train(self, data: Any, rng: np.random.Generator) -> Scores:
        return Scores(np.bincount(data.item, minlength=data.n_items))

    def load(self, parts: Parts) -> Scores:
        return Scores(parts.array("row"))


def recipe_of(**fields: Any) -> Recipe:
    return parse(
        {
            "parts": {
                "rules": {"learner": "rules", "window": 1, "fading": {"half_life_items": 0.5}},
                "counts": {"learner": COUNTS},
                "large": {"learner": "graph_filter", "items_from": 1000},
                "trend": {"learner": "popularity"},
            },
            "blend": {"start": {"rules": 1.0}},
            **fields,
        }
    )


@pytest.fixture(autouse=True)
def _allowed(allow_learners: Any) -> None:
    allow_learners(COUNTS)


def test_a_plan_says_what_came_of_each_part() -> None:
    data = circles()
    plan = make_plan(recipe_of(), split_of(recipe_of(), data).validation)
    found = {one.part: one for one in plan.outcomes}
    assert found["rules"].outcome == "chosen"
    assert found["counts"].outcome == "adds_nothing"
    assert found["counts"].alone is not None
    assert "NDCG@10 alone" in found["counts"].reason
    assert found["trend"].outcome == "new_users"
    assert found["large"].reason == "is meant for catalogs of at least 1,000 items, this one has 15"
    said = sentence_of(plan.outcomes)
    assert said.startswith("chosen: rules 1")
    assert "counts adds nothing and is left out" in said
    assert "for users without a history: trend 1" in said
    assert plan_of(plan_facts(plan)) == plan, "a checkpoint keeps it"


def test_the_report_of_a_training_holds_it() -> None:
    data = circles()
    split = split_of(recipe_of(), data)
    report = examined(planned(recipe_of(), data, split), split.test)
    assert "counts adds nothing and is left out" in report["chosen"]
    assert {one["part"] for one in report["parts"]} == {"rules", "counts", "large", "trend"}


def test_weights_that_were_given_stay_and_are_told() -> None:
    blend = {"weights": {"rules": 1.0, "counts": 5.0}, "weights_new": {"trend": 1.0}}
    recipe = recipe_of(blend=blend)
    data = circles()
    split = split_of(recipe, data)
    plan = planned(recipe, data, split)
    report = examined(plan, split.test)
    assert report["dropped"] == {}
    assert report["chosen"].startswith("chosen: rules 1, counts 5")


def test_a_part_that_misleads_is_dropped_before_it_serves() -> None:
    """Counts were chosen on events unlike those that came after: the blend lost to its own rules."""
    data = circles()
    recipe = recipe_of()
    split = split_of(recipe, data)
    plan = make_plan(recipe, split.validation)
    misled = recipe_of(blend={"weights": {"rules": 1.0, "counts": 2.0}, "weights_new": {"trend": 1.0}})
    settled = plan.recipe.model_copy(update={"blend": misled.blend, "parts": dict(misled.parts)})
    outcomes = tuple(
        replace(one, weight=2.0, outcome="chosen") if one.part == "counts" else one for one in plan.outcomes
    )
    wrong = replace(plan, recipe=settled, outcomes=outcomes)
    report = examined(wrong, split.test)
    assert list(report["dropped"]) == ["counts"]
    assert "counts misleads and is left out" in report["chosen"]
    assert "without it" in next(one["reason"] for one in report["parts"] if one["part"] == "counts")
    assert confirmed(wrong, report).recipe.blend.weights == {"rules": 1.0}
    kept = examined(replace(wrong, chooses=False), split.test)
    assert report["figures"]["ndcg@10"] > kept["figures"]["ndcg@10"] + 0.05


def test_a_part_that_helps_stays_and_few_readers_decide_nothing() -> None:
    data = circles()
    split = split_of(recipe_of(), data)
    rules = make_plan(recipe_of(), split.validation)
    parts = fit(rules.recipe, split.test.train).blend.parts
    noise = Part("noise", Scores(np.arange(data.n_items)[::-1]), 3.0)
    rng = np.random.default_rng(1)
    assert list(confirm([*parts, noise], split.test, 10, rng).dropped) == ["noise"]
    assert confirm(parts, split.test, 10, rng).dropped == {}
    few = split.test.pick(np.arange(5))
    assert confirm([*parts, noise], few, 10, rng).dropped == {}
