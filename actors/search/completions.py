"""Autocomplete: texts of product fields in the order of typos, popularity and personal score.

    allowed ──▶ look up ──▶ best variant for the user ──▶ personal score among equals ──▶ boosts ──▶ marked, projected

Filters decide which products may be found. Personal scores and boosts change only the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from actors.language.folding import fold_text, fold_typed
from actors.recommender.messages import QUERY_SOURCES, RecommendationResult, UserQuery
from actors.recommender.ranking.candidates import filter_rows
from actors.recommender.ranking.pipeline_inputs import build_user_signals
from actors.recommender.ranking.score import UserScores, compute_user_scores
from actors.recommender.rerank.exploration import dithering_seed
from actors.recommender.rerank.rerank import render_products, rerank
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.engine_state import EngineState, ItemPriors
from actors.recommender.state.interaction_rows import RecentEventTuple
from actors.retrieval.autocomplete.field_indexes import FieldKey
from actors.retrieval.autocomplete.highlighting import highlight, match_typed_words
from actors.retrieval.autocomplete.text_index import CompletionHit, merge_hits
from actors.vectors.types import Floats, Mask
from cluster.query.language.field_values import canonical_field

DEEPEST = 200
"Completions of a field that paging reaches."
_POOL = 4
"Texts that are looked up, as a multiple of the page, for personal scores and boosts to choose from."
_MOST_CHECKED = 40
"Popular queries of which one look-up checks whether the user may read a product with their words."
_PERSONAL_WEIGHT = 0.5
"Gain of the best personal score among equals, in typos."


def complete(
    query: UserQuery,
    recent_events: Sequence[RecentEventTuple],
    state: EngineState,
    priors: ItemPriors,
    now_ms: int,
) -> RecommendationResult:
    """Answer `autocomplete`; pages neither overlap nor change."""
    first = _first_page(replace(query, start=0), recent_events, state, priors, now_ms)
    if not query.start:
        return RecommendationResult(completions=first, served_by="completions")
    # The first page stays as it was shown; deeper ones follow it without its texts. The list depends on the depth of
    # the look-up: one depth for all later pages.
    deep = _first_page(replace(query, start=0, rows=DEEPEST), recent_events, state, priors, now_ms)
    page = slice(query.start, query.start + query.rows)
    completions = {name: _merge_pages(entries, deep[name])[:DEEPEST][page] for name, entries in first.items()}
    return RecommendationResult(completions=completions, served_by="completions")


def _merge_pages(first: Sequence[dict[str, Any]], deep: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    texts = {entry["text"] for entry in first}
    return [*first, *(entry for entry in deep if entry["text"] not in texts)]


def _first_page(
    query: UserQuery,
    recent_events: Sequence[RecentEventTuple],
    state: EngineState,
    priors: ItemPriors,
    now_ms: int,
) -> dict[str, list[dict[str, Any]]]:
    """Complete by each field, from the first completion on."""
    catalog = state.catalog
    mask = filter_rows(query, catalog)
    offered = catalog.offered
    # Unlike a search, which finds products that are out of stock and puts them last.
    rows: Mask = offered if mask is None else mask & offered
    typed = fold_typed(query.typed)
    lists: dict[str, list[dict[str, Any]]] = {}
    user: _UserPreference | None = None
    for name in query.completion_fields:
        if name in QUERY_SOURCES:
            hits = _query_hits(query, name, typed, rows, state, now_ms)
            lists[name] = [_highlight(hit, typed) for hit in hits]
            continue
        hits = _field_hits(query, canonical_field(name), typed, rows, state, priors, now_ms)
        # without a hit no score is needed
        if hits and user is None:
            user = _score_user(query, recent_events, state, priors, now_ms)
        preferred = _prefer_personal(user, hits) if user is not None else []
        lists[name] = _build_list(query, preferred, typed, catalog, now_ms, with_product=name == "title")
    return lists


def _field_hits(
    query: UserQuery,
    name: str,
    typed: str,
    rows: Mask,
    state: EngineState,
    priors: ItemPriors,
    now_ms: int,
) -> list[CompletionHit]:
    """Look up a field in the indexes that the user may read."""
    completions = state.completions
    limit = _POOL * query.rows

    def popularity() -> Floats:
        return priors.popularity_counts

    lists = [
        completions.get_field(key, state.catalog, popularity).look_up(
            typed, limit, query.rows, rows, now_ms, popularity
        )
        for key in completions.readable_keys(FieldKey(name, query.language, query.only_language), query.tiers)
    ]
    return lists[0] if len(lists) == 1 else merge_hits(chain.from_iterable(lists), limit)


def _query_hits(
    query: UserQuery, name: str, typed: str, allowed: Mask, state: EngineState, now_ms: int
) -> list[CompletionHit]:
    """Look up popular queries: searches among interactions; for `suggested_queries` also those of the query log.

    Where products are locked for the user, the queries alone count whose words one product has that the user may
    read: others may come from subscribers, and would show what is locked.
    """
    overlay = state.overlay
    is_hiding = query.tiers is not None and bool(state.completions.access_key_of(query.tiers))
    limit = min(_POOL * query.rows, _MOST_CHECKED) if is_hiding else query.rows
    hits = overlay.popular_queries.look_up(typed, limit, query.min_users, now_ms)
    if name == "suggested_queries" and len(overlay.logged_queries.popular):
        # separate counts: a user may be in both, and must not count twice
        hits += overlay.logged_queries.popular.look_up(typed, limit, query.min_users, now_ms)
        best: dict[str, CompletionHit] = {}
        for hit in sorted(hits, key=lambda hit: hit.cost):
            best.setdefault(fold_text(hit.text), hit)
        hits = list(best.values())[:limit]
    if not is_hiding:
        return hits
    find = partial(overlay.texts.rows_with_words, language=query.language, tiers=query.tiers, allowed=allowed)
    return list(islice((hit for hit in hits if len(find(hit.text))), query.rows))


@dataclass(frozen=True, slots=True)
class _UserPreference:
    """The scores of the user, and whether any of them is personal."""

    scores: UserScores
    has_profile: bool


def _score_user(
    query: UserQuery,
    recent_events: Sequence[RecentEventTuple],
    state: EngineState,
    priors: ItemPriors,
    now_ms: int,
) -> _UserPreference:
    user = build_user_signals(query, recent_events, state, priors, now_ms)
    return _UserPreference(compute_user_scores(user, state, priors), user.profile.has_signal)


def _prefer_personal(
    user: _UserPreference, hits: Sequence[CompletionHit]
) -> list[tuple[CompletionHit, int, float]]:
    """Choose the product of each text, and order equals by personal score: hit, row and score."""
    if not hits:
        return []
    all_rows = sorted({row for hit in hits for row in hit.rows})
    start = user.scores.prior.scores
    scored_rows = [row for row in all_rows if row < len(start)]
    scores = dict.fromkeys(all_rows, 0.0)
    personal = user.scores.personal.get_scores(np.array(scored_rows, np.int64))
    for row, value in zip(scored_rows, personal.tolist(), strict=True):
        scores[row] = value + (float(start[row]) if np.isfinite(start[row]) else 0.0)
    # `-row`: among equal scores the earlier row.
    chosen = [max(hit.rows, key=lambda row: (scores[row], -row)) for hit in hits]
    preference: Floats = np.zeros(len(hits))
    if user.has_profile:
        by_row = dict(zip(scored_rows, personal.tolist(), strict=True))
        preference = np.array([by_row.get(row, 0.0) for row in chosen])
        # Scaled to 1, so the gain is at most half a typo whatever the scale of scores.
        preference = preference / max(float(np.abs(preference).max()), 1e-9)
    costs = [hit.cost - _PERSONAL_WEIGHT * float(gain) for hit, gain in zip(hits, preference, strict=True)]
    # a personal score never lifts a text over one with fewer typos
    order = sorted(
        range(len(hits)),
        key=lambda at: (hits[at].edits if user.has_profile else 0, costs[at], at),
    )
    return [(hits[at], chosen[at], scores[chosen[at]]) for at in order]


def _build_list(
    query: UserQuery,
    preferred: Sequence[tuple[CompletionHit, int, float]],
    typed: str,
    catalog: Catalog,
    now_ms: int,
    *,
    with_product: bool,
) -> list[dict[str, Any]]:
    """Boost, cut to the page, mark and project."""
    if query.dedupe and with_product:
        preferred = _one_per_group(preferred, catalog)
    rows = list(dict.fromkeys(row for _, row, _ in preferred))
    seed = dithering_seed(query, now_ms)
    placed = {item.row: item for item in rerank(rows, query, catalog, start=0, rows=len(rows), seed=seed)}
    order = {row: at for at, row in enumerate(placed)}
    if query.boosts or query.boost_circles:
        # texts of one product keep their order, wherever boosts put it
        preferred = sorted(preferred, key=lambda entry: order[entry[1]])
    page = preferred[: query.rows]
    scores = {row: score for _, row, score in page}
    products = (
        render_products([placed[row] for row in scores], scores, query, catalog) if with_product else []
    )
    records = {product["product_id"]: product for product in products}
    listed = []
    for hit, row, _ in page:
        entry = _highlight(hit, typed)
        if with_product:
            product = records.get(catalog.product_ids[row])
            if product is None:
                continue
            entry["product"] = {"_boosted": placed[row].boosted, **product}
        listed.append(entry)
    return listed


def _one_per_group(
    preferred: Sequence[tuple[CompletionHit, int, float]], catalog: Catalog
) -> list[tuple[CompletionHit, int, float]]:
    """Keep the first text of each product, whichever variant has it."""
    kept: dict[int, tuple[CompletionHit, int, float]] = {}
    for entry in preferred:
        kept.setdefault(int(catalog.groups[entry[1]]), entry)
    return list(kept.values())


def _highlight(hit: CompletionHit, typed: str) -> dict[str, Any]:
    begin, end = hit.place
    stretches = [(begin, end)] if begin >= 0 else match_typed_words(fold_text(hit.text), typed)
    highlighted = highlight(hit.text, stretches)
    return {
        "text": highlighted.text,
        "text_with_markups": highlighted.text_with_markups,
        "text_with_inverted_markups": highlighted.text_with_inverted_markups,
    }
