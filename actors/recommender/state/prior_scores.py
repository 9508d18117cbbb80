"""The scores of all rows before the user is known, and the first rows of their order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from actors.vectors.top import best_rows
from actors.vectors.types import Rows, Scores

_FRONT = 4_096


@dataclass(frozen=True, slots=True)
class TopRows:
    """The first rows of an order, and how they stand in it.

    Shapes:
        rows: int64 [m], best first; values: float32 [m]
    """

    rows: Rows
    values: Scores
    next_score: float
    "What the best row behind the front has; -inf when there is none."

    @classmethod
    def of(cls, scores: Scores) -> TopRows:
        """Take the front of all scores; rows at -inf are in no order."""
        rows = best_rows(scores, _FRONT + 1)
        values = scores[rows]
        behind = float(values[_FRONT]) if len(rows) > _FRONT else -np.inf
        return cls(rows[:_FRONT], values[:_FRONT], behind)

    def scale(self, share: float) -> TopRows:
        """Give the front of the same scores, all multiplied by a share above 0."""
        return TopRows(self.rows, self.values * np.float32(share), self.next_score * share)

    def head(self, count: int) -> TopRows:
        """Take a shorter front."""
        if count >= len(self.rows):
            return self
        return TopRows(self.rows[:count], self.values[:count], float(self.values[count]))


@dataclass(frozen=True, slots=True)
class PriorScores:
    """What scores start from before a reader is known.

    Shapes:
        scores: float32 [n]; -inf where the product is not offered
    """

    scores: Scores
    top_rows: TopRows | None = None
    "Its first rows; None when nobody took them together."

    @classmethod
    def of(cls, scores: Scores) -> PriorScores:
        """Take scores with their front."""
        return cls(scores, TopRows.of(scores))

    def scale(self, share: float) -> PriorScores:
        """Give the same with all scores multiplied by a share above 0."""
        if share == 1.0:
            return self
        front = None if self.top_rows is None else self.top_rows.scale(share)
        return PriorScores(self.scores * np.float32(share), front)
