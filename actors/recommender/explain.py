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
from actors.recommender.ranking.query_context import (
    PageWindow,
    QueryContext,
    UserSignals,
    find_page_window,
)
from actors.recommender.ranking.score import explain_rows, get_slot_map, list_sources
from actors.recommender.ranking.user_profile import list_recent_rows
from actors.recommender.rerank.rerank import RerankStep
from actors.recommender.rerank.reranker import RERANKER
from actors.recommender.state.score_components import ScoreComponent, sum_components
from cluster.query.fields import Projection
from cluster.query.language.tree import All, Node, render_filter

_LOOKED_AT = 200
"Number of catalog products that are read to check whether a field exists."

MADE_WAY = "made way for others"
_GROUPED = ("user_to_categories", "user_to_attributes")
_WITHOUT_SEEN = ("user_to_products", "user_to_trending")


def explain_result(
    request: QueryContext,
    user: UserSignals,
    page: PageWindow,
    result: RecommendationResult,
    pool: Sequence[int],
    steps: Sequence[RerankStep],
    removed: RemovedRows,
) -> RecommendationResult:
    """Return the result with explanations of its products and of missing products.

    `pool` is the whole ranking before re-ranking; `removed` are the rows that were removed from it.
    """
    explain_products(request, user, page, result.products, pool, steps)
    ranks = {row: rank for rank, row in enumerate(pool)}
    return replace(result, explanation=_build_explanation(request, user, page, result, ranks, {}, removed))


def explain_groups(
    request: QueryContext,
    user: UserSignals,
    result: RecommendationResult,
    pools: Sequence[Sequence[int]],
    removed: RemovedRows,
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
    page = find_page_window(request.query, request.shown_ids, request.catalog)
    explanation = _build_explanation(request, user, page, result, ranks, groups, removed)
    return replace(result, explanation=explanation)


def explain_products(
    request: QueryContext,
    user: UserSignals,
    page: PageWindow,
    products: Sequence[dict[str, Any]],
    pool: Sequence[int],
    steps: Sequence[RerankStep],
) -> None:
    """Set `_explain` in every record of a page; `pool` is the ranking before re-ranking."""
    rows = request.catalog.rows_of([product["product_id"] for product in products])
    parts = _explain_scores(rows, request, user)
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
    request: QueryContext, products: Sequence[dict[str, Any]], components: Sequence[ScoreComponent]
) -> None:
    """Add `similar_parts` to every `_explain`: what connects the product with the anchors of the query.

    The sum of the `components` orders the products; `score_parts` are about the user.
    """
    state = request.engine_state
    priors = request.item_priors
    rows = np.asarray(request.catalog.rows_of([product["product_id"] for product in products]), np.int64)
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
    request: QueryContext,
    user: UserSignals,
    page: PageWindow,
    result: RecommendationResult,
    ranks: Mapping[int, int],
    groups: Mapping[int, Any],
    removed: RemovedRows,
) -> dict[str, Any]:
    """Build the explanation of the whole result: rules, missing products and ignored parameters."""
    query = request.query
    lists = [result.products, *(group.products for group in result.groups)]
    returned = {product["product_id"] for products in lists for product in products}
    return {
        "served_by": result.served_by,
        **_name_weights(request, user),
        "rules": [
            {"rule": rule.label, "name": rule.name, "does": _describe_action(rule, query)}
            for rule in (*query.boosts, *query.removed)
        ],
        "missing": _explain_missing(request, user, page, ranks, groups, returned, removed),
        **_list_ignored(request, user, result),
    }


def _name_weights(request: QueryContext, user: UserSignals) -> dict[str, str]:
    """Name the weights that ordered the list; nothing if the snapshot has only one set for users with a history."""
    model = request.engine_state.serving_model
    if model is None or not model.has_unseen_weights or not user.has_history:
        return {}
    return {"weights": "unseen" if user.unseen_only else "all"}


def _list_ignored(request: QueryContext, user: UserSignals, result: RecommendationResult) -> dict[str, Any]:
    """Return the ignored parameters: keys of `user_cohort` without a cohort, and fields that no product has."""
    query = request.query
    ignored = {}
    reasons = dict(request.engine_state.list_unknown_cohort_keys(query.cohort))
    if user.cohort is None:
        why = (
            "the user has a history"
            if user.has_history
            else f"fewer than {LEAST_USERS} users with it did something"
        )
        reasons = {**dict.fromkeys(query.cohort, why), **reasons}
    if reasons:
        ignored["user_cohort"] = [
            {"key": key, "value": query.cohort[key], "told": "ignored: " + why}
            for key, why in reasons.items()
        ]
    names = [name for name in query.fields if name not in ("*", "product_id")]
    if names and (absent := _list_absent_fields(names, request, result)):
        ignored["fl"] = [
            {"field": name, "told": "ignored: none of the products looked at has this field"}
            for name in absent
        ]
    return ignored


def _list_absent_fields(
    names: Sequence[str], request: QueryContext, result: RecommendationResult
) -> list[str]:
    """Return the fields that neither returned products nor the first products of the catalog have."""
    catalog = request.catalog
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


@dataclass(frozen=True, slots=True)
class _RankedList:
    """A returned list, and the rows that it leaves out."""

    request: QueryContext
    user: UserSignals
    page: PageWindow
    ranks: Mapping[int, int]
    removed: RemovedRows


def _explain_missing(
    request: QueryContext,
    user: UserSignals,
    page: PageWindow,
    ranks: Mapping[int, int],
    groups: Mapping[int, Any],
    returned: Set[str],
    removed: RemovedRows,
) -> list[dict[str, Any]]:
    query = request.query
    catalog = request.catalog
    ranked = _RankedList(request, user, page, ranks, removed)
    missing: list[dict[str, Any]] = []
    for product_id in dict.fromkeys(query.explain_missing):
        row = catalog.row_of(product_id)
        reasons = [{"reason": "returned"}]
        if product_id not in returned:
            reasons = _list_reasons(ranked, row, product_id)
        # `below_the_cut` is always the last reason.
        if row in groups and reasons[-1]["reason"] == "below_the_cut":
            reasons[-1]["group"] = groups[row]
        missing.append({"product_id": product_id, "reasons": reasons})
    return missing


def _list_reasons(ranked: _RankedList, row: int, product_id: str) -> list[dict[str, Any]]:
    """Return every reason why a product is missing; without a reason, its rank."""
    request = ranked.request
    ranks = ranked.ranks
    removed = ranked.removed
    query = request.query
    catalog = request.catalog
    if row < 0 or catalog.product_ids[row] != product_id or not catalog.present[row]:
        return [{"reason": "unknown", "told": "never uploaded, or deleted"}]
    # The priors are older than the catalog, so its newest rows have no score yet.
    if row >= len(request.item_priors):
        return [{"reason": "too_new", "told": "uploaded a moment ago; ask again"}]
    reasons: list[dict[str, Any]] = []
    if not catalog.offered[row]:
        reasons.append({"reason": "out_of_stock"})
    reasons += _list_failed_filters(request, row)
    if row in catalog.rows_of(query.exclude):
        reasons.append({"reason": "excluded", "told": "it is in exclude"})
    if row in ranked.page.shown_rows:
        reasons.append({"reason": "shown_before", "told": "an earlier page of this pagination_id held it"})
    if row in removed.anchor_variants:
        text = "it is an anchor" if row in removed.anchors else "it is a variant of an anchor"
        reasons.append({"reason": "anchor", "told": text})
    if row in ranks:
        if query.kind in _GROUPED and row in removed.consumed:
            reasons.append(_seen_reason(ranked, row, "; in groups such products come last"))
        (parts,) = _explain_scores([row], request, ranked.user)
        return [*reasons, {"reason": "below_the_cut", "rank": ranks[row], "score": sum(parts.values())}]
    variants = catalog.add_variants([row]) if query.dedupe else [row]
    better = next((variant for variant in variants if variant in ranks), None)
    if row in removed.consumed and (better is None or query.kind in _WITHOUT_SEEN):
        reasons.append(_seen_reason(ranked, row))
    if better is not None:
        other = catalog.product_ids[better]
        reasons.append({"reason": "same_group", "as": other, "rank": ranks[better]})
    if not reasons:
        reasons.append({"reason": "no_candidate", "told": _no_candidate_reason(query)})
    return reasons


def _list_failed_filters(request: QueryContext, row: int) -> list[dict[str, Any]]:
    """Return the parameters, clauses and rules that exclude a product."""
    query = request.query
    catalog = request.catalog
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


def _seen_reason(ranked: _RankedList, row: int, more: str = "") -> dict[str, Any]:
    """Build the reason of a product with a recent interaction of the user; `as` names the variant."""
    reason = {"reason": "seen", "told": "the user dealt with it lately" + more}
    recent = list_recent_rows(ranked.user.history, None)
    if ranked.user.older is not None:
        recent += ranked.user.older.rows.tolist()
    if row in recent:
        return reason
    catalog = ranked.request.catalog
    variants = catalog.add_variants([row])
    other = next((variant for variant in recent if variant in variants), row)
    return {**reason, "as": catalog.product_ids[other]}


def _explain_scores(rows: Sequence[int], request: QueryContext, user: UserSignals) -> list[dict[str, float]]:
    explained = explain_rows(
        rows,
        user.profile,
        request.engine_state,
        request.item_priors,
        cohort=user.cohort,
        is_new=not user.has_history,
        unseen=user.unseen_only,
    )
    for row, contributions in zip(rows, explained, strict=True):
        if gain := user.gains.get(row, 0.0):
            contributions[RERANKER] = gain
    return explained


def _no_candidate_reason(query: UserQuery) -> str:
    if query.kind == "user_to_history":
        return "the user did nothing of the kind with it"
    if query.kind in _GROUPED:
        return "it stands in none of the groups that were returned"
    return "it was not ranked"
