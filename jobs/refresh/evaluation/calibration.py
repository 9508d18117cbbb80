"""Calibration: whether items with a predicted probability of 10 % are relevant in 10 % of the cases.

The score of a blend is no probability. A logistic function of score and place makes one of it; it is fitted on one
half of the users and judged on the other, and the other way round. Scores of single components have no scale that
users share, so only the blend is judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from actors.vectors.types import Floats, Rows
from jobs.refresh.evaluation.metrics import HitMask
from jobs.refresh.evaluation.report_models import Calibration, CalibrationRow

FEWEST_HITS = 20
"Fewest relevant places for a report; with fewer, its rates say nothing."
_BINS = 10
_ROUNDS = 25
"Newton steps at most; the function of three parameters converges in fewer than ten."
_RIDGE = 1e-3
"Keeps the steps finite where score and place separate relevant places perfectly."
_RESAMPLES = 500
_SEED = 95


@dataclass(frozen=True, slots=True)
class ScoredPlaces:
    """The scores of the first places of each user, and which of them are relevant.

    Shapes:
        scores: float32 [q, k]; hits: bool [q, k]; used: bool [q, k], false for places without an item
        people: int64 [q], the person of each user; None if every user is another person
    """

    scores: npt.NDArray[np.float32]
    hits: HitMask
    used: HitMask
    people: Rows | None = None

    def number_people(self) -> tuple[Rows, int]:
        """Return the number of each user's person, and how many there are.

        Shapes:
            returns: int64 [q], 0 to the count - 1
        """
        if self.people is None:
            return np.arange(len(self.scores)), len(self.scores)
        distinct, person = np.unique(self.people, return_inverse=True)
        return person, len(distinct)

    @classmethod
    def concatenate(cls, several: Sequence[ScoredPlaces], people: Rows | None = None) -> ScoredPlaces:
        """Concatenate the places of several groups of users; `people` are the people of all of them.

        Shapes:
            people: int64 [q]
        """
        return cls(
            np.concatenate([places.scores for places in several]),
            np.concatenate([places.hits for places in several]),
            np.concatenate([places.used for places in several]),
            people,
        )


def build_calibration(places: ScoredPlaces) -> Calibration | None:
    """Return the calibration of the first places, None if too few of them are relevant."""
    if int(places.hits[places.used].sum()) < FEWEST_HITS:
        return None
    return summarize_calibration(places, calibrate_scores(places))


def calibrate_scores(places: ScoredPlaces) -> Floats:
    """Return the probability of each place, from a logistic fit on the people of the other half.

    Shapes:
        returns: float64 [q, k]
    """
    count, depth = places.scores.shape
    # log2(place + 1): from place 1 to 3 is as far as from 3 to 7.
    rank = np.broadcast_to(np.log2(np.arange(depth) + 2.0), (count, depth))
    scores = np.where(places.used, places.scores, 0.0).astype(np.float64)
    # Equal scores have a deviation of 0, and would all become NaN.
    spread = float(scores[places.used].std()) or 1.0
    # Shape [q, k, 3]; the score in deviations, so one ridge fits any blend.
    inputs = np.stack((np.ones((count, depth)), scores / spread, rank), axis=-1)
    person, people = places.number_people()
    # By person: events of one person in both halves would judge a curve by what it was fitted on.
    half = (np.random.default_rng(_SEED).permutation(people) % 2 == 0)[person]
    probabilities = np.zeros((count, depth))
    for members in (half, ~half):
        fitted = places.used & ~members[:, None]
        weights = _fit_logistic(inputs[fitted], places.hits[fitted])
        probabilities[members] = _sigmoid(inputs[members] @ weights)
    return probabilities


def summarize_calibration(places: ScoredPlaces, probabilities: Floats) -> Calibration:
    """Return a reliability table with equally many places in each row, and the expected calibration error.

    The expected calibration error is the mean distance between the predicted and the observed rate of a row, weighted
    by its places. Intervals resample people.

    Shapes:
        probabilities: float64 [q, k]
    """
    person, people = places.number_people()
    owner = person[np.nonzero(places.used)[0]]
    predicted = probabilities[places.used]
    observed = places.hits[places.used].astype(np.float64)
    # Equally many places in each row: most probabilities are small, and equal widths would leave rows
    # empty.
    edges = np.quantile(predicted, np.linspace(0, 1, _BINS + 1)[1:-1])
    row = np.searchsorted(edges, predicted, side="right")
    # Equal predictions leave some rows empty: dropped here, or their rates would divide by 0.
    rows, row = np.unique(row, return_inverse=True)
    # Person and row as one number: sums of each person, from which the bootstrap draws.
    cells = owner * len(rows) + row
    shape = (people, len(rows))
    sums: Floats = np.stack(
        [
            np.bincount(cells, values, shape[0] * shape[1]).reshape(shape)
            for values in (np.ones(len(cells)), predicted, observed)
        ]
    )
    total: Floats = sums.sum(axis=1)
    resampled = _resample_users(sums)
    rates = resampled[:, 2] / np.maximum(resampled[:, 0], 1.0)
    low, high = np.quantile(rates, (0.025, 0.975), axis=0)
    error_low, error_high = np.quantile(
        [_expected_error(*drawn) for drawn in resampled], (0.025, 0.975)
    ).tolist()
    table = [
        CalibrationRow(
            places=int(total[0, at]),
            predicted=round(total[1, at] / total[0, at], 6),
            observed=round(total[2, at] / total[0, at], 6),
            low=round(float(low[at]), 6),
            high=round(float(high[at]), 6),
        )
        for at in range(len(rows))
    ]
    brier = float(np.square(predicted - observed).mean())
    return Calibration(
        users=len(places.scores),
        depth=places.scores.shape[1],
        error=round(_expected_error(*total), 6),
        error_low=round(error_low, 6),
        error_high=round(error_high, 6),
        brier=round(brier, 6),
        # The score of a constant prediction of the mean.
        brier_of_mean=round(float(observed.mean() * (1 - observed.mean())), 6),
        rows=table,
    )


def describe_calibration(calibration: Calibration) -> str:
    """Return a sentence about the calibration of a report, without its full stop."""
    return (
        f"Expected calibration error {calibration.error:.4f} (95 % interval {calibration.error_low:.4f} to "
        f"{calibration.error_high:.4f}) over the first {calibration.depth} places of "
        f"{calibration.users:,} users; Brier score {calibration.brier:.4f}, of the mean rate alone "
        f"{calibration.brier_of_mean:.4f}"
    )


def _expected_error(places: Floats, predicted: Floats, observed: Floats) -> float:
    """Return the expected calibration error of rows of a reliability table.

    Shapes:
        places, predicted, observed: float64 [b], sums of each row
    """
    return float(np.abs(predicted - observed).sum() / max(places.sum(), 1.0))


def _resample_users(sums: Floats) -> Floats:
    """Return the sums of bootstrap samples of users.

    Shapes:
        sums: float64 [3, q, b]; returns: float64 [samples, 3, b]
    """
    rng = np.random.default_rng(_SEED)
    count = sums.shape[1]
    drawn = np.stack(
        [np.bincount(rng.integers(0, count, count), minlength=count) for _ in range(_RESAMPLES)]
    ).astype(np.float64)
    resampled: Floats = np.stack([drawn @ sums[at] for at in range(len(sums))], axis=1)
    return resampled


def _fit_logistic(inputs: Floats, relevant: npt.NDArray[np.bool_]) -> Floats:
    """Return the weights of a logistic regression, by Newton's method with a small ridge.

    Shapes:
        inputs: float64 [m, d]; relevant: bool [m]; returns: float64 [d]
    """
    # Half a hit and half a miss more: the logarithm below stays finite without any hit.
    rate = (relevant.sum() + 0.5) / (len(relevant) + 1.0)
    weights = np.zeros(inputs.shape[1])
    # Starts at the mean rate: Newton's method diverges from far away when hits are rare.
    weights[0] = np.log(rate / (1 - rate))
    for _ in range(_ROUNDS):
        predicted = _sigmoid(inputs @ weights)
        slope = inputs.T @ (relevant - predicted)
        # The constant is not shrunk: the mean prediction would else miss the observed rate.
        slope[1:] -= _RIDGE * weights[1:]
        curvature = (inputs * (predicted * (1 - predicted))[:, None]).T @ inputs + _RIDGE * np.eye(
            len(weights)
        )
        step = np.linalg.solve(curvature, slope)
        # Clipped: a flat region of the curve would give a huge step.
        weights = weights + np.clip(step, -2.0, 2.0)
        if float(np.abs(step).max()) < 1e-6:
            break
    return weights


def _sigmoid(values: Floats) -> Floats:
    # Bounded: `exp` must not overflow, and p (1 - p) must stay above 0 for Newton's method.
    probabilities: Floats = 1.0 / (1.0 + np.exp(-np.clip(values, -30.0, 30.0)))
    return probabilities
