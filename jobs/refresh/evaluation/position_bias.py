"""How often people look at each place of a list, and what an order of the same products would earn.

The click model is the position-based one: a click needs a look at the place and a liking of the product. Both are
estimated by expectation maximisation. Likings depend on the score and on the mean score of the list: a product with the
same score stands lower in a list of better ones (Wang et al., Position Bias Estimation for Unbiased
Learning to Rank in Personal Search, WSDM 2018). A click then counts by the inverse of the look at its place (Joachims,
Swaminathan and Schnabel, Unbiased Learning-to-Rank with Biased Feedback, WSDM 2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from actors.vectors.types import Floats, Mask, Rows

# Quantiles of scores and of list means; a liking is estimated for each pair of them.
_SCORE_BINS = 20
_MEAN_BINS = 5
_BINS = _SCORE_BINS * _MEAN_BINS
_ROUNDS = 200
_LEAST_LOOK = 0.05
"Looks are not taken to be rarer than this, relative to the best place; a single click would outweigh many."
_Z = 1.959963985


@dataclass(frozen=True, slots=True)
class RankingComparison:
    """Paired difference of two orders of the same lists: the discounted share of likings, 1 if all are at the top."""

    before: float
    after: float
    low: float
    "Lower bound of the 95 % interval of the difference, clustered by person."
    high: float
    lists: int
    people: int


def estimate_examination(lists: Rows, places: Rows, scores: Floats, clicks: Mask) -> Floats:
    """Return how often each place is looked at, relative to the place with the most looks.

    Shapes:
        lists, places: int64 [m], from 0; scores: float64 [m], of the blend; clicks: bool [m]
        returns: float64 [largest place + 1]
    """
    count = int(places.max(initial=0)) + 1
    averages = np.bincount(lists, scores)[lists] / np.maximum(np.bincount(lists)[lists], 1)
    cells = places * _BINS + _bin(scores, _SCORE_BINS) * _MEAN_BINS + _bin(averages, _MEAN_BINS)
    shown = np.bincount(cells, minlength=count * _BINS).reshape(count, _BINS).astype(np.float64)
    clicked = np.bincount(cells, clicks, count * _BINS).reshape(count, _BINS)
    # A usual curve to start from: looks fall with the place.
    looks = 1 / np.log2(2.0 + np.arange(count))
    likings = np.full(_BINS, 0.5)
    for _ in range(_ROUNDS):
        chance = np.outer(looks, likings)
        # No click: not looked at, or not liked; the next two lines share it by Bayes' rule. Shape [places,
        # bins].
        missed = (shown - clicked) / np.maximum(1 - chance, 1e-12)
        looked = clicked + missed * looks[:, None] * (1 - likings)
        liked = clicked + missed * likings * (1 - looks[:, None])
        looks = looked.sum(axis=1) / np.maximum(shown.sum(axis=1), 1e-12)
        likings = liked.sum(axis=0) / np.maximum(shown.sum(axis=0), 1e-12)
    # Only ratios are identified: looks times two and likings by two give the same clicks.
    relative: Floats = np.maximum(looks / max(float(looks.max(initial=0.0)), 1e-12), _LEAST_LOOK)
    return relative


def compare_rankings(
    lists: Rows, places: Rows, clicks: Mask, people: Rows, looks: Floats, before: Floats, after: Floats
) -> RankingComparison:
    """Compare two orders of logged lists by their clicks, corrected for the places at which they were shown.

    Shapes:
        lists, places: int64 [m], lists ascending from 0; clicks: bool [m]; people: int64 [t], of each list
        looks: float64 [places]; before, after: float64 [m], scores that order each list
    """
    count = len(people)
    # Inverse propensity: a click at a place that few look at stands for many likings.
    weights = np.where(clicks, 1 / looks[places], 0.0)
    total = max(float(weights.sum()), 1e-12)
    gains = [weights / np.log2(2.0 + _rank_in_lists(lists, places, scores)) for scores in (before, after)]
    first, second = (float(gain.sum()) / total for gain in gains)
    difference = second - first
    # Delta method of a ratio: the weight of all clicks is random as well.
    by_list = np.bincount(lists, gains[1] - gains[0] - difference * weights, count) / total
    persons = np.bincount(np.unique(people, return_inverse=True)[1], by_list)
    number = len(persons)
    error = sqrt(float(np.square(persons).sum()) * number / (number - 1)) if number > 1 else inf
    return RankingComparison(first, second, difference - _Z * error, difference + _Z * error, count, number)


def _bin(values: Floats, count: int) -> Rows:
    """Return the number of the quantile of each value, 0 to count - 1."""
    edges: Floats = np.quantile(values, np.linspace(0, 1, count + 1)[1:-1]) if len(values) else values
    return np.searchsorted(edges, values).astype(np.int64)


def _rank_in_lists(lists: Rows, places: Rows, scores: Floats) -> Rows:
    """Return the rank of each product in its list, from 0; equal scores keep their order."""
    # `lexsort` sorts by its last key first: by list, then by score, then by place.
    order = np.lexsort((places, -scores, lists))
    firsts = np.searchsorted(lists, lists)
    ranks = np.empty(len(lists), np.int64)
    ranks[order] = np.arange(len(lists)) - firsts[order]
    return ranks
