"""The history of one user without matrices, for fast scoring of a single query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.models.user_histories import DAY_S, HALVINGS, TimeDecay, UserHistories
from actors.vectors.types import Floats, Rows, Scores

_NEXT_TO_NOTHING = 2.0**-HALVINGS
_FEW = 1_000
"Up to this number, values are sorted; more are summed in an array of all rows."
# Numbers of one row of the matrix product that sums an array.
_STRETCH = 512
_ONES = np.ones(_STRETCH, np.float32)


@dataclass(frozen=True, slots=True)
class UserHistory:
    """Events of one user, newest first, only with items of the snapshot.

    Shapes:
        items: int64 [m]; at_s, weights: float64 [m]; places, moments: int64 [m], the numbers of distinct items after
        each event, and after all events of the same time
    """

    items: Rows
    at_s: Floats
    weights: Floats
    places: Rows
    moments: Rows
    now_s: float

    def __len__(self) -> int:
        return len(self.items)

    @classmethod
    def of(
        cls,
        items: Sequence[int] | npt.NDArray[np.integer],
        at_s: Sequence[float] | Floats,
        weights: Sequence[float],
        now_s: float,
    ) -> UserHistory:
        """Build a history from its events, without unknown items (-1).

        Shapes:
            items: int [m]; at_s, weights: float [m]; newest first
        Cost:
            12 us for 50 events
        """
        codes = np.asarray(items, np.int64)
        when = np.asarray(at_s, np.float64)
        amounts = np.asarray(weights, np.float64)
        existing = codes >= 0
        if not existing.all():
            codes = codes[existing]
            when = when[existing]
            amounts = amounts[existing]
        distinct: set[int] = set()
        before: list[int] = []
        for item in codes.tolist():
            before.append(len(distinct))
            distinct.add(item)
        places = np.array(before, np.int64)
        return cls(codes, when, amounts, places, _share_places(places, when), now_s)

    def apply_time_decay(self, fading: TimeDecay) -> tuple[Rows, Scores]:
        """Return the items and decayed weights of the events that count. An item can repeat, and its weights add up.

        Shapes:
            returns: int64 [k] and float32 [k], k <= m
        """
        places = self.places if fading.ordered else self.moments
        weights = self.weights
        if fading.half_life_items is not None:
            weights = weights * np.exp2(-places / fading.half_life_items)
        if fading.half_life_days is not None:
            age_s = np.maximum(self.now_s - self.at_s, 0.0)
            weights = weights * np.exp2(-age_s / (DAY_S * fading.half_life_days))
        size = np.abs(weights)
        # Relative to the strongest event: a history of only old events still counts.
        counts = (places < fading.newest) & (size > _NEXT_TO_NOTHING * size.max(initial=0.0))
        return self.items[counts], weights[counts].astype(np.float32)

    def to_histories(self, n_items: int) -> UserHistories:
        """Return this history as `UserHistories`, for models without `quick`."""
        return UserHistories(
            starts=np.array([0, len(self.items)], np.int64),
            items=self.items[::-1],
            at_s=self.at_s[::-1],
            weights=self.weights[::-1].astype(np.float32),
            now_s=np.array([self.now_s]),
            n_items=n_items,
        )


def _share_places(places: Rows, when: Floats) -> Rows:
    """Return the places with that of the first event for all events of the same time."""
    later = when[1:] != when[:-1]
    if later.all():
        return places
    firsts = np.where(np.append(True, later), np.arange(len(when)), 0)
    # `accumulate` carries the index of the first event of a moment to the others.
    moments: Rows = places[np.maximum.accumulate(firsts)]
    return moments


def compute_sparse_scale(
    rows: npt.NDArray[np.integer], values: Scores, count: int, *, distinct: bool = False
) -> float:
    """Return the factor that scales values to deviation 1 over `count` rows; 0 if all are equal. Repeated rows add up.

    `distinct` means that no row is repeated.

    Shapes:
        rows: int [m], 0 to count - 1; values: float32 [m]
    Cost:
        25 us for 6,000 values over 100,000 rows
    """
    if not len(rows):
        return 0.0
    sums: npt.NDArray[Any]
    if distinct:
        sums = values.astype(np.float64)
    elif len(rows) <= _FEW:
        _, at = np.unique(rows, return_inverse=True)
        sums = np.bincount(at, values)
    else:
        # float32, as the scores themselves.
        sums = np.zeros(count, np.float32)
        np.add.at(sums, rows, values)
    return _compute_scale(float(values.sum(dtype=np.float64)), float(np.dot(sums, sums)), count)


def compute_dense_scale(values: Scores, count: int) -> float:
    """Return the factor that scales values to deviation 1 over `count` rows; missing rows count as 0.

    Shapes:
        values: float32 [n]
    Cost:
        8 us for 100,000 values
    """
    whole = len(values) // _STRETCH * _STRETCH
    # a matrix product takes a quarter of the time of numpy's sum
    total = float((values[:whole].reshape(-1, _STRETCH) @ _ONES).sum(dtype=np.float64))
    total += float(values[whole:].sum(dtype=np.float64))
    return _compute_scale(total, float(np.dot(values, values)), count)


def _compute_scale(total: float, squares: float, count: int) -> float:
    mean = total / count
    # s(y) = 1 / deviation, from sums: E[y^2] - E[y]^2
    variance = squares / count - mean * mean
    return float(variance**-0.5) if variance > 1e-24 else 0.0
