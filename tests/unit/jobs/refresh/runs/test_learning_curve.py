"""Learning curves: fewer training users, shorter histories, the same test."""

from __future__ import annotations

import numpy as np

from actors.models.user_histories import UserHistories
from jobs.refresh.evaluation.plots import draw_reports
from jobs.refresh.evaluation.reports import list_curve_points, markdown_from_reports
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.runs.measurements.learning_curve import shorten_histories
from jobs.refresh.runs.version_comparison import evaluate_recipe
from tests.unit.jobs.refresh.test_training import circles


def test_the_newest_events_of_a_history_remain() -> None:
    histories = UserHistories.of_lists([[1, 2, 3, 4], [], [5]], 9)
    short = shorten_histories(histories, 2)
    assert short.items.tolist() == [3, 4, 5]
    assert short.starts.tolist() == [0, 2, 2, 3]
    assert shorten_histories(histories, 10).items.tolist() == histories.items.tolist()


def test_more_users_and_longer_histories_are_compared_with_everything() -> None:
    report = evaluate_recipe(circles(), load_recipe_file("fast"), "leave_last_out", learning_curve=True)
    curve = report.learning_curve
    assert curve is not None
    labels = [label for label, _ in list_curve_points(curve)]
    assert labels[:4] == ["10% of the users", "25% of the users", "50% of the users", "100% of the users"]
    assert labels[-1] == "all events"
    complete = curve.data[-1]
    assert complete.mean == report.figures["ndcg@10"] == curve.history[-1].mean
    assert complete.difference == complete.difference_low == 0.0
    events = [point.events for point in curve.data]
    assert events == sorted(events)
    assert curve.users == report.users
    for point in (*curve.data, *curve.history):
        assert point.low <= point.mean <= point.high
    assert "| 25% of the users |" in markdown_from_reports([report], "shop/default")
    assert np.isfinite([point.mean for _, point in list_curve_points(curve)]).all()


def test_a_report_shows_tests_and_calibration() -> None:
    report = evaluate_recipe(circles(), load_recipe_file("fast"), "leave_last_out")
    assert report.learning_curve is None
    assert report.tests is not None
    assert {row.against for row in report.tests.rows} == {"popularity"}
    assert report.calibration is not None
    assert report.calibration.users == report.users
    text = markdown_from_reports([report], "shop/default")
    assert "| popularity | ndcg@10 |" in text
    assert "Expected calibration error" in text
    assert "leave_last_out-calibration" in draw_reports([report])
