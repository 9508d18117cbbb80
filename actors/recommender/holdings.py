"""What the pipeline reads: the overlay, and what follows from it for every reader alike.

The second part (trend scores, who leads, the spread of content scores) is worked out again when something changed,
but not more often than the refresh interval, so that a stream of clicks does not cost every request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from actors.recommender.groups import Groups
from actors.recommender.overlay import Overlay
from actors.recommender.trending import zscores
from actors.vectors.top import best_rows
from actors.vectors.types import Floats, Mask, Matrix, Scores, Vector

_SAMPLE = 1_024
_LEADERS = 250


@dataclass(frozen=True, slots=True)
class Blend:
    """Weights of the parts of a score, each part scaled to spread 1.

    Source:
        chosen on online-retail-y1 (global time split) and amazon-toys (leave last out), overlay alone
    """

    together: float = 1.0
    "Products seen together with those of the reader's history."
    content: float = 0.8
    "Likeness to the reader's vector."
    trend: float = 0.6
    "Decayed counts of a week."
    popular: float = 0.1
    "Logarithm of the counts of a month: gives the long tail an order."
    taste_in_trending: float = 0.3
    "How much the reader's own score moves near-equals of the trending list."
    crowd_in_similar: float = 0.1
    "How much trend and popularity say about what is similar."


@dataclass(frozen=True, slots=True)
class Standing:
    """How products stand before a reader is known.

    Shapes:
        offered: bool [n]; trend, base: float32 [n]; popular: float64 [n]; mean: float32 [d]; covariance: [d, d]
    """

    versions: tuple[int, int, int]
    at_ms: int
    offered: Mask
    trend: Scores
    "Counts of a week, scaled to spread 1; -inf where the product is not offered."
    base: Scores
    "What every reader's score starts from; -inf where the product is not offered."
    popular: Floats
    "Counts of a month, the largest 1."
    leaders: tuple[int, ...]
    "Rows with the best trend, best first."
    voted: bool
    "Did anybody do anything yet?"
    mean: Vector
    covariance: Matrix

    def __len__(self) -> int:
        """Count rows that are judged; rows added since are not."""
        return len(self.offered)

    def spread(self, vector: Vector) -> tuple[float, float]:
        """Tell mean and spread of all content scores for a vector, without computing them."""
        variance = float(vector @ self.covariance @ vector)
        return float(self.mean @ vector), max(variance, 1e-6) ** 0.5


class Holdings:
    """The overlay and its standing."""

    def __init__(self, overlay: Overlay, *, blend: Blend | None = None, refresh_ms: int = 0) -> None:
        self.overlay = overlay
        self.catalog = overlay.catalog
        self.index = overlay.index
        self.blend = Blend() if blend is None else blend
        self._refresh_ms = refresh_ms
        self._crowds: WeakKeyDictionary[Groups[Any], tuple[Standing, Floats]] = WeakKeyDictionary()
        self._standing = self._judged(0)

    def standing(self, now_ms: int) -> Standing:
        """Give the standing, at most the refresh interval old.

        Cost:
            0.4 ms for 10,000 products, 4 ms for 100,000, when something changed; else nothing
        """
        now = self._standing
        if now.versions != self._versions() and not 0 <= now_ms - now.at_ms < self._refresh_ms:
            now = self._standing = self._judged(now_ms)
        return now

    def crowd(self, groups: Groups[Any], standing: Standing) -> Floats:
        """Add up the popularity of every group's products, once per standing.

        Shapes:
            returns: float64 [groups]
        """
        found = self._crowds.get(groups)
        if found is None or found[0] is not standing or len(found[1]) != len(groups):
            found = standing, groups.sums(np.where(standing.offered, standing.popular, 0))
            self._crowds[groups] = found
        return found[1]

    def _versions(self) -> tuple[int, int, int]:
        return self.catalog.version, self.overlay.events, len(self.catalog)

    def _judged(self, now_ms: int) -> Standing:
        count = len(self.catalog)
        self.index.reserve(count)
        offered = self.catalog.offered.copy()
        week, month = self.overlay.counts.of(7.0, count), self.overlay.counts.of(30.0, count)
        # later rows are newer products: they go first among equals
        trend = zscores(week, offered) + np.linspace(0, 1e-3, count, dtype=np.float32)
        largest = float(month.max(initial=0))
        popular = zscores(np.log1p(month * (1_000 / largest)) if largest > 0 else month, offered)
        base = self.blend.trend * trend + self.blend.popular * popular
        trend[~offered] = base[~offered] = -np.inf
        mean, covariance = self._moments(offered)
        return Standing(
            versions=self._versions(),
            at_ms=now_ms,
            offered=offered,
            trend=trend,
            base=base,
            popular=month / largest if largest > 0 else month,
            leaders=tuple(best_rows(trend, _LEADERS).tolist()),
            voted=largest > 0,
            mean=mean,
            covariance=covariance,
        )

    def _moments(self, offered: Mask) -> tuple[Vector, Matrix]:
        """Estimate mean and covariance of the vectors from an even sample."""
        rows = np.flatnonzero(offered)
        sample = rows[:: max(1, len(rows) // _SAMPLE)]
        total, outer = self.index.moments(sample)
        mean = total / np.float32(max(len(sample), 1))
        return mean, outer / np.float32(max(len(sample), 1)) - np.outer(mean, mean)
