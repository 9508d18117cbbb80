"""THE HOT PATH: who may appear, what the reader likes, how good everything is, which list that makes.

    admitted ──▶ taste ──▶ score ──▶ pick the best, one per group ──▶ arrange ──▶ project

Every endpoint is these stages in its own order. Nothing here reads a store, a clock or randomness.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from actors.recommender.explain import explain_result
from actors.recommender.messages import RecommendationResult
from actors.recommender.ranking.candidates import recently_consumed, select_candidates, select_trend_leaders
from actors.recommender.ranking.history_rows import list_history_rows
from actors.recommender.ranking.query_context import QueryContext
from actors.recommender.ranking.score import (
    combine_components,
    score_bought_together,
    score_related_items,
    score_similar_items,
)
from actors.recommender.ranking.user_profile import profile_from_weights
from actors.recommender.rerank.exploration import add_exploration
from actors.recommender.rerank.rerank import RerankStep, rerank
from actors.recommender.result_fields import render_products
from actors.recommender.state.interaction_rows import (
    interactions_from_anchors,
    join_interactions,
    select_session,
)
from actors.recommender.state.prior_scores import PriorScores, Ranking
from actors.vectors.types import Scores

_BLOCK_SIZE = 50
_MOST_PERSONAL = np.float32(5)
"No taste moves a product further among what trends."


def user_to_products(request: QueryContext) -> RecommendationResult:
    """Answer `user_to_products`."""
    ranking = request.build_ranking()
    pool, again = select_candidates(request, ranking, recently_consumed(request))
    if not again:
        pool = add_exploration(pool, request, ranking)
    return _render_page(request, pool, ranking.get_scores(pool), again or request.fallback_level)


def user_to_trending(request: QueryContext) -> RecommendationResult:
    """Answer `user_to_trending`: what leads now, for users without history in their cohort.

    Near-equals stand in the order of the reader's taste.

    Taste reorders stretches of the trend that stay the same whichever page is asked for.
    """
    standing, blend, taste = request.item_priors, request.engine_state.weights, request.user_profile
    left_out, again = recently_consumed(request), ""
    wanted = request.shown_count + request.page_end
    if taste.has_signal:
        wanted = -(-wanted // _BLOCK_SIZE) * _BLOCK_SIZE
    cohort = request.cohort_scores
    trend = PriorScores(standing.trend) if cohort is None else cohort.trend
    pool = select_trend_leaders(request, left_out, wanted) if cohort is None else []
    if not pool:
        pool, again = select_candidates(request, Ranking(trend), left_out, wanted=wanted)
    own = request.personal_scores.get_scores(np.array(pool, np.int64))
    if taste.has_signal:
        ranking = trend.scores[pool] + np.float32(blend.profile_in_trending) * np.minimum(
            np.maximum(own, -_MOST_PERSONAL), _MOST_PERSONAL
        )
        order = np.lexsort((-ranking, np.arange(len(pool)) // _BLOCK_SIZE))
        pool, own = [pool[at] for at in order.tolist()], own[order]
    scores = request.prior_scores.scores[pool] + own
    rung = "cohort" if cohort is not None else "trending" if standing.has_interactions else "newest"
    return _render_page(request, pool, scores, again or rung)


def product_to_products(request: QueryContext) -> RecommendationResult:
    """Answer `product_to_products`: what goes with the anchors, which are never returned themselves."""
    found = _select_similar(request)
    present = request.catalog.present
    if any(present[row] for row in request.anchor_rows):
        return found
    return replace(found, anchor_found=False)


def _select_similar(request: QueryContext) -> RecommendationResult:
    """Find what goes with the anchors, or what the reader likes when nothing is known of them.

    When the reader is in the middle of something, the anchors are what they looked at last in it.
    """
    holdings, query, standing = request.engine_state, request.query, request.item_priors
    like = profile_from_weights(
        dict.fromkeys(request.anchor_rows, 1.0),
        holdings.index,
        interactions_from_anchors(request.anchor_rows, request.now_ms),
    )
    if not like.has_signal:
        return user_to_products(request)
    parts = score_bought_together(like, holdings, standing) if query.buy_together else []
    rung = "baskets" if parts else "similar"
    if not parts:
        session = select_session(request.user_profile.interactions, request.now_ms)
        parts = score_similar_items(like, holdings, standing, join_interactions(like.interactions, session))
        parts += score_related_items(request.anchor_rows, holdings, standing)
    start = standing.prior.scale(holdings.weights.prior_in_similar)
    ranking = Ranking(start, combine_components(parts, holdings, standing))
    anchors = request.anchor_rows
    hidden = request.catalog.add_variants(anchors) if query.dedupe else anchors
    pool, _ = select_candidates(request, ranking, hidden, hide_always=True)
    return _render_page(request, pool, _score_rows(pool, request), rung)


def user_to_history(request: QueryContext) -> RecommendationResult:
    """Answer `user_to_history`: what the reader did something with, newest first."""
    rows = list_history_rows(request)
    ranking = np.full(len(request.item_priors), -np.inf, np.float32)
    ranking[rows] = np.arange(len(rows), 0, -1)
    pool, _ = select_candidates(request, Ranking(PriorScores(ranking)), [])
    return _render_page(request, pool, _score_rows(pool, request), "history")


def _render_page(request: QueryContext, pool: list[int], scores: Scores, rung: str) -> RecommendationResult:
    """Arrange the pool into a page and write its records, with the reader's score of each product."""
    query, catalog = request.query, request.catalog
    steps: list[RerankStep] | None = [] if query.explain else None
    page = rerank(
        pool,
        query,
        catalog,
        start=request.start,
        rows=query.rows,
        seed=request.seed if query.dithering > 1 else 0,
        before=request.shown_count,
        shown=request.shown_rows,
        last_shown=request.last_shown,
        steps=steps,
    )
    by_row = dict(zip(pool, scores.tolist(), strict=True))
    result = RecommendationResult(products=render_products(page, by_row, query, catalog), served_by=rung)
    return result if steps is None else explain_result(request, result, pool, steps)


def _score_rows(rows: list[int], request: QueryContext) -> Scores:
    """Score some rows for the reader, as `user_to_products` would."""
    return request.build_ranking().get_scores(rows)
