"""A plan of training for tests that evaluate nothing."""

from __future__ import annotations

from jobs.refresh.data.dataset import Interactions
from jobs.refresh.recipe import Recipe
from jobs.refresh.tuning.plan import TuningPlan, is_settled, make_plan, plan_without_tuning
from jobs.refresh.tuning.split_selection import split_for_recipe
from jobs.refresh.tuning.variant_training import StepCallback, ignore_step


def plan_on_newest(recipe: Recipe, data: Interactions, on_step: StepCallback = ignore_step) -> TuningPlan:
    """Choose the open parameters and weights of a recipe on the newest part of the data."""
    if is_settled(recipe):
        return plan_without_tuning(recipe, data.n_items)
    split = split_for_recipe(recipe, data)
    # Nothing is evaluated afterwards, so the newest targets may choose too.
    return make_plan(recipe, (split.test, *split.validation), on_step)
