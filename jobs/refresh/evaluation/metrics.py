"""Metrics of ranked lists: pure functions that return one number per user.

A rank is a target's place in the list, 0 first. Lists rank the complete catalog; no candidates are sampled.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from actors.models.model import Batch
from actors.vectors.types import Floats, Rows
from jobs.refresh.data.split import Targets

_DOUBT = 0.5
"Minimum gain in standard errors of the paired difference."
_LEAST_GAIN = 0.001
"Minimum gain as a share of the present value."

RankedLists = npt.NDArray[np.int64]
"""int64 [q, k], rows of the catalog in descending order of score."""

HitMask = npt.NDArray[np.bool_]
"""bool [q, k], true if the item at the place is a target."""


def rank_top_items(scores: Batch, k: int) -> RankedLists:
    """Rank all items and return the first k; ties are broken by the smaller row.

    Shapes:
        scores: float32 [q, n], -inf for excluded items
        returns: int64 [q, min(k, n)], -1 for places without an item
    """
    count = scores.shape[1]
    k = min(k, count)
    if k < count:
        # Score of place k of each user; a partition is linear, a sort of the catalog is not.
        cut = np.partition(scores, count - k, axis=1)[:, count - k]
        top = np.empty((len(scores), k), np.int64)
        for row, limit in enumerate(cut):
            # a partition alone would break ties at the border arbitrarily
            above = np.flatnonzero(scores[row] > limit)
            top[row] = np.concatenate((above, np.flatnonzero(scores[row] == limit)[: k - len(above)]))
        top.sort(axis=1)
    else:
        top = np.broadcast_to(np.arange(count), scores.shape).copy()
    values = np.take_along_axis(scores, top, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    lists: RankedLists = np.take_along_axis(top, order, axis=1)
    lists[np.take_along_axis(values, order, axis=1) == -np.inf] = -1
    return lists


def mark_hits(lists: RankedLists, targets: Targets, n_items: int) -> HitMask:
    """Mark the places that hold a target.

    Shapes:
        returns: bool [q, k]
    """
    # User and item as one number, so one `isin` finds all hits.
    target_keys = targets.owners() * n_items + targets.items
    places = np.arange(len(lists))[:, None] * n_items + lists
    hits: HitMask = np.isin(places, target_keys) & (lists >= 0)
    return hits


def ndcg(hits: HitMask, lengths: Rows, k: int) -> Floats:
    """Compute the discounted cumulative gain divided by that of the ideal list.

    Shapes:
        hits: bool [q, >= k]; lengths: int64 [q], number of targets, above 0
        returns: float64 [q]
    """
    discounts = rank_discounts(k)
    gained = hits[:, :k] @ discounts[: hits.shape[1]]
    # The ideal list has all targets first, at most k of them.
    best = np.cumsum(discounts)[np.minimum(lengths, k) - 1]
    scores: Floats = gained / best
    return scores


def recall(hits: HitMask, lengths: Rows, k: int) -> Floats:
    """Compute the share of a user's targets among the first k places.

    Shapes:
        hits: bool [q, at least k]
        lengths: int64 [q], targets of each user
        returns: float64 [q], 0 to 1
    """
    share: Floats = hits[:, :k].sum(axis=1) / lengths
    return share


def hit_rate(hits: HitMask, k: int) -> Floats:
    """Compute 1 for a user with a target among the first k places, else 0.

    Shapes:
        hits: bool [q, at least k]
        returns: float64 [q]
    """
    hit: Floats = np.asarray(hits[:, :k].any(axis=1), np.float64)
    return hit


def reciprocal_rank(hits: HitMask, k: int) -> Floats:
    """Compute one over the place of the first target, 0 when no target is among the first k.

    Shapes:
        hits: bool [q, at least k]
        returns: float64 [q], 0 to 1
    """
    first = hits[:, :k].argmax(axis=1)
    rank: Floats = np.where(hits[:, :k].any(axis=1), 1.0 / (first + 1), 0.0)
    return rank


def novelty(lists: RankedLists, counts: Floats, k: int) -> Floats:
    """Compute the mean self-information of the first k items, in bits; rare items have more.

    Shapes:
        counts: float64 [n], training users of each item
        returns: float64 [q]
    """
    # -log2 of the share of the item, with one more event each, so that new items have no infinite value.
    surprise = -np.log2((counts + 1.0) / (counts.sum() + len(counts)))
    shown = lists[:, :k]
    present = shown >= 0
    total = np.where(present, surprise[np.maximum(shown, 0)], 0.0).sum(axis=1)
    mean: Floats = total / np.maximum(present.sum(axis=1), 1)
    return mean


def gini(counts: Rows) -> float:
    """Compute how unequally counts are spread: 0 if all are alike, near 1 if few have nearly all; 0 without counts.

    Shapes:
        counts: int64 [n], none below 0
    """
    total = int(counts.sum())
    if not total:
        return 0.0
    ordered = np.sort(counts)
    places = np.arange(1, len(counts) + 1)
    # sum of (2 i - n - 1) c_i / (n sum c), with counts in ascending order
    return float((2 * places - len(counts) - 1) @ ordered / (len(counts) * total))


def rank_discounts(k: int) -> Floats:
    """Return the gain of a target at each of the first k places.

    Shapes:
        returns: float64 [k]
    """
    worth: Floats = np.power(np.log2(np.arange(k) + 2.0), -1.0)
    return worth


def mean_figure(figures: Floats) -> float:
    """Return the mean of a figure over users, 0 without users.

    Shapes:
        figures: float64 [q], by user
    """
    return float(figures.mean()) if len(figures) else 0.0


def significant_gain(differences: Floats, now: Floats) -> float:
    """Return the mean gain of a change if it is significant, else 0.

    Shapes:
        differences, now: float64 [q], by user
    """
    if len(differences) < 2:
        return 0.0
    mean = float(differences.mean())
    doubt = float(differences.std(ddof=1)) / len(differences) ** 0.5
    # Half a standard error and 0.1 % of the present value (equation 18).
    return mean if mean > _DOUBT * doubt and mean > _LEAST_GAIN * mean_figure(now) else 0.0
