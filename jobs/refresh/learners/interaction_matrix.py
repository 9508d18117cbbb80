"""The user-item matrix, from which linear models are trained."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from actors.models.user_histories import DAY_S
from actors.vectors.types import Floats, Rows
from jobs.refresh.data.dataset import Interactions

# Multiplications of one block; it bounds the memory of a sparse product.
_BLOCK_PAIRS = 5_000_000
MOST_EVENTS_PER_USER = 2_000
"Maximum number of a user's events, the newest first; limits the memory that a bot or a shared account needs."


def select_newest_per_user(data: Interactions, most: int = MOST_EVENTS_PER_USER) -> Interactions:
    """Return the newest events of each user."""
    # Place from the end of the user's events: 1 is the newest.
    from_end = data.starts()[1:][data.reader] - np.arange(len(data)) if len(data) else data.item
    return data if not len(data) or from_end.max() <= most else data.pick(from_end <= most)


def compute_event_weights(data: Interactions, half_life_days: float | None) -> Floats:
    """Return event weights; if the data has times, with exponential decay by age.

    Shapes:
        returns: float64 [m]
    """
    weights = data.weight.astype(np.float64)
    if half_life_days is not None and data.clock:
        weights *= np.exp2((data.at_s - data.now_s) / (DAY_S * half_life_days))
    return weights


def build_user_item_matrix(data: Interactions, half_life_days: float | None = None) -> Any:
    """Return the preference of each user for each item: the strongest positive event minus negative events.

    Shapes:
        returns: CSR float32 [users, items], values above 0, at most 1
    """
    data = select_newest_per_user(data)
    weights = compute_event_weights(data, half_life_days)
    # At least 1: `divmod` below would divide by 0 in data without items.
    keys, inverse = np.unique(data.reader * max(data.n_items, 1) + data.item, return_inverse=True)
    liked = np.zeros(len(keys))
    # R(u, i): the strongest weight, so that ten views do not outweigh a purchase.
    np.maximum.at(liked, inverse, weights)
    # Negative weights all count: a refund and a dislike together remove more than one.
    liked += np.bincount(inverse, np.minimum(weights, 0.0), len(keys))
    kept = liked > 0
    rows, columns = np.divmod(keys[kept], max(data.n_items, 1))
    shape = (data.n_readers, data.n_items)
    return sp.csr_matrix((liked[kept].astype(np.float32), (rows, columns)), shape=shape)


def select_frequent_items(matrix: Any, most: int) -> Rows:
    """Return the items with the most users; ties are broken by position.

    Shapes:
        matrix: CSR [users, n]
        returns: int64 [m], ascending
    """
    counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
    order = np.argsort(-counts, kind="stable")
    chosen: Rows = np.sort(order[: min(most, int(np.count_nonzero(counts)))]).astype(np.int64)
    return chosen


def split_item_blocks(by_item: Any, matrix: Any) -> list[tuple[int, int]]:
    """Return blocks of items that each need at most some million multiplications."""
    # Products of an item: the sum of the history lengths of its users. Shape [n].
    work = by_item.astype(np.bool_).astype(np.float64) @ np.diff(matrix.indptr).astype(np.float64)
    number = (np.cumsum(work) / _BLOCK_PAIRS).astype(np.int64)
    cuts = np.flatnonzero(np.diff(number)) + 1
    bounds = [0, *cuts.tolist(), len(work)]
    return [(first, last) for first, last in pairwise(bounds) if last > first]
