"""Compute intervals that stay valid under repeated looks, and test whether users were split as intended.

A report that an analyst reads every day, and acts on when it looks good, is a test repeated many times. Ordinary
p-values and intervals are then wrong. These intervals hold over all looks together.

Source:
    I. Waudby-Smith, D. Arbour, R. Sinha, E. Kennedy, A. Ramdas, Time-uniform central limit theory and asymptotic
    confidence sequences, Annals of Statistics 2024; M. Lindon, A. Malek, Anytime-valid inference for multinomial
    count data, NeurIPS 2022
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, lgamma, log, sqrt

_ENOUGH = 100
"Users per variant before an interval is given: below that, the mean's distribution isn't normal enough."
_ENOUGH_CONVERSIONS = 10
_TUNED_FOR_USERS = 5_000
"Number of users at which the intervals are narrowest."
_PRIOR = 100.0
"Weight of the intended split in the prior; a larger one finds small deviations sooner."


@dataclass(frozen=True, slots=True)
class VariantSample:
    """Sums of a value over the users of one variant.

    Units:
        total, squares: sum and sum of squares over users of the value measured (1 for a conversion)
    """

    users: int
    total: float
    squares: float

    @classmethod
    def from_conversions(cls, users: int, converted: int) -> VariantSample:
        """Build a sample from the number of users who converted."""
        return cls(users, float(converted), float(converted))

    @property
    def mean(self) -> float:
        """Return the mean over users."""
        return self.total / self.users if self.users else 0.0

    @property
    def variance(self) -> float:
        """Return the variance over users."""
        if self.users < 2:
            return 0.0
        return max(self.squares - self.users * self.mean**2, 0.0) / (self.users - 1)


@dataclass(frozen=True, slots=True)
class EffectEstimate:
    """The difference between a variant and the control, per user."""

    value: float
    low: float
    high: float
    "The interval holds at all looks together."
    relative: float | None
    "Difference divided by the control's mean; none when that is 0."
    decided: bool
    "Whether the interval excludes 0."
    p_value: float
    "Always valid; 1 before there are enough users."


def compare_samples(
    control: VariantSample,
    treated: VariantSample,
    *,
    alpha: float = 0.05,
    looked_at: int = _TUNED_FOR_USERS,
) -> EffectEstimate:
    """Compare a variant with the control; with too few users the interval is infinite."""
    value = treated.mean - control.mean
    relative = value / control.mean if control.mean else None
    enough = min(control.users, treated.users) >= _ENOUGH
    shown = min(control.squares, treated.squares) > 0 and control.total + treated.total >= _ENOUGH_CONVERSIONS
    count = control.users + treated.users
    if not enough or not shown:
        return EffectEstimate(value, -inf, inf, relative, False, 1.0)
    spread = sqrt(treated.variance / (treated.users / count) + control.variance / (control.users / count))
    tuned = _tuning_parameter(alpha, looked_at)
    half = spread * _interval_half_width(count, alpha, tuned)
    p_value = _compute_p_value(count, value / spread, tuned) if spread else 1.0
    return EffectEstimate(value, value - half, value + half, relative, abs(value) > half, p_value)


@dataclass(frozen=True, slots=True)
class SplitCheck:
    """The test whether users were split as intended."""

    p_value: float
    "Always valid."
    mismatch: bool
    slice: str = ""
    "The part of the traffic that deviates most, when slices were given and there is a mismatch."
    slice_p_value: float = 1.0


def check_split_ratio(
    counts: Sequence[int],
    shares: Sequence[float],
    slices: Mapping[str, Sequence[int]] | None = None,
    *,
    alpha: float = 0.001,
) -> SplitCheck:
    """Compare the users of each variant with the intended shares, and find the slice that causes a mismatch."""
    p_value = _compute_split_p_value(counts, shares)
    worst, worst_p = "", 1.0
    many = max(len(slices or {}), 1)
    for name, slice_counts in (slices or {}).items():
        slice_p = min(_compute_split_p_value(slice_counts, shares) * many, 1.0)
        if slice_p < worst_p:
            worst, worst_p = name, slice_p
    mismatch = p_value < alpha or worst_p < alpha
    return SplitCheck(p_value, mismatch, worst if mismatch else "", worst_p if mismatch else 1.0)


def _compute_split_p_value(counts: Sequence[int], shares: Sequence[float]) -> float:
    """Return a p-value: the inverse Bayes factor of splits near the intended one against the intended one."""
    whole = sum(shares)
    evidence = lgamma(_PRIOR) - lgamma(_PRIOR + sum(counts))
    for count, share in zip(counts, shares, strict=True):
        part = share / whole
        if not part:
            if count:
                return 0.0
            continue
        evidence += lgamma(_PRIOR * part + count) - lgamma(_PRIOR * part) - count * log(part)
    return exp(min(-evidence, 0.0))


def _interval_half_width(count: int, alpha: float, tuned: float) -> float:
    scaled = count * tuned**2
    return sqrt(2 * (scaled + 1) / (count * scaled) * log(sqrt(scaled + 1) / alpha))


def _compute_p_value(count: int, effect: float, tuned: float) -> float:
    """Return the alpha at which the interval would just touch 0."""
    scaled = count * tuned**2
    return min(sqrt(scaled + 1) * exp(-(effect**2) * count * scaled / (2 * (scaled + 1))), 1.0)


def _tuning_parameter(alpha: float, looked_at: int) -> float:
    return sqrt((-2 * log(alpha) + log(-2 * log(alpha)) + 1) / looked_at)
