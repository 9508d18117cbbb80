"""A small share of attention for products that nobody dealt with yet: without it they would never get a record.

In every stretch of twenty places one is given to a new product: the same one for a reader all day, another one for
another reader, so that many new products are tried on few people each. The first place is never given away.
"""

from __future__ import annotations

from actors.recommender.ranking.query_context import QueryContext
from actors.recommender.state.prior_scores import Ranking

BLOCK_SIZE = 20
"One place in so many goes to a new product."

_BEST = 8
"Among so many of the best new products a reader's one is drawn."

_MIX, _STEP, _ALL = 6364136223846793005, 1442695040888963407, (1 << 64) - 1
"A linear congruential step: enough to give readers different products."


def add_exploration(pool: list[int], request: QueryContext, ranking: Ranking) -> list[int]:
    """Let new products into a ranking that are not among its first places by themselves.

    Cost:
        nothing when there are no new products, else 30 us
    """
    new = request.item_priors.cold_start.rows
    if not len(new) or len(pool) < 2:
        return pool
    candidates = ranking.select_best_of(new, 2 * _BEST).tolist()
    stretches = -(-min(len(pool), request.shown_count + request.page_end) // BLOCK_SIZE)
    groups = request.catalog.groups
    for stretch in range(stretches):
        first = stretch * BLOCK_SIZE
        draw = request.seed * _MIX + stretch * _STEP & _ALL
        place = first + 1 + (draw >> 33) % (BLOCK_SIZE - 1)
        here = pool[first : first + BLOCK_SIZE]
        if place >= len(pool) or any(row in here for row in candidates):
            continue  # one got here by itself
        shown = {int(groups[row]) for row in pool[:place]}
        left = [row for row in candidates if int(groups[row]) not in shown][:_BEST]
        if left:
            row = left[(draw >> 13) % len(left)]
            candidates.remove(row)
            group = int(groups[row])
            rest = [other for other in pool[place:] if other != row]
            if request.query.dedupe:
                rest = [other for other in rest if int(groups[other]) != group]
            pool = [*pool[:place], row, *rest]
    return pool
