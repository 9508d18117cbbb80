from __future__ import annotations

import numpy as np
import pytest

from jobs.refresh.data.split import Targets
from jobs.refresh.evaluation import metrics


def test_items_are_ranked_with_equals_in_the_order_of_their_rows() -> None:
    scores = np.array([[1, 3, 3, 0, 3], [5, -np.inf, 4, -np.inf, -np.inf]], np.float32)
    assert metrics.rank_top_items(scores, 3).tolist() == [[1, 2, 4], [0, 2, -1]]
    assert metrics.rank_top_items(scores, 2).tolist() == [[1, 2], [0, 2]]
    assert metrics.rank_top_items(scores, 9).tolist() == [[1, 2, 4, 0, 3], [0, 2, -1, -1, -1]]


def test_ranking_equals_sorting_everything() -> None:
    scores = np.random.default_rng(0).integers(0, 20, (50, 40)).astype(np.float32)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :7]
    np.testing.assert_array_equal(metrics.rank_top_items(scores, 7), expected)


def test_figures_of_a_list_worked_out_by_hand() -> None:
    lists = np.array([[4, 1, 3, 0], [2, 0, 1, 3]])
    targets = Targets(np.array([0, 2, 3]), np.array([1, 2, 2]))
    hits = metrics.mark_hits(lists, targets, 5)
    assert hits.tolist() == [[False, True, False, False], [True, False, False, False]]
    second = 1 / np.log2(3)
    assert metrics.ndcg(hits, targets.lengths, 3) == pytest.approx([second / (1 + second), 1])
    assert metrics.recall(hits, targets.lengths, 4).tolist() == [0.5, 1]
    assert metrics.hit_rate(hits, 1).tolist() == [0, 1]
    assert metrics.reciprocal_rank(hits, 4).tolist() == [0.5, 1]


def test_a_perfect_list_is_1_however_many_targets_there_are() -> None:
    targets = Targets(np.array([0, 6]), np.arange(6))
    hits = metrics.mark_hits(np.array([[5, 4, 3]]), targets, 9)
    assert metrics.ndcg(hits, targets.lengths, 3) == pytest.approx([1])


def test_places_that_hold_nothing_are_no_hits() -> None:
    hits = metrics.mark_hits(np.array([[-1, -1]]), Targets(np.array([0, 1]), np.array([0])), 5)
    assert not hits.any()


def test_rare_items_are_more_novel() -> None:
    lists = np.array([[0, 0], [1, 1], [1, -1]])
    novel = metrics.novelty(lists, np.array([99.0, 1.0]), 2)
    assert novel[1] == novel[2] > novel[0]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([3, 3, 3, 3], 0.0), ([0, 0, 0, 8], 0.75), ([1, 3], 0.25), ([0, 0], 0.0), ([], 0.0)],
)
def test_gini_is_the_mean_difference_over_twice_the_mean(counts: list[int], expected: float) -> None:
    values = np.array(counts, np.int64)
    assert metrics.gini(values) == pytest.approx(expected)
    if values.sum():
        differences = np.abs(values[:, None] - values[None, :]).mean()
        assert metrics.gini(values) == pytest.approx(differences / (2 * values.mean()))
