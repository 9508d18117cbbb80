"""The order of categories and attribute values for one user."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

import numpy as np

from actors.recommender.ranking.pipeline_inputs import UserSignals
from actors.recommender.ranking.user_profile import UserProfile
from actors.recommender.state.engine_state import EngineState, ItemPriors
from actors.recommender.state.filtered_groups import FilteredGroups, sum_by_group
from actors.recommender.state.groups import Groups
from actors.vectors.row_selection import best_rows
from actors.vectors.types import Floats, Rows, Scores

V = TypeVar("V", bound=Hashable)

# T_g of equation 26 looks at so many of the best rows.
_LEADING_ROWS = 500
_PRIOR = 0.5
"Weight of the interactions of all users beside those of the user."
_BEST_SHARE = 0.3
"Weight of a group's products among the best beside the interactions with it."


def count_available(groups: Groups[V], filtered: FilteredGroups, excluded: Sequence[int]) -> Rows:
    """Count the products of every group that may be returned.

    Shapes:
        returns: int64 [groups]
    """
    if not excluded:
        return filtered.available_totals
    rows = np.unique(np.array(excluded, np.int64))
    return filtered.available_totals - sum_by_group(groups, rows, filtered.available[rows]).astype(np.int64)


def score_groups(
    groups: Groups[V], candidates: Rows, ranking: Scores, profile: UserProfile, popularity: Floats
) -> Floats:
    """Score groups by the recent interactions of the user, by popularity, and by their products among the best.

    Shapes:
        candidates: int64 [c], codes of groups; ranking: float32 [n]; popularity: float64 [groups]
        returns: float64 [c]

    Source:
        docs/concepts/scoring.md, equation 26
        `kiosk bench quality` on ml-latest-small: NDCG@3 .811 with these shares, .791 with equal ones
    """
    interest = sum_by_group(groups, profile.rows, profile.weights)
    leading = best_rows(ranking, _LEADING_ROWS)
    best = ranking[leading]
    # Scores may be negative; above the lowest of the best all addends are positive, the last one by 0.01.
    among_best = sum_by_group(groups, leading, best - best.min(initial=np.inf) + 0.01)
    counts = _compute_shares(interest)[candidates] + _PRIOR * _compute_shares(popularity)[candidates]
    # merit = z(I / sum I + 0.5 C / sum C) + 0.3 z(T) (equation 26)
    return _standardize(counts) + _BEST_SHARE * _standardize(among_best[candidates])


def sum_popularity(groups: Groups[V], user: UserSignals, state: EngineState, priors: ItemPriors) -> Floats:
    """Sum the popularity of every group's products, in the cohort of the user if one is known.

    Shapes:
        returns: float64 [groups]
    """
    if user.cohort is not None:
        return groups.sum_weights(user.cohort.vote_shares)
    return state.sum_group_popularity(groups, priors)


def _compute_shares(values: Floats) -> Floats:
    total = float(values.sum())
    shares: Floats = values / total if total > 0 else np.zeros(len(values))
    return shares


def _standardize(values: Floats) -> Floats:
    spread = float(values.std()) if len(values) else 0.0
    scaled: Floats = (values - values.mean()) / spread if spread > 0 else np.zeros(len(values))
    return scaled
