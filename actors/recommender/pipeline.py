"""THE HOT PATH: who may appear, what the reader likes, how good everything is, which list that makes.

    admitted ──▶ taste ──▶ score ──▶ pick the best, one per group ──▶ arrange ──▶ project

Every endpoint is these stages in its own order. Nothing here reads a store, a clock or randomness.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from actors.recommender.explain import explained
from actors.recommender.messages import RecommendationResult
from actors.recommender.ranking.candidates import best_of, leading, left_out_of
from actors.recommender.ranking.history_rows import dealt_with
from actors.recommender.ranking.query_context import Request
from actors.recommender.ranking.score import said_alike, said_of_baskets, said_related, summed
from actors.recommender.ranking.user_profile import (
    anchored,
    joined,
    running_session,
    taste_for,
)
from actors.recommender.rerank.exploration import explored
from actors.recommender.rerank.rerank import Step, arrange
from actors.recommender.result_fields import project
from actors.recommender.state.prior_scores import Ranking, Start
from actors.vectors.types import Scores

_STRETCH = 50
_MOST_TASTE = np.float32(5)
"No taste moves a product further among what trends."


def products(request: Request) -> RecommendationResult:
    """Answer `user_to_products`."""
    ranking = request.ranking()
    pool, again = best_of(request, ranking, left_out_of(request))
    if not again:
        pool = explored(pool, request, ranking)
    return _page(request, pool, ranking.of(pool), again or request.rung)


def trending(request: Request) -> RecommendationResult:
    """Answer `user_to_trending`: what leads now, for users without history in their cohort.

    Near-equals stand in the order of the reader's taste.

    Taste reorders stretches of the trend that stay the same whichever page is asked for.
    """
    standing, blend, taste = request.standing, request.holdings.blend, request.taste
    left_out, again = left_out_of(request), ""
    wanted = request.before + request.wanted
    if taste.known:
        wanted = -(-wanted // _STRETCH) * _STRETCH
    cohort = request.cohort
    trend = Start(standing.trend) if cohort is None else cohort.trend
    pool = leading(request, left_out, wanted) if cohort is None else []
    if not pool:
        pool, again = best_of(request, Ranking(trend), left_out, wanted=wanted)
    own = request.own.of(np.array(pool, np.int64))
    if taste.known:
        ranking = trend.scores[pool] + np.float32(blend.taste_in_trending) * np.minimum(
            np.maximum(own, -_MOST_TASTE), _MOST_TASTE
        )
        order = np.lexsort((-ranking, np.arange(len(pool)) // _STRETCH))
        pool, own = [pool[at] for at in order.tolist()], own[order]
    scores = request.start_scores.scores[pool] + own
    rung = "cohort" if cohort is not None else "trending" if standing.voted else "newest"
    return _page(request, pool, scores, again or rung)


def similar(request: Request) -> RecommendationResult:
    """Answer `product_to_products`: what goes with the anchors, which are never returned themselves."""
    found = _similar(request)
    present = request.catalog.present
    if any(present[row] for row in request.anchor_rows):
        return found
    return replace(found, anchor_found=False)


def _similar(request: Request) -> RecommendationResult:
    """Find what goes with the anchors, or what the reader likes when nothing is known of them.

    When the reader is in the middle of something, the anchors are what they looked at last in it.
    """
    holdings, query, standing = request.holdings, request.query, request.standing
    like = taste_for(
        dict.fromkeys(request.anchor_rows, 1.0), holdings.index, anchored(request.anchor_rows, request.now_ms)
    )
    if not like.known:
        return products(request)
    parts = said_of_baskets(like, holdings, standing) if query.buy_together else []
    rung = "baskets" if parts else "similar"
    if not parts:
        session = running_session(request.taste.steps, request.now_ms)
        parts = said_alike(like, holdings, standing, joined(like.steps, session))
        parts += said_related(request.anchor_rows, holdings, standing)
    start = standing.start.times(holdings.blend.crowd_in_similar)
    ranking = Ranking(start, summed(parts, holdings, standing))
    anchors = request.anchor_rows
    hidden = request.catalog.with_variants(anchors) if query.dedupe else anchors
    pool, _ = best_of(request, ranking, hidden, hide_always=True)
    return _page(request, pool, _scores_of(pool, request), rung)


def history(request: Request) -> RecommendationResult:
    """Answer `user_to_history`: what the reader did something with, newest first."""
    rows = dealt_with(request)
    ranking = np.full(len(request.standing), -np.inf, np.float32)
    ranking[rows] = np.arange(len(rows), 0, -1)
    pool, _ = best_of(request, Ranking(Start(ranking)), [])
    return _page(request, pool, _scores_of(pool, request), "history")


def _page(request: Request, pool: list[int], scores: Scores, rung: str) -> RecommendationResult:
    """Arrange the pool into a page and write its records, with the reader's score of each product."""
    query, catalog = request.query, request.catalog
    steps: list[Step] | None = [] if query.explain else None
    page = arrange(
        pool,
        query,
        catalog,
        start=request.start,
        rows=query.rows,
        seed=request.seed if query.dithering > 1 else 0,
        before=request.before,
        shown=request.shown_rows,
        last_shown=request.last_shown,
        steps=steps,
    )
    by_row = dict(zip(pool, scores.tolist(), strict=True))
    result = RecommendationResult(products=project(page, by_row, query, catalog), served_by=rung)
    return result if steps is None else explained(request, result, pool, steps)


def _scores_of(rows: list[int], request: Request) -> Scores:
    """Score some rows for the reader, as `user_to_products` would."""
    return request.ranking().of(rows)
