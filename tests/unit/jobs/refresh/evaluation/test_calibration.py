"""Calibration: predicted probabilities against observed rates."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.refresh.evaluation.calibration import (
    ScoredPlaces,
    build_calibration,
    calibrate_scores,
    describe_calibration,
    summarize_calibration,
)


def _places(count: int = 2_000, depth: int = 10) -> tuple[ScoredPlaces, np.ndarray]:
    rng = np.random.default_rng(4)
    scores = -np.sort(-rng.normal(2.0, 1.0, (count, depth)), axis=1)
    probabilities = 1 / (1 + np.exp(-(1.5 * scores - 5.0)))
    hits = rng.random((count, depth)) < probabilities
    return ScoredPlaces(scores.astype(np.float32), hits, np.ones((count, depth), np.bool_)), probabilities


def test_the_fit_recovers_true_probabilities() -> None:
    places, probabilities = _places()
    assert np.abs(calibrate_scores(places) - probabilities).mean() < 0.01


def test_true_probabilities_are_calibrated_and_halved_ones_are_not() -> None:
    places, probabilities = _places()
    good = summarize_calibration(places, probabilities)
    assert good.error < 0.01
    for row in good.rows:
        assert row.low <= row.observed <= row.high
    assert sum(row.places for row in good.rows) == places.hits.size
    assert good.brier < good.brier_of_mean
    halved = summarize_calibration(places, probabilities / 2)
    assert halved.error == pytest.approx(probabilities.mean() / 2, abs=0.01)
    assert halved.error_low > good.error_high


def test_places_without_an_item_do_not_count() -> None:
    places, probabilities = _places()
    used = places.used.copy()
    used[:, 5:] = False
    fewer = summarize_calibration(ScoredPlaces(places.scores, places.hits, used), probabilities)
    assert sum(row.places for row in fewer.rows) == 5 * len(used)


def test_intervals_draw_people_not_their_lists() -> None:
    places, probabilities = _places(400)
    often = [np.repeat(array, 9, axis=0) for array in (places.scores, places.hits, places.used)]
    repeated = np.repeat(probabilities, 9, axis=0)
    people = np.repeat(np.arange(400), 9)
    lists = summarize_calibration(ScoredPlaces(*often), repeated).rows[5]
    persons = summarize_calibration(ScoredPlaces(*often, people), repeated).rows[5]
    assert persons.observed == lists.observed
    widths = [row.high - row.low for row in (lists, persons)]
    assert widths[1] / widths[0] == pytest.approx(3, rel=0.2)


def test_too_few_relevant_places_give_no_table() -> None:
    places, _ = _places(count=40)
    assert build_calibration(ScoredPlaces(places.scores, np.zeros_like(places.hits), places.used)) is None


def test_scores_that_separate_perfectly_stay_finite() -> None:
    hits = np.zeros((60, 10), np.bool_)
    hits[:, 0] = True
    scores = np.where(hits, np.float32(9.0), np.float32(1.0))
    calibration = build_calibration(ScoredPlaces(scores, hits, np.ones_like(hits)))
    assert calibration is not None
    assert calibration.error < 0.01
    assert "first 10 places of 60 users" in describe_calibration(calibration)
