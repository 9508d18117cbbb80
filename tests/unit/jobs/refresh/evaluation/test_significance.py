"""Paired tests: which p they give, and how it is corrected."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jobs.refresh.evaluation.evaluate import EvaluationResult, bootstrap_interval
from jobs.refresh.evaluation.significance import correct_p, run_paired_tests, sign_flip_p


def _result(figures: dict[str, np.ndarray]) -> EvaluationResult:
    count = len(next(iter(figures.values())))
    return EvaluationResult("by time", 10, figures, np.ones(count, np.int64), np.ones(5, np.bool_), 5)


def test_p_of_few_users_is_that_of_all_sign_patterns() -> None:
    differences = np.array([[1.0, 2.0, 3.0, 4.0, 0.0], [1.0, -1.0, 1.0, -1.0, 0.0]])
    exact = [2 / 16, 1.0]
    assert sign_flip_p(differences, np.random.default_rng(1)) == pytest.approx(exact, abs=0.02)


def test_p_is_uniform_without_a_difference() -> None:
    rng = np.random.default_rng(2)
    chances = sign_flip_p(rng.normal(size=(300, 60)), rng)
    assert 0.02 < (chances < 0.05).mean() < 0.09
    assert 0.4 < (chances < 0.5).mean() < 0.6


def test_users_without_a_difference_have_no_influence() -> None:
    assert sign_flip_p(np.zeros((2, 40)), np.random.default_rng(1)).tolist() == [1.0, 1.0]


def test_a_person_who_is_evaluated_often_counts_once() -> None:
    rng = np.random.default_rng(5)
    ours = np.repeat(rng.normal(0.1, 1.0, 40), 25)
    several = np.repeat(np.arange(40), 25)
    clicks = _result({"ndcg@10": ours})
    people = replace(clicks, people=several)
    other = _result({"ndcg@10": np.zeros(1_000)})
    (by_click,), (by_person,) = (run_paired_tests(result, {"x": other}).rows for result in (clicks, people))
    assert (by_click.users, by_person.users) == (1_000, 40)
    assert by_person.difference == by_click.difference
    widths = [row.high - row.low for row in (by_click, by_person)]
    assert widths[1] / widths[0] == pytest.approx(5, rel=0.2), "the root of the 25 events of a person"
    (single,) = run_paired_tests(
        _result({"ndcg@10": ours[::25]}), {"x": _result({"ndcg@10": np.zeros(40)})}
    ).rows
    assert by_person.p == pytest.approx(single.p, abs=0.03)


def test_persons_of_unequal_size_keep_the_mean_of_all_values() -> None:
    values = np.array([1.0, 1.0, 1.0, 0.0])
    low, high = bootstrap_interval(values, np.random.default_rng(1), np.array([7, 7, 7, 9]))
    assert (low, high) == (0.0, 1.0)


def test_the_correction_is_holms() -> None:
    assert correct_p(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert correct_p(np.array([0.6, 0.7])).tolist() == [1.0, 1.0]


def test_each_metric_is_tested_against_each_scorer() -> None:
    rng = np.random.default_rng(3)
    figures = rng.random(200)
    ours = _result({"ndcg@10": figures + 0.1, "mrr@10": figures, "novelty@10": figures + 3})
    other = _result(
        {
            "ndcg@10": figures + rng.normal(0, 0.1, 200),
            "mrr@10": figures + rng.normal(0, 0.1, 200),
            "novelty@10": figures,
        }
    )
    tests = run_paired_tests(ours, {"popularity": other, "serving": ours})
    rows = {(row.against, row.figure): row for row in tests.rows}
    assert list(rows) == [
        (name, figure) for name in ("popularity", "serving") for figure in ("ndcg@10", "mrr@10")
    ]
    better = rows["popularity", "ndcg@10"]
    assert better.difference == pytest.approx(0.1, abs=0.03)
    assert better.low > 0
    assert better.p == pytest.approx(1 / 5_000)
    assert better.p_corrected == pytest.approx(4 / 5_000)
    assert rows["popularity", "mrr@10"].p_corrected > 0.05
    assert rows["serving", "ndcg@10"].p == 1.0
