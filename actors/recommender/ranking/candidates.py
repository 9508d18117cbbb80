"""Which products come into question: all of them are scored, so this is picking the best and saying who may.

Exact before approximate (decision S7): with every product scored, any filter has recall 1.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from actors.recommender.messages import ReaderQuery
from actors.recommender.ranking.query_context import Request
from actors.recommender.ranking.user_profile import recent_rows
from actors.recommender.rerank.rerank import depth_for, known_for, one_per_group
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.cooccurrence import SESSION_GAP_MS
from actors.recommender.state.prior_scores import Ranking
from actors.vectors.types import Mask, Rows


def admitted(query: ReaderQuery, catalog: Catalog) -> Mask | None:
    """Mark the rows that pass type, filter, distance and stored rules; None when nothing is asked.

    Stock and the reader's own list of exclusions are not in it.

    Shapes:
        returns: bool [n], not to be changed
    """
    masks: list[Mask] = []
    if query.type is not None:
        masks.append(catalog.of_type(query.type))
    if query.filter is not None:
        masks.append(catalog.matching(query.filter))
    masks += [catalog.near(circle) for circle in query.circles]
    masks += [~catalog.matching(rule.filter) for rule in query.removed]
    if not masks:
        return None
    mask = masks[0]
    for other in masks[1:]:
        mask = mask & other
    return mask


def left_out_of(request: Request) -> list[int]:
    """Find what the reader dealt with lately; with the other variants when one per product is wanted.

    Where the engine's snapshot found that readers take the same again, only what they dealt with just now; where it
    found that they do not, everything that is known. Where it found that other events lead to purchases, what they
    dealt with just now and what they bought.
    """
    champion = request.holdings.champion
    if champion is None:
        rows = recent_rows(request.traces)
    else:
        since_ms = request.now_ms - SESSION_GAP_MS if champion.returns else None
        rows = recent_rows(request.traces, None, since_ms=since_ms, kinds=champion.taken_once)
    return request.catalog.with_variants(rows) if request.query.dedupe else rows


def best_of(
    request: Request, ranking: Ranking, left_out: list[int], *, hide_always: bool = False, wanted: int = 0
) -> tuple[list[int], str]:
    """Pick the best admitted rows, one per group, as many as the page and its arranging need, at least `wanted`.

    What earlier pages showed is still among them: dithering needs the whole list to repeat its order. Rows that may
    not appear are barred from `ranking`.

    When nothing but `left_out` matches, those come after all (and the rung `seen_again` is named), unless they
    are to be hidden always or this is a later page.
    """
    query, catalog = request.query, request.catalog
    if request.standing.versions[0] != catalog.version:
        # a product may have been removed or sold out since the standing was made
        ranking.bar_all_but(catalog.offered)
    allowed = admitted(query, catalog)
    if allowed is not None:
        ranking.bar_all_but(allowed)
    if query.exclude:
        ranking.bar(catalog.rows_of(query.exclude))
    if not left_out:
        return _deep_enough(request, ranking, wanted), ""
    barred = ranking.bar(left_out)
    pool = _deep_enough(request, ranking, wanted)
    if pool or hide_always or request.start or request.shown:
        return pool, ""
    ranking.unbar(barred)
    return _deep_enough(request, ranking, wanted), "seen_again"


def leading(request: Request, left_out: list[int], wanted: int) -> list[int]:
    """Pick from the leaders of the trend, which are known beforehand; nothing when they are not `wanted` many.

    Only for requests that filter nothing.
    """
    query, catalog, standing = request.query, request.catalog, request.standing
    if query.type is not None or query.filter is not None or query.circles or query.removed:
        return []
    known = known_for(query, wanted)
    hidden = {*left_out, *catalog.rows_of(query.exclude)}
    rows = list(islice((row for row in standing.leaders if row not in hidden), depth_for(known)))
    if standing.versions[0] != catalog.version:
        offered = catalog.offered
        rows = [row for row in rows if offered[row]]
    pool = one_per_group(rows, catalog) if query.dedupe else rows
    return pool if len(pool) >= known else []


def deep_enough(best: Callable[[int], Rows], query: ReaderQuery, catalog: Catalog, wanted: int) -> list[int]:
    """Go down a ranking until enough different products came up, or it ends; `best` gives its first rows."""
    known = known_for(query, wanted)
    depth = depth_for(known)
    while True:
        rows = best(depth).tolist()
        pool = one_per_group(rows, catalog) if query.dedupe else rows
        if len(pool) >= known or len(rows) < depth:
            return pool
        depth *= 4


def _deep_enough(request: Request, ranking: Ranking, wanted: int) -> list[int]:
    wanted = max(wanted, request.before + request.wanted)
    return deep_enough(ranking.best, request.query, request.catalog, wanted)
