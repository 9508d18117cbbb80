"""What the variants of a user change in a query: engine, snapshot, stored rules, and the draft of two sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from actors.experiments.client import seed_draft
from actors.experiments.messages import ExperimentTreatment
from actors.recommender.messages import Interleaving, UserQuery
from cluster.records.experiment import Experiment, Variant

_DAY_MS = 86_400_000


def apply_treatments(query: UserQuery, treatments: Sequence[ExperimentTreatment], now_ms: int) -> UserQuery:
    """Apply the variants of a user to a query; of two that set engine or snapshot, the older experiment wins."""
    engine_id = query.engine_id
    snapshot = ""
    rules = list(query.rule_names)
    interleaved: Experiment | None = None
    for treatment in treatments:
        variant = treatment.variant
        if engine_id == query.engine_id and not snapshot and interleaved is None:
            interleaved = treatment.interleaved if can_interleave(query) else None
            engine_id = variant.engine_id or engine_id
            snapshot = variant.snapshot
        if variant.boost_rule and variant.boost_rule not in rules:
            rules.append(variant.boost_rule)
    treated = replace(query, engine_id=engine_id, snapshot=snapshot, rule_names=tuple(rules))
    return treated if interleaved is None else interleave(treated, interleaved, now_ms)


def can_interleave(query: UserQuery) -> bool:
    """Return whether a list may be drafted: it has no random places and no distances, and explains nothing."""
    return query.dithering <= 1 and not query.spacing and not query.explain and not query.explain_missing


def interleave(query: UserQuery, experiment: Experiment, now_ms: int) -> UserQuery:
    """Return the query of the first side of an experiment, with that of the second side.

    The draft is the same for all pages of a `pagination_id`. Without one it is the same for the lists of a kind that
    a user gets on a UTC day, so that pages by `start` fit together.
    """
    page = query.pagination_id or f"day {now_ms // _DAY_MS}"
    seed = seed_draft(experiment, query.user_keys[0], query.kind, page, *query.anchors)
    first, second = (_apply_side(query, variant) for variant in experiment.variants)
    return replace(first, interleaving=Interleaving(second, seed))


def _apply_side(query: UserQuery, variant: Variant) -> UserQuery:
    rules = (*query.rule_names, variant.boost_rule) if variant.boost_rule else query.rule_names
    return replace(
        query, engine_id=variant.engine_id or query.engine_id, snapshot=variant.snapshot, rule_names=rules
    )
