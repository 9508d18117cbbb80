"""How many people an experiment needs before its report can decide.

The report gives intervals that hold at all looks together, so it needs more people than a test that is read once.
Both numbers are given. The report decides with the wanted power as soon as its half-width, plus the chance error of the
difference, fits into the smallest difference that matters.

Source:
    sample size of two proportions: J. Fleiss, Statistical Methods for Rates and Proportions, chapter 4
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import ceil, inf, sqrt
from statistics import NormalDist
from typing import Any

from actors.experiments.goal_report import ALPHA
from actors.experiments.report import ExperimentReport
from actors.experiments.statistics import VariantSample, compare_samples

MOST_PEOPLE = 1_000_000_000
LARGEST_SIZE = 10**15
"Stands for every larger number of people."
MOST_DAYS = 10**9
"Stands for every longer time."


@dataclass(frozen=True, slots=True)
class SampleSize:
    """People that an experiment needs."""

    per_variant: int | None
    "For the report of this service, which may be read daily; None: more than a thousand million."
    fixed_per_variant: int
    "For a test that is read once, at its end."
    total: int | None
    days: int | None
    "With the given people per day; None: unknown, or too many."

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def estimate_sample_size(
    rate: float, relative_lift: float, *, variants: int = 2, power: float = 0.8, people_per_day: float = 0.0
) -> SampleSize:
    """Return how many people find a relative difference from a conversion rate with a power.

    Units:
        rate, power: probabilities; relative_lift: 0.1 for a rate that is a tenth larger or smaller
    Cost:
        30 comparisons, well below a millisecond
    """
    raised = min(rate * (1 + relative_lift), 1.0)
    # The same correction as the report: variants share the error rate.
    alpha = ALPHA / max(variants - 1, 1)
    plan = _Plan(rate, raised, (rate * (1 - rate), raised * (1 - raised)), alpha, power)
    return _find_size(plan, variants, people_per_day)


def estimate_value_size(
    mean: float,
    spread: float,
    relative_lift: float,
    *,
    correlation: float = 0.0,
    variants: int = 2,
    power: float = 0.8,
    people_per_day: float = 0.0,
) -> SampleSize:
    """Return how many people find a relative difference of a value, as revenue, with a power.

    Units:
        mean, spread: mean and standard deviation of the value over all people, also those without any
        correlation: with the same value in the 28 days before, which CUPED uses: 0 to 1
    """
    # CUPED: var(adjusted) = var * (1 - correlation^2)
    variance = spread**2 * (1 - correlation**2)
    alpha = ALPHA / max(variants - 1, 1)
    plan = _Plan(mean, mean * (1 + relative_lift), (variance, variance), alpha, power)
    return _find_size(plan, variants, people_per_day)


def estimate_missing_sample(report: ExperimentReport) -> SampleSize | None:
    """Return the users that the present difference needs to become significant, and the days until then.

    Of several open variants the one with the largest difference counts. `days` takes the pace of the days so far.
    None: every variant is decided, or there is no difference yet.
    """
    control = report.lines[0]
    open_lines = [line for line in report.lines[1:] if line.lift is not None and not line.lift.decided]
    lifts = [
        line.rate / control.rate - 1 for line in open_lines if control.rate and line.rate != control.rate
    ]
    if not lifts or control.rate >= 1:
        return None
    # The largest needs the fewest people, so it is decided first.
    lift = max(lifts, key=abs)
    size = estimate_sample_size(control.rate, lift, variants=len(report.lines))
    users = sum(line.people for line in report.lines)
    pace = users / max(len(report.days), 1)
    if size.total is None or not pace:
        return size
    return replace(size, days=ceil(min(max(size.total - users, 0) / pace, MOST_DAYS)))


@dataclass(frozen=True, slots=True)
class _Plan:
    """A difference to find, with the means and variances of a person's figure in both variants."""

    mean: float
    raised: float
    variances: tuple[float, float]
    alpha: float
    power: float

    def decides(self, people: int) -> bool:
        """Return whether a report with so many people in each variant decides, with the power."""
        control, treated = (
            # sum of squares = n * (variance + mean^2)
            VariantSample(people, people * mean, people * (variance + mean**2))
            for mean, variance in zip((self.mean, self.raised), self.variances, strict=True)
        )
        effect = compare_samples(control, treated, alpha=self.alpha)
        half = effect.high - effect.value
        if half == inf:
            return False
        error = sqrt(sum(self.variances) / people)
        # |difference| >= half + z_power * se: the estimate then clears the interval with this power.
        return abs(effect.value) >= half + NormalDist().inv_cdf(self.power) * error

    def fixed_size(self) -> int:
        """Return the people in each variant for a test that is read once."""
        normal = NormalDist()
        # n = (z_{1 - alpha/2} + z_power)^2 * (var_1 + var_2) / gap^2
        reach = normal.inv_cdf(1 - self.alpha / 2) + normal.inv_cdf(self.power)
        gap = (self.raised - self.mean) ** 2
        return max(ceil(min(reach**2 * sum(self.variances) / gap, LARGEST_SIZE)), 1) if gap else LARGEST_SIZE


def _find_size(plan: _Plan, variants: int, people_per_day: float) -> SampleSize:
    low = 100
    high = 100
    # Doubled until it decides, then halved: the half-width falls with the number of people.
    while high < MOST_PEOPLE and not plan.decides(high):
        low = high
        high = high * 2
    if high >= MOST_PEOPLE:
        return SampleSize(None, plan.fixed_size(), None, None)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if plan.decides(middle) else (middle, high)
    total = high * variants
    days = ceil(min(total / people_per_day, MOST_DAYS)) if people_per_day > 0 else None
    return SampleSize(high, plan.fixed_size(), total, days)
