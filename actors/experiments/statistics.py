"""Compute intervals that stay valid under repeated looks, and test whether users were split as intended.

A report that an analyst reads every day, and acts on when it looks good, is a test repeated many times. Ordinary
p-values and intervals are then wrong. These intervals hold over all looks together.

A value (as revenue) is a mean over users. A ratio (as revenue of an order) divides two sums, so its variance follows
from the delta method with the user as the unit. CUPED subtracts what the user's time before the experiment predicts.
Several figures at once are decided with the correction of Benjamini and Hochberg.

Source:
    I. Waudby-Smith, D. Arbour, R. Sinha, E. Kennedy, A. Ramdas, Time-uniform central limit theory and asymptotic
    confidence sequences, Annals of Statistics 2024; M. Lindon, A. Malek, Anytime-valid inference for multinomial
    count data, NeurIPS 2022; A. Deng, U. Knoblich, J. Lu, Applying the delta method in metric analytics, KDD 2018;
    A. Deng, Y. Xu, R. Kohavi, T. Walker, Improving the sensitivity of online controlled experiments by utilizing
    pre-experiment data, WSDM 2013; Y. Benjamini, Y. Hochberg, Controlling the false discovery rate, JRSS B 1995
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import exp, inf, lgamma, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from actors.vectors.types import Floats

_ENOUGH = 100
"Users per variant before an interval is given: below that, the mean's distribution isn't normal enough."
_ENOUGH_CONVERSIONS = 10
_ENOUGH_VALUES = 30
"Users with a value in each variant before an interval of a value or ratio is given, as if all had the same value."
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
        return cls(users, float(converted), float(converted))

    @property
    def mean(self) -> float:
        return self.total / self.users if self.users else 0.0

    @property
    def variance(self) -> float:
        if self.users < 2:
            return 0.0
        # (sum x^2 - n * mean^2) / (n - 1); rounding can make it slightly negative.
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
    # Rates near 0 are far from normal until some conversions have come.
    shown = min(control.squares, treated.squares) > 0 and control.total + treated.total >= _ENOUGH_CONVERSIONS
    count = control.users + treated.users
    if not enough or not shown:
        return EffectEstimate(value, -inf, inf, relative, False, 1.0)
    # sqrt(var_t / share_t + var_c / share_c): standard error * sqrt(count) of the difference.
    spread = sqrt(treated.variance / (treated.users / count) + control.variance / (control.users / count))
    return _estimate_effect(value, relative, spread, count, _tuning_parameter(alpha, looked_at), alpha)


def _estimate_effect(
    value: float, relative: float | None, spread: float, count: int, tuned: float, alpha: float
) -> EffectEstimate:
    half = spread * _interval_half_width(count, alpha, tuned)
    p_value = _compute_p_value(count, value / spread, tuned) if spread else 1.0
    return EffectEstimate(value, value - half, value + half, relative, abs(value) > half, p_value)


class Moments(NamedTuple):
    """Moments of a user's part in a mean, and of the same user's value before the experiment."""

    variance: float
    covariance: float
    variance_before: float


@dataclass(frozen=True, slots=True)
class ValueSums:
    """Sums over the users of one variant: of a value, its denominator, and the same value before the experiment.

    A value without a denominator has a denominator of 1 for each user. Sums of parts of the users add up.
    """

    users: int
    value: float
    value_value: float
    "Sum of products; so are the following with two names."
    per: float
    per_per: float
    value_per: float
    before: float
    before_before: float
    value_before: float
    per_before: float
    magnitude: float
    "Sum of absolute values."

    @classmethod
    def from_users(cls, value: Floats, per: Floats | None, before: Floats) -> ValueSums:
        """Build the sums.

        Shapes:
            value, per, before: one number for each user; `per` None: 1 for each
        """
        divisor = np.ones(len(value)) if per is None else per
        return cls(
            len(value),
            float(value.sum()),
            float(value @ value),
            float(divisor.sum()),
            float(divisor @ divisor),
            float(value @ divisor),
            float(before.sum()),
            float(before @ before),
            float(value @ before),
            float(divisor @ before),
            float(np.abs(value).sum()),
        )

    def __add__(self, other: ValueSums) -> ValueSums:
        return ValueSums(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))

    @property
    def mean(self) -> float:
        """Return the mean over users, or the ratio."""
        return self.value / self.per if self.per else 0.0

    @property
    def is_enough(self) -> bool:
        """Return whether the mean of so many users, of whom some have large values, is nearly normal."""
        # (sum |x|)^2 / sum x^2: how many equal values would vary as much.
        effective = self.magnitude**2 / self.value_value if self.value_value else 0.0
        return self.users >= _ENOUGH and effective >= _ENOUGH_VALUES

    def moments(self) -> Moments:
        """Return the moments of a user's part in the mean and of the time before.

        The part of a user in a ratio R is (value - R * per) / mean of per: the delta method.
        """
        users = self.users
        ratio = self.mean
        scale = self.per / self.users
        # the parts sum up to 0, so their sum of squares is the variance
        # sum (v - R p)^2 = sum v^2 - 2 R sum v p + R^2 sum p^2
        parts = self.value_value - 2 * ratio * self.value_per + ratio**2 * self.per_per
        both = self.value_before - ratio * self.per_before
        # sum (b - mean b)^2 = sum b^2 - (sum b)^2 / n
        before = self.before_before - self.before**2 / users
        rest = max(users - 1, 1)
        return Moments(max(parts, 0.0) / scale**2 / rest, both / scale / rest, max(before, 0.0) / rest)


def compare_values(
    control: ValueSums, treated: ValueSums, *, alpha: float = 0.05, looked_at: int = _TUNED_FOR_USERS
) -> EffectEstimate:
    """Compare values or ratios of a variant with those of the control, with CUPED.

    With too few users the interval is infinite. Without values before the experiment, CUPED changes nothing.
    """
    value = treated.mean - control.mean
    count = control.users + treated.users
    relative = value / control.mean if control.mean else None
    if not (control.is_enough and treated.is_enough and control.per > 0 and treated.per > 0):
        return EffectEstimate(value, -inf, inf, relative, False, 1.0)
    sides = ((control.moments(), control.users / count), (treated.moments(), treated.users / count))
    spread_before = sum(moments.variance_before / share for moments, share in sides)
    # the slope that makes the variance of the adjusted difference smallest
    slope = 0.0
    if spread_before > 0:
        slope = sum(moments.covariance / share for moments, share in sides) / spread_before
    # CUPED: difference - slope * (difference of the same means before the experiment)
    value -= slope * (treated.before / treated.users - control.before / control.users)
    relative = value / control.mean if control.mean else None
    # var(part - slope * before) = var(part) - 2 slope cov + slope^2 var(before)
    variance = sum(
        (part - 2 * slope * both + slope**2 * before) / share for (part, both, before), share in sides
    )
    tuned = _tuning_parameter(alpha, looked_at)
    return _estimate_effect(value, relative, sqrt(max(variance, 0.0)), count, tuned, alpha)


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """Return p-values to compare with the accepted share of false decisions (Benjamini and Hochberg)."""
    given = np.asarray(p_values, float)
    # From the largest p down; adjusted_(i) = min over j >= i of p_(j) * m / j
    order = np.argsort(given)[::-1]
    raised = given[order] * len(given) / np.arange(len(given), 0, -1)
    adjusted = np.empty(len(given))
    adjusted[order] = np.minimum(np.minimum.accumulate(raised), 1.0)
    return [float(value) for value in adjusted]


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
    worst = ""
    worst_p = 1.0
    many = max(len(slices or {}), 1)
    for name, slice_counts in (slices or {}).items():
        # Bonferroni over the slices.
        slice_p = min(_compute_split_p_value(slice_counts, shares) * many, 1.0)
        if slice_p < worst_p:
            worst = name
            worst_p = slice_p
    mismatch = p_value < alpha or worst_p < alpha
    return SplitCheck(p_value, mismatch, worst if mismatch else "", worst_p if mismatch else 1.0)


def _compute_split_p_value(counts: Sequence[int], shares: Sequence[float]) -> float:
    """Return a p-value: the inverse Bayes factor of splits near the intended one against the intended one."""
    whole = sum(shares)
    evidence = lgamma(_PRIOR) - lgamma(_PRIOR + sum(counts))
    # log Bayes factor of Dirichlet(prior * shares) against the intended shares
    for count, share in zip(counts, shares, strict=True):
        part = share / whole
        # A variant without a share must get nobody.
        if not part:
            if count:
                return 0.0
            continue
        evidence += lgamma(_PRIOR * part + count) - lgamma(_PRIOR * part) - count * log(part)
    # p = min(1 / Bayes factor, 1), valid at every look by Ville's inequality.
    return exp(min(-evidence, 0.0))


def _interval_half_width(count: int, alpha: float, tuned: float) -> float:
    scaled = count * tuned**2
    # sqrt(2 (t rho^2 + 1) / (t^2 rho^2) * log(sqrt(t rho^2 + 1) / alpha)), t users
    return sqrt(2 * (scaled + 1) / (count * scaled) * log(sqrt(scaled + 1) / alpha))


def _compute_p_value(count: int, effect: float, tuned: float) -> float:
    """Return the alpha at which the interval would just touch 0."""
    scaled = count * tuned**2
    # The same equation solved for alpha, with half-width = |effect|
    return min(sqrt(scaled + 1) * exp(-(effect**2) * count * scaled / (2 * (scaled + 1))), 1.0)


def _tuning_parameter(alpha: float, looked_at: int) -> float:
    # rho for the narrowest interval at `looked_at` users.
    return sqrt((-2 * log(alpha) + log(-2 * log(alpha)) + 1) / looked_at)


@dataclass(frozen=True, slots=True)
class WinShare:
    """The share of comparisons within people that one side won."""

    value: float
    low: float
    high: float
    "The interval holds at all looks together."
    decided: bool
    "Whether the interval excludes one half."
    p_value: float
    "Always valid; 1 before there are enough users."


def estimate_win_share(wins: ArrayLike, comparisons: ArrayLike, *, alpha: float) -> WinShare:
    """Estimate the share of comparisons won, with people as the unit; with too few users the interval is whole.

    The error is that of equal sides: a person who wins `w` of `m` comparisons adds `(w - m/2)^2` to its variance.

    Shapes:
        wins, comparisons: [n], a number for each user with at least one comparison
    """
    won = np.asarray(wins, np.int64)
    of = np.asarray(comparisons, np.int64)
    users = len(of)
    total = int(of.sum())
    value = int(won.sum()) / total if total else 0.5
    # Under equal sides a person's wins have the mean m / 2.
    squares = float(np.square(won - of / 2).sum())
    if users < _ENOUGH or not squares:
        return WinShare(value, 0.0, 1.0, False, 1.0)
    spread = sqrt(users * squares) / total
    tuned = _tuning_parameter(alpha, _TUNED_FOR_USERS)
    half = spread * _interval_half_width(users, alpha, tuned)
    p_value = _compute_p_value(users, (value - 0.5) / spread, tuned)
    return WinShare(value, max(value - half, 0.0), min(value + half, 1.0), abs(value - 0.5) > half, p_value)
