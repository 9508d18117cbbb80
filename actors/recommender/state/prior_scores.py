"""Scores of all rows, and the best of them without looking at most.

A reader's score is what everybody's starts from and what is said to them alone, and that is much for few products. So
the best are among the first of the common order and those of whom much is said; all rows are only added up for
whoever wants all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from actors.recommender.state.score_components import Own
from actors.vectors.top import best_few, best_rows
from actors.vectors.types import Mask, Rows, Scores

Barred = tuple[list[int], Mask]
"Rows, and which of them were open before."

_FRONT = 4_096
_SHORT = 512
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Front:
    """The first rows of an order, and how they stand in it.

    Shapes:
        rows: int64 [m], best first; values: float32 [m]
    """

    rows: Rows
    values: Scores
    behind: float
    "What the best row behind the front has; -inf when there is none."

    @classmethod
    def of(cls, scores: Scores) -> Front:
        """Take the front of all scores; rows at -inf are in no order."""
        rows = best_rows(scores, _FRONT + 1)
        values = scores[rows]
        behind = float(values[_FRONT]) if len(rows) > _FRONT else -np.inf
        return cls(rows[:_FRONT], values[:_FRONT], behind)

    def times(self, share: float) -> Front:
        """Give the front of the same scores, all multiplied by a share above 0."""
        return Front(self.rows, self.values * np.float32(share), self.behind * share)

    def first(self, count: int) -> Front:
        """Take a shorter front."""
        if count >= len(self.rows):
            return self
        return Front(self.rows[:count], self.values[:count], float(self.values[count]))


@dataclass(frozen=True, slots=True)
class Start:
    """What scores start from before a reader is known.

    Shapes:
        scores: float32 [n]; -inf where the product is not offered
    """

    scores: Scores
    front: Front | None = None
    "Its first rows; None when nobody took them together."

    @classmethod
    def of(cls, scores: Scores) -> Start:
        """Take scores with their front."""
        return cls(scores, Front.of(scores))

    def times(self, share: float) -> Start:
        """Give the same with all scores multiplied by a share above 0."""
        if share == 1.0:
            return self
        front = None if self.front is None else self.front.times(share)
        return Start(self.scores * np.float32(share), front)


class Ranking:
    """Scores on their way to a list; whoever holds it may bar rows."""

    def __init__(self, start: Start, own: Own | None = None) -> None:
        self._start = start
        self._own = own
        self._open: Mask | None = None
        self._all: Scores | None = None

    def __len__(self) -> int:
        """Count the rows that are judged."""
        return len(self._start.scores)

    def bar(self, rows: Sequence[int]) -> Barred:
        """Let some rows not appear, as far as they are judged; `unbar` takes back what this returns."""
        count = len(self)
        inside = [row for row in rows if row < count]
        if self._open is None:
            self._open = np.ones(count, np.bool_)
        before = self._open[inside]
        self._open[inside] = False
        return inside, before

    def unbar(self, barred: Barred) -> None:
        """Let rows appear again that did before they were barred."""
        rows, before = barred
        if self._open is not None:
            self._open[rows] = before

    def bar_all_but(self, allowed: Mask) -> None:
        """Let only some rows appear.

        Shapes:
            allowed: bool [n or more]
        """
        mask = allowed[: len(self)]
        self._open = mask.copy() if self._open is None else self._open & mask

    def of(self, rows: Sequence[int] | Rows) -> Scores:
        """Give the scores of some rows, -inf where a product must not appear.

        Shapes:
            rows: int64 [m], as a list or array; returns: float32 [m], fresh
        """
        chosen = np.asarray(rows, np.int64)
        return self._seen(chosen, self._start.scores[chosen])

    @property
    def scores(self) -> Scores:
        """The scores of all rows, -inf where a product must not appear.

        Shapes:
            float32 [n], not to be changed
        """
        if self._all is None:
            self._all = self._start.scores if self._own is None else self._own.added_to(self._start.scores)
        return self._all if self._open is None else np.where(self._open, self._all, np.float32(-np.inf))

    def best(self, count: int) -> Rows:
        """Pick the best rows, best first; never one at -inf.

        Shapes:
            returns: int64 [m], m <= count
        Cost:
            100,000 rows: 30 us; when likeness is worked out for all: 0.3 ms
        """
        whole = self._start.front
        if whole is not None and count > 0 and not (self._own and self._own.likenesses):
            for front in (whole.first(max(_SHORT, 4 * count)), whole):
                found = self._near(front, count)
                if found is not None:
                    return found
        return best_rows(self.scores, count)

    def best_of(self, rows: Rows, count: int) -> Rows:
        """Pick the best of some rows, best first; never one at -inf."""
        return rows[best_few(self.of(rows), count)]

    def _near(self, front: Front, count: int) -> Rows | None:
        """Pick among the front and those of whom much is said; None when better ones may stand behind."""
        if len(front.rows) < count:
            return None
        now = self._seen(front.rows, front.values)
        least = float(np.partition(now, len(now) - count)[len(now) - count])
        if least == -np.inf:
            return None
        leading = now >= least
        rows, scores = front.rows[leading], now[leading]
        if front.behind > -np.inf:
            # who stands behind the front needs so much of their own to get among the best
            needed = least - front.behind - _ROUNDING * (abs(least) + abs(front.behind))
            if needed <= 0:
                return None
            if self._own is not None:
                risen, own = self._own.reaching(needed, len(self))
                rows = np.concatenate((rows, risen))
                scores = np.concatenate((scores, self._barred(risen, self._start.scores[risen] + own)))
        return _best_once(rows, scores, count)

    def _seen(self, rows: Rows, start: Scores) -> Scores:
        return self._barred(rows, start + self._own.of(rows) if self._own is not None else start.copy())

    def _barred(self, rows: Rows, scores: Scores) -> Scores:
        if self._open is not None:
            scores[~self._open[rows]] = -np.inf
        return scores


def _best_once(rows: Rows, scores: Scores, count: int) -> Rows:
    """Pick the best of rows of which each may come twice, best first, among equals the smaller row."""
    if len(rows) > 2 * count:
        kept = scores >= np.partition(scores, len(scores) - 2 * count)[len(scores) - 2 * count]
        rows, scores = rows[kept], scores[kept]
    rows = rows[np.lexsort((rows, -scores))]
    # a row that comes twice has the same score twice
    best: Rows = rows[np.append(True, rows[1:] != rows[:-1])][:count]
    return best
