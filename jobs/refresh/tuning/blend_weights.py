"""Blend weights by hill climbing on validation, from the initial weights of the recipe and from the best component.

A step needs a significant gain over all users. With few validation users the weights therefore stay near their
initial values. Lists longer than those of the metric decide, because their NDCG says something about more users.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from actors.models.blend import BlendPart
from actors.vectors.types import Floats
from jobs.refresh.data.split import EvaluationSplit
from jobs.refresh.evaluation.metrics import mean_figure, significant_gain
from jobs.refresh.recipe import Recipe
from jobs.refresh.tuning.candidate_items import TuningCandidates, collect_candidates
from jobs.refresh.tuning.variant_training import PartVariant

DEPTH = 5
"Length of the lists that decide a step, as a multiple of the metric's `k`."

LADDER = (0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7)
"Candidate weights of a component without weight."

_CERTAIN_GAIN = 1.0
"Gain in standard errors with which a component stays in the blend."

NUDGES = (0.0, 0.5, 0.75, 0.9, 1.1, 1.33, 2.0)
"Candidate factors for the weight of a component that has one."


@dataclass(frozen=True, slots=True)
class BlendChoice:
    """The chosen weights and their validation metrics."""

    weights: Floats
    "float64 [p]."
    weights_unseen: Floats
    "float64 [p], for lists that may not repeat products of the history."
    figure: float
    "Mean NDCG on validation."
    single: Floats
    "float64 [p], mean NDCG of each component alone."
    gains: Floats
    "float64 [p], best gain of a component without weight, significant or not; NaN if its family has weight."


def choose_weights(
    candidates: TuningCandidates,
    start: Floats,
    families: Sequence[str],
    *,
    most_parts: int = 8,
    rounds: int = 20,
    depth: int = DEPTH,
) -> BlendChoice:
    """Return better weights than `start` by hill climbing.

    The search starts from `start` and from the best single component. The second result needs a significant gain over
    the first, or the first must be worse than that component. `families` groups variants of one component; only one
    variant of a family may have weight, and a step may exchange it. Lists of `depth` times `k` places decide.

    Shapes:
        start: float64 [p]
    """
    count = len(start)
    single = np.array(
        [mean_figure(candidates.compute_ndcg(candidates.scores[part])) for part in range(count)]
    )
    # A second start: the start of the recipe may be far from what suits these data (decision 26).
    alone = np.eye(count)[int(np.argmax(single))] if count else start
    weights = start.copy() if start.any() else alone
    if rounds:
        # Longer lists have a target of more users, so a step is judged on more of them.
        deep = candidates.extend_lists(depth * candidates.k)
        weights = _climb(deep, weights, families, most_parts, rounds)
        other = _climb(deep, alone, families, most_parts, rounds)
        before, after = (deep.compute_ndcg(deep.blend_scores(side)) for side in (weights, other))
        loses = mean_figure(candidates.compute_ndcg(candidates.blend_scores(weights))) < single.max(initial=0)
        if loses or significant_gain(after - before, before) > 0:
            weights = other
        # After the climb: a component that helped early may add nothing beside later ones.
        weights = _remove_uncertain(deep, weights)
    figures = candidates.compute_ndcg(candidates.blend_scores(weights))
    return BlendChoice(
        weights, weights, mean_figure(figures), single, _part_gains(candidates, weights, families)
    )


_ROUNDS = 30


def choose_blend(
    recipe: Recipe,
    variants: Sequence[PartVariant],
    every: Sequence[TuningCandidates],
    unseen: Sequence[TuningCandidates] = (),
) -> BlendChoice:
    """Choose the weights of component variants on validation splits.

    `unseen` has the splits whose targets are new to the user. They choose the weights of lists without products of the
    history, and the time decay of each component with such a weight. The weights of other lists are chosen on `every`.
    """
    names = [variant.name for variant in variants]
    given = recipe.blend.start if recipe.blend.weights == "auto" else recipe.blend.weights
    start = np.array([given.get(name, 0.0) for name in names])
    # Variants of a component share its name; only the first may begin with its weight.
    start[[at for at, name in enumerate(names) if name in names[:at]]] = 0.0
    rounds = _ROUNDS if recipe.blend.weights == "auto" else 0

    def choose(splits: Sequence[TuningCandidates], usable: list[int], depth: int = DEPTH) -> BlendChoice:
        candidates = TuningCandidates.concatenate(splits).select_parts(usable)
        families = [names[at] for at in usable]
        most = recipe.blend.most_parts
        return choose_weights(
            candidates, start[usable], families, most_parts=most, rounds=rounds, depth=depth
        )

    if not unseen or not rounds:
        return choose(every, list(range(len(names))))
    first = choose(unseen, list(range(len(names)))).weights
    # A component with a weight has its decay: its other variants may not enter the second choice.
    settled = {names[at] for at in np.flatnonzero(first)}
    usable = [at for at, name in enumerate(names) if first[at] or name not in settled]
    # a component has one time decay, so its start weight moves to the variant that was chosen
    for at in np.flatnonzero(first).tolist():
        start[at] = given.get(names[at], 0.0)
    # repeats are in the first places already, so the metric's own lists say enough
    choice = choose(every, usable, depth=1)
    weights = np.zeros(len(names))
    single = np.zeros(len(names))
    gains = np.full(len(names), np.nan)
    weights[usable] = choice.weights
    single[usable] = choice.single
    gains[usable] = choice.gains
    return BlendChoice(weights, first, choice.figure, single, gains)


def _part_gains(candidates: TuningCandidates, weights: Floats, families: Sequence[str]) -> Floats:
    """Return the gain of each component at its best weight, NaN if a variant of it has weight."""
    total = candidates.blend_scores(weights)
    now = mean_figure(candidates.compute_ndcg(total))
    chosen = {family for family, weight in zip(families, weights, strict=True) if weight}
    gains = np.full(len(families), np.nan)
    for part, family in enumerate(families):
        if family not in chosen:
            scores = candidates.scores[part]
            ndcgs = [
                mean_figure(candidates.compute_ndcg(total + scores * np.float32(weight))) for weight in LADDER
            ]
            gains[part] = max(ndcgs) - now
    return gains


def _climb(
    candidates: TuningCandidates, weights: Floats, families: Sequence[str], most_parts: int, rounds: int
) -> Floats:
    """Take the best step while one has a significant gain."""
    for _ in range(rounds):
        better = _find_best_step(candidates, weights, families, most_parts)
        if better is None:
            break
        weights = better
    return weights


def _remove_uncertain(candidates: TuningCandidates, weights: Floats) -> Floats:
    """Remove the components whose gain over the rest of the blend is within its uncertainty, the smallest first."""
    while np.count_nonzero(weights) > 1 and len(candidates) > 1:
        now = candidates.compute_ndcg(candidates.blend_scores(weights))
        least = _CERTAIN_GAIN
        smaller = weights
        for at in np.flatnonzero(weights).tolist():
            without = weights.copy()
            without[at] = 0.0
            gains = now - candidates.compute_ndcg(candidates.blend_scores(without))
            # The standard error of the mean gain over the users.
            doubt = float(gains.std(ddof=1)) / len(gains) ** 0.5
            # If all users have the same gain, its doubt is 0: a gain above 0 is then certain.
            certainty = float(gains.mean()) / max(doubt, 1e-12)
            if certainty < least:
                least = certainty
                smaller = without
        if smaller is weights:
            break
        weights = smaller
    return weights


def _find_best_step(
    candidates: TuningCandidates, weights: Floats, families: Sequence[str], most_parts: int
) -> Floats | None:
    """Return the best weights one step away with a significant gain, None if there are none."""
    total = candidates.blend_scores(weights)
    now = candidates.compute_ndcg(total)
    best = None
    best_gain = 0.0
    for part, family in enumerate(families):
        rivals = [other for other, named in enumerate(families) if named == family and weights[other]]
        without = total
        for rival in rivals:
            # Not in place: `without` is `total` until the first subtraction.
            without = without - candidates.scores[rival] * np.float32(weights[rival])
        others = np.count_nonzero(weights) - len(rivals)
        if others >= most_parts:
            continue
        for weight in _candidate_weights(weights, part, rivals):
            # A blend needs one component.
            if not weight and not others:
                continue
            ndcg = candidates.compute_ndcg(without + candidates.scores[part] * np.float32(weight))
            gain = significant_gain(ndcg - now, now)
            if gain > best_gain:
                best = weights.copy()
                best_gain = gain
                best[rivals] = 0.0
                best[part] = weight
    return best


def _candidate_weights(weights: Floats, part: int, rivals: list[int]) -> list[float]:
    """Return candidate weights: factors of the present weight, the weight of a variant, or the ladder."""
    if weights[part]:
        return [float(weights[part]) * nudge for nudge in NUDGES]
    if rivals:
        return [float(weights[rivals].sum())]
    return list(LADDER)


# A blend can be worse than one of its components if validation and test data differ. On the newest events, the blend is
# therefore compared with each component alone, and with the blend without each component.
CONFIRMATION_USERS = 2_000
"Maximum number of users for the confirmation."

_FEWEST_USERS = 30
_CERTAIN = 2.5
"Minimum difference in standard errors; each component is tested twice."


@dataclass(frozen=True, slots=True)
class BlendConfirmation:
    """Components that stay in a blend."""

    kept: tuple[str, ...]
    dropped: dict[str, str] = field(default_factory=dict)
    "Removed component -> reason."


def confirm_blend(
    parts: Sequence[BlendPart], trial: EvaluationSplit, k: int, rng: np.random.Generator
) -> BlendConfirmation:
    """Return the blend without the components that significantly lower its NDCG for users with a history.

    Cost:
        one scoring of the catalog per component and user
    """
    weighty = [part for part in parts if part.weight]
    names = tuple(part.name for part in weighty)
    with_history = trial.pick(np.flatnonzero(trial.histories.lengths > 0))
    if len(weighty) < 2 or len(with_history) < _FEWEST_USERS:
        return BlendConfirmation(names)
    candidates = collect_candidates(
        [part.model for part in weighty], with_history.sample(CONFIRMATION_USERS, rng), k=k
    )
    weights = np.array([part.weight for part in weighty])
    dropped: dict[str, str] = {}
    while (better := _find_better_blend(candidates, weights)) is not None:
        fewer, before, after = better
        for at in np.flatnonzero((weights != 0) & (fewer == 0)).tolist():
            dropped[names[at]] = (
                f"on the newest events, which chose nothing, NDCG@{k} is {after:.4f} without it "
                f"and {before:.4f} with it"
            )
        weights = fewer
    return BlendConfirmation(tuple(name for name in names if name not in dropped), dropped)


def _find_better_blend(candidates: TuningCandidates, weights: Floats) -> tuple[Floats, float, float] | None:
    """Return the best significantly better blend with fewer components, with the NDCG before and after."""
    now = candidates.compute_ndcg(candidates.blend_scores(weights))
    best = None
    best_gain = 0.0
    for fewer in _smaller_blends(weights):
        gains = candidates.compute_ndcg(candidates.blend_scores(fewer)) - now
        gain = float(gains.mean())
        doubt = float(gains.std(ddof=1)) / len(gains) ** 0.5
        if gain > best_gain and gain > _CERTAIN * doubt:
            best = fewer
            best_gain = gain
    before = float(now.mean())
    return None if best is None else (best, before, before + best_gain)


def _smaller_blends(weights: Floats) -> Iterator[Floats]:
    """Yield the weights of each component alone, and of all components but one."""
    used = np.flatnonzero(weights).tolist()
    if len(used) < 2:
        return
    for at in used:
        alone = np.zeros_like(weights)
        alone[at] = weights[at]
        yield alone
        if len(used) > 2:
            rest = weights.copy()
            rest[at] = 0.0
            yield rest
