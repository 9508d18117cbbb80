"""Controlled shuffling: a user gets the same noise on all pages of a list, other users get other noise.

The noise belongs to the product, not to its place, so it stays put while pages are turned.
"""

from __future__ import annotations

import math

import mmh3
import numpy as np

from actors.recommender.messages import UserQuery
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
    return seed_from_names(*query.reader_ids, query.pagination_id or f"day {now_ms // _DAY_MS}")


def dithering_seed(query: UserQuery, now_ms: int) -> int:
    """Compute the seed of a query that asks for dithering; 0 for all others."""
    return compute_seed(query, now_ms) if query.dithering > 1 else 0


def dither(rows: list[int], dithering: float, seed: int, first: int = 0) -> list[int]:
    """Sort by ln(rank) plus Gaussian noise of variance ln(1 + (dithering - 1) / 8).

    `first` is the rank of the first row. At 1 nothing moves; at 5 the list loses a few percent of its worth and
    starts differently most of the time.

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
