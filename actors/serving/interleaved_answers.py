"""Answer a query from two sides by team-draft interleaving; from the first alone while the second can't answer.

The sides answer as they would alone, with filters, rules and pins of their own queries. Neither side explores.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import replace

import structlog

from actors.experiments.team_draft import SideList, draft_list
from actors.recommender.messages import (
    Interleaving,
    Placements,
    RecommendationResult,
    UserQuery,
    with_repeat_pauses,
)
from actors.recommender.ranking.pipeline_inputs import Draw
from actors.recommender.state.catalog import Catalog
from actors.serving.app_follower import AppFollower
from cluster.records.served_list import RULE
from cluster.store.refreshing_cache import EngineRecordsCache

AnswerQuery = Callable[[UserQuery, Sequence[bytes], Sequence[str], Draw], Awaitable[RecommendationResult]]
"(query, recent list of the user, products of earlier pages, draw) -> result"
_log = structlog.get_logger()


async def answer_interleaved(
    follower: AppFollower,
    engine_records: EngineRecordsCache,
    query: UserQuery,
    recent: Sequence[bytes],
    shown: Sequence[str],
    draw: Draw,
) -> RecommendationResult:
    """Return the drafted list of a query with an `interleaving`, or the list of its first side.

    Cost:
        two answers and 0.13 ms
    """
    interleaving = query.interleaving
    assert interleaving is not None
    rival = interleaving.rival
    name = follower.model_registry.find_loaded(query.engine_id, query.snapshot)
    alone = replace(query, interleaving=None, engine_id=name or query.engine_id, snapshot="")
    rival_name: str | None = None
    rival_engine = engine_records.find(rival.app_id, rival.engine_id)
    if rival_engine is not None:
        rival = with_repeat_pauses(rival, rival_engine.repeat_after_days)
        rival_name = follower.model_registry.find_loaded(rival.engine_id, rival.snapshot)
    is_same = rival_name == name and (query.boosts, query.removed) == (rival.boosts, rival.removed)
    if name is None or rival_name is None or is_same:
        return await follower.answer(alone, recent, shown, draw)
    try:
        drafted = await _answer_both(
            follower,
            replace(alone, interleaving=interleaving),
            replace(rival, engine_id=rival_name, snapshot=""),
            recent,
            shown,
        )
    except Exception:  # noqa: BLE001
        # whatever the second side raises, its experiment fails no request
        _log.exception("interleaving_failed", app=query.app_id, engine=rival.engine_id)
        drafted = None
    return drafted or await follower.answer(alone, recent, shown, draw)


async def _answer_both(
    follower: AppFollower, query: UserQuery, rival: UserQuery, recent: Sequence[bytes], shown: Sequence[str]
) -> RecommendationResult | None:
    """Return the drafted list; None if a product was removed while a side answered."""
    start = max(0, query.start - len(shown))
    rows = start + query.rows
    queries = [replace(side, start=0, rows=rows, interleaving=None) for side in (query, rival)]
    results = [await follower.answer(side, recent, shown) for side in queries]
    catalog = follower.recommender.overlay.catalog
    sides = [
        list_side(side, result, catalog, len(shown)) for side, result in zip(queries, results, strict=True)
    ]
    first, second = sides
    assert query.interleaving is not None
    if first is None or second is None:
        return None
    return draft_result(query.interleaving, (first, second), results, len(shown), start, query.rows)


def list_side(
    query: UserQuery, result: RecommendationResult, catalog: Catalog, before: int
) -> SideList | None:
    """Return the list of one side for the draft; None without placements. `before` places are on earlier pages."""
    placements = result.placements
    if placements is None:
        return None
    product_ids = [product["product_id"] for product in result.products]
    products: list[Hashable] = list(product_ids)
    # Both sides may show different variants of one product, so groups are compared instead of ids.
    if query.dedupe:
        rows = [catalog.row_of(product_id) for product_id in product_ids]
        products = [
            product_id if row < 0 else int(catalog.groups[row])
            for product_id, row in zip(product_ids, rows, strict=True)
        ]
    boosts = [boost.positions for boost in query.boosts if not boost.bury]
    places = {
        place
        for positions in (*boosts, *(circle.positions for circle in query.boost_circles))
        for place in positions or ()
    }
    pinned = {
        before + at: at
        for at, origin in enumerate(placements.origins)
        if origin == RULE and before + at in places
    }
    return SideList(products, pinned)


def draft_result(
    interleaving: Interleaving,
    sides: tuple[SideList, SideList],
    results: Sequence[RecommendationResult],
    before: int,
    start: int,
    rows: int,
) -> RecommendationResult:
    """Return the places `start` to `start + rows` of the draft behind the `before` places of earlier pages."""
    picks = draft_list(*sides, interleaving.seed, before, start + rows)[start:]
    placements = [result.placements or Placements() for result in results]
    versions = [part.snapshot or "live" for part in placements]
    recipes = [part.recipe for part in placements if part.recipe]
    return replace(
        results[0],
        products=[results[pick.side].products[pick.position] for pick in picks],
        placements=Placements(
            tuple(placements[pick.side].scores[pick.position] for pick in picks),
            tuple(placements[pick.side].origins[pick.position] for pick in picks),
            (None,) * len(picks),
            " + ".join(dict.fromkeys(versions)),
            " + ".join(dict.fromkeys(recipes)),
            tuple(pick.credit for pick in picks),
            placements[0].state,
        ),
    )
