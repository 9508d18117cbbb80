"""Exploration: a small share of the places goes to cold-start items, which would never get interactions without it.

In each stretch of twenty places one place, never the first, goes to a cold-start item. A user keeps the same item all
day and other users get other items, so many items are tried on few users each.
"""

from __future__ import annotations

from actors.recommender.ranking.query_context import QueryContext
from actors.recommender.ranking.ranking import Ranking
from actors.recommender.rerank.dither import compute_seed

BLOCK_SIZE = 20
"One place of so many goes to a cold-start item."

_BEST = 8
"The item is drawn from so many of the best cold-start items."

_MIX, _STEP, _ALL = 6364136223846793005, 1442695040888963407, (1 << 64) - 1
"A linear congruential step: enough to give different users different items."


def add_exploration(candidates: list[int], ranking: Ranking, request: QueryContext, depth: int) -> list[int]:
    """Insert cold-start items into the stretches of the first `depth` candidates that hold none.

    Cost:
        nothing when there are no cold-start items, else 30 us

    Source:
        docs/concepts/scoring.md, equation 28
    """
    cold_start = request.item_priors.cold_start.rows
    if not len(cold_start) or len(candidates) < 2:
        return candidates
    best = ranking.select_best_of(cold_start, 2 * _BEST).tolist()
    seed = compute_seed(request.query, request.now_ms)
    stretches = -(-min(len(candidates), depth) // BLOCK_SIZE)
    groups = request.catalog.groups
    for stretch in range(stretches):
        first = stretch * BLOCK_SIZE
        draw = seed * _MIX + stretch * _STEP & _ALL
        place = first + 1 + (draw >> 33) % (BLOCK_SIZE - 1)
        block = candidates[first : first + BLOCK_SIZE]
        if place >= len(candidates) or any(row in block for row in best):
            continue  # a cold-start item is there by its own score
        groups_before = {int(groups[row]) for row in candidates[:place]}
        left = [row for row in best if int(groups[row]) not in groups_before][:_BEST]
        if left:
            row = left[(draw >> 13) % len(left)]
            best.remove(row)
            group = int(groups[row])
            rest = [other for other in candidates[place:] if other != row]
            if request.query.dedupe:
                rest = [other for other in rest if int(groups[other]) != group]
            candidates = [*candidates[:place], row, *rest]
    return candidates
