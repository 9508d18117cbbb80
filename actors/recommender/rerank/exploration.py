"""Seeded exploration: dithering shuffles a list a little, cold-start items get a small share of the places, and an
engine that explores fills one place of some lists with a product from behind the list.

dithering     a user gets the same noise on all pages of a list, other users get other noise; the noise belongs to
              the product, not to its place, so it stays while the user turns pages
cold start    in each stretch of twenty places one place, never the first, goes to a cold-start item; a user keeps
              the same item all day and other users get other items, so many items are tried on few users each
explored      the id of the answer and the secret of the engine decide whether a list explores, where, and what
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass
from hashlib import blake2b

import mmh3
import numpy as np

from actors.recommender.messages import UserQuery
from actors.recommender.ranking.pipeline_inputs import Draw, ExplorationDraw
from actors.recommender.ranking.ranking import Ranking
from actors.recommender.state.catalog import Catalog
from actors.vectors.types import Floats, Rows
from cluster.records.engine import Exploration, SnapshotTrial

_STEP = 1 / 8
_DAY_MS = 86_400_000


def seed_from_names(*parts: str) -> int:
    """Derive a seed from names."""
    return mmh3.hash64("\x00".join(parts), signed=False)[0]


def dithering_seed(query: UserQuery, now_ms: int) -> int:
    """Compute the seed of a query that requests dithering; 0 for all others.

    It is one for each user and `pagination_id`, else one for each user and UTC day. So the pages of one user fit
    together when the client turns them by `start` alone.
    """
    if query.dithering <= 1:
        return 0
    return seed_from_names(*query.user_keys, query.pagination_id or _name_day(now_ms))


def _name_day(now_ms: int) -> str:
    return f"day {now_ms // _DAY_MS}"


def dither(rows: list[int], dithering: float, seed: int, first: int = 0) -> list[int]:
    """Sort by ln(rank) plus Gaussian noise of variance ln(1 + (dithering - 1) / 8).

    `first` is the rank of the first row. At 1 no row moves. At 5 the list loses a few percent of its
    relevance and usually has another first row.

    Source:
        docs/concepts/scoring.md, equation 29
    """
    # sqrt(ln(1 + (dithering - 1) / 8)) (equation 29); `log1p` stays exact near dithering 1
    spread = math.sqrt(math.log1p((dithering - 1) * _STEP))
    places = np.log(np.arange(1 + first, 1 + first + len(rows)))
    noisy = places + spread * _normal(np.array(rows, np.int64), seed)
    return [rows[at] for at in np.argsort(noisy, kind="stable").tolist()]


def _normal(rows: Rows, seed: int) -> Floats:
    """Give each row its own normal deviate (splitmix64 hashing, then Box-Muller)."""
    first = _uniform(rows, seed)
    # Box-Muller needs two independent numbers: a shifted seed gives the second.
    second = _uniform(rows, seed + 0x5851F42D4C957F2D)
    deviates: Floats = np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)
    return deviates


def _uniform(rows: Rows, seed: int) -> Floats:
    mixed = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed & 0xFFFFFFFFFFFFFFFF)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    # 53 bits fit a float64 exactly; the half keeps the value off 0, whose logarithm is infinite.
    return ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) / 2**53


BLOCK_SIZE = 20
"One place in this number goes to a cold-start item."

_BEST = 8
"Number of best cold-start items from which the item is drawn."

_MULTIPLIER = 6364136223846793005
_INCREMENT = 1442695040888963407
_ALL = (1 << 64) - 1
"A linear congruential step: enough to give different users different items."


@dataclass(frozen=True, slots=True)
class ColdStartDraws:
    """The cold-start items that were inserted into a list."""

    probabilities: dict[int, float | None]
    """Row -> probability of an item at its place: the draw takes every item that is left for the place with the same
    probability. None if another draw would also have moved products behind the place, because a later stretch holds an
    item of the draw."""
    groups: frozenset[int]
    "Groups of all items that the draws could have inserted."


def insert_cold_start_items(
    candidates: list[int],
    ranking: Ranking,
    query: UserQuery,
    catalog: Catalog,
    cold_start: Rows,
    now_ms: int,
    depth: int,
) -> tuple[list[int], ColdStartDraws | None]:
    """Insert `cold_start` items into the stretches of the first `depth` candidates that hold none.

    A client can't choose the draws by its `pagination_id`: they are the same for a user and a UTC day. None: there are
    none.

    Shapes:
        cold_start: int64 [m], rows of cold-start items

    Cost:
        nothing when there are no cold-start items, else 30 us

    Source:
        docs/concepts/scoring.md, equation 28
    """
    if not len(cold_start) or len(candidates) < 2:
        return candidates, None
    draws: dict[int, float | None] = {}
    best = ranking.select_best_of(cold_start, 2 * _BEST).tolist()
    seed = seed_from_names(*query.user_keys, _name_day(now_ms))
    stretches = -(-min(len(candidates), depth) // BLOCK_SIZE)
    groups = catalog.groups
    drawn = frozenset(groups[best].tolist())
    for stretch in range(stretches):
        first = stretch * BLOCK_SIZE
        draw = seed * _MULTIPLIER + stretch * _INCREMENT & _ALL
        # High bits, because the low ones of a linear congruential step repeat quickly. Never the first
        # place.
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
            # Candidates from the last place on leave the list for every draw.
            others = groups[behind[: max(0, depth - 1 - place)]].tolist()
            moves_others = not set(groups[left].tolist()).isdisjoint(others)
            draws[row] = None if moves_others else 1 / len(left)
            rest = [other for other in behind if other != row]
            if query.dedupe:
                rest = [other for other in rest if int(groups[other]) != group]
            candidates = [*candidates[:place], row, *rest]
    return candidates, ColdStartDraws(draws, drawn) if draws else None


_EXPLORING = frozenset({"user_to_products", "user_to_trending", "product_to_products"})


def draw_exploration(settings: Exploration, query: UserQuery) -> Draw:
    """Draw for one answer of an engine that explores; None for an answer that never explores.

    A list with dithering has random places already, and one with diversification has distances that an explored
    product could break. The same id and the same secret give the same draw, in every replica and at any later time.

    Cost:
        2 microseconds
    """
    if query.kind not in _EXPLORING or query.dithering > 1 or query.spacing or not query.service_id:
        return None
    key = bytes.fromhex(settings.secret)
    # Keyed, so that a client that sees service ids can't predict which lists explore.
    digest = blake2b(query.service_id.encode(), digest_size=24, key=key).digest()
    chance, place, product = (int.from_bytes(digest[at : at + 8], "big") for at in (0, 8, 16))
    # The upper 53 bits: more would round, and a value could become 1.
    return ExplorationDraw(settings.share, settings.pool, (chance >> 11) / 2**53, place, product)


def is_in_trial(trial: SnapshotTrial, query: UserQuery) -> bool:
    """Return whether a trial draws the user of a query; never without a user.

    Cost:
        1 microsecond
    """
    user_keys = query.user_keys
    return bool(user_keys) and seed_from_names(trial.trial_id, user_keys[0]) < trial.share * 2.0**64


@dataclass(frozen=True, slots=True)
class ExploredPlace:
    """What exploration may do, and did, with a list of R places."""

    share: float
    "Probability that the draw takes a given place: the share of the engine divided by R."
    pool: int
    "Number of products of which each had the same probability at the place."
    place: int | None
    "Place that the draw filled; None if it filled none."
    row: int = -1
    "Row of the product there."


def explore(
    rows: Sequence[int], fixed: Set[int], pool: Sequence[int], draw: ExplorationDraw
) -> ExploredPlace | None:
    """Choose the place and the product of a list; None if the pool is empty, so that no draw changes the list.

    `fixed` are the places of rules, which stay as they are.

    Source:
        docs/concepts/scoring.md, equation 28
    """
    if not rows or not pool:
        return None
    place = draw.place % len(rows)
    if draw.chance >= draw.share or place in fixed:
        return ExploredPlace(draw.share / len(rows), len(pool), None)
    return ExploredPlace(draw.share / len(rows), len(pool), place, pool[draw.product % len(pool)])
