"""Two sets of weights: one for lists without products of the history, one for lists that may repeat them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from jobs.refresh.build.fit import train_engine
from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame
from jobs.refresh.data.split import EvaluationSplit, leave_last_out
from jobs.refresh.evaluation.evaluate import evaluate
from jobs.refresh.evaluation.reports import markdown_from_reports
from jobs.refresh.recipe import Recipe, parse_recipe
from jobs.refresh.runs.plan_evaluation import (
    apply_confirmation,
    evaluate_plan,
    plan_training,
    plan_without_interactions,
)
from jobs.refresh.tuning.part_outcomes import PartOutcome, mark_dropped, summarize_outcomes
from jobs.refresh.tuning.plan import TuningPlan, make_plan

ITEMS = 40


def habits(*, users: int = 240, repeated: float = 0.6) -> Interactions:
    """Make users who go round a ring of items, and take one of their last items again now and then."""
    rng = np.random.default_rng(8)
    rows = []
    for user in range(users):
        taken = [int(rng.integers(ITEMS))]
        newest = taken[0]
        while len(taken) < 12:
            if rng.random() < repeated:
                taken.append(int(rng.choice(taken[-4:])))
            else:
                newest = (newest + 1) % ITEMS
                taken.append(newest)
        rows += [(f"u{user:03d}", f"i{item:02d}") for item in taken]
    return interactions_from_frame(
        pl.DataFrame(rows, ["reader", "item"], orient="row"), FrameColumns(at=None)
    )


def recipe_of() -> Recipe:
    parts = {
        "rules": {"learner": "rules", "window": 4, "back": 0.0},
        "repeats": {"learner": "repeats"},
        "popularity": {"learner": "popularity"},
    }
    blend = {"start": {"rules": 1.0}}
    return parse_recipe({"parts": parts, "blend": blend, "validation": {"seen": "allowed"}})


@pytest.fixture(scope="module")
def split() -> EvaluationSplit:
    return leave_last_out(habits(), seen="allowed").test


@pytest.fixture(scope="module")
def plan() -> TuningPlan:
    return make_plan(recipe_of(), leave_last_out(habits(), seen="allowed").validation)


def test_the_unseen_split_has_no_item_of_the_history(split: EvaluationSplit) -> None:
    unseen = split.exclude_seen()
    assert 0 < len(unseen) < len(split)
    assert unseen.train is split.train
    seen = unseen.histories.seen()
    assert not np.asarray(seen[unseen.targets.owners(), unseen.targets.items]).any()
    plain = leave_last_out(habits()).test
    assert np.array_equal(unseen.targets.items, plain.targets.items)
    assert np.array_equal(unseen.excluded_items().items, plain.excluded_items().items)
    assert unseen.exclude_seen() is unseen


def test_repeats_have_weight_only_where_they_may_be_listed(plan: TuningPlan) -> None:
    weights, unseen = plan.recipe.blend.weights, plan.recipe.blend.weights_unseen
    assert isinstance(weights, dict)
    assert unseen is not None
    assert weights["repeats"] > 0
    assert "repeats" not in unseen
    assert unseen["rules"] > 0


def test_each_list_is_better_with_its_weights(plan: TuningPlan, split: EvaluationSplit) -> None:
    engine, unseen = train_engine(plan.recipe, split.train), split.exclude_seen()

    def ndcg(scorer: object, trial: EvaluationSplit) -> float:
        return float(evaluate(scorer, trial).figures["ndcg@10"].mean())  # type: ignore[arg-type]

    assert ndcg(engine, split) > ndcg(engine.for_unseen(), split) + 0.02
    assert ndcg(engine.for_unseen(), unseen) >= ndcg(engine, unseen)


def test_without_repeats_there_is_one_set(split: EvaluationSplit) -> None:
    recipe = recipe_of().with_changes({"validation.seen": "out"})
    blend = make_plan(recipe, leave_last_out(habits()).validation).recipe.blend
    assert blend.weights_unseen is None
    engine = train_engine(recipe.model_copy(update={"blend": blend}), split.train)
    assert [part.weight_unseen for part in engine.blend.parts] == [None] * len(engine.blend.parts)
    assert [part.weight for part in engine.for_unseen().blend.parts] == [
        part.weight for part in engine.blend.parts
    ]


def test_given_weights_stay_alone() -> None:
    blend = {"weights": {"rules": 1.0}, "weights_new": {"popularity": 1.0}}
    recipe = parse_recipe({**recipe_of().model_dump(), "blend": blend})
    assert (
        make_plan(recipe, leave_last_out(habits(), seen="allowed").validation).recipe.blend.weights_unseen
        is None
    )


def test_parts_of_given_weights_for_new_products_stay() -> None:
    blend = {"weights": {"rules": 1.0}, "weights_unseen": {"popularity": 1.0}}
    recipe = parse_recipe({**recipe_of().model_dump(), "blend": blend})
    settled = make_plan(recipe, leave_last_out(habits(), seen="allowed").validation).recipe
    assert settled.blend.weights_unseen == {"popularity": 1.0}
    assert {"rules", "popularity"} <= settled.parts.keys()
    plan_without_interactions(recipe)


def test_the_report_names_both_sets(split: EvaluationSplit) -> None:
    whole = leave_last_out(habits(), seen="allowed")
    plan = plan_training(recipe_of(), habits(), whole)
    report = evaluate_plan(plan, whole.test)
    assert "for lists without products of the history: rules" in report.chosen
    assert report.unseen is not None
    assert report.unseen.weights == apply_confirmation(plan, report).recipe.blend.weights_unseen
    assert report.unseen.users == len(split.exclude_seen())
    assert 0 < report.unseen.figures["ndcg@10"] <= 1
    assert "Lists without products of the history" in markdown_from_reports([report], "habits")


def test_a_part_is_dropped_from_one_set_only() -> None:
    outcomes = (PartOutcome("a", "rules", "chosen", 1.0, weight_unseen=0.5),)
    (left,) = mark_dropped(outcomes, {"a": "worse"}, {})
    assert (left.outcome, left.weight, left.weight_unseen) == ("chosen", 0.0, 0.5)
    (gone,) = mark_dropped(outcomes, {"a": "worse"}, {"a": "worse too"})
    assert (gone.outcome, gone.reason, gone.weight_unseen) == ("misleads", "worse", 0.0)
    assert "a misleads and is left out" in summarize_outcomes((gone,))
