"""Histories of users before a query, and their time decay: the input of every model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from pydantic import BaseModel, ConfigDict, Field

from actors.vectors.row_selection import expand_runs
from actors.vectors.types import Floats, Rows, Scores

DAY_S = 86_400.0


class EventTable(Protocol):
    """Events sorted by user, then time; the source of histories.

    Shapes:
        item: int64 [m]; at_s: float64 [m]; weight: float32 [m]
    """

    @property
    def item(self) -> Rows:
        """Return the item of each event.

        Shapes:
            returns: int64 [m], rows of the catalog
        """
        ...

    @property
    def at_s(self) -> Floats:
        """Return the time of each event.

        Shapes:
            returns: float64 [m]
        Units:
            seconds since 1970
        """
        ...

    @property
    def weight(self) -> Scores:
        """Return the weight of each event.

        Shapes:
            returns: float32 [m]
        """
        ...

    @property
    def n_readers(self) -> int: ...

    @property
    def n_items(self) -> int: ...

    @property
    def now_s(self) -> float:
        """Return the time of the newest event, in seconds."""
        ...

    def starts(self) -> Rows:
        """Return the start of each user's events, and the end of the last.

        Shapes:
            returns: int64 [users + 1]
        """
        ...


# 2^-12 is 0.02 % of the newest event.
HALVINGS = 12
"A weight that was halved so often is next to nothing."


class TimeDecay(BaseModel):
    """How the events of a history lose weight; the newest one always counts in full."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    half_life_items: float | None = Field(default=10.0, gt=0)
    "Number of distinct items further back after which the weight halves; none: all count alike."
    half_life_days: float | None = Field(default=None, gt=0)
    """Number of days between the event and the question after which the weight halves; none: age does not
    matter."""
    newest: int = Field(default=200, ge=1)
    "Number of newest distinct items that count."
    ordered: bool = False
    "Whether lines of one basket are ordered. If not, all events of one moment are equally recent."

    @property
    def depth(self) -> int:
        """Return the number of newest distinct items of which the weights are not next to nothing."""
        if self.half_life_items is None:
            return self.newest
        return min(self.newest, ceil(HALVINGS * self.half_life_items))


@dataclass(frozen=True, slots=True)
class UserHistories:
    """Events of `q` users before a query, oldest first.

    Shapes:
        starts: int64 [q + 1]; items: int64 [m], rows of the catalog, -1 for unknown; at_s: float64 [m];
        weights: float32 [m]; now_s: float64 [q]
    """

    starts: Rows
    items: Rows
    at_s: Floats
    weights: Scores
    now_s: Floats
    "Time of the query of each user."
    n_items: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Rows:
        """Return the number of events of each history.

        Shapes:
            returns: int64 [q]
        """
        return np.diff(self.starts)

    @classmethod
    def of(cls, data: EventTable, users: Rows, now_s: float | Floats | None = None) -> UserHistories:
        """Return all events of some users as their histories; -1 is an unknown user without events.

        Shapes:
            users: int64 [q]
        """
        bounds = data.starts()
        # -1 would index the last user; the length of unknown users is set to 0 below.
        clipped = np.maximum(users, 0)
        first = bounds[clipped]
        lengths = (
            np.where(users >= 0, bounds[clipped + 1] - first, 0) if data.n_readers else np.zeros_like(clipped)
        )
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        rows = expand_runs(first, lengths)
        now = data.now_s if now_s is None else now_s
        return cls(
            starts=starts,
            items=data.item[rows],
            at_s=data.at_s[rows],
            weights=data.weight[rows],
            now_s=np.broadcast_to(np.asarray(now, np.float64), (len(users),)),
            n_items=data.n_items,
        )

    @classmethod
    def of_lists(cls, items: Sequence[Sequence[int]], n_items: int) -> UserHistories:
        """Return histories of plain lists of rows, oldest first, with weight 1 and positions as times."""
        lengths = np.array([len(rows) for rows in items], np.int64)
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        flat = np.array([row for rows in items for row in rows], np.int64)
        at_s = (np.arange(len(flat)) - np.repeat(starts[:-1], lengths)).astype(np.float64)
        # Positions are the times, so the query comes one step after the newest event: at `lengths`.
        return cls(starts, flat, at_s, np.ones(len(flat), np.float32), lengths.astype(np.float64), n_items)

    def select_block(self, first: int, last: int) -> UserHistories:
        """Return the histories from `first` to `last`, without `last`."""
        # The last block may be shorter: `starts[last]` would be out of bounds.
        last = min(last, len(self))
        rows = slice(self.starts[first], self.starts[last])
        return UserHistories(
            starts=self.starts[first : last + 1] - self.starts[first],
            items=self.items[rows],
            at_s=self.at_s[rows],
            weights=self.weights[rows],
            now_s=self.now_s[first:last],
            n_items=self.n_items,
        )

    def select(self, which: Rows) -> UserHistories:
        """Return the histories at some positions.

        Shapes:
            which: int64 [k]
        """
        lengths = self.lengths[which]
        rows = expand_runs(self.starts[which], lengths)
        return UserHistories(
            starts=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
            items=self.items[rows],
            at_s=self.at_s[rows],
            weights=self.weights[rows],
            now_s=self.now_s[which],
            n_items=self.n_items,
        )

    def owners(self) -> Rows:
        """Return the history of each event.

        Shapes:
            returns: int64 [m], positions of histories
        """
        return np.repeat(np.arange(len(self)), self.lengths)

    def seen(self) -> Any:
        """Return the items of each history, without unknown ones (-1).

        Shapes:
            returns: scipy CSR bool [q, n]
        """
        existing = self.items >= 0
        # Booleans: scipy adds up repeated entries, and the sum of two Trues is True.
        ones = np.ones(int(existing.sum()), np.bool_)
        return sp.csr_matrix(
            (ones, (self.owners()[existing], self.items[existing])), shape=(len(self), self.n_items)
        )


def apply_time_decay(histories: UserHistories, fading: TimeDecay) -> Any:
    """Return the decayed weight of every item in every history.

    The place of an event is the number of distinct items after it. Unless `ordered`, events of the same time share a
    place, so all lines of a basket are equally recent. Repeated events of an item add up.

    Shapes:
        returns: scipy CSR float32 [q, n], indices sorted
    """
    shape = (len(histories), histories.n_items)
    existing = histories.items >= 0
    owner = histories.owners()[existing]
    item = histories.items[existing]
    if not len(item):
        return sp.csr_matrix(shape, dtype=np.float32)
    at_s = histories.at_s[existing]
    place = _count_places(owner, item, None if fading.ordered else at_s, histories.n_items)
    # float64, because weights of many events add up.
    weights = histories.weights[existing].astype(np.float64)
    if fading.half_life_items is not None:
        # f(i) = sum of w(e) 2^(-k(e) / H) 2^(-(t - t_e) / D) (equation 9)
        weights *= np.exp2(-place / fading.half_life_items)
    if fading.half_life_days is not None:
        # Client clocks may be ahead: a negative age would give a weight above 1.
        age_s = np.maximum(histories.now_s[owner] - at_s, 0.0)
        weights *= np.exp2(-age_s / (DAY_S * fading.half_life_days))
    counts = place < fading.newest
    matrix = sp.csr_matrix((weights[counts], (owner[counts], item[counts])), shape=shape)
    # It also sorts the indices, which searches by `searchsorted` need.
    matrix.sum_duplicates()
    return matrix.astype(np.float32)


def _count_places(owner: Rows, item: Rows, at_s: Floats | None, n_items: int) -> Rows:
    """Count the distinct items after each event; given times, events of the same time share a place."""
    count = len(item)
    # Reversed, so `return_index` gives the newest event of each item of each user.
    keys = (owner * n_items + item)[::-1]
    _, newest = np.unique(keys, return_index=True)
    fresh = np.zeros(count, np.int64)
    fresh[newest] = 1
    before = np.cumsum(fresh) - fresh  # distinct items before this one, counted from the end
    owners = owner[::-1]
    new_owner = np.ones(count, np.bool_)
    new_owner[1:] = owners[1:] != owners[:-1]
    first_of_owner = before[new_owner][np.cumsum(new_owner) - 1]
    if at_s is not None:
        times = at_s[::-1]
        new_moment = new_owner.copy()
        # All events of one moment get the place of the first of them, seen from the end.
        new_moment[1:] |= times[1:] != times[:-1]
        before = before[new_moment][np.cumsum(new_moment) - 1]
    place: Rows = before - first_of_owner
    return place[::-1]
