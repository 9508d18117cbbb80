"""The result of the tuning for each component and its reason, for displays, run records and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from jobs.refresh.learners.content_regression import ContentRecipe
from jobs.refresh.learners.protocol import PartRecipe
from jobs.refresh.recipe import Recipe

Outcome = Literal["chosen", "new_users", "adds_nothing", "misleads", "too_many_parts", "weight_0", "catalog"]

CONTENT = "[content]"
"Name of the content weights in results and estimates; a component can't have it."

_LEFT_OUT: Mapping[Outcome, tuple[str, str]] = {
    "adds_nothing": ("adds nothing and is left out", "add nothing and are left out"),
    "misleads": ("misleads and is left out", "mislead and are left out"),
    "too_many_parts": ("is one part too many and is left out", "are parts too many and are left out"),
    "weight_0": ("has weight 0 in the recipe", "have weight 0 in the recipe"),
    "catalog": ("is not meant for a catalog of this size", "are not meant for a catalog of this size"),
}


@dataclass(frozen=True, slots=True)
class PartOutcome:
    """The result of the tuning for one component."""

    part: str
    learner: str
    outcome: Outcome
    weight: float = 0.0
    "Weight for users with a history."
    weight_new: float = 0.0
    "Weight for users without a history."
    weight_unseen: float | None = None
    "Weight for lists without products of the user's history; None if such lists have the same weights."
    alone: float | None = None
    "Validation NDCG of the component alone; None if not measured."
    gain: float | None = None
    "Best NDCG gain over the chosen blend; None if the component is in the blend, or was not measured."
    reason: str = ""
    "Explanation of the result."


def build_outcomes(
    recipe: Recipe,
    parts: Sequence[str],
    *,
    single: Mapping[str, float] | None = None,
    gains: Mapping[str, float] | None = None,
    n_items: int = 0,
    chooses: bool = True,
) -> tuple[PartOutcome, ...]:
    """Return the result of each component, in the order of the recipe.

    `recipe` is the original one with the chosen weights; `parts` are the components that fit the catalog. `chooses` is
    false if the recipe fixed the weights.
    """
    outcomes = []
    weights, weights_new = (
        _weights_from_recipe(side) for side in (recipe.blend.weights, recipe.blend.weights_new)
    )
    unseen = recipe.blend.weights_unseen
    left_out = explain_left_out(recipe, n_items)
    for name, part in recipe.parts.items():
        part_outcome = PartOutcome(
            part=name,
            learner=str(getattr(part, "learner", "")),
            outcome="weight_0",
            weight=weights.get(name, 0.0),
            weight_new=weights_new.get(name, 0.0),
            weight_unseen=None if unseen is None else unseen.get(name, 0.0),
            alone=_rounded((single or {}).get(name)),
            gain=_rounded((gains or {}).get(name)),
        )
        if name not in parts:
            outcome: Outcome = "catalog"
        # The order counts: a component that ranks for anyone with a history is chosen, whatever else holds.
        elif part_outcome.weight or part_outcome.weight_unseen:
            outcome = "chosen"
        elif part_outcome.weight_new:
            outcome = "new_users"
        elif not chooses:
            outcome = "weight_0"
        else:
            # With all places taken, nothing says whether it would have added something.
            has_room = sum(1 for weight in weights.values() if weight) < recipe.blend.most_parts
            outcome = "adds_nothing" if has_room else "too_many_parts"
        outcomes.append(_add_reason(part_outcome, outcome, left_out, recipe.blend.k))
    if CONTENT in left_out:
        outcomes.append(PartOutcome(CONTENT, "content", "catalog", reason=left_out[CONTENT]))
    return tuple(outcomes)


def explain_left_out(recipe: Recipe, n_items: int) -> dict[str, str]:
    """Return the reason for each component, and for the content weights, that do not fit the catalog size."""
    bounded: dict[str, PartRecipe | ContentRecipe] = {**recipe.parts}
    if recipe.content is not None:
        bounded[CONTENT] = recipe.content
    reasons = {}
    for name, part in bounded.items():
        least = getattr(part, "items_from", None) or 0
        if n_items < least:
            reasons[name] = f"is meant for catalogs of at least {least:,} items, this one has {n_items:,}"
        elif n_items > (part.items_up_to or n_items):
            reasons[name] = (
                f"is meant for catalogs of at most {part.items_up_to:,} items, this one has {n_items:,}"
            )
    return reasons


def mark_dropped(
    outcomes: Sequence[PartOutcome], dropped: Mapping[str, str], dropped_unseen: Mapping[str, str]
) -> tuple[PartOutcome, ...]:
    """Return outcomes in which some components are removed; the mappings have the reason for each.

    `dropped_unseen` are those without weight in lists without products of the user's history.
    """
    return tuple(_drop(part_outcome, dropped, dropped_unseen) for part_outcome in outcomes)


def _drop(
    part_outcome: PartOutcome, dropped: Mapping[str, str], dropped_unseen: Mapping[str, str]
) -> PartOutcome:
    name = part_outcome.part
    weight = 0.0 if name in dropped else part_outcome.weight
    unseen = 0.0 if name in dropped_unseen else part_outcome.weight_unseen
    left = replace(part_outcome, weight=weight, weight_unseen=unseen)
    # Still in one of the two blends: then it is not left out.
    if left == part_outcome or weight or unseen:
        return left
    return replace(left, outcome="misleads", reason=dropped.get(name) or dropped_unseen[name])


def summarize_outcomes(outcomes: Sequence[PartOutcome]) -> str:
    """Return one sentence about the chosen and the omitted components."""
    chosen = ", ".join(
        f"{part_outcome.part} {part_outcome.weight:g}" for part_outcome in outcomes if part_outcome.weight
    )
    new = ", ".join(
        f"{part_outcome.part} {part_outcome.weight_new:g}"
        for part_outcome in outcomes
        if part_outcome.weight_new
    )
    clauses = [f"chosen: {chosen or 'nothing'}"]
    unseen = [part_outcome for part_outcome in outcomes if part_outcome.weight_unseen]
    if unseen:
        listed = ", ".join(f"{part_outcome.part} {part_outcome.weight_unseen:g}" for part_outcome in unseen)
        clauses.append(f"for lists without products of the history: {listed}")
    if new:
        clauses.append(f"for users without a history: {new}")
    for outcome, (singular, plural) in _LEFT_OUT.items():
        names = [part_outcome.part for part_outcome in outcomes if part_outcome.outcome == outcome]
        if names:
            clauses.append(f"{', '.join(names)} {singular if len(names) == 1 else plural}")
    return "; ".join(clauses)


def _add_reason(
    part_outcome: PartOutcome, outcome: Outcome, left_out: Mapping[str, str], k: int
) -> PartOutcome:
    alone = "" if part_outcome.alone is None else f"NDCG@{k} alone {part_outcome.alone:.4f}"
    match outcome:
        case "chosen":
            reason = f"weight {part_outcome.weight:g}" + (f"; {alone}" if alone else "")
            if part_outcome.weight_unseen is not None:
                reason += f"; weight {part_outcome.weight_unseen:g} in lists without products of the history"
        case "new_users":
            reason = f"ranks for users without a history only, with weight {part_outcome.weight_new:g}"
        case "catalog":
            reason = left_out[part_outcome.part]
        case "weight_0":
            reason = "its weight in the recipe is 0"
        case "too_many_parts":
            reason = f"the recipe takes no more parts (blend.most_parts); {alone}"
        case _:
            reason = f"{alone}; {_gain_text(part_outcome.gain)}"
    return replace(part_outcome, outcome=outcome, reason=reason)


def _gain_text(gain: float | None) -> str:
    if gain is None:
        return "beside the others it was not measured"
    if gain <= 0:
        return f"beside the others no weight raises it ({gain:+.4f})"
    return f"beside the others it adds {gain:+.4f} at best, which is not certain enough"


def _weights_from_recipe(given: Any) -> Mapping[str, float]:
    return given if isinstance(given, Mapping) else {}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 5)
