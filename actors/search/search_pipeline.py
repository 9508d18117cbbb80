"""A search: products that match and may be shown, in the order of relevance and personal score.

    allowed ──▶ find ──▶ included, anchored ──▶ facets ──▶ score, learned re-ranker, order ──▶ one per product
    ──▶ boosts, diversification ──▶ anchoring ──▶ page ──▶ records

Filters decide which products are allowed, words decide which match; personal scores and boosts change the
order. The personal score is that of recommendations (`score`), so a product has the same
`_personalization_score` in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from actors.models.reranker import Reranker
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.recommender.ranking.candidates import select_distinct
from actors.recommender.ranking.pipeline_inputs import (
    NO_SIGNALS,
    UserSignals,
)
from actors.recommender.ranking.score import UserScores, compute_user_scores
from actors.recommender.rerank.exploration import dithering_seed
from actors.recommender.rerank.learned_reranker import RERANKER, add_gains_to_hits
from actors.recommender.rerank.rerank import RankedItem, describe_placements, rerank
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.engine_state import EngineState, ItemPriors
from actors.recommender.state.score_components import ScoreComponent
from actors.recommender.state.serving_model import ServingModel
from actors.retrieval.messages import (
    BOOSTING,
    MOST_PERSONAL,
    PERSONALIZATION,
    RELEVANCE,
    Anchoring,
    SearchQuery,
    SearchResult,
)
from actors.search.facets import FacetSelection, count_facets
from actors.search.result_rendering import build_spelling_result, render_records
from actors.search.retrieve import SearchHits, filter_products, retrieve
from actors.search.sort import (
    active_anchorings,
    blend_scores,
    place_anchored,
    select_anchored_rows,
    sort_rows,
)
from actors.vectors.row_selection import best_rows
from actors.vectors.types import Floats, Mask, Rows, Scores
from cluster.query.columnar.value_counts import count_different
from cluster.query.field_projection import Projection

_SOLD_OUT = -4.0
"Prior score of a product that is out of stock: it can be found, but comes last."
_SOFTNESS = 4.0
PERSONAL_WEIGHT = 1.0
PRIOR_WEIGHT = 0.5
"Weight of scores, in standard deviations of relevance: of the user, or of all users if the user has no history."
MOST_ANCHORED = 3_000
"Places of a list that are searched for anchors."


def search(
    query: UserQuery, user: UserSignals, state: EngineState, priors: ItemPriors, now_ms: int
) -> RecommendationResult:
    """Answer `search`."""
    catalog = state.catalog
    search_query = query.search or SearchQuery()
    anchorings = active_anchorings(search_query.anchorings, now_ms)
    allowed = filter_products(query, catalog, search_query.category)
    matching = retrieve(partial(state.texts.find, now_ms=now_ms), catalog, search_query, allowed)
    # Before facet filters: the counts of a facet ignore the choices in that facet.
    unfaceted = _add_requested_rows(search_query, anchorings, catalog, matching, allowed)
    chosen = FacetSelection(search_query.facet_filters, catalog)
    hits = unfaceted.filter(chosen.filter_rows(unfaceted.rows))
    model = state.serving_model
    # The list of a client that sorts has no learned order.
    reranker = None if model is None or search_query.order else model.learned.search_reranker
    # The re-ranker reads each component; without one, only their sum is needed.
    components: list[ScoreComponent] | None = None if reranker is None else []
    scores = compute_user_scores(user, state, priors, components)
    ranking = _Ranking.of(query, search_query, catalog, hits, user, scores, priors)
    if model is not None and reranker is not None and components is not None:
        ranking = ranking.rerank(model, reranker, priors, user, components)
    page = _page(ranking, anchorings, now_ms)
    facets = count_facets(search_query.facets, unfaceted.rows, chosen, catalog, dedupe=query.dedupe)
    apart = None
    if search_query.separated:
        apart = []
        if unfaceted.partial is not None:
            incomplete = unfaceted.partial.filter(chosen.filter_rows(unfaceted.partial.rows))
            apart = _partial_records(
                _Ranking.of(query, search_query, catalog, incomplete, user, scores, priors)
            )
    result = SearchResult(
        total=ranking.total,
        spelling=build_spelling_result(search_query.original, hits.corrections, correct=search_query.correct),
        facets=facets,
        existence=_existence(ranking),
        partial=apart,
        assets=search_query.assets,
        applied=search_query.applied,
        filtering=search_query.filtering,
    )
    scores_by_row = ranking.result_scores(page)
    products = render_records(page, hits, scores_by_row, query, search_query, catalog)
    if query.explain:
        ranking.explain(products, query.start)
    final_scores = {row: final for row, (_, _, final) in scores_by_row.items()}
    return RecommendationResult(
        products=products,
        placements=describe_placements(page, products, final_scores, query, state),
        search=result,
        served_by="search" if search_query.text or search_query.advanced is not None else "browse",
    )


def get_products(query: UserQuery, catalog: Catalog) -> RecommendationResult:
    """Answer `mget`: the named products, in that order; missing ones have `_found` false."""
    projection = Projection.of(query.fields)
    records: list[dict[str, Any]] = []
    for product_id in query.anchors:
        row = catalog.row_of(product_id)
        # `row_of` also resolves ids of product groups, which name no single product.
        record = catalog.record(row) if row >= 0 and catalog.product_ids[row] == product_id else None
        if record:
            records.append({"_found": True, **projection(record)})
        else:
            records.append({"_found": False, "product_id": product_id})
    return RecommendationResult(products=records, served_by="named")


@dataclass(frozen=True)
class _Ranking:
    """Hits with their scores, in order.

    Shapes:
        personal_scores, final, order_scores: float64 [k]
    """

    query: UserQuery
    search_query: SearchQuery
    catalog: Catalog
    hits: SearchHits
    personal_scores: Floats
    final: Floats
    "Relevance and personal score together; the log has it."
    order_scores: Floats
    "The score that orders the hits: `final`, with what a re-ranker adds."
    total: int

    @classmethod
    def of(
        cls,
        query: UserQuery,
        search_query: SearchQuery,
        catalog: Catalog,
        hits: SearchHits,
        user: UserSignals,
        scores: UserScores,
        priors: ItemPriors,
    ) -> _Ranking:
        """Score and order hits."""
        personal = _personal_scores(scores, hits.rows)
        most = PERSONAL_WEIGHT if user.profile.has_signal else PRIOR_WEIGHT
        weight = most * search_query.personalization / MOST_PERSONAL
        # at weight 0 all users get one list: equals are ordered by prior scores
        secondary = (
            personal if search_query.personalization else _prior_scores(priors.prior.scores, hits.rows)
        )
        final = blend_scores(hits.rows, hits.relevance, secondary, weight)
        if search_query.order:
            order = sort_rows(
                search_query.order,
                hits.rows,
                catalog,
                lambda name: _scores(name, query, catalog, hits, personal),
                final,
            )
            final = np.empty(len(order))
            # Places as scores, so later stages treat a sorted list like a ranked one.
            final[order] = -np.arange(len(order), dtype=np.float64)
        total = len(hits.rows)
        if query.dedupe and catalog.has_variants:
            total = count_different(catalog.groups[hits.rows])
        return cls(query, search_query, catalog, hits, personal, final, final, total)

    def rerank(
        self,
        model: ServingModel,
        reranker: Reranker,
        priors: ItemPriors,
        user: UserSignals,
        components: Sequence[ScoreComponent],
    ) -> _Ranking:
        """Return the ranking with the best hits in the order of a re-ranker."""
        if not self.search_query.personalization:
            # The list is then the same for all users, so that the re-ranker must not know this one.
            user = NO_SIGNALS
            components = ()
        order_scores = add_gains_to_hits(
            model, reranker, priors, user, self.hits.rows, self.final, components
        )
        return replace(self, order_scores=order_scores)

    def rows(self, places: int) -> list[int]:
        """List enough of the best rows for so many places; with `dedupe` one for each product."""

        def best(count: int) -> Rows:
            best_hits: Rows = self.hits.rows[best_rows(self.order_scores, count)]
            return best_hits

        return select_distinct(best, self.query, self.catalog, min(places, self.total))

    def result_scores(self, placed: Sequence[RankedItem]) -> dict[int, tuple[float, float, float]]:
        """Return relevance, personal score and the score that ranks of some rows."""
        rows = np.array([item.row for item in placed], np.int64)
        # Hits are in the order of relevance; a sorted view of their rows finds each place by binary search.
        order = np.argsort(self.hits.rows, kind="stable")
        at = order[np.searchsorted(self.hits.rows, rows, sorter=order)] if len(rows) else rows
        scores = (self.hits.relevance[at], self.personal_scores[at], self.final[at])
        return dict(zip(rows.tolist(), zip(*(part.tolist() for part in scores), strict=True), strict=True))

    def explain(self, products: Sequence[dict[str, Any]], start: int) -> None:
        """Set `_explain` in every record of a page: the parts of its score, its rank and its place.

        The rank is the place before boosts, diversification and anchors. A list that the client sorts has no parts.
        """
        ranks = {row: rank for rank, row in enumerate(self.rows(self.total))}
        positions = {row: position for position, row in enumerate(self.hits.rows.tolist())}
        rows = self.catalog.rows_of([product["product_id"] for product in products])
        for place, (product, row) in enumerate(zip(products, rows, strict=True), start):
            parts: dict[str, float] = {}
            if not self.search_query.order:
                position = positions[row]
                relevance = float(self.hits.relevance[position])
                final = float(self.final[position])
                gain = float(self.order_scores[position]) - final
                parts = {"search:relevance": relevance, "search:personal": final - relevance, RERANKER: gain}
                parts = {name: value for name, value in parts.items() if value}
            explained = {"score": sum(parts.values()), "score_parts": parts}
            product["_explain"] = {**explained, "rank": ranks.get(row), "place": place}


def _add_requested_rows(
    search_query: SearchQuery,
    anchorings: Sequence[Anchoring],
    catalog: Catalog,
    hits: SearchHits,
    allowed: Mask,
) -> SearchHits:
    """Add products that need no match: included ones, and those whose anchor is in the list."""
    if search_query.include:
        there = set(hits.rows.tolist())
        rows = [row for row in catalog.rows_of(search_query.include) if allowed[row] and row not in there]
        hits = hits.with_rows(np.array(list(dict.fromkeys(rows)), np.int64))
    rows = select_anchored_rows(anchorings, catalog, hits.rows, allowed)
    return hits.with_rows(np.array(rows, np.int64)) if rows else hits


def _personal_scores(user_scores: UserScores, rows: Rows) -> Floats:
    """Return the personal score of some rows, as recommendations have it.

    Shapes:
        rows: int64 [k]; returns: float64 [k]
    """
    start = user_scores.prior.scores
    scores = _prior_scores(start, rows)
    # Products that came after the scores were computed have none; they count 0 and not "sold out".
    scored = np.flatnonzero(rows < len(start))
    scores[scored] += user_scores.personal.get_scores(rows[scored])
    return scores


def _prior_scores(prior_scores: Scores, rows: Rows) -> Floats:
    """Return the prior scores of some rows; a product that is out of stock has a low one.

    Shapes:
        start: float32 [n]; rows: int64 [k], may be >= n; returns: float64 [k]
    """
    scored = np.flatnonzero(rows < len(prior_scores))
    scores = np.zeros(len(rows))
    prior = prior_scores[rows[scored]].astype(np.float64)
    scores[scored] = np.where(np.isfinite(prior), prior, _SOLD_OUT)
    return scores


def _scores(name: str, query: UserQuery, catalog: Catalog, hits: SearchHits, personal: Floats) -> Floats:
    """Return a score that an order may name beside fields; no distance without a point."""
    if name == RELEVANCE:
        return hits.relevance.astype(np.float64)
    if name == PERSONALIZATION:
        shown: Floats = 0.5 + 0.5 * personal / (_SOFTNESS + np.abs(personal))
        return shown
    values = np.zeros(len(hits.rows))
    if name == BOOSTING:
        for boost in query.boosts:
            values[catalog.filter_mask(boost.filter)[hits.rows]] = -1.0 if boost.bury else 1.0
        for circle in query.boost_circles:
            values[catalog.near_mask(circle)[hits.rows]] = 1.0
        return values
    return np.full(len(hits.rows), np.nan)


def _page(ranking: _Ranking, anchorings: Sequence[Anchoring], now_ms: int) -> list[RankedItem]:
    """Re-rank the page; with anchors the whole list, because a product may move from anywhere in it."""
    query = _keep_order(ranking.query) if ranking.search_query.order else ranking.query
    catalog = ranking.catalog
    start = query.start
    end = query.start + query.rows
    seed = dithering_seed(query, now_ms)
    if not anchorings:
        return rerank(ranking.rows(end), query, catalog, start=start, rows=query.rows, seed=seed)
    rows = ranking.rows(max(end, MOST_ANCHORED))
    whole = rerank(rows, query, catalog, start=0, rows=len(rows), seed=seed)
    return place_anchored(whole, anchorings, catalog, dedupe=query.dedupe)[start:end]


def _keep_order(query: UserQuery) -> UserQuery:
    """Keep the requested order: boosts only pin, mark and count in `_boosting_score`."""
    boosts = tuple(
        replace(boost, positions=() if boost.positions is None else boost.positions)
        for boost in query.boosts
        if not boost.bury
    )
    circles = tuple(
        replace(circle, positions=() if circle.positions is None else circle.positions)
        for circle in query.boost_circles
    )
    return replace(query, boosts=boosts, boost_circles=circles)


def _partial_records(ranking: _Ranking) -> list[dict[str, Any]]:
    """Build the records of the first products that match in part."""
    query = ranking.query
    page = [RankedItem(row) for row in ranking.rows(query.rows)[: query.rows]]
    scores = ranking.result_scores(page)
    return render_records(page, ranking.hits, scores, query, ranking.search_query, ranking.catalog)


def _existence(ranking: _Ranking) -> dict[str, bool]:
    """Return for products whether they are anywhere in the list."""
    existence = ranking.search_query.existence
    if not existence:
        return {}
    product_ids = ranking.catalog.product_ids
    listed = {product_ids[row] for row in ranking.rows(ranking.total)}
    return {product_id: product_id in listed for product_id in existence}
