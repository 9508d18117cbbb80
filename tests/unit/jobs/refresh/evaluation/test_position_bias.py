"""Looks at places are estimated from clicks alone, and orders are compared by likings, not by places."""

from __future__ import annotations

import numpy as np
import pytest

from actors.vectors.types import Floats
from jobs.refresh.evaluation.position_bias import RankingComparison, compare_rankings, estimate_examination

PLACES, LISTS = 10, 6_000
LOOKS = (1.0 + np.arange(PLACES)) ** -0.7


class Lists:
    """Lists in the order of noisy scores; likings follow the true ones."""

    def __init__(self, seed: int, lists: int = LISTS) -> None:
        rng = np.random.default_rng(seed)
        liking = rng.random((lists, PLACES)) * rng.random((lists, 1))
        score = liking + 0.3 * rng.normal(size=liking.shape)
        order = np.argsort(-score, axis=1)
        self.liking = np.take_along_axis(liking, order, 1).ravel()
        self.score = np.take_along_axis(score, order, 1).ravel()
        self.lists = np.repeat(np.arange(lists), PLACES)
        self.places = np.tile(np.arange(PLACES), lists)
        self.clicks = rng.random(lists * PLACES) < self.liking * LOOKS[self.places]
        self.people = rng.integers(0, lists // 3, lists)
        self.noise = rng.random(lists * PLACES)

    def compare(self, after: Floats, looks: Floats = LOOKS) -> RankingComparison:
        return compare_rankings(self.lists, self.places, self.clicks, self.people, looks, self.score, after)


def test_looks_are_those_of_the_simulation() -> None:
    made = Lists(1)
    looks = estimate_examination(made.lists, made.places, made.score, made.clicks)
    np.testing.assert_allclose(looks, LOOKS, atol=0.08)
    assert looks.max() == 1.0


def test_the_true_order_is_better_and_a_random_one_worse() -> None:
    made = Lists(2)
    assert made.compare(made.liking).low > 0
    assert made.compare(made.noise).high < 0
    same = made.compare(made.score)
    assert (same.before, same.low, same.high) == (same.after, 0.0, 0.0)


def test_without_a_correction_the_shown_order_would_look_best() -> None:
    made = Lists(3)
    equal = np.ones(PLACES)
    corrected, plain = made.compare(made.liking), made.compare(made.liking, equal)
    truth = _discounted(made, made.liking) - _discounted(made, made.score)
    assert corrected.low < truth < corrected.high
    assert plain.high < truth


def _discounted(made: Lists, scores: Floats) -> float:
    """Return the discounted share of the true likings in an order."""
    liking, order = made.liking.reshape(-1, PLACES), np.argsort(-scores.reshape(-1, PLACES), axis=1)
    gains = np.take_along_axis(liking, order, 1) / np.log2(2.0 + np.arange(PLACES))
    return float(gains.sum() / liking.sum())


def test_intervals_cover_the_truth() -> None:
    covered = 0
    for seed in range(100):
        made = Lists(100 + seed, 600)
        truth = _discounted(made, made.noise) - _discounted(made, made.score)
        compared = made.compare(made.noise)
        covered += compared.low <= truth <= compared.high
    assert covered >= 93


def test_no_lists_are_no_error() -> None:
    none = np.zeros(0, np.int64)
    looks = estimate_examination(none, none, np.zeros(0), np.zeros(0, np.bool_))
    assert looks.tolist() == [pytest.approx(0.05)]
