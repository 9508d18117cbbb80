"""Evidence for the choice of a blend: trained component variants and their candidates on validation splits.

Weights are chosen twice: for lists without products of the user's history, and for lists that may repeat them. Both
choices use the same models, because the splits differ only in their targets and in the excluded items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from actors.models.model import Model
from cluster.errors import Invalid
from jobs.refresh.data.split import EvaluationSplit
from jobs.refresh.learners.protocol import PartRecipe
from jobs.refresh.learners.registry import build_learner, build_rng
from jobs.refresh.learners.repeat import RepeatsRecipe
from jobs.refresh.recipe import Recipe
from jobs.refresh.tuning.candidate_items import TuningCandidates, collect_candidates
from jobs.refresh.tuning.parameter_search import TunedPart, expand_time_decays, is_too_large, tune_part
from jobs.refresh.tuning.split_selection import is_coarse_clock, select_users_with_history

StepCallback = Callable[[str], None]
"Called with the name of each step, for a progress display."


def ignore_step(step: str) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True)
class PartVariant:
    """A component with one of its candidate time decays."""

    name: str
    part: PartRecipe


@dataclass(frozen=True, slots=True)
class TrainedVariants:
    """Component variants, and their models on each validation split."""

    trials: tuple[EvaluationSplit, ...]
    variants: tuple[PartVariant, ...]
    models: tuple[tuple[Model, ...], ...]
    "One model of each variant for each split."

    def collect(self, recipe: Recipe, *, unseen: bool = False) -> list[TuningCandidates]:
        """Return the candidates of each split for users with a history.

        With `unseen`, lists and targets have no item of the history.
        """
        trials = [trial.exclude_seen() if unseen else trial for trial in self.trials]
        # The same users for both choices of weights, so that their figures can be compared.
        rng = build_rng(recipe.seed, "readers")
        return collect_split_candidates(
            self.models, trials, rng, users=recipe.validation.readers, k=recipe.blend.k
        )


def tune_and_train(
    recipe: Recipe, trials: Sequence[EvaluationSplit], on_step: StepCallback = ignore_step
) -> TrainedVariants:
    """Choose the open parameters of each component and train its variants on the first splits with enough users.

    Targets new to the user choose the parameters. Only repeat consumption has none of them, so all targets choose its.

    Errors:
        Invalid: the splits have no users with a history
    """
    # The same splits for all components, so that their figures can be compared.
    chosen = _select_splits(recipe, trials)
    small = [reduce_split(recipe, select_users_with_history(trial)) for trial in chosen]
    unseen = [trial.exclude_seen() for trial in small]
    train = chosen[0].train
    coarse = is_coarse_clock(train)
    tuned: dict[str, TunedPart] = {}
    for name, part in recipe.parts.items():
        on_step(f"tune {name}")
        # A generator for each component: adding one to the recipe changes no draw of the others.
        rng = build_rng(recipe.seed, f"tune {name}")
        splits = small if isinstance(part, RepeatsRecipe) else unseen
        is_large = is_too_large(part, train.n_items, len(train), recipe.validation)
        tuned[name] = tune_part(part, splits, rng, is_large=is_large, coarse_clock=coarse)
    variants: list[PartVariant] = []
    models: list[tuple[Model, ...]] = []
    # Trained anew for each split: a model must not know the events after the split's instant.
    for trial in chosen:
        variants = []
        scorers: list[Model] = []
        for name, settled in tuned.items():
            on_step(f"train {name} for validation")
            model = build_learner(settled.part).train(trial.train, build_rng(recipe.seed, name))
            # One training serves all time decays of a component.
            for faded, scorer in expand_time_decays(settled.part, model, settled.fadings):
                variants.append(PartVariant(name, faded))
                scorers.append(scorer)
        models.append(tuple(scorers))
    return TrainedVariants(tuple(chosen), tuple(variants), tuple(models))


def collect_split_candidates(
    models: Sequence[Sequence[Model]],
    trials: Sequence[EvaluationSplit],
    rng: np.random.Generator,
    *,
    users: int,
    k: int,
) -> list[TuningCandidates]:
    """Return the candidates of each split, for a sample of at most `users` users with a history in all.

    `models` has the component variants of each split. Splits without such users are left out.
    """
    # Rounded down, so that all splits together stay within the bound.
    most = max(users // len(trials), 1)
    samples = [select_users_with_history(trial).sample(most, rng) for trial in trials]
    return [
        collect_candidates(several, sample, k=k)
        for several, sample in zip(models, samples, strict=True)
        if len(sample)
    ]


def reduce_split(recipe: Recipe, trial: EvaluationSplit) -> EvaluationSplit:
    """Return a smaller split for tuning, with at most the users and events that the recipe allows."""
    rng = build_rng(recipe.seed, "tune")
    validation = recipe.validation
    small = trial.sample(validation.tune_readers, rng)
    if len(trial.train) <= validation.tune_events:
        return small
    # Expected, not exact: users are drawn by themselves, with share = bound / events.
    share = validation.tune_events / len(trial.train)
    # Whole users go, so that the other histories stay complete.
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
