"""The scores of all rows before the user is known, and the first rows of their order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from actors.vectors.top import best_rows
from actors.vectors.types import Rows, Scores

_FRONT = 4_096


@dataclass(frozen=True, slots=True)
class TopRows:
    """The rows with the best scores, and their scores.

    Shapes:
        rows: int64 [m], best first; values: float32 [m]
    """

    rows: Rows
    values: Scores
    next_score: float
    "Score of the next row after these; -inf when there is none."

    @classmethod
    def of(cls, scores: Scores) -> TopRows:
        """Return the best rows of all scores; rows at -inf are in no order.

        Shapes:
            scores: float32 [n]
        """
        rows = best_rows(scores, _FRONT + 1)
        values = scores[rows]
        behind = float(values[_FRONT]) if len(rows) > _FRONT else -np.inf
        return cls(rows[:_FRONT], values[:_FRONT], behind)

    def scale(self, share: float) -> TopRows:
        """Return the top rows with all scores multiplied by a share above 0."""
        return TopRows(self.rows, self.values * np.float32(share), self.next_score * share)

    def head(self, count: int) -> TopRows:
        """Return the first `count` of the top rows."""
        if count >= len(self.rows):
            return self
        return TopRows(self.rows[:count], self.values[:count], float(self.values[count]))


@dataclass(frozen=True, slots=True)
class PriorScores:
    """The prior: scores before the user is known.

    Shapes:
        scores: float32 [n]; -inf where the product is not offered
    """

    scores: Scores
    top_rows: TopRows | None = None
    "The best rows of the scores; None if they were not selected."

    @classmethod
    def of(cls, scores: Scores) -> PriorScores:
        """Return scores with their top rows.

        Shapes:
            scores: float32 [n]
        """
        return cls(scores, TopRows.of(scores))

    def scale(self, share: float) -> PriorScores:
        """Return the prior with all scores multiplied by a share above 0."""
        if share == 1.0:
            return self
        front = None if self.top_rows is None else self.top_rows.scale(share)
        return PriorScores(self.scores * np.float32(share), front)
