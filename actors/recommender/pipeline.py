"""THE HOT PATH: the stages of a recommendation, in the order in which they run.

    user signals ──▶ scores ──▶ allowed rows ──▶ ranking ──▶ candidates ──▶ re-ranking ──▶ result records

Every endpoint runs these stages in its own order. A stage is a function of its arguments: it reads no store, no clock
and no randomness, and it changes none of them.
docs/concepts/scoring.md has the equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from actors.recommender.explain import (
    ExplanationInputs,
    explain_result,
    explain_similarity,
)
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.recommender.ranking.candidates import (
    NOTHING_REMOVED,
    SEEN_AGAIN,
    RemovedRows,
    allow_rows,
    apply_list_weights,
    apply_unseen_weights,
    expected_depth,
    list_consumed_rows,
    required_depth,
    select_candidates,
    select_history_rows,
    select_trend_leaders,
)
from actors.recommender.ranking.pipeline_inputs import (
    PageWindow,
    UserSignals,
    find_anchor_rows,
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
from actors.recommender.rerank.exploration import ColdStartDraws, dithering_seed, insert_cold_start_items
from actors.recommender.rerank.learned_reranker import RerankedCandidates, rerank_candidates
from actors.recommender.rerank.rerank import (
    RerankStep,
    describe_placements,
    explore_page,
    render_products,
    rerank,
)
from actors.recommender.state.engine_state import EngineState, ItemPriors
from actors.recommender.state.global_signals import PriorScores
from actors.recommender.state.interaction_rows import (
    RecentEventTuple,
    interactions_from_anchors,
    join_interactions,
    select_session,
)
from actors.recommender.state.score_components import ScoreComponent
from actors.vectors.types import Scores

_STRETCH = 50
"Ranks of the trend among which the personal score may move products."
_MOST_PERSONAL = np.float32(5)
"The personal score moves a product no further among trending products."

_NOT_BOUGHT_TOGETHER = {
    "field": "buy_together",
    "parameter": "buy_together",
    "message": "no purchase contains the product together with another one; the list has similar products",
}


@dataclass(frozen=True, slots=True)
class RankedList:
    """The products of one list before re-ranking.

    Shapes:
        scores: float32 [m], one for each candidate
    """

    candidates: list[int]
    "Rows, best first."
    scores: Scores
    level: str
    "Fallback level of the list."
    removed: RemovedRows = NOTHING_REMOVED
    draws: ColdStartDraws | None = None


def user_to_products(
    query: UserQuery,
    user: UserSignals,
    page: PageWindow,
    state: EngineState,
    priors: ItemPriors,
    now_ms: int,
) -> RecommendationResult:
    """Answer `user_to_products` with the products of the highest score.

    Source:
        docs/concepts/scoring.md, equations 1 (score), 23 (candidates) and 28 (exploration); section Learned re-ranker
    """
    catalog = state.catalog
    consumed = list_consumed_rows(query, user, state, now_ms)
    # Needs the consumed rows: the second weights hold only if the list can show none of the history
    # (decision 26).
    user = apply_list_weights(query, user, state, consumed)
    most = state.reranked_depth
    # The re-ranker reads each component; without one, only their sum is needed.
    components: list[ScoreComponent] | None = [] if most else None
    scores = compute_user_scores(user, state, priors, components)
    ranking = rank(
        scores.prior, scores.personal, allow_rows(query, catalog, priors), catalog.rows_of(query.exclude)
    )
    pool_depth = page.pool_depth
    # The re-ranker moves its whole depth for every page, else page two would repeat products of page one.
    depth = max(pool_depth, most)
    selected = select_candidates(ranking, query, catalog, depth, consumed, may_repeat=page.is_first)
    candidates = selected.rows
    level = selected.level
    draws: ColdStartDraws | None = None
    learned: RerankedCandidates | None = None
    # A list of products seen before gets neither the learned re-ranker nor exploration.
    if not level:
        if components is not None:
            learned = rerank_candidates(
                state.serving_model, priors, user, candidates, selected.ranking, components
            )
            # More of them than without a re-ranker: later stages need no more rows than before.
            candidates = learned.candidates[: expected_depth(required_depth(query, pool_depth))]
            user = replace(user, gains=learned.gains)
        # After the re-ranker, which would move an item away from the place whose probability is logged.
        candidates, draws = insert_cold_start_items(
            candidates, selected.ranking, query, catalog, priors.cold_start.rows, now_ms, page.depth
        )
        level = name_fallback_level(user, priors)
    shown = selected.ranking.get_scores(candidates)
    if learned is not None:
        shown = learned.raise_scores(candidates, shown)
    ranked = RankedList(candidates, shown, level, RemovedRows(consumed), draws)
    return _render_page(query, user, page, ranked, state, priors, now_ms)


def user_to_trending(
    query: UserQuery,
    user: UserSignals,
    page: PageWindow,
    state: EngineState,
    priors: ItemPriors,
    now_ms: int,
) -> RecommendationResult:
    """Answer `user_to_trending` with the leaders of the trend, for users without history those of their cohort.

    The personal score reorders stretches of the trend. The stretches are the same for every page.

    Source:
        docs/concepts/scoring.md, equations 17 (cohort) and 24
    """
    catalog = state.catalog
    consumed = list_consumed_rows(query, user, state, now_ms)
    user = apply_list_weights(query, user, state, consumed)
    scores = compute_user_scores(user, state, priors)
    has_profile = user.profile.has_signal
    cohort = user.cohort
    # A cohort exists only for users without a history.
    trend = PriorScores(priors.trend) if cohort is None else cohort.trend
    depth = page.pool_depth
    # Whole stretches: a stretch cut at the end of a page would have another order on the next page.
    depth = -(-depth // _STRETCH) * _STRETCH if has_profile else depth
    level = "cohort" if cohort is not None else "trending" if priors.has_interactions else "newest"
    candidates = select_trend_leaders(query, catalog, priors, consumed, depth) if cohort is None else []
    if not candidates:
        ranking = rank(trend, None, allow_rows(query, catalog, priors), catalog.rows_of(query.exclude))
        selected = select_candidates(ranking, query, catalog, depth, consumed, may_repeat=page.is_first)
        candidates = selected.rows
        level = selected.level or level
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
    ranked = RankedList(candidates, shown, level, RemovedRows(consumed))
    return _render_page(query, user, page, ranked, state, priors, now_ms)


def product_to_products(
    query: UserQuery,
    user: UserSignals,
    page: PageWindow,
    state: EngineState,
    priors: ItemPriors,
    now_ms: int,
) -> RecommendationResult:
    """Answer `product_to_products` with products that go with the anchors, never with the anchors themselves.

    If nothing is known of the anchors, the answer is that of `user_to_products`. If `buy_together` finds no purchase
    of the anchors with another product, the answer has similar products and a warning.
    """
    anchors = find_anchor_rows(query, state.catalog)
    # With the present time, so no decay by age touches an anchor.
    similar_to = profile_from_weights(
        dict.fromkeys(anchors, 1.0), state.index, interactions_from_anchors(anchors, now_ms)
    )
    if similar_to.has_signal:
        result = _list_similar(query, user, page, anchors, similar_to, state, priors, now_ms)
    else:
        result = user_to_products(query, user, page, state, priors, now_ms)
    present = state.catalog.present
    # A row without a product exists for ids that only interactions named, so a row alone proves no anchor.
    if not any(present[row] for row in anchors):
        return replace(result, anchor_found=False)
    if query.buy_together and result.served_by != "baskets":
        return replace(result, warnings=(_NOT_BOUGHT_TOGETHER,))
    return result


def _list_similar(
    query: UserQuery,
    user: UserSignals,
    page: PageWindow,
    anchors: Sequence[int],
    similar_to: UserProfile,
    state: EngineState,
    priors: ItemPriors,
    now_ms: int,
) -> RecommendationResult:
    """List products related to the anchors, which count as the newest interactions of the user's session.

    Source:
        docs/concepts/scoring.md, equation 25
    """
    catalog = state.catalog
    # The anchors are never among the results, so the weights for lists without the history apply.
    user = apply_unseen_weights(user, state.serving_model)
    level = "baskets"
    components = score_bought_together(similar_to, state, priors) if query.buy_together else []
    if not components:
        level = "similar"
        session = select_session(user.profile.interactions, now_ms)
        steps = join_interactions(similar_to.interactions, session)
        components = [
            *score_similar_items(similar_to, state, priors, steps),
            *score_related_items(anchors, state, priors),
        ]
    # score = a_prior prior + similarity (equation 25)
    prior = priors.prior_unseen.scale(state.weights.prior_in_similar)
    similarity = combine_components(components, state, priors)
    ranking = rank(prior, similarity, allow_rows(query, catalog, priors), catalog.rows_of(query.exclude))
    # Another size of the anchor is no recommendation.
    hidden = catalog.expand_variants(anchors) if query.dedupe else anchors
    candidates = select_candidates(ranking, query, catalog, page.pool_depth, hidden).rows
    # The shown score is the one that `user_to_products` would show.
    scores = compute_user_scores(user, state, priors)
    shown = rank(scores.prior, scores.personal).get_scores(candidates)
    removed = RemovedRows(anchors=anchors, anchor_variants=hidden)
    ranked = RankedList(candidates, shown, level, removed)
    result = _render_page(query, user, page, ranked, state, priors, now_ms)
    if query.explain:
        explain_similarity(result.products, components, state, priors)
    return result


def user_to_history(
    query: UserQuery,
    recent_events: Sequence[RecentEventTuple],
    user: UserSignals,
    page: PageWindow,
    state: EngineState,
    priors: ItemPriors,
    now_ms: int,
) -> RecommendationResult:
    """Answer `user_to_history` with the products of the user's interactions, newest first."""
    catalog = state.catalog
    scores = compute_user_scores(user, state, priors)
    by_score = rank(scores.prior, scores.personal)
    rows = select_history_rows(query, recent_events, catalog, len(priors), by_score)
    # Places become scores, so filters and exclusions work as in other rankings. Rows at -inf are never selected.
    recency = np.full(len(priors), -np.inf, np.float32)
    # Newest first gets the largest number.
    recency[rows] = np.arange(len(rows), 0, -1)
    by_recency = rank(
        PriorScores(recency), None, allow_rows(query, catalog, priors), catalog.rows_of(query.exclude)
    )
    candidates = select_candidates(by_recency, query, catalog, page.depth).rows
    ranked = RankedList(candidates, by_score.get_scores(candidates), "history")
    return _render_page(query, user, page, ranked, state, priors, now_ms)


def _render_page(
    query: UserQuery,
    user: UserSignals,
    page: PageWindow,
    ranked: RankedList,
    state: EngineState,
    priors: ItemPriors,
    now_ms: int,
) -> RecommendationResult:
    """Re-rank the candidates, cut the page, and render its records with the user's score of each product.

    Source:
        docs/concepts/scoring.md, equations 14 (shown score) and 29 (dithering)
    """
    catalog = state.catalog
    candidates = ranked.candidates
    draws = ranked.draws
    steps: list[RerankStep] | None = [] if query.explain else None
    items = rerank(
        candidates,
        query,
        catalog,
        start=page.start,
        rows=query.rows,
        seed=dithering_seed(query, now_ms),
        before=page.shown_count,
        shown=page.shown_rows,
        last_shown=page.last_shown,
        steps=steps,
    )
    # `tolist` converts all at once; reading single elements of an array is slow.
    by_row = dict(zip(candidates, ranked.scores.tolist(), strict=True))
    explored = None
    if page.draw is not None and ranked.level != SEEN_AGAIN:
        barred = frozenset() if draws is None else draws.groups
        explored = explore_page(items, candidates, query, catalog, page, barred, steps)
    products = render_products(items, by_row, query, catalog)
    chances = None if draws is None else draws.probabilities
    placements = describe_placements(items, products, by_row, query, state, ranked.level, chances, explored)
    result = RecommendationResult(products=products, served_by=ranked.level, placements=placements)
    if steps is None:
        return result
    explained = ExplanationInputs(query, user, page, ranked.removed, state, priors)
    return explain_result(explained, result, candidates, steps)
