"""Paired tests of several metrics of the same users, corrected for the number of tests.

A person who is evaluated several times counts once: the differences of a person are summed, and share one sign.

The test flips the signs of the users' differences at random: without a difference between the scorers, each sign is as
likely as the other (Smucker, Allan and Carterette, A Comparison of Statistical Significance Tests for Information
Retrieval Evaluation, 2007). Holm's step-down correction bounds the chance of one false finding among all tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from actors.vectors.types import Floats
from jobs.refresh.evaluation.evaluate import EvaluationResult, bootstrap_interval, sum_by_person
from jobs.refresh.evaluation.report_models import PairedTests

_FLIPS = 4_999
"Random sign patterns; the smallest p is 1 / 5,000."
_BLOCK = 250
"Patterns at a time, which bounds the memory."
_SEED = 95


def run_paired_tests(ours: EvaluationResult, others: Mapping[str, EvaluationResult]) -> PairedTests:
    """Return paired tests of one evaluation against others of the same users: each metric of ranked lists.

    Novelty is left out, because less of it may be better.
    """
    names = [name for name in ours.figures if not name.startswith("novelty")]
    rng = np.random.default_rng(_SEED)
    rows: list[dict[str, Any]] = []
    for against, other in others.items():
        # [metrics, users], paired: users and their order are the same on both sides.
        differences = np.stack([ours.figures[name] - other.figures[name] for name in names])
        summed = differences if ours.people is None else sum_by_person(differences, ours.people)[0]
        chances = sign_flip_p(summed, rng)
        for name, difference, chance in zip(names, differences, chances.tolist(), strict=True):
            low, high = bootstrap_interval(difference, rng, ours.people)
            row = {"against": against, "figure": name, "users": summed.shape[1]}
            estimates = {"difference": difference.mean(), "low": low, "high": high, "p": chance}
            rows.append({**row, **{name: round(float(value), 6) for name, value in estimates.items()}})
    # Over all scorers and metrics together.
    corrected = correct_p(np.array([row["p"] for row in rows]))
    for row, chance in zip(rows, corrected.tolist(), strict=True):
        row["p_corrected"] = round(chance, 6)
    return PairedTests.model_validate({"method": METHOD, "rows": rows})


METHOD = (
    f"p: two-sided paired sign-flip test over users with {_FLIPS:,} random patterns; corrected p: by Holm's method for "
    "all tests of this table"
)


def sign_flip_p(differences: Floats, rng: np.random.Generator) -> Floats:
    """Return the two-sided p of each metric: the share of sign patterns whose mean is as far from 0 as the observed.

    Shapes:
        differences: float64 [m, q], metric by user
        returns: float64 [m]
    """
    # Users without a difference have no influence; all metrics share the patterns.
    differing = differences[:, (differences != 0).any(axis=0)].T
    observed = np.abs(differing.sum(axis=0))
    # From 1: the observed pattern is one of those that count, so that no p is 0.
    reached = np.ones(len(observed))
    for first in range(0, _FLIPS, _BLOCK):
        count = min(_BLOCK, _FLIPS - first)
        signs = rng.integers(0, 2, (count, len(differing)), np.int8).astype(np.float64) * 2 - 1
        # Sums that are equal but for their rounding count as reached.
        reached += (np.abs(signs @ differing) >= observed * (1 - 1e-9)).sum(axis=0)
    chances: Floats = reached / (_FLIPS + 1)
    return chances


def correct_p(chances: Floats) -> Floats:
    """Return p of several tests, corrected by Holm's step-down method.

    Shapes:
        chances: float64 [m]; returns: float64 [m]
    """
    order = np.argsort(chances, kind="stable")
    factors = np.arange(len(chances), 0, -1)
    corrected = np.empty(len(chances))
    # Never below an earlier one: Holm's method ends at the first test that it does not reject.
    corrected[order] = np.minimum(np.maximum.accumulate(chances[order] * factors), 1.0)
    return corrected
