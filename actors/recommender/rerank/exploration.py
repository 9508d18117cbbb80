"""Seeded exploration: dithering shuffles a list a little, and cold-start items get a small share of the places.

dithering     a user gets the same noise on all pages of a list, other users get other noise; the noise belongs to
              the product, not to its place, so it stays while the user turns pages
cold start    in each stretch of twenty places one place, never the first, goes to a cold-start item; a user keeps
              the same item all day and other users get other items, so many items are tried on few users each
"""

from __future__ import annotations

import math

import mmh3
import numpy as np

from actors.recommender.messages import UserQuery
from actors.recommender.ranking.query_context import QueryContext
from actors.recommender.ranking.ranking import Ranking
from actors.vectors.types import Floats, Rows

_STEP = 1 / 8
_DAY_MS = 86_400_000


def seed_from_names(*parts: str) -> int:
    """Derive a seed from names."""
    return mmh3.hash64("\x00".join(parts), signed=False)[0]


def compute_seed(query: UserQuery, now_ms: int) -> int:
    """Compute the seed of the noise: one for each user and `pagination_id`, else one for each user and UTC day.

    So the pages of one user fit together when the client turns them by `start` alone.
    """
    return seed_from_names(*query.user_keys, query.pagination_id or f"day {now_ms // _DAY_MS}")


def dithering_seed(query: UserQuery, now_ms: int) -> int:
    """Compute the seed of a query that requests dithering; 0 for all others."""
    return compute_seed(query, now_ms) if query.dithering > 1 else 0


def dither(rows: list[int], dithering: float, seed: int, first: int = 0) -> list[int]:
    """Sort by ln(rank) plus Gaussian noise of variance ln(1 + (dithering - 1) / 8).

    `first` is the rank of the first row. At 1 no row moves. At 5 the list loses a few percent of its
    relevance and usually has another first row.

    Source:
        docs/concepts/scoring.md, equation 29
    """
    spread = math.sqrt(math.log1p((dithering - 1) * _STEP))
    places = np.log(np.arange(1 + first, 1 + first + len(rows)))
    noisy = places + spread * _normal(np.array(rows, np.int64), seed)
    return [rows[at] for at in np.argsort(noisy, kind="stable").tolist()]


def _normal(rows: Rows, seed: int) -> Floats:
    """Give each row its own normal deviate (splitmix64 hashing, then Box-Muller)."""
    first = _uniform(rows, seed)
    second = _uniform(rows, seed + 0x5851F42D4C957F2D)
    deviates: Floats = np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)
    return deviates


def _uniform(rows: Rows, seed: int) -> Floats:
    mixed = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed & 0xFFFFFFFFFFFFFFFF)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) / 2**53


BLOCK_SIZE = 20
"One place in this number goes to a cold-start item."

_BEST = 8
"Number of best cold-start items from which the item is drawn."

_MULTIPLIER, _INCREMENT, _ALL = 6364136223846793005, 1442695040888963407, (1 << 64) - 1
"A linear congruential step: enough to give different users different items."


def add_exploration(
    candidates: list[int], ranking: Ranking, request: QueryContext, depth: int
) -> tuple[list[int], dict[int, float | None]]:
    """Insert cold-start items into the stretches of the first `depth` candidates that hold none.

    Returns the candidates, and row -> probability of each inserted item at its place: the draw takes every item that
    is left for the place with the same probability. The probability is None if another draw would also have moved
    products behind the place, because a later stretch holds an item of the draw.

    Cost:
        nothing when there are no cold-start items, else 30 us

    Source:
        docs/concepts/scoring.md, equation 28
    """
    cold_start = request.item_priors.cold_start.rows
    if not len(cold_start) or len(candidates) < 2:
        return candidates, {}
    draws: dict[int, float | None] = {}
    best = ranking.select_best_of(cold_start, 2 * _BEST).tolist()
    seed = compute_seed(request.query, request.now_ms)
    stretches = -(-min(len(candidates), depth) // BLOCK_SIZE)
    groups = request.catalog.groups
    for stretch in range(stretches):
        first = stretch * BLOCK_SIZE
        draw = seed * _MULTIPLIER + stretch * _INCREMENT & _ALL
        place = first + 1 + (draw >> 33) % (BLOCK_SIZE - 1)
        block = candidates[first : first + BLOCK_SIZE]
        if place >= len(candidates) or any(row in block for row in best):
            continue  # a cold-start item that its score already selected
        groups_before = {int(groups[row]) for row in candidates[:place]}
        left = [row for row in best if int(groups[row]) not in groups_before][:_BEST]
        if left:
            row = left[(draw >> 13) % len(left)]
            best.remove(row)
            group = int(groups[row])
            behind = candidates[place:]
            moves_others = not set(groups[left].tolist()).isdisjoint(groups[behind].tolist())
            draws[row] = None if moves_others else 1 / len(left)
            rest = [other for other in behind if other != row]
            if request.query.dedupe:
                rest = [other for other in rest if int(groups[other]) != group]
            candidates = [*candidates[:place], row, *rest]
    return candidates, draws
