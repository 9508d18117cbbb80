"""Selection of rows: those with the best scores, those of consecutive runs, and distinct ones."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from actors.vectors.types import Floats, Rows, Scores

# Share of possible rows below which removing the others first is faster.
_MANY = 0.7

Number = TypeVar("Number", bound=np.generic)


def best_rows(scores: Scores | Floats, count: int) -> Rows:
    """Return the rows with the best scores, best first and equal ones by row, without rows at -inf.

    Shapes:
        scores: float32 or float64 [n]
        returns: int64 [m], m <= count
    Cost:
        20 us for 10,000, 0.15 ms for 100,000
    """
    if count <= 0:
        return np.zeros(0, np.int64)
    possible = scores > -np.inf
    if np.count_nonzero(possible) < _MANY * len(scores):
        # a partition with many equal values is 20 times slower, so rows at -inf are removed before
        rows = np.flatnonzero(possible)
        best: Rows = rows[_sort_rows(scores[rows], count)]
        return best
    top = _sort_rows(scores, count)
    return top[: np.count_nonzero(possible[top])]


def best_few(scores: Scores | Floats, count: int) -> Rows:
    """Return the positions of the best of a few scores, best first and equal ones by position, without those at -inf.

    Shapes:
        scores: float32 or float64 [n]
        returns: int64 [m], m <= count
    Cost:
        6 us for 100, most of it call overhead
    """
    if count <= 0:
        return np.zeros(0, np.int64)
    top = _sort_rows(scores, count)
    return top[scores[top] > -np.inf]


def expand_runs(first: Rows, lengths: Rows) -> Rows:
    """Return the positions in consecutive runs: first, first + 1 and so on, for each length.

    Shapes:
        first, lengths: int64 [k]
        returns: int64 [sum of lengths]
    """
    total = int(lengths.sum())
    ends = np.cumsum(lengths)
    shift: Rows = np.repeat(first - (ends - lengths), lengths)
    return np.arange(total, dtype=np.int64) + shift


def _sort_rows(scores: Scores | Floats, count: int) -> Rows:
    if len(scores) <= count:
        every: Rows = np.argsort(-scores, kind="stable")
        return every
    top = np.argpartition(scores, len(scores) - count)[len(scores) - count :]
    top.sort()
    kept = scores[top]
    lowest = kept.min()
    if np.count_nonzero(scores >= lowest) > count:
        # Equal scores by row, so that a longer list begins with the shorter one: pages then fit together.
        last = kept == lowest
        top[last] = np.flatnonzero(scores == lowest)[: np.count_nonzero(last)]
    best: Rows = top[np.argsort(-kept, kind="stable")]
    return best


def distinct_values(values: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return the distinct values in ascending order.

    `np.unique` hashes numbers since numpy 2.3, and then takes 60 to 160 times as long for a million of them.

    Shapes:
        values: [m]; returns: [d], d <= m
    Cost:
        2,000,000 integers: 12 ms
    """
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def distinct_pairs(first: Rows, second: Rows) -> tuple[Rows, Rows]:
    """Return the distinct pairs of two columns, by the first column and then by the second.

    Shapes:
        first, second: int64 [m], the second 0 or more, and the product of their ranges below 2 ** 63
        returns: int64 [d] and int64 [d], d <= m
    """
    width = int(second.max(initial=0)) + 1
    left, right = np.divmod(distinct_values(first.astype(np.int64) * width + second), width)
    return left, right
