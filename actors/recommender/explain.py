"""Explanations: why a product is at its place, and why another product is missing.

This module runs only for queries with `explain`. Places and ranks count from 0, from the start of the whole list.
`rank` is the place before re-ranking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from actors.models.cohorts import LEAST_USERS
from actors.recommender.messages import Boost, RecommendationResult, UserQuery
from actors.recommender.ranking.candidates import RemovedRows
from actors.recommender.ranking.pipeline_inputs import (
    PageWindow,
    UserSignals,
)
from actors.recommender.ranking.score import explain_rows, get_slot_map, list_sources
from actors.recommender.ranking.user_profile import list_recent_rows
from actors.recommender.rerank.learned_reranker import RERANKER
from actors.recommender.rerank.rerank import RerankStep
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.engine_state import EngineState, ItemPriors
from actors.recommender.state.score_components import ScoreComponent, sum_components
from actors.recommender.state.serving_model import ServingModel
from cluster.query.field_projection import Projection
from cluster.query.language.tree import All, Node, render_filter

_LOOKED_AT = 200
"Number of catalog products that are read to check whether a field exists."

MADE_WAY = "made way for others"
_GROUPED = ("user_to_categories", "user_to_attributes")
_WITHOUT_SEEN = ("user_to_products", "user_to_trending")


@dataclass(frozen=True, slots=True)
class ExplanationInputs:
    """What explanations of a list read: for whom it was made, and the rows that were removed from it."""

    query: UserQuery
    user: UserSignals
    page: PageWindow
    removed: RemovedRows
    state: EngineState
    priors: ItemPriors


def explain_result(
    explained: ExplanationInputs,
    result: RecommendationResult,
    pool: Sequence[int],
    steps: Sequence[RerankStep],
) -> RecommendationResult:
    """Return the result with explanations of its products and of missing products.

    `pool` is the whole ranking before re-ranking.
    """
    explain_products(explained, result.products, pool, steps)
    ranks = {row: rank for rank, row in enumerate(pool)}
    return replace(result, explanation=_build_explanation(explained, result, ranks, {}))


def explain_groups(
    explained: ExplanationInputs, result: RecommendationResult, pools: Sequence[Sequence[int]]
) -> RecommendationResult:
    """Return a result of groups with explanations of missing products; `pools` are the rankings of its groups."""
    ranks: dict[int, int] = {}
    groups: dict[int, Any] = {}
    for group, pool in zip(result.groups, pools, strict=True):
        for rank, row in enumerate(pool):
            # A product may be in several groups; its best rank counts.
            if rank < ranks.get(row, len(pool)):
                ranks[row] = rank
                groups[row] = group.value
    return replace(result, explanation=_build_explanation(explained, result, ranks, groups))


def explain_products(
    explained: ExplanationInputs,
    products: Sequence[dict[str, Any]],
    pool: Sequence[int],
    steps: Sequence[RerankStep],
) -> None:
    """Set `_explain` in every record of a page; `pool` is the ranking before re-ranking."""
    rows = explained.state.catalog.rows_of([product["product_id"] for product in products])
    page = explained.page
    parts = _explain_scores(rows, explained)
    ranks = {row: rank for rank, row in enumerate(pool)}
    before = page.shown_count
    start = page.start
    moves = _list_moves(rows, [row for row in pool if row not in page.shown_rows], steps, before)
    for at, (product, row, part) in enumerate(zip(products, rows, parts, strict=True)):
        product["_explain"] = {
            "came_from": list_sources(part),
            "score": sum(part.values()),
            "score_parts": part,
            "rank": ranks[row],
            "place": before + start + at,
            "moves": moves[row],
        }


def explain_similarity(
    products: Sequence[dict[str, Any]],
    components: Sequence[ScoreComponent],
    state: EngineState,
    priors: ItemPriors,
) -> None:
    """Add `similar_parts` to every `_explain`: what connects the product with the anchors of the query.

    The sum of the `components` orders the products; `score_parts` are about the user.
    """
    rows = np.asarray(state.catalog.rows_of([product["product_id"] for product in products]), np.int64)
    slot_map = get_slot_map(state, priors)
    for product in products:
        product["_explain"]["similar_parts"] = {}
    for part in components:
        name = part.name
        values = sum_components([part], slot_map).get_scores(rows)
        for product, value in zip(products, values.tolist(), strict=True):
            if value:
                parts = product["_explain"]["similar_parts"]
                parts[name] = parts.get(name, 0.0) + value


def _build_explanation(
    explained: ExplanationInputs,
    result: RecommendationResult,
    ranks: Mapping[int, int],
    groups: Mapping[int, Any],
) -> dict[str, Any]:
    """Build the explanation of the whole result: rules, missing products and ignored parameters."""
    query = explained.query
    lists = [result.products, *(group.products for group in result.groups)]
    returned = {product["product_id"] for products in lists for product in products}
    return {
        "served_by": result.served_by,
        **_name_weights(explained.user, explained.state.serving_model),
        "rules": [
            {"rule": rule.label, "name": rule.name, "does": _describe_action(rule, query)}
            for rule in (*query.boosts, *query.removed)
        ],
        "missing": _explain_missing(explained, ranks, groups, returned),
        **_list_ignored(query, explained.user, result, explained.state),
    }


def _name_weights(user: UserSignals, model: ServingModel | None) -> dict[str, str]:
    """Name the weights that ordered the list; nothing if the snapshot has only one set for users with a history."""
    if model is None or not model.has_unseen_weights or not user.history_profile.has_signal:
        return {}
    return {"weights": "unseen" if user.unseen_only else "all"}


def _list_ignored(
    query: UserQuery, user: UserSignals, result: RecommendationResult, state: EngineState
) -> dict[str, Any]:
    """Return the ignored parameters: keys of `user_cohort` without a cohort, and fields that no product has."""
    ignored = {}
    reasons = dict(state.list_unknown_cohort_keys(query.cohort))
    if user.cohort is None:
        why = (
            "the user has a history"
            if user.history_profile.has_signal
            else f"fewer than {LEAST_USERS} users with it did something"
        )
        reasons = {**dict.fromkeys(query.cohort, why), **reasons}
    if reasons:
        ignored["user_cohort"] = [
            {"key": key, "value": query.cohort[key], "told": "ignored: " + why}
            for key, why in reasons.items()
        ]
    names = [name for name in query.fields if name not in ("*", "product_id")]
    if names and (absent := _list_absent_fields(names, state.catalog, result)):
        ignored["fl"] = [
            {"field": name, "told": "ignored: none of the products looked at has this field"}
            for name in absent
        ]
    return ignored


def _list_absent_fields(names: Sequence[str], catalog: Catalog, result: RecommendationResult) -> list[str]:
    """Return the fields that neither returned products nor the first products of the catalog have."""
    lists = [result.products, *(group.products for group in result.groups)]
    rows = catalog.rows_of([product["product_id"] for products in lists for product in products])
    rows += np.flatnonzero(catalog.present)[:_LOOKED_AT].tolist()
    absent = {name: Projection.of([name]) for name in names}
    for row in rows:
        record = catalog.record(row)
        for name in [name for name, pick in absent.items() if pick(record).keys() - {"product_id"}]:
            del absent[name]
        if not absent:
            break
    return list(absent)


def _describe_action(rule: Boost, query: UserQuery) -> str:
    places = "" if rule.positions is None else f" at {', '.join(map(str, rule.positions))}"
    verb = "remove" if rule in query.removed else "bury" if rule.bury else "raise"
    return f"{verb} {render_filter(rule.filter)}{places}"


def _list_moves(
    rows: Sequence[int], order: Sequence[int], steps: Sequence[RerankStep], before: int
) -> dict[int, list[dict[str, Any]]]:
    """Return the moves of each row in every step."""
    moves: dict[int, list[dict[str, Any]]] = {row: [] for row in rows}
    at = {row: place for place, row in enumerate(order)}
    for step in steps:
        now = {row: place for place, row in enumerate(step.order)}
        for row in rows:
            if now[row] != at[row]:
                # A boost also moves rows that no rule selects.
                by = step.by_rule.get(row, MADE_WAY) if step.name == "boost" else step.name
                moves[row].append({"by": by, "from": before + at[row], "to": before + now[row]})
        at = now
    return moves


def _explain_missing(
    explained: ExplanationInputs, ranks: Mapping[int, int], groups: Mapping[int, Any], returned: Set[str]
) -> list[dict[str, Any]]:
    missing: list[dict[str, Any]] = []
    for product_id in dict.fromkeys(explained.query.explain_missing):
        row = explained.state.catalog.row_of(product_id)
        reasons = [{"reason": "returned"}]
        if product_id not in returned:
            reasons = _list_reasons(explained, ranks, row, product_id)
        # `below_the_cut` is always the last reason.
        if row in groups and reasons[-1]["reason"] == "below_the_cut":
            reasons[-1]["group"] = groups[row]
        missing.append({"product_id": product_id, "reasons": reasons})
    return missing


def _list_reasons(
    explained: ExplanationInputs, ranks: Mapping[int, int], row: int, product_id: str
) -> list[dict[str, Any]]:
    """Return every reason why a product is missing; without a reason, its rank."""
    removed = explained.removed
    query = explained.query
    catalog = explained.state.catalog
    if row < 0 or catalog.product_ids[row] != product_id or not catalog.present[row]:
        return [{"reason": "unknown", "told": "never uploaded, or deleted"}]
    # The priors are older than the catalog, so its newest rows have no score yet.
    if row >= len(explained.priors):
        return [{"reason": "too_new", "told": "uploaded a moment ago; ask again"}]
    reasons: list[dict[str, Any]] = []
    if not catalog.offered[row]:
        reasons.append({"reason": "out_of_stock"})
    reasons += _list_failed_filters(query, catalog, row)
    if row in catalog.rows_of(query.exclude):
        reasons.append({"reason": "excluded", "told": "it is in exclude"})
    if row in explained.page.shown_rows:
        reasons.append({"reason": "shown_before", "told": "an earlier page of this pagination_id held it"})
    if row in removed.anchor_variants:
        text = "it is an anchor" if row in removed.anchors else "it is a variant of an anchor"
        reasons.append({"reason": "anchor", "told": text})
    if row in ranks:
        if query.kind in _GROUPED and row in removed.consumed:
            reasons.append(_seen_reason(explained.user, catalog, row, "; in groups such products come last"))
        (parts,) = _explain_scores([row], explained)
        return [*reasons, {"reason": "below_the_cut", "rank": ranks[row], "score": sum(parts.values())}]
    variants = catalog.expand_variants([row]) if query.dedupe else [row]
    better = next((variant for variant in variants if variant in ranks), None)
    if row in removed.consumed and (better is None or query.kind in _WITHOUT_SEEN):
        reasons.append(_seen_reason(explained.user, catalog, row))
    if better is not None:
        other = catalog.product_ids[better]
        reasons.append({"reason": "same_group", "as": other, "rank": ranks[better]})
    if not reasons:
        reasons.append({"reason": "no_candidate", "told": _no_candidate_reason(query)})
    return reasons


def _list_failed_filters(query: UserQuery, catalog: Catalog, row: int) -> list[dict[str, Any]]:
    """Return the parameters, clauses and rules that exclude a product."""
    failed: list[dict[str, Any]] = []
    if query.type is not None and not catalog.type_mask(query.type)[row]:
        failed.append({"reason": "filtered", "by": "type", "clause": query.type})
    for clause in _split_clauses(query.filter):
        if not catalog.filter_mask(clause)[row]:
            failed.append({"reason": "filtered", "by": "fq", "clause": render_filter(clause)})
    for at, circle in enumerate(query.circles):
        if not catalog.near_mask(circle)[row]:
            failed.append({"reason": "filtered", "by": f"geo.filter[{at}]"})
    for rule in query.removed:
        if catalog.filter_mask(rule.filter)[row]:
            failed.append({"reason": "filtered", "by": rule.label, "clause": render_filter(rule.filter)})
    return failed


def _split_clauses(node: Node | None) -> tuple[Node, ...]:
    if node is None:
        return ()
    return node.children if isinstance(node, All) else (node,)


def _seen_reason(user: UserSignals, catalog: Catalog, row: int, more: str = "") -> dict[str, Any]:
    """Build the reason of a product with a recent interaction of the user; `as` names the variant."""
    reason = {"reason": "seen", "told": "the user dealt with it lately" + more}
    recent = list_recent_rows(user.history, None)
    if user.older is not None:
        recent += user.older.rows.tolist()
    if row in recent:
        return reason
    variants = catalog.expand_variants([row])
    other = next((variant for variant in recent if variant in variants), row)
    return {**reason, "as": catalog.product_ids[other]}


def _explain_scores(rows: Sequence[int], explained: ExplanationInputs) -> list[dict[str, float]]:
    user = explained.user
    contributions_by_row = explain_rows(
        rows,
        user.profile,
        explained.state,
        explained.priors,
        cohort=user.cohort,
        is_new=not user.history_profile.has_signal,
        unseen=user.unseen_only,
    )
    for row, contributions in zip(rows, contributions_by_row, strict=True):
        if gain := user.gains.get(row, 0.0):
            contributions[RERANKER] = gain
    return contributions_by_row


def _no_candidate_reason(query: UserQuery) -> str:
    if query.kind == "user_to_history":
        return "the user did nothing of the kind with it"
    if query.kind in _GROUPED:
        return "it stands in none of the groups that were returned"
    return "it was not ranked"
