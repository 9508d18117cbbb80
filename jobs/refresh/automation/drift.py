"""Decide whether the traffic of an app differs from the days before, so that a training pays early.

The newest hours are compared with the same hours of earlier days, because traffic has a daily rhythm. Equations, for
a rate r of the newest hours with n trials and rates r_d of D earlier days:
    m, s      mean and standard deviation of the r_d
    noise     s^2 (1 + 1/D) + max(m (1 - m), r (1 - r)) / n
    drift     |r - m| > t_{D-1}(0.9995) sqrt(noise), and |r - m| > 0.25 m
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from scipy.stats import t as student

Signal = Literal["click rate", "coverage", "popular products"]
Counts = tuple[int, int]
"Hits and trials of a rate."

WINDOW_MS: Final = 6 * 3_600_000
DAYS_BEFORE: Final = 14
LEAST_DAYS: Final = 5
"Earlier days with enough traffic: fewer say nothing about how days differ."
LEAST_TRIALS: Final = 300
"Lists, shown places or events in the newest hours and in each earlier day that counts."
LEAST_CHANGE: Final = 0.25
"Relative change below which a training would not pay, however certain the change is."
ERROR_RATE: Final = 0.001
"Probability that a signal without drift is taken for drift at one look, both directions together."


@dataclass(frozen=True, slots=True)
class Drift:
    """A rate that changed."""

    signal: Signal
    before: float
    now: float

    @property
    def sentence(self) -> str:
        """Return what changed, for the record of the run."""
        return f"{self.signal} changed from {self.before:.1%} to {self.now:.1%}"


def find_drift(now: Mapping[Signal, Counts], earlier: Sequence[Mapping[Signal, Counts]]) -> Drift | None:
    """Return the first rate that drifted, or None.

    Shapes:
        earlier: the same hours of earlier days, one for each day
    """
    for signal, (hits, trials) in now.items():
        past = [day[signal] for day in earlier if day[signal][1] >= LEAST_TRIALS]
        if trials < LEAST_TRIALS or len(past) < LEAST_DAYS:
            continue
        rates = np.array([day_hits / day_trials for day_hits, day_trials in past])
        mean = float(rates.mean())
        rate = hits / trials
        # days differ, their mean is uncertain, and n trials are few; the rate itself counts too, because after days
        # without a hit a single one would be certain
        chance = max(mean * (1 - mean), rate * (1 - rate))
        noise = float(rates.var(ddof=1)) * (1 + 1 / len(rates)) + chance / trials
        # Student's t, because s comes from a few days only.
        bound = float(student.ppf(1 - ERROR_RATE / 2, len(rates) - 1)) * noise**0.5
        if abs(rate - mean) > max(bound, LEAST_CHANGE * mean):
            return Drift(signal, mean, rate)
    return None
