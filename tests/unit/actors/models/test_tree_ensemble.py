"""Trees predict what LightGBM predicts, to the last bit, and a tree written by hand says what its conditions say."""

from __future__ import annotations

import numpy as np
import pytest

from actors.models.tree_ensemble import MOST_LEAVES, TreeArrays, TreeEnsemble
from actors.vectors.types import Floats
from jobs.refresh.learners.reranker import RankingRows, RerankerRecipe, export_trees, train_trees

PLACES = 20


def logged_rows(lists: int, seed: int) -> RankingRows:
    """Make rows with gaps, coarse values, and clicks that two columns explain."""
    rng = np.random.default_rng(seed)
    count = lists * PLACES
    rows = rng.normal(size=(count, 14))
    rows[:, 3] = np.round(rows[:, 3], 1)
    rows[rng.random(rows.shape) < 0.05] = np.nan
    rows[:, 5] = rng.normal(size=count)  # without gaps: a later one counts as 0
    places = np.tile(np.arange(PLACES), lists)
    liked = 1 / (1 + np.exp(1 - 2 * np.nan_to_num(rows[:, 1]) - rows[:, 5]))
    clicks = rng.random(count) < liked / (1 + places / 2)
    return RankingRows(rows, np.nan_to_num(rows[:, 0]), np.repeat(np.arange(lists), PLACES), places, clicks)


def edge_rows(arrays: TreeArrays, rows: Floats) -> Floats:
    """Put thresholds into rows: a value at a threshold goes left."""
    changed = rows.copy()
    # LightGBM takes values below 1e-35 as 0, so a threshold beside 0 is no value.
    for at in np.flatnonzero(np.abs(arrays.thresholds) > 1e-30):
        changed[at % len(rows), arrays.features[at]] = arrays.thresholds[at]
    return changed


@pytest.mark.parametrize("leaves", [2, 15, MOST_LEAVES])
def test_predictions_equal_those_of_lightgbm(leaves: int) -> None:
    pytest.importorskip("lightgbm")
    data = logged_rows(1_000, 3)
    booster = train_trees(RerankerRecipe(leaves=leaves), data, 1)
    trees = TreeEnsemble(export_trees(booster))
    assert len(trees.arrays) == 100
    gaps = np.where(np.random.default_rng(4).random((500, 14)) < 0.5, np.nan, data.rows[:500])
    for rows in (data.rows, edge_rows(trees.arrays, data.rows), gaps, np.full((2, 14), np.nan)):
        np.testing.assert_array_equal(trees.predict(rows), booster.predict(rows))


def test_equal_rows_give_equal_trees() -> None:
    pytest.importorskip("lightgbm")
    first, second = (export_trees(train_trees(RerankerRecipe(), logged_rows(300, 5), 7)) for _ in range(2))
    for name in ("starts", "features", "thresholds", "missing_left", "left_leaves", "leaves"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()


def test_conditions_lead_to_leaves() -> None:
    # x0 <= 1 ? (x1 <= 5, unknown left ? 10 : 20) : 30; then a tree of one leaf
    arrays = TreeArrays(
        starts=np.array([0, 2, 2]),
        leaf_starts=np.array([0, 3, 4]),
        features=np.array([0, 1]),
        thresholds=np.array([1.0, 5.0]),
        missing_left=np.array([False, True]),
        left_leaves=np.array([0b011, 0b001], np.uint16),
        leaves=np.array([10.0, 20.0, 30.0, 0.5]),
    )
    nan = np.nan
    rows = np.array([[1, 5], [1, 5.1], [1.1, 0], [nan, 0], [0, nan]], np.float64)
    np.testing.assert_array_equal(TreeEnsemble(arrays).predict(rows), [10.5, 20.5, 30.5, 30.5, 10.5])
    assert len(TreeEnsemble(arrays).predict(rows[:0])) == 0
