"""Completions while somebody types: texts of product fields, in the order of typos, popularity and taste.

    admitted ──▶ look up ──▶ the variant the reader likes best ──▶ taste among equals ──▶ boosts ──▶ marked, projected

Filters say which products may be found; taste and boosts change the order of what was found, never what is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from actors.recommender.messages import QUERIES, RecommendationResult
from actors.recommender.ranking.candidates import admitted
from actors.recommender.ranking.query_context import Request
from actors.recommender.rerank.rerank import arrange
from actors.recommender.result_fields import project
from actors.retrieval.autocomplete.highlighting import marked, words_typed
from actors.retrieval.autocomplete.text_index import Hit
from actors.retrieval.text import folded, typed_so_far
from actors.vectors.types import Floats, Mask
from cluster.query.language.field_values import canonical

_COUNTED = 1_000.0
"What the most popular product counts."
DEEPEST = 200
"Completions of a field that paging reaches."
_POOL = 4
"So many times the wanted texts are looked up, for taste and boosts to choose among."
_TASTE = 0.5
"What the reader's favourite among equals gains, in typos: as much as popularity can, not more."


def complete(request: Request) -> RecommendationResult:
    """Answer `autocomplete`; later pages continue the first one, so that they neither overlap nor change."""
    query = request.query
    if not query.start:
        return RecommendationResult(completions=_first(request), served_by="completions")
    first = _first(replace(request, query=replace(query, start=0)))
    # the list depends on how deep it is looked for: one depth for all later pages
    deep = _first(replace(request, query=replace(query, start=0, rows=DEEPEST)))
    page = slice(query.start, query.start + query.rows)
    found = {name: _joined(entries, deep[name])[:DEEPEST][page] for name, entries in first.items()}
    return RecommendationResult(completions=found, served_by="completions")


def _joined(first: Sequence[dict[str, Any]], deep: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    known = {entry["text"] for entry in first}
    return [*first, *(entry for entry in deep if entry["text"] not in known)]


def _first(request: Request) -> dict[str, list[dict[str, Any]]]:
    """Complete by each field, from the first completion on."""
    query, catalog = request.query, request.catalog
    mask = admitted(query, catalog)
    offered = catalog.offered
    rows: Mask = offered if mask is None else mask & offered
    typed = typed_so_far(query.typed)
    page = query.rows
    found: dict[str, list[dict[str, Any]]] = {}
    for name in query.completion_fields:
        if name in QUERIES:
            hits = _queries(request, name, typed, page)
            found[name] = [_marked(hit, typed) for hit in hits]
            continue
        field = request.holdings.completions.of(
            (canonical(name), query.language, query.only_language), catalog, lambda: _popularity(request)
        )
        hits = field.look_up(typed, _POOL * page, page, rows, request.now_ms, lambda: _popularity(request))
        found[name] = _listed(request, _preferred(request, hits), typed, with_product=name == "title")
    return found


def _queries(request: Request, name: str, typed: str, wanted: int) -> list[Hit]:
    """Look up queries of others: those that readers sent as interactions; to suggest also those of the query log."""
    overlay, least, now_ms = request.holdings.overlay, request.query.min_users, request.now_ms
    hits = overlay.asked.look_up(typed, wanted, least, now_ms)
    if name != "suggested_queries" or not len(overlay.logged.popular):
        return hits
    # counted apart: a reader may stand in both, and must not count twice
    hits += overlay.logged.popular.look_up(typed, wanted, least, now_ms)
    best: dict[str, Hit] = {}
    for hit in sorted(hits, key=lambda hit: hit.cost):
        best.setdefault(folded(hit.text), hit)
    return list(best.values())[:wanted]


def _popularity(request: Request) -> Floats:
    # as counts, of which the logarithm is taken: shares of the most popular would leave the long tail no order
    return request.standing.popular * _COUNTED


def _preferred(request: Request, hits: Sequence[Hit]) -> list[tuple[Hit, int, float]]:
    """Choose each text's product, and put the reader's favourites first among equals: hit, row and score."""
    if not hits:
        return []
    every = sorted({row for hit in hits for row in hit.rows})
    judged = [row for row in every if row < len(request.standing)]
    scores = dict.fromkeys(every, 0.0)
    start = request.start_scores.scores
    own = request.own.of(np.array(judged, np.int64))
    for row, value in zip(judged, own.tolist(), strict=True):
        scores[row] = value + (float(start[row]) if np.isfinite(start[row]) else 0.0)
    chosen = [max(hit.rows, key=lambda row: (scores[row], -row)) for hit in hits]
    taste: Floats = np.zeros(len(hits))
    if request.taste.known:
        alone = dict(zip(judged, own.tolist(), strict=True))
        taste = np.array([alone.get(row, 0.0) for row in chosen])
        taste = taste / max(float(np.abs(taste).max()), 1e-9)
    worth = [hit.cost - _TASTE * float(liked) for hit, liked in zip(hits, taste, strict=True)]
    # taste never lifts a text over one with fewer typos
    order = sorted(
        range(len(hits)), key=lambda at: (hits[at].edits if request.taste.known else 0, worth[at], at)
    )
    return [(hits[at], chosen[at], scores[chosen[at]]) for at in order]


def _listed(
    request: Request, preferred: Sequence[tuple[Hit, int, float]], typed: str, *, with_product: bool
) -> list[dict[str, Any]]:
    """Boost, cut to the page, mark and project."""
    query, catalog = request.query, request.catalog
    if query.dedupe and with_product:
        preferred = _one_per_group(preferred, request)
    rows = list(dict.fromkeys(row for _, row, _ in preferred))
    placed = {
        item.row: item for item in arrange(rows, query, catalog, start=0, rows=len(rows), seed=request.seed)
    }
    order = {row: at for at, row in enumerate(placed)}
    if query.boosts or query.boost_circles:
        # texts of one product keep their order, wherever boosts put it
        preferred = sorted(preferred, key=lambda entry: order[entry[1]])
    page = preferred[: query.rows]
    scores = {row: score for _, row, score in page}
    products = project([placed[row] for row in scores], scores, query, catalog) if with_product else []
    records = {product["product_id"]: product for product in products}
    listed = []
    for hit, row, _ in page:
        entry = _marked(hit, typed)
        if with_product:
            product = records.get(catalog.product_ids[row])
            if product is None:
                continue
            entry["product"] = {"_boosted": placed[row].boosted, **product}
        listed.append(entry)
    return listed


def _one_per_group(
    preferred: Sequence[tuple[Hit, int, float]], request: Request
) -> list[tuple[Hit, int, float]]:
    """Keep the first text of every product, whatever variant has it."""
    kept: dict[int, tuple[Hit, int, float]] = {}
    for entry in preferred:
        kept.setdefault(int(request.catalog.groups[entry[1]]), entry)
    return list(kept.values())


def _marked(hit: Hit, typed: str) -> dict[str, Any]:
    begin, end = hit.place
    stretches = [(begin, end)] if begin >= 0 else words_typed(folded(hit.text), typed)
    found = marked(hit.text, stretches)
    return {
        "text": found.text,
        "text_with_markups": found.text_with_markups,
        "text_with_inverted_markups": found.text_with_inverted_markups,
    }
