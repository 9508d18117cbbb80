"""What may be changed of an experiment once readers met it, and what would make its figures worthless.

    draft                everything
    scheduled, active    name, end, weights, and traffic upwards: whoever has a variant keeps it, new readers follow
    over                 the name

Whoever was let in by less traffic is let in by more, because a reader's place does not move; downwards it would shut
out readers who had met it. After a change of weights people who met it before and after are no longer alike, so the
report counts those who met it since.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from actors.experiments.messages import ExperimentUpdate
from cluster.clock import iso_ms
from cluster.errors import Invalid, NotFound
from cluster.records.experiment import Experiment
from cluster.records.interaction import INTERACTION_TYPES

_REFUSALS = {
    "goal": "what counts as a conversion can't change once readers met it",
    "layer": "its readers would change places",
    "slice": "its readers would change places",
}


def apply_edit(experiment: Experiment, edit: ExperimentUpdate, now_ms: int) -> Experiment:
    """Change an experiment.

    Errors:
        Invalid: it stands where this can't be changed, or makes no sense; NotFound: no such variant
    """
    stands = experiment.status_at(now_ms)
    changes = _list_changes(experiment, edit)
    for name, why in _REFUSALS.items():
        if stands != "Draft" and name in changes:
            raise Invalid(f"{experiment.slug} is {stands}; {why}. Complete it and make another one")
    if stands in ("Completed", "Archived") and set(changes) - {"name"}:
        raise Invalid(f"{experiment.slug} is {stands}; only its name can be changed")
    if stands != "Draft" and changes.get("traffic", experiment.traffic) < experiment.traffic:
        raise Invalid(
            f"{experiment.slug} is {stands}; traffic can only go up from {experiment.traffic:g}, or readers who met it "
            "would be shut out. Pause or complete it instead"
        )
    ends_at = changes.get("ends_at")
    if ends_at is not None and ends_at <= now_ms:
        raise Invalid(f"{iso_ms(ends_at)} is past; `complete` ends it at once")
    if "variants" in changes and stands != "Draft":
        changes["weights_at"] = now_ms
    try:
        # through plain values, so that variants are looked at again too
        after = experiment.model_copy(update=changes)
        return Experiment.model_validate(after.model_dump())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        words = first["msg"].removeprefix("Value error, ")
        raise Invalid(f"{place}: {words}" if place else words) from None


def _list_changes(experiment: Experiment, edit: ExperimentUpdate) -> dict[str, Any]:
    """List what really changes; what stays as it is, is no change and is refused nowhere."""
    goal = edit.goal
    if goal is not None:
        for kind in goal:
            if kind not in INTERACTION_TYPES:
                raise Invalid(f"goal: there is no interaction of type {kind!r}")
    wanted = {
        "name": edit.name, "traffic": edit.traffic, "ends_at": edit.ends_at, "goal": goal, "layer": edit.layer,
        "slice": edit.slice, "variants": _apply_weights(experiment, edit.weights),
    }  # fmt: skip
    return {
        name: value
        for name, value in wanted.items()
        if value is not None and value != getattr(experiment, name)
    }


def _apply_weights(experiment: Experiment, weights: Mapping[str, float]) -> tuple[Any, ...] | None:
    if not weights:
        return None
    by_id: dict[str, float] = {}
    for named, weight in weights.items():
        variant = experiment.variant(named)
        if variant is None:
            slugs = ", ".join(one.slug for one in experiment.variants)
            raise NotFound(f"{experiment.slug} has no variant {named!r}; it has {slugs}")
        by_id[variant.variant_id] = weight
    return tuple(
        one.model_copy(update={"weight": by_id.get(one.variant_id, one.weight)})
        for one in experiment.variants
    )
