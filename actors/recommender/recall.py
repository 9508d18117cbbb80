"""Which products come into question: all of them are scored, so this is picking the best and saying who may.

Exact before approximate (decision S7): with every product scored, any filter has recall 1.
"""

from __future__ import annotations

import numpy as np

from actors.recommender.arrange import depth_for, one_per_group
from actors.recommender.catalog import Catalog
from actors.recommender.messages import ReaderQuery
from actors.recommender.request import Request
from actors.recommender.taste import recent_rows
from actors.vectors.types import Mask, Rows, Scores

_MANY = 0.7


def best_rows(scores: Scores, count: int) -> Rows:
    """Pick the best rows, best first; -inf is never picked.

    Shapes:
        scores: float32 [n]
        returns: int64 [m], m <= count
    Cost:
        20 us for 10,000, 0.15 ms for 100,000
    """
    possible = scores > -np.inf
    if np.count_nonzero(possible) < _MANY * len(scores):
        # picking among many equal values is slow (by a factor of 20), so what is out is left out first
        rows = np.flatnonzero(possible)
        best: Rows = rows[_ordered(scores[rows], count)]
        return best
    top = _ordered(scores, count)
    return top[: np.count_nonzero(possible[top])]


def _ordered(scores: Scores, count: int) -> Rows:
    if len(scores) <= count:
        every: Rows = np.argsort(-scores, kind="stable")
        return every
    top = np.argpartition(scores, len(scores) - count)[len(scores) - count :]
    best: Rows = top[np.argsort(-scores[top], kind="stable")]
    return best


def admitted(query: ReaderQuery, catalog: Catalog) -> Mask | None:
    """Mark the rows that pass type, filter and distance; None when nothing is asked.

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
    if not masks:
        return None
    mask = masks[0]
    for other in masks[1:]:
        mask = mask & other
    return mask


def left_out_of(request: Request) -> list[int]:
    """Find what the reader dealt with lately; with the other variants when one per product is wanted."""
    rows = recent_rows(request.traces)
    return request.catalog.with_variants(rows) if request.query.dedupe else rows


def best_of(
    request: Request, ranking: Scores, left_out: list[int], *, hide_always: bool = False
) -> tuple[list[int], str]:
    """Pick the best admitted rows, one per group, as many as the page and its arranging need.

    What earlier pages showed is still among them: dithering needs the whole list to repeat its order.

    When nothing but `left_out` matches, those come after all (and the rung `seen_again` is named), unless they
    are to be hidden always or this is a later page.

    Shapes:
        ranking: float32 [n], is changed
    """
    query, catalog = request.query, request.catalog
    if request.standing.versions[0] != catalog.version:
        # a product may have been removed or sold out since the standing was made
        ranking[~catalog.offered[: len(ranking)]] = -np.inf
    allowed = admitted(query, catalog)
    if allowed is not None:
        ranking[~allowed[: len(ranking)]] = -np.inf
    if query.exclude:
        ranking[_within(catalog.rows_of(query.exclude), ranking)] = -np.inf
    if not left_out:
        return _deep_enough(request, ranking), ""
    left_out = _within(left_out, ranking)
    kept = ranking[left_out]
    ranking[left_out] = -np.inf
    pool = _deep_enough(request, ranking)
    if pool or hide_always or request.start or request.shown:
        return pool, ""
    ranking[left_out] = kept
    return _deep_enough(request, ranking), "seen_again"


def _deep_enough(request: Request, ranking: Scores) -> list[int]:
    """Go down the ranking until enough different products came up, or it ends."""
    wanted = request.before + request.wanted
    depth = depth_for(request.query, wanted)
    while True:
        rows = best_rows(ranking, depth).tolist()
        pool = one_per_group(rows, request.catalog) if request.query.dedupe else rows
        if len(pool) >= wanted or len(rows) < depth:
            return pool
        depth *= 4


def _within(rows: list[int], ranking: Scores) -> list[int]:
    """Leave out rows younger than the ranking."""
    return [row for row in rows if row < len(ranking)]
