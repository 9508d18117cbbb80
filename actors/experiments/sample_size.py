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

from actors.experiments.report import ALPHA, ExperimentReport
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
        """Return the numbers as JSON."""
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
    alpha = ALPHA / max(variants - 1, 1)
    low, high = 100, 100
    while high < MOST_PEOPLE and not _decides(high, rate, raised, alpha, power):
        low, high = high, high * 2
    if high >= MOST_PEOPLE:
        return SampleSize(None, _fixed_size(rate, raised, alpha, power), None, None)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _decides(middle, rate, raised, alpha, power) else (middle, high)
    total = high * variants
    days = ceil(min(total / people_per_day, MOST_DAYS)) if people_per_day > 0 else None
    return SampleSize(high, _fixed_size(rate, raised, alpha, power), total, days)


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
    lift = max(lifts, key=abs)
    size = estimate_sample_size(control.rate, lift, variants=len(report.lines))
    users = sum(line.people for line in report.lines)
    pace = users / max(len(report.days), 1)
    if size.total is None or not pace:
        return size
    return replace(size, days=ceil(min(max(size.total - users, 0) / pace, MOST_DAYS)))


def _decides(people: int, rate: float, raised: float, alpha: float, power: float) -> bool:
    control, treated = (VariantSample(people, people * mean, people * mean) for mean in (rate, raised))
    effect = compare_samples(control, treated, alpha=alpha)
    half = effect.high - effect.value
    if half == inf:
        return False
    error = sqrt((control.variance + treated.variance) / people)
    return abs(effect.value) >= half + NormalDist().inv_cdf(power) * error


def _fixed_size(rate: float, raised: float, alpha: float, power: float) -> int:
    normal = NormalDist()
    spread = rate * (1 - rate) + raised * (1 - raised)
    reach = normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)
    gap = (raised - rate) ** 2
    return max(ceil(min(reach**2 * spread / gap, LARGEST_SIZE)), 1) if gap else LARGEST_SIZE
