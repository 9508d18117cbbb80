"""Categories and attribute values for a reader, each with its products: the same scores, seen by group."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np

from actors.recommender.explain import explain_groups, explain_products
from actors.recommender.messages import RecommendationResult, RecommendedGroup
from actors.recommender.ranking.candidates import filter_rows, recently_consumed, select_distinct
from actors.recommender.ranking.query_context import QueryContext
from actors.recommender.rerank.rerank import RerankStep, rerank
from actors.recommender.result_fields import render_products
from actors.recommender.state.filtered_groups import FilteredGroups, sum_by_group
from actors.recommender.state.groups import Groups, select_best_rows
from actors.vectors.top import best_rows
from actors.vectors.types import Floats, Mask, Rows, Scores

V = TypeVar("V", bound=Hashable)

_LEADING_ROWS = 500
_PRIOR = 0.5
"What everybody takes, beside what the reader took."
_BEST_SHARE = 0.3
"What a group's products among the best count beside what was taken from it."
_SEEN_MALUS = np.float32(1e6)


def user_to_categories(request: QueryContext) -> RecommendationResult:
    """Answer `user_to_categories`: children of a path, the top level without one, any sub-category with `*`."""
    root = request.query.root_category or ()
    groups = request.catalog.categories
    if root == ("*",):
        codes = [code for code, path in enumerate(groups.values) if len(path) > 1]
    else:
        depth = len(root) + 1
        codes = [code for code, path in enumerate(groups.values) if len(path) == depth and path[:-1] == root]
    enough = max(1, request.query.group_rows) if request.query.filter is not None else 1
    return _rank_groups(request, groups, codes, first=[], enough=enough)


def user_to_attributes(request: QueryContext) -> RecommendationResult:
    """Answer `user_to_attributes`: values of a field, wanted ones first, unwanted ones never."""
    query = request.query
    groups = request.catalog.group_by_attribute(query.field_name)
    unwanted = set(query.exclude_values)
    codes = [code for code, value in enumerate(groups.values) if value not in unwanted]
    wanted = [groups.code_of(value) for value in query.boost_values if value not in unwanted]
    return _rank_groups(request, groups, codes, first=[code for code in wanted if code is not None])


def _rank_groups(
    request: QueryContext, groups: Groups[V], codes: list[int], first: Sequence[int], enough: int = 1
) -> RecommendationResult:
    query = request.query
    section = _get_filtered_groups(request, groups)
    scores = request.build_ranking().scores
    ranking = np.where(section.available, scores, np.float32(-np.inf))
    excluded = [row for row in request.catalog.rows_of(query.exclude) if row < len(ranking)]
    ranking[excluded] = -np.inf
    candidates = np.array(codes, np.int64)
    candidates = candidates[_count_available(groups, section, excluded)[candidates] >= enough]
    merit = _score_groups(groups, candidates, ranking, request)
    order = candidates[np.argsort(-merit, kind="stable")].tolist()
    present = set(order)
    leading = [code for code in dict.fromkeys(first) if code in present]
    chosen = leading + [code for code in order if code not in leading]
    # seen products fill a group only after everything else in it
    seen = [row for row in recently_consumed(request) if row < len(ranking)]
    ranking[list(set(seen))] -= _SEEN_MALUS
    # totals count variants; a group is only full when enough different products came up
    least = enough if query.group_rows and query.dedupe else 0
    ranked = ((code, _select_products(request, section, code, ranking)) for code in chosen)
    page = list(islice((item for item in ranked if len(item[1]) >= least), query.rows))
    found = [_build_group(request, groups, code, section, pool, scores) for code, pool in page]
    rung = request.fallback_level
    result = RecommendationResult(groups=found, served_by=rung)
    return explain_groups(request, result, [pool for _, pool in page]) if query.explain else result


def _get_filtered_groups(request: QueryContext, groups: Groups[V]) -> FilteredGroups:
    """Find the rows with a product that passes type and filters, which are what totals count."""
    query, catalog, standing = request.query, request.catalog, request.item_priors
    count = len(standing)

    def allowed() -> Mask:
        mask = filter_rows(query, catalog)
        present: Mask = catalog.present[:count].copy()
        return present if mask is None else present & mask[:count]

    removed = tuple(rule.filter for rule in query.removed)
    asked = (query.type, query.filter, query.circles, removed)
    state = (catalog.version, standing.versions[0], count)
    return request.engine_state.filtered_groups.get(
        groups, asked, state, allowed, standing.offered & catalog.offered[:count]
    )


def _count_available(groups: Groups[V], section: FilteredGroups, excluded: Sequence[int]) -> Rows:
    """Count the products of every group that may be returned."""
    if not excluded:
        return section.available_totals
    rows = np.unique(np.array(excluded, np.int64))
    return section.available_totals - sum_by_group(groups, rows, section.available[rows]).astype(np.int64)


def _score_groups(groups: Groups[V], candidates: Rows, ranking: Scores, request: QueryContext) -> Floats:
    """Judge groups by what the reader took from them lately and what everybody takes, and a little by their products
    among the best.

    Source:
        ranking notes, section 9: recency counts with a prior are the best or equal to the best on both of its sets;
        `kiosk bench quality` on ml-latest-small: NDCG@3 .811 with these shares, .791 with equal ones
    """
    taste = request.user_profile
    interest = sum_by_group(groups, taste.rows, taste.weights)
    crowd = _sum_popularity(request, groups)
    leading = best_rows(ranking, _LEADING_ROWS)
    best = ranking[leading]
    worth = sum_by_group(groups, leading, best - best.min(initial=np.inf) + 0.01)
    counts = _compute_shares(interest)[candidates] + _PRIOR * _compute_shares(crowd)[candidates]
    return _standardize(counts) + _BEST_SHARE * _standardize(worth[candidates])


def _sum_popularity(request: QueryContext, groups: Groups[V]) -> Floats:
    """Add up what everybody takes, or the user's cohort, for every group."""
    if request.cohort_scores is not None:
        return groups.sum_weights(request.cohort_scores.vote_shares)
    return request.engine_state.sum_group_popularity(groups, request.item_priors)


def _select_products(request: QueryContext, section: FilteredGroups, code: int, ranking: Scores) -> list[int]:
    """Rank the products of one group, as many as are needed."""
    query = request.query
    if not query.group_rows and not query.explain_missing:
        return []
    return select_distinct(
        lambda depth: select_best_rows(section.list_rows(code), ranking, depth),
        query,
        request.catalog,
        query.group_rows,
    )


def _build_group(
    request: QueryContext,
    groups: Groups[V],
    code: int,
    section: FilteredGroups,
    pool: list[int],
    scores: Scores,
) -> RecommendedGroup:
    query, catalog = request.query, request.catalog
    steps: list[RerankStep] | None = [] if query.explain else None
    page = rerank(pool, query, catalog, start=0, rows=query.group_rows, seed=request.seed, steps=steps)
    by_row = {placed.row: float(scores[placed.row]) for placed in page}
    value = groups.values[code]
    shown = value if isinstance(value, tuple) else str(value)
    total = int(section.totals[code])
    products = render_products(page, by_row, query, catalog)
    if steps is not None:
        explain_products(request, products, pool, steps)
    return RecommendedGroup(value=shown, total=total, products=products)


def _compute_shares(values: Floats) -> Floats:
    total = float(values.sum())
    shares: Floats = values / total if total > 0 else np.zeros(len(values))
    return shares


def _standardize(values: Floats) -> Floats:
    spread = float(values.std()) if len(values) else 0.0
    scaled: Floats = (values - values.mean()) / spread if spread > 0 else np.zeros(len(values))
    return scaled
