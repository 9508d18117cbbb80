"""What came of each part of a recipe, and that a blend never loses to a part of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from actors.models.blend import BlendPart
from actors.models.model import Batch
from actors.models.user_histories import UserHistories
from actors.vectors.snapshot_arrays import ModelState
from jobs.refresh.build.fit import train_engine
from jobs.refresh.recipe import Recipe, parse_recipe
from jobs.refresh.runs.plan_evaluation import (
    apply_confirmation,
    evaluate_plan,
    plan_from_dict,
    plan_to_dict,
    plan_training,
)
from jobs.refresh.tuning.blend_weights import confirm_blend
from jobs.refresh.tuning.part_outcomes import summarize_outcomes
from jobs.refresh.tuning.plan import make_plan
from jobs.refresh.tuning.split_selection import split_for_recipe
from tests.unit.jobs.refresh.test_training import circles

COUNTS = f"{__name__}:Counts"


class Scores:
    """A model with the same given scores for all users."""

    def __init__(self, row: np.ndarray) -> None:
        self._row = row.astype(np.float32)

    def score(self, histories: UserHistories) -> Batch:
        return np.tile(self._row, (len(histories), 1))

    def save(self) -> ModelState:
        return ModelState({"row": self._row})


class Counts:
    """A learner of an integrator: how often an item was taken."""

    def train(self, data: Any, rng: np.random.Generator) -> Scores:
        return Scores(np.bincount(data.item, minlength=data.n_items))

    def load(self, parts: ModelState) -> Scores:
        return Scores(parts.array("row"))


def recipe_of(**fields: Any) -> Recipe:
    return parse_recipe(
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


def test_a_plan_lists_the_outcome_of_each_part() -> None:
    data = circles()
    plan = make_plan(recipe_of(), split_for_recipe(recipe_of(), data).validation)
    outcomes = {outcome.part: outcome for outcome in plan.outcomes}
    assert outcomes["rules"].outcome == "chosen"
    assert outcomes["counts"].outcome == "adds_nothing"
    assert outcomes["counts"].alone is not None
    assert "NDCG@10 alone" in outcomes["counts"].reason
    assert outcomes["trend"].outcome == "new_users"
    assert outcomes["large"].reason == "is meant for catalogs of at least 1,000 items, this one has 15"
    summary = summarize_outcomes(plan.outcomes)
    assert summary.startswith("chosen: rules 1")
    assert "counts adds nothing and is left out" in summary
    assert "for users without a history: trend 1" in summary
    assert plan_from_dict(plan_to_dict(plan)) == plan, "a checkpoint keeps it"


def test_content_weights_that_do_not_fit_the_catalog_are_left_out_with_the_reason() -> None:
    data = circles()
    recipe = recipe_of().with_changes({"content": {"items_up_to": 14}})
    split = split_for_recipe(recipe, data)
    plan = make_plan(recipe, split.validation)
    assert plan.recipe.content is None
    report = evaluate_plan(plan, split.test)
    (content,) = (part for part in report.parts if part.part == "[content]")
    assert content.reason == "is meant for catalogs of at most 14 items, this one has 15"
    assert "large, [content] are not meant for a catalog of this size" in report.chosen
    fitting = make_plan(recipe.with_changes({"content.items_up_to": 15}), split.validation)
    assert fitting.recipe.content is not None
    assert "[content]" not in {outcome.part for outcome in fitting.outcomes}


def test_the_report_of_a_training_holds_it() -> None:
    data = circles()
    split = split_for_recipe(recipe_of(), data)
    report = evaluate_plan(plan_training(recipe_of(), data, split), split.test)
    assert "counts adds nothing and is left out" in report.chosen
    assert {part.part for part in report.parts} == {"rules", "counts", "large", "trend"}


def test_given_weights_stay_and_are_reported() -> None:
    blend = {"weights": {"rules": 1.0, "counts": 5.0}, "weights_new": {"trend": 1.0}}
    recipe = recipe_of(blend=blend)
    data = circles()
    split = split_for_recipe(recipe, data)
    plan = plan_training(recipe, data, split)
    report = evaluate_plan(plan, split.test)
    assert report.dropped == {}
    assert report.chosen.startswith("chosen: rules 1, counts 5")


def test_a_part_that_misleads_is_dropped_before_it_serves() -> None:
    """Counts were chosen on events unlike those that came after: the blend lost to its own rules."""
    data = circles()
    recipe = recipe_of()
    split = split_for_recipe(recipe, data)
    plan = make_plan(recipe, split.validation)
    misled = recipe_of(blend={"weights": {"rules": 1.0, "counts": 2.0}, "weights_new": {"trend": 1.0}})
    settled = plan.recipe.model_copy(update={"blend": misled.blend, "parts": dict(misled.parts)})
    outcomes = tuple(
        replace(outcome, weight=2.0, outcome="chosen") if outcome.part == "counts" else outcome
        for outcome in plan.outcomes
    )
    wrong = replace(plan, recipe=settled, outcomes=outcomes)
    report = evaluate_plan(wrong, split.test)
    assert list(report.dropped) == ["counts"]
    assert "counts misleads and is left out" in report.chosen
    assert "without it" in next(part.reason for part in report.parts if part.part == "counts")
    assert apply_confirmation(wrong, report).recipe.blend.weights == {"rules": 1.0}
    kept = evaluate_plan(replace(wrong, chooses=False), split.test)
    assert report.figures["ndcg@10"] > kept.figures["ndcg@10"] + 0.05


def test_a_part_that_helps_stays_and_few_readers_decide_nothing() -> None:
    data = circles()
    split = split_for_recipe(recipe_of(), data)
    rules = make_plan(recipe_of(), split.validation)
    parts = train_engine(rules.recipe, split.test.train).blend.parts
    noise = BlendPart("noise", Scores(np.arange(data.n_items)[::-1]), 3.0)
    rng = np.random.default_rng(1)
    assert list(confirm_blend([*parts, noise], split.test, 10, rng).dropped) == ["noise"]
    assert confirm_blend(parts, split.test, 10, rng).dropped == {}
    few = split.test.pick(np.arange(5))
    assert confirm_blend([*parts, noise], few, 10, rng).dropped == {}
