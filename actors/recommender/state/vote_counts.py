"""Trends: decayed counts with several half-lives, from one vote for each user, product and day.

Counts decay forward: a later vote is added with a larger weight (`2 ** (age of the landmark / half-life)`), and stored
counts do not shrink. No periodic pass is needed, and two products keep their order by count until a new vote comes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from actors.vectors.types import Floats, Mask, Rows, Scores, ensure_capacity

DAY_MS = 86_400_000
HALF_LIVES_DAYS = (1.0, 7.0, 30.0)
"Short trend, trend, popularity."

Times = npt.NDArray[np.int64]

# A float64 ends at 2^1023: the counts move their landmark at half of that.
_LARGEST_EXPONENT = 500.0
_NOISE = 1e-6


class DecayedCounts:
    """Votes by row under several half-lives."""

    def __init__(self, half_lives_days: tuple[float, ...] = HALF_LIVES_DAYS) -> None:
        self.half_lives_days = half_lives_days
        self._half_ms = np.array(half_lives_days) * DAY_MS
        self._landmark_ms = np.zeros(len(half_lives_days))
        self._newest_ms = 0.0
        self._values: list[Floats] = [np.zeros(0) for _ in half_lives_days]

    def add(self, rows: Rows, votes: Floats, at_ms: Times) -> None:
        """Add votes. A negative vote exactly undoes an earlier vote.

        Shapes:
            rows: int64 [m], may repeat
            votes: float64 [m]
            at_ms: int64 [m], when each vote happened (not when it is added)
        """
        if not len(rows):
            return
        self._reserve(int(rows.max()) + 1)
        self._move_landmarks(float(at_ms.max()))
        for at, half_ms in enumerate(self._half_ms):
            # c_h = sum of v 2^(-(t - t_v) / h), without the factor 2^(-t / h) that all rows share (equation
            # 3)
            weights = votes * np.exp2((at_ms - self._landmark_ms[at]) / half_ms)
            # Rows repeat within a batch: `+=` would count each of them once.
            np.add.at(self._values[at], rows, weights)

    def get_relative_counts(self, half_life_days: float, count: int) -> Floats:
        """Return the counts of the first `count` rows up to one common factor, for order and z-scores.

        Shapes:
            returns: float64 [count], 0 where less than a millionth of a new vote is left: the rounding error of
                votes that were undone
        """
        self._reserve(count)
        at = self.half_lives_days.index(half_life_days)
        values = self._values[at][:count]
        fresh = np.exp2((self._newest_ms - self._landmark_ms[at]) / self._half_ms[at])
        # Undone votes leave rounding errors; a product without votes must not rank by them.
        return np.where(values > _NOISE * fresh, values, 0.0)

    def get_counts_at(self, half_life_days: float, count: int, now_ms: float) -> Floats:
        """Return the decayed counts of the first `count` rows at a time.

        Shapes:
            returns: float64 [count]
        Units:
            votes
        """
        at = self.half_lives_days.index(half_life_days)
        age = (self._landmark_ms[at] - now_ms) / self._half_ms[at]
        return self.get_relative_counts(half_life_days, count) * float(np.exp2(age))

    @property
    def newest_ms(self) -> float:
        """Return the time of the newest vote, 0 without votes."""
        return self._newest_ms

    def copy(self, count: int) -> DecayedCounts:
        """Return a copy of the counts of the first `count` rows."""
        self._reserve(count)
        copied = DecayedCounts(self.half_lives_days)
        copied._landmark_ms = self._landmark_ms.copy()
        copied._newest_ms = self._newest_ms
        copied._values = [values[:count].copy() for values in self._values]
        return copied

    @property
    def nbytes(self) -> int:
        return sum(values.nbytes for values in self._values)

    def _reserve(self, count: int) -> None:
        self._values = [ensure_capacity(values, count) for values in self._values]

    def _move_landmarks(self, newest_ms: float) -> None:
        """Move landmarks to keep exponents small, once in hundreds of half-lives."""
        self._newest_ms = max(self._newest_ms, newest_ms)
        for at, half_ms in enumerate(self._half_ms):
            if self._landmark_ms[at] == 0:
                self._landmark_ms[at] = newest_ms
            steps = (newest_ms - self._landmark_ms[at]) / half_ms
            if steps > _LARGEST_EXPONENT:
                self._values[at] *= np.exp2(-steps)
                self._landmark_ms[at] = newest_ms


class PlainCounts:
    """Votes by row without decay: all votes that a product ever had."""

    def __init__(self) -> None:
        self._values: Floats = np.zeros(0)

    def add(self, rows: Rows, votes: Floats) -> None:
        """Add votes. A negative vote undoes an earlier vote.

        Shapes:
            rows: int64 [m], may repeat; votes: float64 [m]
        """
        if len(rows):
            self._values = ensure_capacity(self._values, int(rows.max()) + 1)
            np.add.at(self._values, rows, votes)

    def get_counts(self, count: int) -> Floats:
        """Return a view of the counts of the first `count` rows. The caller must not change it.

        Shapes:
            returns: float64 [count]
        """
        self._values = ensure_capacity(self._values, count)
        return self._values[:count]

    @property
    def nbytes(self) -> int:
        return self._values.nbytes


class DailyVotes:
    """Limits a user to one vote for each product and day: the event with the largest weight counts, once.

    The class stores the votes of the last `days` days with events. An older event that comes late counts in full.
    """

    def __init__(self, days: int = 2) -> None:
        self._days = days
        self._recorded: dict[int, dict[int, float]] = {}

    def weigh(self, users: Rows, rows: Rows, at_ms: Times, weights: Floats) -> Floats:
        """Return the votes that each event adds to the votes of its user.

        Shapes:
            users, rows: int64 [m], below 2 ** 31
            at_ms: int64 [m]
            weights: float64 [m], 0 or more
            returns: float64 [m]; 0 where the user already gave the product as many votes on that day
        """
        worth = np.zeros(len(rows))
        days = at_ms // DAY_MS
        # Both are below 2^31, so the key fits an int64.
        keys = users << 31 | rows
        for day in np.unique(days).tolist():
            those = np.flatnonzero((days == day) & (weights > 0))
            distinct, inverse = np.unique(keys[those], return_inverse=True)
            best = np.zeros(len(distinct))
            np.maximum.at(best, inverse, weights[those])
            last = np.zeros(len(distinct), np.int64)
            # With repeated indexes the last assignment wins, so the vote goes to the last event of the day.
            last[inverse] = those
            worth[last] = self._record(day, distinct.tolist(), best)
        return worth

    def delete(self, user: int, rows: list[int]) -> None:
        """Delete the stored votes of a user for some rows."""
        for had in self._recorded.values():
            for row in rows:
                had.pop(user << 31 | row, None)

    def _record(self, day: int, keys: list[int], best: Floats) -> Floats:
        had = self._recorded.get(day)
        if had is None:
            newest = max(self._recorded, default=day)
            if day <= newest - self._days:
                return best
            had = self._recorded[day] = {}
            for old in [other for other in self._recorded if other <= max(newest, day) - self._days]:
                del self._recorded[old]
        before = np.array([had.get(key, 0.0) for key in keys])
        had.update(zip(keys, np.maximum(before, best).tolist(), strict=True))
        # A stronger event of the same day adds only what it exceeds the recorded one by.
        more: Floats = np.maximum(best - before, 0)
        return more


def zscores(values: npt.NDArray[np.floating], among: Mask) -> Scores:
    """Return the values scaled to mean 0 and deviation 1 among the rows of the mask.

    Scaled components of a score can be added.

    Shapes:
        values: float [n]
        among: bool [n]
        returns: float32 [n]; zeros when all values are equal
    """
    chosen = values[among]
    spread = float(chosen.std()) if len(chosen) else 0.0
    if spread <= 0:
        return np.zeros(len(values), np.float32)
    scaled: Scores = ((values - chosen.mean()) / spread).astype(np.float32)
    return scaled
