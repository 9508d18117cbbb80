"""Intervals that hold however often one looks."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from actors.experiments.statistics import VariantSample, check_split_ratio, compare_samples


def looks(rng: np.random.Generator, rates: tuple[float, float], users: int, every: int) -> bool:
    """Run an experiment and look at it again and again; was it ever decided?"""
    arm = rng.random(users) < 0.5
    converted = rng.random(users) < np.where(arm, rates[1], rates[0])
    for end in range(every, users + 1, every):
        treated, done = arm[:end], converted[:end]
        control = VariantSample.from_conversions(int((~treated).sum()), int((done & ~treated).sum()))
        other = VariantSample.from_conversions(int(treated.sum()), int((done & treated).sum()))
        if compare_samples(control, other).decided:
            return True
    return False


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
def test_looking_a_hundred_times_at_two_equal_variants_rarely_finds_a_difference(rate: float) -> None:
    rng = np.random.default_rng(round(rate * 1000))
    wrong = sum(looks(rng, (rate, rate), 10_000, 100) for _ in range(400))
    assert wrong / 400 <= 0.05


def test_a_real_difference_is_detected() -> None:
    rng = np.random.default_rng(4)
    detected = sum(looks(rng, (0.10, 0.14), 20_000, 500) for _ in range(50))
    assert detected >= 48


def test_the_interval_holds_the_truth_and_narrows() -> None:
    wide = compare_samples(VariantSample.from_conversions(500, 50), VariantSample.from_conversions(500, 70))
    narrow = compare_samples(
        VariantSample.from_conversions(50_000, 5_000), VariantSample.from_conversions(50_000, 7_000)
    )
    assert wide.low < 0.04 < wide.high
    assert not wide.decided
    assert narrow.decided
    assert narrow.high - narrow.low < wide.high - wide.low
    assert narrow.p_value < 1e-6 < wide.p_value


def test_too_few_readers_say_nothing() -> None:
    comparison = compare_samples(VariantSample.from_conversions(5, 0), VariantSample.from_conversions(5, 5))
    assert (comparison.low, comparison.high, comparison.decided, comparison.p_value) == (
        -inf,
        inf,
        False,
        1.0,
    )


def test_an_even_split_passes_at_every_look_and_a_skewed_one_does_not() -> None:
    rng = np.random.default_rng(9)
    alarms = 0
    for _ in range(300):
        arms = np.cumsum(rng.random(5_000) < 0.5)
        alarms += any(
            check_split_ratio([n - int(arms[n - 1]), int(arms[n - 1])], [1, 1]).mismatch
            for n in range(50, 5_001, 50)
        )
    assert alarms <= 2
    assert check_split_ratio([5_400, 4_600], [1, 1]).mismatch
    assert not check_split_ratio([9_050, 950], [9, 1]).mismatch


def test_the_slice_that_causes_a_mismatch_is_named() -> None:
    check = check_split_ratio(
        [5_000, 4_700], [1, 1], {"phone": [2_500, 2_490], "tablet": [600, 300], "desktop": [1_900, 1_910]}
    )
    assert check.mismatch
    assert check.slice == "tablet"


def test_a_variant_that_should_have_nobody_may_have_nobody() -> None:
    assert check_split_ratio([100, 1], [1, 0]).p_value == 0
    assert not check_split_ratio([100, 0], [1, 0]).mismatch
