"""THE HOT PATH: who may appear, what the reader likes, how good everything is, which list that makes.

    admitted ──▶ taste ──▶ score ──▶ pick the best, one per group ──▶ arrange ──▶ project

Every endpoint is these stages in its own order. Nothing here reads a store, a clock or randomness.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from actors.recommender.arrange import arrange
from actors.recommender.messages import RecommendationResult
from actors.recommender.project import project
from actors.recommender.recall import best_of, leading, left_out_of
from actors.recommender.request import Request
from actors.recommender.score import score_all, score_own, score_rows
from actors.recommender.taste import did_with, recent_rows, taste_for, traces_of
from actors.vectors.types import Scores

_STRETCH = 50


def products(request: Request) -> RecommendationResult:
    """Answer `user_to_products`."""
    ranking = score_all(request.taste, request.holdings, request.standing)
    pool, again = best_of(request, ranking, left_out_of(request))
    return _page(request, pool, ranking[pool], again or _rung(request))


def trending(request: Request) -> RecommendationResult:
    """Answer `user_to_trending`: what leads now; near-equals stand in the order of the reader's taste.

    Taste reorders stretches of the trend that stay the same whichever page is asked for.
    """
    standing, blend, taste = request.standing, request.holdings.blend, request.taste
    left_out, again = left_out_of(request), ""
    wanted = request.before + request.wanted
    if taste.known:
        wanted = -(-wanted // _STRETCH) * _STRETCH
    pool = leading(request, left_out, wanted)
    if not pool:
        pool, again = best_of(request, standing.trend.copy(), left_out, wanted=wanted)
    own = score_rows(pool, taste, request.holdings, standing)
    if taste.known:
        ranking = standing.trend[pool] + np.float32(blend.taste_in_trending) * np.clip(own, -5, 5)
        order = np.lexsort((-ranking, np.arange(len(pool)) // _STRETCH))
        pool, own = [pool[at] for at in order.tolist()], own[order]
    return _page(
        request, pool, standing.base[pool] + own, again or ("trending" if standing.voted else "newest")
    )


def similar(request: Request) -> RecommendationResult:
    """Answer `product_to_products`: what goes with the anchors, which are never returned themselves."""
    holdings, query = request.holdings, request.query
    like = taste_for(dict.fromkeys(request.anchor_rows, 1.0), holdings.index)
    if not like.known:
        return products(request)
    baskets = query.buy_together and holdings.overlay.baskets.knows(like.rows)
    blend = replace(holdings.blend, content=holdings.blend.content / 5) if baskets else holdings.blend
    ranking = score_own(like, holdings, request.standing, blend=blend, baskets=baskets)
    ranking += request.standing.base * np.float32(blend.crowd_in_similar)
    anchors = request.anchor_rows
    hidden = request.catalog.with_variants(anchors) if query.dedupe else anchors
    pool, _ = best_of(request, ranking, hidden, hide_always=True)
    return _page(request, pool, _scores_of(pool, request), "baskets" if baskets else "similar")


def history(request: Request) -> RecommendationResult:
    """Answer `user_to_history`: what the reader did something with, newest first."""
    did = did_with(request.did, request.query.history_type)
    rows = recent_rows(traces_of(did, request.catalog), len(request.catalog))
    ranking = np.full(len(request.standing), -np.inf, np.float32)
    known = [row for row in rows if row < len(ranking) and request.standing.offered[row]]
    ranking[known] = np.arange(len(known), 0, -1)
    pool, _ = best_of(request, ranking, [])
    return _page(request, pool, _scores_of(pool, request), "history")


def _page(request: Request, pool: list[int], scores: Scores, rung: str) -> RecommendationResult:
    """Arrange the pool into a page and write its records, with the reader's score of each product."""
    query, catalog = request.query, request.catalog
    page = arrange(
        pool,
        query,
        catalog,
        start=request.start,
        rows=query.rows,
        seed=request.seed,
        before=request.before,
        shown=request.shown_rows,
        last_shown=request.last_shown,
    )
    by_row = dict(zip(pool, scores.tolist(), strict=True))
    return RecommendationResult(products=project(page, by_row, query, catalog), served_by=rung)


def _scores_of(rows: list[int], request: Request) -> Scores:
    """Score some rows for the reader, as `user_to_products` would."""
    own = score_rows(rows, request.taste, request.holdings, request.standing)
    own += request.standing.base[rows]
    return own


def _rung(request: Request) -> str:
    """Name the rung of the fallback ladder: the reader's own taste, the crowd's, or what is new."""
    if request.taste.known:
        return "personal"
    return "trending" if request.standing.voted else "newest"
