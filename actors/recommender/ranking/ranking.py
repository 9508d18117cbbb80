"""The scores of all rows for one user, and the best of them without a look at most.

A score is the prior plus the personal score, and only few products have a large personal score. So the best rows are
among the first of the prior's order and those with a large personal score. All rows are added up only where a caller
needs all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actors.recommender.state.global_signals import PriorScores, TopRows
from actors.recommender.state.score_components import PersonalScores
from actors.vectors.row_selection import best_few, best_rows
from actors.vectors.types import Mask, Rows, Scores

_SHORT = 512
# Scores are float32 sums. This relative margin covers their rounding, so that it hides no row.
_ROUNDING = 1e-6


def rank(
    prior: PriorScores,
    personal: PersonalScores | None = None,
    allowed: Mask | None = None,
    excluded: Sequence[int] = (),
) -> Ranking:
    """Rank all rows by prior plus personal score, without the rows that are not allowed.

    Shapes:
        allowed: bool [n or more], is not changed

    Source:
        docs/concepts/scoring.md, equation 1
    """
    mask = None if allowed is None else allowed[: len(prior.scores)]
    ranking = Ranking(prior, personal, mask)
    return ranking.without(excluded) if excluded else ranking


class Ranking:
    """Scores of all rows for one list. A ranking never changes; `without` makes another."""

    def __init__(self, prior: PriorScores, personal: PersonalScores | None, allowed: Mask | None) -> None:
        self._prior = prior
        self._personal = personal
        self._allowed = allowed
        self._all: Scores | None = None

    def without(self, rows: Sequence[int]) -> Ranking:
        """Return the ranking without some rows; rows behind its end change nothing."""
        count = len(self._prior.scores)
        # Other rankings and queries share the mask.
        allowed = np.ones(count, np.bool_) if self._allowed is None else self._allowed.copy()
        allowed[[row for row in rows if row < count]] = False
        return Ranking(self._prior, self._personal, allowed)

    def get_scores(self, rows: Sequence[int] | Rows) -> Scores:
        """Return the scores of some rows, -inf for excluded rows.

        Shapes:
            rows: int64 [m], as a list or array; returns: float32 [m], a new array
        """
        chosen = np.asarray(rows, np.int64)
        return self._score_rows(chosen, self._prior.scores[chosen])

    @property
    def scores(self) -> Scores:
        """Return the scores of all rows, -inf for excluded rows.

        Shapes:
            returns: float32 [n]; the caller must not change it
        """
        if self._all is None:
            self._all = (
                self._prior.scores if self._personal is None else self._personal.add_to(self._prior.scores)
            )
        return self._all if self._allowed is None else np.where(self._allowed, self._all, np.float32(-np.inf))

    def select_best(self, count: int) -> Rows:
        """Return the best rows, best first, without rows at -inf.

        Shapes:
            returns: int64 [m], m <= count
        Cost:
            100,000 rows: 30 us; with vector scores of all rows 0.3 ms
        """
        whole = self._prior.top_rows
        if whole is not None and count > 0 and not (self._personal and self._personal.vector_scores):
            # A short front decides most lists; the whole one costs more and is tried only if it does not.
            for front in (whole.head(max(_SHORT, 4 * count)), whole):
                # Exact, not approximate: None means that a row behind the front could still win.
                best = self._select_near_top(front, count)
                if best is not None:
                    return best
        return best_rows(self.scores, count)

    def select_best_of(self, rows: Rows, count: int) -> Rows:
        """Return the best of some rows, best first, without rows at -inf.

        Shapes:
            rows: int64 [m]; returns: int64 [k], k <= count
        """
        return rows[best_few(self.get_scores(rows), count)]

    def _select_near_top(self, front: TopRows, count: int) -> Rows | None:
        """Return the best of top rows and rows with high personal scores; None if other rows can be better."""
        if len(front.rows) < count:
            return None
        now = self._score_rows(front.rows, front.values)
        # Score of the last place if only the front took part: a lower bound of the true one.
        least = float(np.partition(now, len(now) - count)[len(now) - count])
        if least == -np.inf:
            return None
        leading = now >= least
        rows = front.rows[leading]
        scores = now[leading]
        if front.next_score > -np.inf:
            # a row after the front needs at least this personal score to be among the best
            needed = least - front.next_score - _ROUNDING * (abs(least) + abs(front.next_score))
            # Then even a row without a personal score can be among the best, so the front is too short.
            if needed <= 0:
                return None
            if self._personal is not None:
                # prior <= next_score behind the front, so a winner needs personal > least - next_score.
                risen, gains = self._personal.rows_above(needed, len(self._prior.scores))
                rows = np.concatenate((rows, risen))
                scores = np.concatenate(
                    (scores, self._mask_excluded(risen, self._prior.scores[risen] + gains))
                )
        return _select_best_once(rows, scores, count)

    def _score_rows(self, rows: Rows, start: Scores) -> Scores:
        return self._mask_excluded(
            rows, start + self._personal.get_scores(rows) if self._personal is not None else start.copy()
        )

    def _mask_excluded(self, rows: Rows, scores: Scores) -> Scores:
        if self._allowed is not None:
            scores[~self._allowed[rows]] = -np.inf
        return scores


def _select_best_once(rows: Rows, scores: Scores, count: int) -> Rows:
    """Return the best distinct rows, best first; equal scores by row."""
    # A row occurs at most twice: as one of the front, and for its personal score.
    if len(rows) > 2 * count:
        kept = scores >= np.partition(scores, len(scores) - 2 * count)[len(scores) - 2 * count]
        rows = rows[kept]
        scores = scores[kept]
    # Equal scores by row, so that every replica with the same rows gives the same list.
    rows = rows[np.lexsort((rows, -scores))]
    # a repeated row has the same score twice
    best: Rows = rows[np.append(True, rows[1:] != rows[:-1])][:count]
    return best
