from __future__ import annotations

import numpy as np
import pytest

from actors.vectors.row_selection import best_few, best_rows, distinct_pairs, distinct_values


@pytest.mark.parametrize("out", [0.0, 0.1, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("count", [0, 1, 20, 200, 1_000, 5_000])
@pytest.mark.parametrize("digits", [7, 0])
def test_the_best_are_those_sorting_would_give(out: float, count: int, digits: int) -> None:
    rng = np.random.default_rng(7)
    # Rounded to whole numbers, most scores are equal to others.
    scores = rng.standard_normal(1_000).astype(np.float32).round(digits)
    scores[rng.random(1_000) < out] = -np.inf
    expected = [row for row in np.argsort(-scores, kind="stable").tolist() if scores[row] > -np.inf][:count]
    assert best_rows(scores, count).tolist() == expected
    assert best_few(scores, count).tolist() == expected


def test_of_nothing_nothing_is_best() -> None:
    assert best_rows(np.zeros(0, np.float32), 5).tolist() == []


def test_distinct_values_are_those_of_numpy() -> None:
    rng = np.random.default_rng(7)
    for values in (rng.integers(-50, 50, 1_000), np.zeros(0, np.int64), np.array([3], np.uint64)):
        distinct = distinct_values(values)
        np.testing.assert_array_equal(distinct, np.unique(values))
        assert distinct.dtype == values.dtype


def test_distinct_pairs_are_those_of_numpy() -> None:
    rng = np.random.default_rng(8)
    first = rng.integers(-3, 40, 2_000)
    second = rng.integers(0, 30, 2_000)
    expected = np.unique(np.stack((first, second)), axis=1)
    np.testing.assert_array_equal(np.stack(distinct_pairs(first, second)), expected)
    empty = np.zeros(0, np.int64)
    assert [len(column) for column in distinct_pairs(empty, empty)] == [0, 0]
