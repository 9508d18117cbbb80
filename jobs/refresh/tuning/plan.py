"""Tuning plans: choose the open parameters and weights of a recipe on validation.

The result is a settled recipe, which can be read, stored, compared and run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from actors.models.model import SharedScoresModel
from actors.vectors.types import Floats
from cluster.errors import Invalid
from jobs.refresh.data.split import EvaluationSplit
from jobs.refresh.learners.protocol import PartRecipe
from jobs.refresh.learners.registry import build_rng
from jobs.refresh.recipe import Recipe
from jobs.refresh.tuning.blend_weights import choose_blend, choose_weights
from jobs.refresh.tuning.candidate_items import TuningCandidates, collect_candidates
from jobs.refresh.tuning.part_outcomes import PartOutcome, build_outcomes, mark_dropped
from jobs.refresh.tuning.variant_training import StepCallback, TrainedVariants, ignore_step, tune_and_train

_ENOUGH_NEW_USERS = 30
"With fewer users without a history, their weights stay those of the start."


@dataclass(frozen=True, slots=True)
class TuningPlan:
    """A settled recipe, and the metrics on which it was chosen."""

    recipe: Recipe
    protocol: str
    readers: int
    "Number of users on which weights were chosen."
    figure: float
    "Validation NDCG of the blend."
    figure_new: float = 0.0
    "The same for users without a history; 0 if there were too few."
    single: Mapping[str, float] = field(default_factory=dict)
    "Component -> validation NDCG of the component alone."
    outcomes: tuple[PartOutcome, ...] = ()
    "Result of each component of the original recipe."
    chooses: bool = False
    "False if the recipe fixed the weights."


def plan_without_tuning(recipe: Recipe, n_items: int) -> TuningPlan:
    """Return the plan of a settled recipe."""
    fitting = fit_recipe_to_catalog(recipe, n_items)
    outcomes = build_outcomes(recipe, list(fitting.parts), n_items=n_items, chooses=False)
    return TuningPlan(fitting, "none needed", 0, 0.0, outcomes=outcomes)


def make_plan(
    recipe: Recipe, trials: Sequence[EvaluationSplit], on_step: StepCallback = ignore_step
) -> TuningPlan:
    """Choose the open parameters and weights of a recipe on the first split; use older splits if users are few.

    Errors:
        Invalid: no component fits the catalog, or the splits have no users with a history
    """
    given = recipe
    n_items = trials[0].train.n_items
    recipe = fit_recipe_to_catalog(recipe, n_items)
    trained = tune_and_train(recipe, trials, on_step)
    on_step("choose weights")
    plan, gains = _choose_weights(recipe, trained)
    # Outcomes follow the original recipe: it also has the components that do not fit the catalog.
    blend = given.blend.model_copy(
        update={
            name: getattr(plan.recipe.blend, name) for name in ("weights", "weights_unseen", "weights_new")
        }
    )
    outcomes = build_outcomes(
        given.model_copy(update={"blend": blend}),
        list(recipe.parts),
        single=plan.single,
        gains=gains,
        n_items=n_items,
        chooses=given.blend.weights == "auto",
    )
    return replace(plan, outcomes=outcomes, chooses=given.blend.weights == "auto")


def remove_parts(
    plan: TuningPlan, dropped: Mapping[str, str], dropped_unseen: Mapping[str, str] = MappingProxyType({})
) -> TuningPlan:
    """Return a plan without some components; the mappings have the reason for each.

    `dropped_unseen` are those to remove from lists without products of the user's history.
    """
    recipe = plan.recipe
    weights = recipe.blend.weights
    weights_new = recipe.blend.weights_new
    if not (dropped or dropped_unseen) or weights == "auto" or weights_new == "auto":
        return plan
    left = {name: weight for name, weight in weights.items() if name not in dropped}
    unseen = recipe.blend.weights_unseen
    if unseen is not None:
        unseen = {name: weight for name, weight in unseen.items() if name not in dropped_unseen}
    used = {*left, *(unseen or ()), *weights_new}
    parts = {name: part for name, part in recipe.parts.items() if name in used}
    blend = recipe.blend.model_copy(update={"weights": left, "weights_unseen": unseen})
    return replace(
        plan,
        recipe=recipe.model_copy(update={"parts": parts, "blend": blend}),
        outcomes=mark_dropped(plan.outcomes, dropped, dropped_unseen),
    )


def is_settled(recipe: Recipe) -> bool:
    """Return true if the recipe has no open parameters or weights."""
    tuned = any(part.tune for part in recipe.parts.values())
    return not tuned and recipe.blend.weights != "auto" and recipe.blend.weights_new != "auto"


def fit_recipe_to_catalog(recipe: Recipe, n_items: int) -> Recipe:
    """Return the recipe without components, and without content weights, that do not fit the catalog size.

    Errors:
        Invalid: no component fits
    """
    parts = {
        name: part
        for name, part in recipe.parts.items()
        if (part.items_from or n_items) <= n_items <= (part.items_up_to or n_items)
    }
    if not parts:
        raise Invalid(
            f"no part of recipe {recipe.name} is meant for {n_items} items; see items_up_to and items_from"
        )
    if recipe.content is not None and n_items > recipe.content.items_up_to:
        recipe = recipe.model_copy(update={"content": None})
    if len(parts) == len(recipe.parts):
        return recipe
    blend = recipe.blend
    kept: dict[str, Any] = {"start": {name: weight for name, weight in blend.start.items() if name in parts}}
    for place, weights in (("weights", blend.weights), ("weights_new", blend.weights_new)):
        if weights != "auto":
            kept[place] = {name: weight for name, weight in weights.items() if name in parts}
    if blend.weights_unseen is not None:
        kept["weights_unseen"] = {
            name: weight for name, weight in blend.weights_unseen.items() if name in parts
        }
    return recipe.model_copy(update={"parts": parts, "blend": blend.model_copy(update=kept)})


def _choose_weights(recipe: Recipe, trained: TrainedVariants) -> tuple[TuningPlan, dict[str, float]]:
    """Choose weights and time decays for users with a history, and weights for users without.

    Return the plan, and the best gain of each component without weight.
    """
    blend = recipe.blend
    first = trained.trials[0]
    every = trained.collect(recipe)
    # Without repeats both kinds of lists are the same, and one choice suffices.
    unseen = [] if first.seen == "out" else trained.collect(recipe, unseen=True)
    choice = choose_blend(recipe, trained.variants, every, unseen)
    parts: dict[str, PartRecipe] = {}
    weights = dict[str, float]()
    weights_unseen = dict[str, float]()
    for at, variant in enumerate(trained.variants):
        for chosen, side in ((choice.weights, weights), (choice.weights_unseen, weights_unseen)):
            if chosen[at]:
                parts[variant.name] = variant.part
                side[variant.name] = _round_weight(chosen[at])
    weights_new, figure_new = _choose_new_user_weights(recipe, trained)
    settled_unseen = weights_unseen if unseen and blend.weights == "auto" else blend.weights_unseen
    for variant in trained.variants:
        if variant.name in weights_new or variant.name in (settled_unseen or {}):
            # A component that only other lists use keeps its first time decay.
            parts.setdefault(variant.name, variant.part)
    chosen_weights = {
        "weights": weights,
        "weights_unseen": settled_unseen,
        "weights_new": weights_new,
        "start": {},
    }
    settled = recipe.model_copy(
        update={
            "parts": {name: part.model_copy(update={"tune": {}}) for name, part in parts.items()},
            "validation": recipe.validation.model_copy(update=_serving_facts(first)),
            "blend": blend.model_copy(update=chosen_weights),
        }
    )
    single: dict[str, float] = {}
    gains: dict[str, float] = {}
    for at, variant in enumerate(trained.variants):
        name = variant.name
        # Variants of one component differ in their time decay; the best of them counts.
        single[name] = max(single.get(name, 0.0), float(choice.single[at]))
        if not np.isnan(choice.gains[at]):
            gains[name] = max(gains.get(name, -1.0), float(choice.gains[at]))
    users = sum(len(candidates) for candidates in every)
    return TuningPlan(settled, first.name, users, choice.figure, figure_new, single), gains


def _serving_facts(trial: EvaluationSplit) -> dict[str, Any]:
    """Return the serving parameters that follow from the split: which items of the history may be recommended."""
    return {"seen": trial.seen, "kinds": trial.kinds} if trial.seen in ("other_kinds", "paused") else {}


def _choose_new_user_weights(recipe: Recipe, trained: TrainedVariants) -> tuple[dict[str, float], float]:
    """Choose weights for users without a history, among components that do not depend on the user."""
    given = recipe.blend.weights_new
    if given != "auto":
        return dict(given), 0.0
    # Only these rank without a history: their scores are the same for all users.
    shared = [at for at, model in enumerate(trained.models[0]) if isinstance(model, SharedScoresModel)]
    if not shared:
        return {}, 0.0
    names = [trained.variants[at].name for at in shared]
    start: Floats = np.array([recipe.blend.start.get(name, 0.0) for name in names])
    # No start names a shared component: the first of the recipe begins alone.
    if not start.any():
        start[0] = 1.0
    rng = build_rng(recipe.seed, "new readers")
    new = [trial.pick(np.flatnonzero(trial.histories.lengths == 0)) for trial in trained.trials]
    figure = 0.0
    if sum(len(trial) for trial in new) >= _ENOUGH_NEW_USERS:
        candidates = TuningCandidates.concatenate(
            [
                collect_candidates(
                    [several[at] for at in shared],
                    trial.sample(recipe.validation.readers, rng),
                    k=recipe.blend.k,
                )
                for several, trial in zip(trained.models, new, strict=True)
                if len(trial)
            ]
        )
        choice = choose_weights(candidates, start, names)
        start = choice.weights
        figure = choice.figure
    # Only ratios order a list of one kind; the largest weight is 1, so reports are readable.
    weights = start / start.max()
    return {
        name: _round_weight(weight) for name, weight in zip(names, weights, strict=True) if weight
    }, figure


def _round_weight(weight: Any) -> float:
    """Round a weight to its significant digits."""
    return float(f"{float(weight):.3g}")
