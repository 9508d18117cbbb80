"""Which products come into question: all of them are scored, so this is picking the best and saying who may.

Exact before approximate (decision S7): with every product scored, any filter has recall 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from actors.recommender.messages import UserQuery
from actors.recommender.ranking.query_context import QueryContext
from actors.recommender.ranking.user_profile import list_recent_rows
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.cooccurrence import SESSION_GAP_MS
from actors.recommender.state.prior_scores import Ranking
from actors.vectors.types import Mask, Rows

BLOCK_SIZE = 1000
"So many neighbours of the ranking may change places: as many as the longest page has rows."

_GROUP_BLOCK_SIZE = 200
_ALL = 1 << 40
_FEW = 1_000


def filter_rows(query: UserQuery, catalog: Catalog) -> Mask | None:
    """Mark the rows that pass type, filter, distance and stored rules; None when nothing is asked.

    Stock and the reader's own list of exclusions are not in it.

    Shapes:
        returns: bool [n], not to be changed
    """
    masks: list[Mask] = []
    if query.type is not None:
        masks.append(catalog.type_mask(query.type))
    if query.filter is not None:
        masks.append(catalog.filter_mask(query.filter))
    masks += [catalog.near_mask(circle) for circle in query.circles]
    masks += [~catalog.filter_mask(rule.filter) for rule in query.removed]
    if not masks:
        return None
    mask = masks[0]
    for other in masks[1:]:
        mask = mask & other
    return mask


def recently_consumed(request: QueryContext) -> list[int]:
    """Find what the reader dealt with lately; with the other variants when one per product is wanted.

    Where the engine's snapshot found that readers take the same again, only what they dealt with just now; where it
    found that they do not, everything that is known. Where it found that other events lead to purchases, what they
    dealt with just now and what they bought.
    """
    champion = request.engine_state.serving_model
    if champion is None:
        rows = list_recent_rows(request.interaction_rows)
    else:
        since_ms = request.now_ms - SESSION_GAP_MS if champion.allows_repeats else None
        rows = list_recent_rows(
            request.interaction_rows, None, since_ms=since_ms, kinds=champion.consumed_kinds
        )
    return request.catalog.add_variants(rows) if request.query.dedupe else rows


def select_candidates(
    request: QueryContext,
    ranking: Ranking,
    left_out: list[int],
    *,
    hide_always: bool = False,
    wanted: int = 0,
) -> tuple[list[int], str]:
    """Pick the best admitted rows, one per group, as many as the page and its arranging need, at least `wanted`.

    What earlier pages showed is still among them: dithering needs the whole list to repeat its order. Rows that may
    not appear are barred from `ranking`.

    When nothing but `left_out` matches, those come after all (and the rung `seen_again` is named), unless they
    are to be hidden always or this is a later page.
    """
    query, catalog = request.query, request.catalog
    if request.item_priors.versions[0] != catalog.version:
        # a product may have been removed or sold out since the standing was made
        ranking.restrict(catalog.offered)
    allowed = filter_rows(query, catalog)
    if allowed is not None:
        ranking.restrict(allowed)
    if query.exclude:
        ranking.exclude(catalog.rows_of(query.exclude))
    if not left_out:
        return _select_distinct_page(request, ranking, wanted), ""
    barred = ranking.exclude(left_out)
    pool = _select_distinct_page(request, ranking, wanted)
    if pool or hide_always or request.start or request.shown_ids:
        return pool, ""
    ranking.restore(barred)
    return _select_distinct_page(request, ranking, wanted), "seen_again"


def select_trend_leaders(request: QueryContext, left_out: list[int], wanted: int) -> list[int]:
    """Pick from the leaders of the trend, which are known beforehand; nothing when they are not `wanted` many.

    Only for requests that filter nothing.
    """
    query, catalog, standing = request.query, request.catalog, request.item_priors
    if query.type is not None or query.filter is not None or query.circles or query.removed:
        return []
    known = required_depth(query, wanted)
    hidden = {*left_out, *catalog.rows_of(query.exclude)}
    rows = list(islice((row for row in standing.leaders if row not in hidden), expected_depth(known)))
    if standing.versions[0] != catalog.version:
        offered = catalog.offered
        rows = [row for row in rows if offered[row]]
    pool = deduplicate_groups(rows, catalog) if query.dedupe else rows
    return pool if len(pool) >= known else []


def select_distinct(
    best: Callable[[int], Rows], query: UserQuery, catalog: Catalog, wanted: int
) -> list[int]:
    """Go down a ranking until enough different products came up, or it ends; `best` gives its first rows."""
    known = required_depth(query, wanted)
    depth = expected_depth(known)
    while True:
        rows = best(depth).tolist()
        pool = deduplicate_groups(rows, catalog) if query.dedupe else rows
        if len(pool) >= known or len(rows) < depth:
            return pool
        depth *= 4


def required_depth(query: UserQuery, wanted: int) -> int:
    """Say how many of the best must be known to find the first `wanted`: whole lots, where products may move."""
    if query.explain_missing:
        return _ALL
    if query.boosts or query.boost_circles or query.spacing or query.dithering > 1:
        return max(boost_depth(query), wanted if query.group_rows else -(-wanted // BLOCK_SIZE) * BLOCK_SIZE)
    return wanted


def expected_depth(known: int) -> int:
    """Say how many ranked rows usually hold so many different products."""
    return known + min(known, BLOCK_SIZE) + 14


def deduplicate_groups(rows: Sequence[int], catalog: Catalog) -> list[int]:
    """Keep the first variant of every product; rows must be ranked, so that is the likeliest one."""
    if catalog.has_single_variants(rows):
        return list(rows)
    ranked = np.asarray(rows, np.int64)
    groups = catalog.groups[ranked]
    if len(ranked) <= _FEW:
        # a set is quicker than sorting as long as they are few
        firsts: dict[int, int] = {}
        for row, group in zip(rows, groups.tolist(), strict=True):
            firsts.setdefault(group, row)
        return list(firsts.values())
    _, first = np.unique(groups, return_index=True)
    every: list[int] = ranked[np.sort(first)].tolist()
    return every


def boost_depth(query: UserQuery) -> int:
    """Say from how many of the best boosts choose: whole lots, up to the last position that is asked for.

    The products of a category or a value have no later pages, and so few are shown that a smaller lot will do.
    """
    wanted = [boost.positions for boost in query.boosts] + [
        circle.positions for circle in query.boost_circles
    ]
    last = max((place for places in wanted for place in places or ()), default=0)
    if query.group_rows:
        return max(last + 1, min(BLOCK_SIZE, max(_GROUP_BLOCK_SIZE, 20 * query.group_rows)))
    return (last // BLOCK_SIZE + 1) * BLOCK_SIZE


def _select_distinct_page(request: QueryContext, ranking: Ranking, wanted: int) -> list[int]:
    wanted = max(wanted, request.shown_count + request.page_end)
    return select_distinct(ranking.select_best, request.query, request.catalog, wanted)
