"""Tuning plans: choose the open parameters and weights of a recipe on validation.

The result is a settled recipe, which can be read, stored, compared and run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from actors.models.model import Model, SharedScoresModel
from actors.vectors.types import Floats
from cluster.errors import Invalid
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.split import EvaluationSplit
from jobs.refresh.learners.protocol import PartRecipe
from jobs.refresh.learners.registry import build_learner, build_rng
from jobs.refresh.recipe import Recipe
from jobs.refresh.tuning.blend_weights import choose_weights
from jobs.refresh.tuning.candidates import TuningCandidates, collect_candidates
from jobs.refresh.tuning.outcomes import PartOutcome, build_outcomes, mark_dropped
from jobs.refresh.tuning.parameter_search import TunedPart, expand_time_decays, tune_part
from jobs.refresh.tuning.split_protocol import is_coarse_clock, select_users_with_history, split_for_recipe

StepCallback = Callable[[str], None]
"Called with the name of each step, for a progress display."

_ENOUGH_NEW_USERS = 30
_ROUNDS = 30


def ignore_step(step: str) -> None:
    """Show no progress."""


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
    given, n_items = recipe, trials[0].train.n_items
    recipe = fit_recipe_to_catalog(recipe, n_items)
    trials = _select_splits(recipe, trials)
    small = [reduce_split(recipe, select_users_with_history(trial)) for trial in trials]
    tuned: dict[str, TunedPart] = {}
    coarse = is_coarse_clock(trials[0].train)
    for name, part in recipe.parts.items():
        on_step(f"tune {name}")
        rng = build_rng(recipe.seed, f"tune {name}")
        tuned[name] = tune_part(part, small, rng, recipe.validation.tune_items, coarse_clock=coarse)
    settled = recipe.model_copy(
        update={"parts": {name: tuned_part.part for name, tuned_part in tuned.items()}}
    )
    models: list[dict[str, Model]] = []
    for trial in trials:
        models.append({})
        for name, part in settled.parts.items():
            on_step(f"train {name} for validation")
            models[-1][name] = build_learner(part).train(trial.train, build_rng(recipe.seed, name))
    on_step("choose weights")
    plan, gains = _choose_weights(settled, trials, models, tuned)
    blend = given.blend.model_copy(
        update={"weights": plan.recipe.blend.weights, "weights_new": plan.recipe.blend.weights_new}
    )
    outcomes = build_outcomes(
        given.model_copy(update={"blend": blend}), list(recipe.parts),
        single=plan.single, gains=gains, n_items=n_items, chooses=given.blend.weights == "auto",
    )  # fmt: skip
    return replace(plan, outcomes=outcomes, chooses=given.blend.weights == "auto")


def plan_on_newest(recipe: Recipe, data: Interactions, on_step: StepCallback = ignore_step) -> TuningPlan:
    """Choose the open parameters and weights of a recipe on the newest part of the data."""
    if is_settled(recipe):
        return plan_without_tuning(recipe, data.n_items)
    split = split_for_recipe(recipe, data)
    return make_plan(recipe, (split.test, *split.validation), on_step)


def remove_parts(plan: TuningPlan, dropped: Mapping[str, str]) -> TuningPlan:
    """Return a plan without some components; `dropped` has the reason for each."""
    recipe = plan.recipe
    weights, weights_new = recipe.blend.weights, recipe.blend.weights_new
    if not dropped or weights == "auto" or weights_new == "auto":
        return plan
    left = {name: weight for name, weight in weights.items() if name not in dropped}
    parts = {name: part for name, part in recipe.parts.items() if name in left or name in weights_new}
    blend = recipe.blend.model_copy(update={"weights": left})
    return replace(
        plan,
        recipe=recipe.model_copy(update={"parts": parts, "blend": blend}),
        outcomes=mark_dropped(plan.outcomes, dropped),
    )


def is_settled(recipe: Recipe) -> bool:
    """Return true if the recipe has no open parameters or weights."""
    tuned = any(part.tune for part in recipe.parts.values())
    return not tuned and recipe.blend.weights != "auto" and recipe.blend.weights_new != "auto"


def fit_recipe_to_catalog(recipe: Recipe, n_items: int) -> Recipe:
    """Return the recipe without components that do not fit the catalog size.

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
    if len(parts) == len(recipe.parts):
        return recipe
    blend = recipe.blend
    kept = {"start": {name: weight for name, weight in blend.start.items() if name in parts}}
    for place, weights in (("weights", blend.weights), ("weights_new", blend.weights_new)):
        if weights != "auto":
            kept[place] = {name: weight for name, weight in weights.items() if name in parts}
    return recipe.model_copy(update={"parts": parts, "blend": blend.model_copy(update=kept)})


def reduce_split(recipe: Recipe, trial: EvaluationSplit) -> EvaluationSplit:
    """Return a smaller split for tuning, with at most the users and events that the recipe allows."""
    rng = build_rng(recipe.seed, "tune")
    validation = recipe.validation
    small = trial.sample(validation.tune_readers, rng)
    if len(trial.train) <= validation.tune_events:
        return small
    share = validation.tune_events / len(trial.train)
    chosen = rng.random(trial.train.n_readers) < share
    train = trial.train.pick(chosen[trial.train.reader])
    return replace(small, train=train)


def _select_splits(recipe: Recipe, trials: Sequence[EvaluationSplit]) -> list[EvaluationSplit]:
    """Return the first splits that together have enough users."""
    taken: list[EvaluationSplit] = []
    users = 0
    for trial in trials[: recipe.validation.folds]:
        taken.append(trial)
        users += int(np.count_nonzero(trial.histories.lengths > 0))
        if users >= recipe.validation.readers // 2:
            break
    if not users:
        raise Invalid("no validation user has a history; there is too little data to choose by")
    return taken


def _choose_weights(
    recipe: Recipe,
    trials: Sequence[EvaluationSplit],
    models: Sequence[Mapping[str, Model]],
    tuned: Mapping[str, TunedPart],
) -> tuple[TuningPlan, dict[str, float]]:
    """Choose weights and time decays for users with a history, and weights for users without.

    Return the plan, and the best gain of each component without weight.
    """
    blend = recipe.blend
    variants = [
        [
            (name, variant, model)
            for name, trained in several.items()
            for variant, model in expand_time_decays(recipe.parts[name], trained, tuned[name].fadings)
        ]
        for several in models
    ]
    names = [name for name, _, _ in variants[0]]
    start = np.zeros(len(names))
    for name, weight in (blend.start if blend.weights == "auto" else blend.weights).items():
        start[names.index(name)] = weight
    rng = build_rng(recipe.seed, "readers")
    most = max(recipe.validation.readers // len(trials), 1)
    candidates = TuningCandidates.concatenate(
        [
            collect_candidates(
                [model for _, _, model in several],
                select_users_with_history(trial).sample(most, rng),
                k=blend.k,
            )
            for several, trial in zip(variants, trials, strict=True)
        ]
    )
    rounds = _ROUNDS if blend.weights == "auto" else 0
    choice = choose_weights(candidates, start, names, most_parts=blend.most_parts, rounds=rounds)
    taken = np.flatnonzero(choice.weights)
    parts: dict[str, PartRecipe] = {names[at]: variants[0][at][1] for at in taken}
    weights = {names[at]: _round_weight(choice.weights[at]) for at in taken}
    weights_new, figure_new = _choose_new_user_weights(recipe, trials, models)
    for name in weights_new:
        parts.setdefault(name, recipe.parts[name])
    settled = recipe.model_copy(
        update={
            "parts": {name: part.model_copy(update={"tune": {}}) for name, part in parts.items()},
            "validation": recipe.validation.model_copy(update=_serving_facts(trials[0])),
            "blend": blend.model_copy(update={"weights": weights, "weights_new": weights_new, "start": {}}),
        }
    )
    single: dict[str, float] = {}
    gains: dict[str, float] = {}
    for at, name in enumerate(names):
        single[name] = max(single.get(name, 0.0), float(choice.single[at]))
        if not np.isnan(choice.gains[at]):
            gains[name] = max(gains.get(name, -1.0), float(choice.gains[at]))
    return TuningPlan(settled, trials[0].name, len(candidates), choice.figure, figure_new, single), gains


def _serving_facts(trial: EvaluationSplit) -> dict[str, Any]:
    """Return the serving parameters that follow from the split: which items of the history may be recommended."""
    return {"seen": trial.seen, "kinds": trial.kinds} if trial.seen == "other_kinds" else {}


def _choose_new_user_weights(
    recipe: Recipe, trials: Sequence[EvaluationSplit], models: Sequence[Mapping[str, Model]]
) -> tuple[dict[str, float], float]:
    """Choose weights for users without a history, among components that do not depend on the user."""
    given = recipe.blend.weights_new
    if given != "auto":
        return dict(given), 0.0
    shared = [name for name, model in models[0].items() if isinstance(model, SharedScoresModel)]
    if not shared:
        return {}, 0.0
    start: Floats = np.array([recipe.blend.start.get(name, 0.0) for name in shared])
    if not start.any():
        start[0] = 1.0
    rng = build_rng(recipe.seed, "new readers")
    new = [trial.pick(np.flatnonzero(trial.histories.lengths == 0)) for trial in trials]
    figure = 0.0
    if sum(len(trial) for trial in new) >= _ENOUGH_NEW_USERS:
        candidates = TuningCandidates.concatenate(
            [
                collect_candidates(
                    [several[name] for name in shared],
                    trial.sample(recipe.validation.readers, rng),
                    k=recipe.blend.k,
                )
                for several, trial in zip(models, new, strict=True)
                if len(trial)
            ]
        )
        choice = choose_weights(candidates, start, shared)
        start, figure = choice.weights, choice.figure
    weights = start / start.max()
    return {
        name: _round_weight(weight) for name, weight in zip(shared, weights, strict=True) if weight
    }, figure


def _round_weight(weight: Any) -> float:
    """Round a weight to its significant digits."""
    return float(f"{float(weight):.3g}")
