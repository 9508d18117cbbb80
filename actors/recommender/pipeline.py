"""THE HOT PATH: the stages of a recommendation, in the order in which they run.

    user signals ──▶ scores ──▶ allowed rows ──▶ ranking ──▶ candidates ──▶ re-ranking ──▶ result records

Every endpoint runs these stages in its own order. A stage is a function of its arguments: it reads no store, no clock
and no randomness. Only the functions of this module and explanations take the whole context of a query.
docs/concepts/scoring.md has the equations.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import numpy as np

from actors.recommender.explain import (
    explain_groups,
    explain_products,
    explain_result,
    explain_similarity,
)
from actors.recommender.messages import RecommendationResult, RecommendedGroup, UserQuery
from actors.recommender.ranking.candidates import (
    NOTHING_REMOVED,
    SEEN_AGAIN,
    RemovedRows,
    allow_rows,
    expected_depth,
    filter_rows,
    list_consumed_rows,
    required_depth,
    select_candidates,
    select_distinct,
    select_history_rows,
    select_list_weights,
    select_trend_leaders,
    select_unseen_weights,
)
from actors.recommender.ranking.query_context import (
    PageWindow,
    QueryContext,
    UserSignals,
    build_user_signals,
    find_anchor_rows,
    find_page_window,
    name_fallback_level,
)
from actors.recommender.ranking.ranking import rank
from actors.recommender.ranking.score import (
    combine_components,
    compute_user_scores,
    score_bought_together,
    score_related_items,
    score_similar_items,
)
from actors.recommender.ranking.user_profile import UserProfile, profile_from_weights
from actors.recommender.rerank.exploration import ColdStartDraws, add_exploration, dithering_seed
from actors.recommender.rerank.grouping import count_available, score_groups, sum_popularity
from actors.recommender.rerank.rerank import (
    RerankStep,
    describe_placements,
    explore_page,
    render_products,
    rerank,
)
from actors.recommender.rerank.reranker import LearnedOrder, order_candidates
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.engine_state import EngineState, ItemPriors
from actors.recommender.state.filtered_groups import FilteredGroups
from actors.recommender.state.global_signals import PriorScores
from actors.recommender.state.groups import Groups, select_best_rows
from actors.recommender.state.interaction_rows import (
    interactions_from_anchors,
    join_interactions,
    select_session,
)
from actors.recommender.state.score_components import ScoreComponent
from actors.vectors.types import Mask, Scores

V = TypeVar("V", bound=Hashable)

_STRETCH = 50
"Ranks of the trend among which the personal score may move products."
_MOST_PERSONAL = np.float32(5)
"The personal score moves a product no further among trending products."
# Above any score, so consumed products come last in a group; unlike -inf, it keeps them in it.
_SEEN_MALUS = np.float32(1e6)

_NOT_BOUGHT_TOGETHER = {
    "field": "buy_together",
    "parameter": "buy_together",
    "message": "no purchase contains the product together with another one; the list has similar products",
}


def user_to_products(request: QueryContext) -> RecommendationResult:
    """Answer `user_to_products` with the products of the highest score.

    Source:
        docs/concepts/scoring.md, equations 1 (score), 23 (candidates) and 28 (exploration); section Learned re-ranker
    """
    query = request.query
    state = request.engine_state
    catalog = request.catalog
    priors = request.item_priors
    page = find_page_window(query, request.shown_ids, catalog)
    user = build_user_signals(query, request.recent_events, state, priors, request.now_ms)
    consumed = list_consumed_rows(query, user, state, request.now_ms)
    # Needs the consumed rows: the second weights hold only if the list can show none of the history
    # (decision 26).
    user = select_list_weights(query, user, state, consumed)
    most = state.reranked_depth
    # The re-ranker reads each component; without one, only their sum is needed.
    components: list[ScoreComponent] | None = [] if most else None
    scores = compute_user_scores(user, state, priors, components)
    ranking = rank(
        scores.prior, scores.personal, allow_rows(query, catalog, priors), catalog.rows_of(query.exclude)
    )
    # The re-ranker moves its whole depth for every page, else page two would repeat products of page one.
    depth = max(page.depth + request.pool_size, most)
    candidates, level = select_candidates(ranking, query, catalog, depth, consumed, may_repeat=page.is_first)
    draws: ColdStartDraws | None = None
    learned: LearnedOrder | None = None
    # A list of products seen before gets neither the learned re-ranker nor exploration.
    if not level:
        if components is not None:
            learned = order_candidates(state.serving_model, priors, user, candidates, ranking, components)
            # More of them than without a re-ranker: later stages need no more rows than before.
            needed = required_depth(query, page.depth + request.pool_size)
            candidates = learned.candidates[: expected_depth(needed)]
            user = replace(user, gains=learned.gains)
        # After the re-ranker, which would move an item away from the place whose probability is logged.
        candidates, draws = add_exploration(
            candidates, ranking, query, catalog, priors.cold_start.rows, request.now_ms, page.depth
        )
        level = name_fallback_level(user, priors)
    shown = ranking.get_scores(candidates)
    if learned is not None:
        shown = learned.raise_scores(candidates, shown)
    return _render_page(request, user, page, candidates, shown, level, RemovedRows(consumed), draws)


def user_to_trending(request: QueryContext) -> RecommendationResult:
    """Answer `user_to_trending` with the leaders of the trend, for users without history those of their cohort.

    The personal score reorders stretches of the trend. The stretches are the same for every page.

    Source:
        docs/concepts/scoring.md, equations 17 (cohort) and 24
    """
    query = request.query
    state = request.engine_state
    catalog = request.catalog
    priors = request.item_priors
    page = find_page_window(query, request.shown_ids, catalog)
    user = build_user_signals(query, request.recent_events, state, priors, request.now_ms)
    consumed = list_consumed_rows(query, user, state, request.now_ms)
    user = select_list_weights(query, user, state, consumed)
    scores = compute_user_scores(user, state, priors)
    has_profile = user.profile.has_signal
    cohort = user.cohort
    # A cohort exists only for users without a history.
    trend = PriorScores(priors.trend) if cohort is None else cohort.trend
    depth = page.depth + request.pool_size
    # Whole stretches: a stretch cut at the end of a page would have another order on the next page.
    depth = -(-depth // _STRETCH) * _STRETCH if has_profile else depth
    level = "cohort" if cohort is not None else "trending" if priors.has_interactions else "newest"
    candidates = select_trend_leaders(query, catalog, priors, consumed, depth) if cohort is None else []
    if not candidates:
        ranking = rank(trend, None, allow_rows(query, catalog, priors), catalog.rows_of(query.exclude))
        candidates, repeated = select_candidates(
            ranking, query, catalog, depth, consumed, may_repeat=page.is_first
        )
        level = repeated or level
    # Only for the candidates: the scores of all rows would cost more.
    personal = scores.personal.get_scores(np.array(candidates, np.int64))
    if has_profile:
        # key = trend + a_rerank clip(personal, -5, 5) (equation 24)
        keys = trend.scores[candidates] + np.float32(state.weights.profile_in_trending) * np.minimum(
            np.maximum(personal, -_MOST_PERSONAL), _MOST_PERSONAL
        )
        # `lexsort` sorts by its last key first: by stretch, and by score within a stretch.
        order = np.lexsort((-keys, np.arange(len(candidates)) // _STRETCH))
        candidates = [candidates[at] for at in order.tolist()]
        personal = personal[order]
    shown = scores.prior.scores[candidates] + personal
    return _render_page(request, user, page, candidates, shown, level, RemovedRows(consumed))


def product_to_products(request: QueryContext) -> RecommendationResult:
    """Answer `product_to_products` with products that go with the anchors, never with the anchors themselves.

    If nothing is known of the anchors, the answer is that of `user_to_products`. If `buy_together` finds no purchase
    of the anchors with another product, the answer has similar products and a warning.
    """
    anchors = find_anchor_rows(request.query, request.catalog)
    result = _select_similar(request, anchors) or user_to_products(request)
    present = request.catalog.present
    # A row without a product exists for ids that only interactions named, so a row alone proves no anchor.
    if not any(present[row] for row in anchors):
        return replace(result, anchor_found=False)
    if request.query.buy_together and result.served_by != "baskets":
        return replace(result, warnings=(_NOT_BOUGHT_TOGETHER,))
    return result


def _select_similar(request: QueryContext, anchors: Sequence[int]) -> RecommendationResult | None:
    """Select rows related to the anchors; None if there is no data about them.

    The anchors count as the newest interactions of the session of the user.

    Source:
        docs/concepts/scoring.md, equation 25
    """
    query = request.query
    state = request.engine_state
    catalog = request.catalog
    priors = request.item_priors
    # With the present time, so no decay by age touches an anchor.
    named = interactions_from_anchors(anchors, request.now_ms)
    similar_to = profile_from_weights(dict.fromkeys(anchors, 1.0), state.index, named)
    if not similar_to.has_signal:
        return None
    page = find_page_window(query, request.shown_ids, catalog)
    user = build_user_signals(query, request.recent_events, state, priors, request.now_ms)
    # The anchors are never among the results, so the weights for lists without the history apply.
    user = select_unseen_weights(user, state.serving_model)
    components, level = _score_anchors(request, user, anchors, similar_to)
    # score = a_prior prior + similarity (equation 25)
    prior = priors.prior_unseen.scale(state.weights.prior_in_similar)
    similarity = combine_components(components, state, priors)
    ranking = rank(prior, similarity, allow_rows(query, catalog, priors), catalog.rows_of(query.exclude))
    # Another size of the anchor is no recommendation.
    hidden = catalog.add_variants(anchors) if query.dedupe else anchors
    candidates, _ = select_candidates(ranking, query, catalog, page.depth + request.pool_size, hidden)
    removed = RemovedRows(anchors=anchors, anchor_variants=hidden)
    shown = _score_rows(user, state, priors, candidates)
    result = _render_page(request, user, page, candidates, shown, level, removed)
    if query.explain:
        explain_similarity(request, result.products, components)
    return result


def _score_anchors(
    request: QueryContext, user: UserSignals, anchors: Sequence[int], similar_to: UserProfile
) -> tuple[list[ScoreComponent], str]:
    """List the components of products that go with the anchors, and the fallback level that they give."""
    state = request.engine_state
    priors = request.item_priors
    if request.query.buy_together:
        baskets = score_bought_together(similar_to, state, priors)
        if baskets:
            return baskets, "baskets"
    session = select_session(user.profile.interactions, request.now_ms)
    steps = join_interactions(similar_to.interactions, session)
    components = score_similar_items(similar_to, state, priors, steps)
    return [*components, *score_related_items(anchors, state, priors)], "similar"


def user_to_history(request: QueryContext) -> RecommendationResult:
    """Answer `user_to_history` with the products of the user's interactions, newest first."""
    query = request.query
    state = request.engine_state
    catalog = request.catalog
    priors = request.item_priors
    page = find_page_window(query, request.shown_ids, catalog)
    user = build_user_signals(query, request.recent_events, state, priors, request.now_ms)
    scores = compute_user_scores(user, state, priors)
    by_score = rank(scores.prior, scores.personal)
    rows = select_history_rows(query, request.recent_events, catalog, len(priors), by_score)
    # Places become scores, so filters and exclusions work as in other rankings. Rows at -inf are never selected.
    recency = np.full(len(priors), -np.inf, np.float32)
    # Newest first gets the largest number.
    recency[rows] = np.arange(len(rows), 0, -1)
    by_recency = rank(
        PriorScores(recency), None, allow_rows(query, catalog, priors), catalog.rows_of(query.exclude)
    )
    candidates, _ = select_candidates(by_recency, query, catalog, page.depth)
    return _render_page(request, user, page, candidates, by_score.get_scores(candidates), "history")


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
    """Answer `user_to_attributes`: values of a field, boosted ones first, excluded ones never."""
    query = request.query
    groups = request.catalog.group_by_attribute(query.field_name)
    excluded = set(query.exclude_values)
    codes = [code for code, value in enumerate(groups.values) if value not in excluded]
    boosted = [groups.code_of(value) for value in query.boost_values if value not in excluded]
    return _rank_groups(request, groups, codes, first=[code for code in boosted if code is not None])


def _rank_groups(
    request: QueryContext, groups: Groups[V], codes: list[int], first: Sequence[int], enough: int = 1
) -> RecommendationResult:
    """Rank groups by the interests of the user, and the products of each by the score.

    Source:
        docs/concepts/scoring.md, equation 26
    """
    query = request.query
    state = request.engine_state
    priors = request.item_priors
    user = build_user_signals(query, request.recent_events, state, priors, request.now_ms)
    recent = list_consumed_rows(query, user, state, request.now_ms)
    user = select_list_weights(query, user, state, recent)
    filtered = _get_filtered_groups(request, groups)
    user_scores = compute_user_scores(user, state, priors)
    scores = rank(user_scores.prior, user_scores.personal).scores
    # `np.where` copies: the maluses below must not reach the scores that are shown.
    ranking = np.where(filtered.available, scores, np.float32(-np.inf))
    # Rows that the catalog got since the priors were computed have no score yet.
    excluded = [row for row in request.catalog.rows_of(query.exclude) if row < len(ranking)]
    ranking[excluded] = -np.inf
    candidates = np.array(codes, np.int64)
    candidates = candidates[count_available(groups, filtered, excluded)[candidates] >= enough]
    merit = score_groups(
        groups, candidates, ranking, user.profile, sum_popularity(groups, user, state, priors)
    )
    # Stable: replicas list equal groups in the same order.
    order = candidates[np.argsort(-merit, kind="stable")].tolist()
    present = set(order)
    leading = [code for code in dict.fromkeys(first) if code in present]
    chosen = leading + [code for code in order if code not in leading]
    # consumed products fill a group only after everything else in it
    consumed = {row for row in recent if row < len(ranking)}
    ranking[list(consumed)] -= _SEEN_MALUS
    # totals count variants; a group is only full when it has enough different products
    least = enough if query.group_rows and query.dedupe else 0
    # Lazy: rows are selected only for the groups that the page shows.
    ranked = ((code, _select_group_rows(query, request.catalog, filtered, code, ranking)) for code in chosen)
    page = list(islice((item for item in ranked if len(item[1]) >= least), query.rows))
    rendered = [_render_group(request, user, groups, code, filtered, rows, scores) for code, rows in page]
    result = RecommendationResult(groups=rendered, served_by=name_fallback_level(user, priors))
    if not query.explain:
        return result
    return explain_groups(request, user, result, [rows for _, rows in page], RemovedRows(recent))


def _get_filtered_groups(request: QueryContext, groups: Groups[V]) -> FilteredGroups:
    """Find the rows of every group that pass type and filters, which are those that totals count."""
    query = request.query
    catalog = request.catalog
    priors = request.item_priors
    count = len(priors)

    def allowed() -> Mask:
        mask = filter_rows(query, catalog)
        present: Mask = catalog.present[:count].copy()
        return present if mask is None else present & mask[:count]

    removed = tuple(rule.filter for rule in query.removed)
    conditions = (query.type, query.filter, query.circles, removed)
    # Masks hold for one state: of the catalog, and of the priors that say what is offered.
    versions = (catalog.version, priors.versions[0], count)
    return request.engine_state.filtered_groups.get(
        groups, conditions, versions, allowed, priors.offered & catalog.offered[:count]
    )


def _select_group_rows(
    query: UserQuery, catalog: Catalog, filtered: FilteredGroups, code: int, ranking: Scores
) -> list[int]:
    """Select the best rows of one group, as many as the query needs."""
    if not query.group_rows and not query.explain_missing:
        return []
    return select_distinct(
        lambda depth: select_best_rows(filtered.list_rows(code), ranking, depth),
        query,
        catalog,
        query.group_rows,
    )


def _render_group(
    request: QueryContext,
    user: UserSignals,
    groups: Groups[V],
    code: int,
    filtered: FilteredGroups,
    rows: list[int],
    scores: Scores,
) -> RecommendedGroup:
    """Re-rank the products of one group and render their records."""
    query = request.query
    catalog = request.catalog
    steps: list[RerankStep] | None = [] if query.explain else None
    seed = dithering_seed(query, request.now_ms)
    items = rerank(rows, query, catalog, start=0, rows=query.group_rows, seed=seed, steps=steps)
    by_row = {item.row: float(scores[item.row]) for item in items}
    products = render_products(items, by_row, query, catalog)
    if steps is not None:
        window = find_page_window(query, request.shown_ids, catalog)
        explain_products(request, user, window, products, rows, steps)
    value = groups.values[code]
    shown = value if isinstance(value, tuple) else str(value)
    placements = describe_placements(items, products, by_row, query, request.engine_state)
    return RecommendedGroup(shown, int(filtered.totals[code]), products, placements)


def _render_page(
    request: QueryContext,
    user: UserSignals,
    page: PageWindow,
    candidates: list[int],
    scores: Scores,
    level: str,
    removed: RemovedRows = NOTHING_REMOVED,
    draws: ColdStartDraws | None = None,
) -> RecommendationResult:
    """Re-rank the candidates, cut the page, and render its records with the user's score of each product.

    Shapes:
        scores: float32 [m], one for each candidate

    Source:
        docs/concepts/scoring.md, equations 14 (shown score) and 29 (dithering)
    """
    query = request.query
    catalog = request.catalog
    steps: list[RerankStep] | None = [] if query.explain else None
    items = rerank(
        candidates,
        query,
        catalog,
        start=page.start,
        rows=query.rows,
        seed=dithering_seed(query, request.now_ms),
        before=page.shown_count,
        shown=page.shown_rows,
        last_shown=page.last_shown,
        steps=steps,
    )
    # `tolist` converts all at once; reading single elements of an array is slow.
    by_row = dict(zip(candidates, scores.tolist(), strict=True))
    explored = None
    if request.exploration is not None and level != SEEN_AGAIN:
        barred = frozenset() if draws is None else draws.groups
        explored = explore_page(items, candidates, request.exploration, query, catalog, page, barred, steps)
    products = render_products(items, by_row, query, catalog)
    chances = None if draws is None else draws.probabilities
    placements = describe_placements(
        items, products, by_row, query, request.engine_state, level, chances, explored
    )
    result = RecommendationResult(products=products, served_by=level, placements=placements)
    return (
        result if steps is None else explain_result(request, user, page, result, candidates, steps, removed)
    )


def _score_rows(user: UserSignals, state: EngineState, priors: ItemPriors, rows: list[int]) -> Scores:
    """Score some rows for the user as `user_to_products` would.

    Shapes:
        returns: float32 [m], fresh
    """
    scores = compute_user_scores(user, state, priors)
    return rank(scores.prior, scores.personal).get_scores(rows)
