"""Co-occurrence: pairs of products in one session, and the strongest neighbours of each product.

A session ends after half an hour without an event. Within it a product is paired with the products that
follow within a window; near pairs weigh more. The reverse direction counts half, because people move on more
than they return. Lines of one basket are adjacent and count the same in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from actors.recommender.state.events import EventArrays
from actors.recommender.state.vote_counts import DAY_MS, Times
from actors.vectors.types import Floats, Mask, Rows, ensure_capacity

# Half an hour is the usual limit of web analytics.
SESSION_GAP_MS = 30 * 60_000
_BACK = 0.5
_SEQUENCE_LAGS = 5
"Products after one that count as following it."
_BASKET_LAGS = 40
"The same in baskets, where all count alike."
# Weights are stored as float32, whose normal numbers go from about 2^-126 to 2^128.
_LOWEST_EXPONENT = -120.0
_LARGEST_EXPONENT = 60.0


@dataclass(frozen=True, slots=True)
class ItemPairs:
    """Directed pairs of rows with a weight and the time of the later one."""

    left: Rows
    right: Rows
    weights: Floats
    at_ms: Times


def build_sequence_pairs(events: EventArrays, old: int = 0) -> ItemPairs:
    """Return pairs of products that follow each other within a session.

    The first `old` events are context: pairs among them were counted before and are left out.

    Cost:
        0.6 s for 1,000,000 events
    """
    # By user, then time, then arrival: `lexsort` takes the most important key last.
    order = np.lexsort((np.arange(len(events)), events.at_ms, events.users))
    order = order[_drop_repeats(events, order)]
    sessions = _number_sessions(events, order)
    pairs_by_lag = [_pairs_at_lag(events, order, sessions, old, lag) for lag in range(1, _SEQUENCE_LAGS + 1)]
    # 1 / lag (equation 10): `enumerate` counts from 0, lags from 1.
    return _join_pairs([(pairs, 1 / (lag + 1)) for lag, pairs in enumerate(pairs_by_lag)], both=_BACK)


def build_basket_pairs(events: EventArrays, old: int = 0) -> ItemPairs:
    """Return pairs of products bought in one session, with equal weights."""
    order = np.lexsort((np.arange(len(events)), events.at_ms, events.users))
    sessions = _number_sessions(events, order)
    pairs_by_lag = [_pairs_at_lag(events, order, sessions, old, lag) for lag in range(1, _BASKET_LAGS + 1)]
    return _join_pairs([(pairs, 1.0) for pairs in pairs_by_lag], both=1.0)


class CooccurrenceTable:
    """For each row its strongest neighbours, forward-decayed, at most `width` of them."""

    def __init__(self, width: int = 50, half_life_days: float = 60.0) -> None:
        self._width = width
        self._half_ms = half_life_days * DAY_MS
        self._landmark_ms = 0
        self._rows: npt.NDArray[np.int32] = np.full((0, width), -1, np.int32)
        self._weights: npt.NDArray[np.float32] = np.zeros((0, width), np.float32)

    def add(self, pairs: ItemPairs, sign: float = 1.0) -> None:
        """Add pairs, or with `sign` -1 subtract them if they are still stored."""
        if not len(pairs.left):
            return
        newest_ms = int(pairs.at_ms.max())
        if self._landmark_ms == 0:
            # Weights grow from the first pair on (forward decay), so stored ones are hardly ever rewritten.
            self._landmark_ms = newest_ms
        steps = (newest_ms - self._landmark_ms) / self._half_ms
        if steps > _LARGEST_EXPONENT:
            # once in ten years: an import may begin with events of the last century
            self._weights *= np.float32(np.exp2(-steps))
            self._landmark_ms = newest_ms
        exponents = np.maximum((pairs.at_ms - self._landmark_ms) / self._half_ms, _LOWEST_EXPONENT)
        left, right, weights = _sum_pairs(pairs.left, pairs.right, pairs.weights * np.exp2(exponents) * sign)
        self._reserve(int(max(left.max(), right.max())) + 1)
        # Subtraction reaches stored pairs only: what was squeezed out has left the sums already.
        new = ~self._add_to_existing(left, right, weights)
        if sign > 0 and new.any():
            self._insert_stronger(left[new], right[new], weights[new])

    def get_neighbours(self, rows: Rows) -> tuple[Rows, Floats]:
        """Return the neighbours of rows and their share of all co-occurrences of the row.

        Shapes:
            rows: int64 [m]
            returns: int64 [m, width] and float64 [m, width], which is 0 where there is no further neighbour
        """
        self._reserve(int(rows.max(initial=-1)) + 1)
        neighbours = self._rows[rows].astype(np.int64)
        weights = self._weights[rows].astype(np.float64)
        np.maximum(neighbours, 0, out=neighbours)
        # Subtractions round, so an undone pair may be a little below 0.
        np.maximum(weights, 0, out=weights)
        # A(i, p) = a(i, p) / sum over the neighbours of i (equation 10)
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-30)
        return neighbours, weights

    def get_neighbour_rows(self, rows: Rows) -> npt.NDArray[np.int32]:
        """Return the neighbours of rows in no order, -1 for an empty place.

        Shapes:
            returns: int32 [m, width]
        """
        self._reserve(int(rows.max(initial=-1)) + 1)
        return self._rows[rows]

    def has_neighbours(self, rows: Rows) -> bool:
        """Return whether any of these rows has a neighbour.

        Shapes:
            rows: int64 [m]
        """
        return bool(self.get_neighbours(rows)[1].any())

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._weights.nbytes

    def _reserve(self, count: int) -> None:
        if count > len(self._rows):
            self._rows = ensure_capacity(self._rows, count, -1)
            self._weights = ensure_capacity(self._weights, count)

    def _add_to_existing(self, left: Rows, right: Rows, weights: Floats) -> Mask:
        """Add to stored pairs; return a mask of them. Works in slices, to limit memory."""
        existing = np.zeros(len(left), np.bool_)
        for start in range(0, len(left), 65_536):
            part = slice(start, start + 65_536)
            # Shapes: [m, width] == [m, 1]; each pair occurs at most once in a row.
            hits, places = np.nonzero(self._rows[left[part]] == right[part][:, None])
            self._weights[left[part][hits], places] += weights[part][hits].astype(np.float32)
            existing[start + hits] = True
        return existing

    def _insert_stronger(self, left: Rows, right: Rows, weights: Floats) -> None:
        """Replace the weakest neighbours by stronger new ones, strongest first."""
        order = np.lexsort((-weights, left))
        left = left[order]
        right = right[order]
        weights = weights[order].astype(np.float32)
        owners, starts = np.unique(left, return_index=True)
        # Place of each pair among the new ones of its row: place k competes with the k-th weakest
        # neighbour.
        rank = np.arange(len(left)) - np.repeat(starts, np.diff(np.append(starts, len(left))))
        fits = rank < self._width
        left = left[fits]
        right = right[fits]
        weights = weights[fits]
        rank = rank[fits]
        # Empty places count as -1, so they are filled before any neighbour is replaced.
        kept = np.where(self._rows[owners] >= 0, self._weights[owners], -1)
        weakest = np.argsort(kept, axis=1)
        at = np.searchsorted(owners, left)
        places = weakest[at, rank]
        better = weights > kept[at, places]
        left = left[better]
        places = places[better]
        self._rows[left, places] = right[better]
        self._weights[left, places] = weights[better]


def _drop_repeats(events: EventArrays, order: Rows) -> Mask:
    """Return a mask without events on the same product as the user's previous event."""
    users = events.users[order]
    rows = events.rows[order]
    at_ms = events.at_ms[order]
    changed = np.ones(len(order), np.bool_)
    again = (users[1:] == users[:-1]) & (rows[1:] == rows[:-1])
    changed[1:] = ~again | (at_ms[1:] - at_ms[:-1] > SESSION_GAP_MS)
    return changed


def _number_sessions(events: EventArrays, order: Rows) -> Rows:
    """Number the sessions of ordered events."""
    users = events.users[order]
    at_ms = events.at_ms[order]
    starts = np.ones(len(order), np.int64)
    starts[1:] = (users[1:] != users[:-1]) | (at_ms[1:] - at_ms[:-1] > SESSION_GAP_MS)
    return np.cumsum(starts)


def _pairs_at_lag(events: EventArrays, order: Rows, sessions: Rows, old: int, lag: int) -> ItemPairs:
    """Pair each ordered event with the one `lag` later in its session; weight 1 forward, times below."""
    first = order[:-lag]
    second = order[lag:]
    rows_1 = events.rows[first]
    rows_2 = events.rows[second]
    # Context events come first in the arrays: a pair counts if one of its events is new.
    fresh = np.maximum(first, second) >= old
    valid = (sessions[:-lag] == sessions[lag:]) & (rows_1 != rows_2) & fresh
    first = first[valid]
    second = second[valid]
    at_ms = np.maximum(events.at_ms[first], events.at_ms[second])
    side_by_side = (events.at_ms[first] == events.at_ms[second]).astype(np.float64)
    return ItemPairs(events.rows[first], events.rows[second], side_by_side, at_ms)


def _join_pairs(weighted_pairs: list[tuple[ItemPairs, float]], both: float) -> ItemPairs:
    """Return pairs of all lags and their reverse pairs. A reverse pair has factor `both`, or 1 for equal times."""
    left = np.concatenate([pairs.left for pairs, _ in weighted_pairs])
    right = np.concatenate([pairs.right for pairs, _ in weighted_pairs])
    there = np.concatenate([np.full(len(pairs.left), weight) for pairs, weight in weighted_pairs])
    level = np.concatenate([pairs.weights for pairs, _ in weighted_pairs])
    at_ms = np.concatenate([pairs.at_ms for pairs, _ in weighted_pairs])
    back = there * np.maximum(level, both)
    return ItemPairs(
        np.concatenate((left, right)),
        np.concatenate((right, left)),
        np.concatenate((there, back)),
        np.concatenate((at_ms, at_ms)),
    )


def _sum_pairs(left: Rows, right: Rows, weights: Floats) -> tuple[Rows, Rows, Floats]:
    """Return distinct pairs with summed weights."""
    # Rows stay below 2^31, so two of them fit one integer, and one sort finds equal pairs.
    keys, inverse = np.unique(left << 32 | right, return_inverse=True)
    sums: Floats = np.bincount(inverse, weights, len(keys)).astype(np.float64)
    return keys >> 32, keys & 0xFFFFFFFF, sums
