"""Off-policy estimates: what lists of another ranking would have earned, from a log of lists with propensities.

Values are rewards for each list. All three estimators treat the places of a list as independent, given the place
(S. Li et al., Offline Evaluation of Ranking Policies with Click Models, KDD 2018).

    ips     rewards of places where the policy shows the same product, weighted by 1 / propensity
    snips   the same, normalized by the mean weight of each place (Swaminathan and Joachims 2015)
    dr      a reward model for all places, corrected by weighted residuals of the same places (Dudik et al. 2011)

The reward model is fitted on other people than those whose places it predicts. Intervals are 95 % sandwich intervals,
clustered by person, because lists of a person depend on each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, sqrt

import numpy as np

from actors.vectors.types import Floats, Mask, Rows
from cluster.errors import Invalid

LEAST_SUPPORT = 0.95
"Least share of a policy's places at which the log shows its product with a positive probability."
LEAST_EFFECTIVE = 500
"Least effective number of places."
_Z = 1.959963985
_FOLDS = 5
_RIDGE = 1.0
_NEWTON_STEPS = 25
_PLANNED_SHARE = 0.1
_PLANNED_POOL = 100
_MODELED_PLACES = 20


@dataclass(frozen=True, slots=True)
class LoggedPlaces:
    """Lists that were shown, as one entry for each place; places of rules are left out.

    Shapes:
        lists, places: int64 [n], number of the list (ascending) and place in it, from 0
        propensities: float64 [n], NaN where the log has none
        rewards: float64 [n], for example 1 for a click
        people: int64 [t], number of the person of each list, from 0
        features: float64 [n, d], of the product shown, for the reward model
    """

    lists: Rows
    places: Rows
    propensities: Floats
    rewards: Floats
    people: Rows
    features: Floats
    days: float = 1.0
    "Days that the lists cover, for advice."


@dataclass(frozen=True, slots=True)
class PolicyPlaces:
    """What a policy shows at the same places.

    Shapes:
        matches: bool [n], the policy shows the same product
        supported: bool [n], the log can show the product of the policy there
        features: float64 [n, d], of the product that the policy shows
    """

    matches: Mask
    supported: Mask
    features: Floats
    is_exact: bool = True
    """False if `supported` is the most that is possible. Support is then the mean weight, an unbiased estimate: a place
    has the expected weight 1 if the log can show the product there, and else 0."""


@dataclass(frozen=True, slots=True)
class PolicySupport:
    """How well a log can judge a policy."""

    share: float
    "Share of the places whose product the log can show there."
    effective: float
    "Number of places with the same information, if all weights were equal."


@dataclass(frozen=True, slots=True)
class PolicyEstimate:
    """The estimated reward for each list, with its 95 % interval.

    Shapes:
        influence: float64 [t], of each list; their sum has the variance of the estimate
    """

    value: float
    low: float
    high: float
    influence: Floats


def estimate_policy(log: LoggedPlaces, policy: PolicyPlaces) -> dict[str, PolicyEstimate]:
    """Return the estimates by name: `ips`, `snips` and `dr`.

    Errors:
        Invalid: the log has no propensities, or can't support the policy; the message names the exploration that
        would help
    """
    check_support(log, policy)
    weights = np.where(policy.matches, 1 / log.propensities, 0.0)
    shown, chosen = _predict_rewards(log, policy.features)
    return {
        # V = mean over lists of sum over places of reward / propensity where both show the same product
        "ips": _sum_up(log, weights * log.rewards),
        "snips": _normalize(log, weights),
        # model of the policy's product + weight * (reward - model of the shown product)
        "dr": _sum_up(log, chosen + weights * (log.rewards - shown)),
    }


def measure_shown(log: LoggedPlaces) -> PolicyEstimate:
    """Return the reward of the lists as they were shown, explored products included."""
    return _sum_up(log, log.rewards)


def compare_estimates(first: PolicyEstimate, second: PolicyEstimate, people: Rows) -> PolicyEstimate:
    """Return the difference of two estimates from the same lists: far narrower than the two intervals.

    Shapes:
        people: int64 [t], as in the log
    """
    return _with_interval(first.value - second.value, first.influence - second.influence, people)


def check_support(log: LoggedPlaces, policy: PolicyPlaces) -> PolicySupport:
    """Return how well the log can judge a policy, and refuse one that it can't judge.

    Errors:
        Invalid: a propensity is missing or no probability, too many products of the policy have none at their places,
        or too few places match; the message names the exploration that would help
    """
    if not len(log.lists):
        raise Invalid("the log has no places that can be judged")
    if np.isnan(log.propensities).any():
        raise Invalid(
            "the log has lists without propensities; leave out lists with dithering or diversification"
        )
    if not ((log.propensities > 0) & (log.propensities <= 1)).all():
        # A product that was shown had a probability: one of 0 would weigh infinitely.
        raise Invalid("propensities must be above 0 and at most 1; leave out lists with others")
    weights = np.where(policy.matches, 1 / log.propensities, 0.0)
    support = float(np.mean(policy.supported))
    if not policy.is_exact:
        # E[weight] = 1 where the log can show the product, else 0: the mean estimates the true support.
        support = min(support, float(weights.mean()))
    if support < LEAST_SUPPORT:
        raise Invalid(
            f"the log can show {support:.1%} of the products of this ranking at their places, and {LEAST_SUPPORT:.0%} "
            f"are necessary; {_advise(log, policy)}, but never supports another order of the same products"
        )
    # (sum w)^2 / sum w^2 (Kish): equal weights count in full, a single large one counts as one.
    effective = float(weights.sum() ** 2 / max(np.square(weights).sum(), 1e-300))
    if effective < LEAST_EFFECTIVE:
        raise Invalid(
            f"the log has the information of {effective:.0f} places of this ranking, and {LEAST_EFFECTIVE} are "
            f"necessary; {_advise(log, policy)}"
        )
    return PolicySupport(support, effective)


def _advise(log: LoggedPlaces, policy: PolicyPlaces) -> str:
    """Name an exploration that would give the least effective number of places, at the traffic of the log.

    A place where the ranking differs has weight p R N / e with probability e / (R N). So the mean squared weight is
    1 - f + f R N / e, with f the share of such places, R the places of a list, N the pool, and e the share.
    """
    rows = float(np.max(log.places)) + 1 if len(log.places) else 1.0
    differing = 1 - float(np.mean(policy.matches))
    # E[w^2] = 1 - f + f R N / e
    square = 1 - differing + differing * rows * _PLANNED_POOL / _PLANNED_SHARE
    a_day = max(len(log.lists) / log.days, 1e-9)
    days = max(1, ceil(LEAST_EFFECTIVE * square / a_day))
    return (
        f"`kiosk engines explore APP ENGINE --share {_PLANNED_SHARE} --pool {_PLANNED_POOL}` would need about {days:,} "
        f"day{'s' * (days != 1)} at this traffic"
    )


def _sum_up(log: LoggedPlaces, values: Floats) -> PolicyEstimate:
    """Return the mean over lists of the summed values of their places."""
    count = len(log.people)
    totals = np.bincount(log.lists, values, count)
    value = float(totals.mean())
    return _with_interval(value, (totals - value) / count, log.people)


def _normalize(log: LoggedPlaces, weights: Floats) -> PolicyEstimate:
    """Return the self-normalized estimate: the weighted mean of each place, times the share of lists that have it."""
    count = len(log.people)
    places = log.places
    total = np.bincount(places, weights)
    share = np.bincount(places) / count
    rate = np.bincount(places, weights * log.rewards) / np.maximum(total, 1e-300)
    # Delta method; a list without a place has the influence of its absence.
    residual = share[places] * weights * (log.rewards - rate[places]) / np.maximum(total[places], 1e-300)
    value = float(share @ rate)
    influence = np.bincount(log.lists, residual + rate[places] / count, count) - value / count
    return _with_interval(value, np.asarray(influence, np.float64), log.people)


def _with_interval(value: float, influence: Floats, people: Rows) -> PolicyEstimate:
    """Add the sandwich interval: the contributions of a person are added before they are squared."""
    persons = np.bincount(people, influence)
    persons = persons[np.bincount(people) > 0]
    count = len(persons)
    # n / (n - 1) corrects for the mean, which was estimated from the same people.
    error = sqrt(float(np.square(persons).sum()) * count / (count - 1)) if count > 1 else inf
    return PolicyEstimate(value, value - _Z * error, value + _Z * error, influence)


def _predict_rewards(log: LoggedPlaces, chosen: Floats) -> tuple[Floats, Floats]:
    """Predict the rewards of the products shown and of those of the policy; each fold by a model of the others.

    Shapes:
        chosen: float64 [n, d]; returns: float64 [n], float64 [n]
    """
    shown = _design(log.places, log.features)
    other = _design(log.places, chosen)
    is_binary = bool(np.isin(log.rewards, (0.0, 1.0)).all())
    # By person: the model must not predict a reward that it was fitted on.
    folds = log.people[log.lists] % _FOLDS
    results = np.zeros((2, len(log.lists)))
    for fold in range(_FOLDS):
        inside = folds == fold
        weights = _fit_rewards(shown[~inside], log.rewards[~inside], is_binary=is_binary)
        for result, design in zip(results, (shown, other), strict=True):
            values = design[inside] @ weights
            result[inside] = _logistic(values) if is_binary else values
    return results[0], results[1]


def _design(places: Rows, features: Floats) -> Floats:
    """Return the inputs of the reward model: one column for each of the first twenty places, and the features."""
    width = min(_MODELED_PLACES, int(places.max()) + 1)
    # Shape [n, width + d]: one-hot places, and the last column for all places behind.
    return np.hstack([np.eye(width)[np.minimum(places, width - 1)], features])


def _logistic(values: Floats) -> Floats:
    # Beyond 30 the curve is flat in double precision, and exp could overflow.
    result: Floats = 1 / (1 + np.exp(-np.clip(values, -30, 30)))
    return result


def _fit_rewards(design: Floats, rewards: Floats, *, is_binary: bool) -> Floats:
    """Fit a ridge regression, logistic by Newton's method if all rewards are 0 or 1.

    Shapes:
        design: float64 [m, d]; rewards: float64 [m]; returns: float64 [d]
    """
    size = design.shape[1]
    weights = np.zeros(size)
    ridge = _RIDGE * np.eye(size)
    if not is_binary:
        return np.asarray(np.linalg.solve(design.T @ design + ridge, design.T @ rewards), np.float64)
    for _ in range(_NEWTON_STEPS):
        chances = _logistic(design @ weights)
        curve = chances * (1 - chances)
        # Newton's step: the gradient of the penalized log-likelihood over its negative Hessian.
        step = np.linalg.solve(
            (design * curve[:, None]).T @ design + ridge, design.T @ (rewards - chances) - _RIDGE * weights
        )
        weights += step
        if np.abs(step).max() < 1e-6:
            break
    return weights
