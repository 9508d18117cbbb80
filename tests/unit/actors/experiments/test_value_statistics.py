"""Values, ratios, CUPED and many figures at once: seeded simulations of whole experiments."""

from __future__ import annotations

from math import isfinite, sqrt

import numpy as np
import pytest
from scipy import stats

from actors.experiments.statistics import (
    EffectEstimate,
    ValueSums,
    VariantSample,
    adjust_p_values,
    compare_samples,
    compare_values,
)

RUNS, DAYS, PEOPLE_A_DAY = 1_000, 28, 200
USERS = DAYS * PEOPLE_A_DAY

Figures = tuple[np.ndarray, np.ndarray | None, np.ndarray]
"Value, denominator and value before, each [runs, users]."


def draw_activity(rng: np.random.Generator, runs: int, users: int) -> np.ndarray:
    """How active each person is, before and during the experiment: [runs, users]."""
    return rng.gamma(2.0, 0.5, (runs, users)).astype(np.float32)


def draw_revenue(rng: np.random.Generator, runs: int, users: int) -> Figures:
    activity = draw_activity(rng, runs, users)
    orders = rng.random((2, runs, users), np.float32) < 0.05 * activity
    spent = rng.lognormal(3.0, 1.0, (2, runs, users)) * orders
    return spent[0], None, spent[1]


def draw_quantities(rng: np.random.Generator, runs: int, users: int) -> Figures:
    activity = draw_activity(rng, runs, users)
    counts = rng.poisson(0.5 * activity, (2, runs, users)).astype(float)
    return counts[0], None, counts[1]


def draw_duration(rng: np.random.Generator, runs: int, users: int) -> Figures:
    activity = draw_activity(rng, runs, users)
    seconds = rng.exponential(60.0, (2, runs, users)) * activity
    return seconds[0], None, seconds[1]


def draw_order_value(rng: np.random.Generator, runs: int, users: int) -> Figures:
    orders = rng.poisson(0.15 * draw_activity(rng, runs, users)).astype(float)
    spent = orders * rng.lognormal(3.0, 0.8, (runs, users))
    return spent, orders, np.zeros((runs, users))


def draw_clicks_per_list(rng: np.random.Generator, runs: int, users: int) -> Figures:
    activity = draw_activity(rng, runs, users)
    lists = 1.0 + rng.poisson(3 * activity)
    clicks = rng.binomial(lists.astype(int), np.clip(0.1 * activity, 0, 1)).astype(float)
    earlier = rng.poisson(0.3 * activity).astype(float)
    return clicks, lists, earlier


KINDS = {
    "revenue": draw_revenue,
    "quantities": draw_quantities,
    "duration": draw_duration,
    "order-value": draw_order_value,
    "clicks-per-list": draw_clicks_per_list,
}


def sums_by_day(figures: Figures, arms: np.ndarray) -> np.ndarray:
    """The sums of both variants after each day: [arm, sum, runs, days]."""
    value, per, before = figures
    divisor = np.ones_like(value) if per is None else per
    products = (
        value, value * value, divisor, divisor * divisor, value * divisor, before, before * before,
        value * before, divisor * before, np.abs(value),
    )  # fmt: skip
    shape = (arms.shape[0], -1, PEOPLE_A_DAY)
    return np.array(
        [
            [np.where(mask, part, 0).reshape(shape).sum(axis=2).cumsum(axis=1) for part in (mask, *products)]
            for mask in (~arms, arms)
        ]
    )


def look(sums: np.ndarray, run: int, day: int) -> EffectEstimate:
    control, treated = (ValueSums(int(side[0, run, day]), *side[1:, run, day].tolist()) for side in sums)
    return compare_values(control, treated)


def count_decided(kind: str, seed: int) -> int:
    rng = np.random.default_rng(seed)
    decided = 0
    for _ in range(10):
        arms = rng.random((RUNS // 10, USERS), np.float32) < 0.5
        sums = sums_by_day(KINDS[kind](rng, RUNS // 10, USERS), arms)
        decided += sum(any(look(sums, run, day).decided for day in range(DAYS)) for run in range(RUNS // 10))
    return decided


@pytest.mark.parametrize("kind", KINDS)
def test_of_1000_equal_variants_looked_at_daily_at_most_5_percent_are_decided(kind: str) -> None:
    decided = count_decided(kind, seed=len(kind))
    assert decided <= RUNS * 0.05


def test_of_1000_equal_conversion_rates_looked_at_daily_at_most_5_percent_are_decided() -> None:
    rng = np.random.default_rng(11)
    shape = (RUNS, DAYS)
    users = rng.binomial(PEOPLE_A_DAY, 0.5, shape)
    parts = np.array([users, PEOPLE_A_DAY - users])
    people, converted = parts.cumsum(axis=2), rng.binomial(parts, 0.05).cumsum(axis=2)

    def is_decided(run: int, day: int) -> bool:
        control, treated = (
            VariantSample.from_conversions(int(people[arm, run, day]), int(converted[arm, run, day]))
            for arm in (0, 1)
        )
        return compare_samples(control, treated).decided

    decided = sum(any(is_decided(run, day) for day in range(DAYS)) for run in range(RUNS))
    assert decided <= RUNS * 0.05


@pytest.mark.parametrize("correlation", [0.3, 0.6, 0.9])
def test_cuped_shrinks_the_interval_by_the_correlation_with_the_time_before(correlation: float) -> None:
    rng = np.random.default_rng(round(correlation * 10))
    users = 20_000
    before = rng.normal(10.0, 2.0, users)
    value = 5 + correlation * before / 2 + sqrt(1 - correlation**2) * rng.normal(0.0, 1.0, users)
    treated = rng.random(users) < 0.5

    def width(earlier: np.ndarray) -> float:
        sides = (ValueSums.from_users(value[mask], None, earlier[mask]) for mask in (~treated, treated))
        effect = compare_values(*sides)
        return effect.high - effect.low

    shrinking = width(before) / width(np.zeros(users))
    assert shrinking == pytest.approx(sqrt(1 - correlation**2), rel=0.05)


def test_the_intervals_of_a_ratio_hold_its_true_difference() -> None:
    """The variance of a ratio whose denominator varies is that of repeated experiments, not that of single lists."""
    rng = np.random.default_rng(5)
    runs, users = 1_000, 2_000
    activity = rng.gamma(1.0, 1.0, (2, runs, users))
    lists = 1 + rng.poisson(4 * activity)
    lift = np.array([1.0, 1.2])[:, None, None]
    clicks = rng.binomial(lists, np.clip(0.05 * activity * lift, 0, 1))
    truth = 0.2 * (0.05 * (1 + 4 * 2)) / 5
    nothing = np.zeros(users)
    effects = [
        compare_values(
            *(
                ValueSums.from_users(clicks[arm, run].astype(float), lists[arm, run].astype(float), nothing)
                for arm in (0, 1)
            )
        )
        for run in range(runs)
    ]
    covered = sum(effect.low <= truth <= effect.high for effect in effects)
    spread = float(np.std([effect.value for effect in effects]))
    sides = [
        ValueSums.from_users(clicks[arm, 0].astype(float), lists[arm, 0].astype(float), nothing)
        for arm in (0, 1)
    ]
    estimated = sqrt(sum(side.moments()[0] / users for side in sides))
    of_single_lists = sqrt(sum(side.mean * (1 - side.mean) / side.per for side in sides))
    assert covered >= 0.95 * runs
    assert estimated == pytest.approx(spread, rel=0.1)
    assert of_single_lists < 0.8 * spread


def test_a_value_with_few_users_or_few_payers_has_no_interval() -> None:
    rng = np.random.default_rng(3)
    nothing = np.zeros(5_000)
    spent = np.where(rng.random(5_000) < 0.002, 50.0, 0.0)
    effect = compare_values(*(ValueSums.from_users(part, None, nothing) for part in (spent, spent + 0)))
    assert not isfinite(effect.low)
    assert not effect.decided
    few = ValueSums.from_users(np.ones(50), None, np.zeros(50))
    assert not compare_values(few, few).decided
    empty = ValueSums.from_users(np.zeros(0), None, np.zeros(0))
    assert compare_values(empty, few).p_value == 1.0


def test_the_sums_of_two_parts_are_those_of_all_users() -> None:
    rng = np.random.default_rng(2)
    value, per, before = rng.random((3, 100))
    parts = [ValueSums.from_users(value[at], per[at], before[at]) for at in (slice(0, 40), slice(40, 100))]
    whole = ValueSums.from_users(value, per, before)
    assert (parts[0] + parts[1]).mean == pytest.approx(whole.mean)
    assert (parts[0] + parts[1]).moments() == pytest.approx(whole.moments())


def test_p_values_are_adjusted_as_scipy_does_it() -> None:
    rng = np.random.default_rng(4)
    for count in (1, 2, 7, 40):
        p_values = rng.random(count) ** 3
        expected = stats.false_discovery_control(p_values, method="bh")
        assert adjust_p_values(p_values.tolist()) == pytest.approx(expected.tolist())
    assert adjust_p_values([]) == []
    assert adjust_p_values([0.01, 0.02, 0.03]) == pytest.approx([0.03, 0.03, 0.03])
