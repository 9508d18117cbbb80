"""Served lists of which the truth is known: people look at places with a falling chance, and click what they like.

The lists are those of a trained blend. Whether a product is liked comes from the interactions of the data after the
list, so a ranker that is better on the log is better for what people really did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from actors.models.user_histories import DAY_S
from actors.vectors.types import Floats, Rows
from jobs.refresh.build.fit import TrainedEngine
from jobs.refresh.build.reranker_training import cut_histories
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.served_lists import ServedLists
from jobs.refresh.evaluation.metrics import rank_top_items

LISTED = 20
STRAY = 0.01
"Chance of a click at a look at a product that is not liked."

Likings: TypeAlias = Callable[[Rows, float], Floats]
"Returns the chance of a click at a look at each product of a list, at a time."


def falling_looks(power: float = 0.7) -> Floats:
    """Return the chance of a look at each place."""
    return (1.0 + np.arange(LISTED)) ** -power


def list_visits(
    data: Interactions, since_s: float, pause_s: float, most: int, rng: np.random.Generator
) -> Rows:
    """Return the events after a pause since a time, oldest first; at most so many, drawn by chance.

    Shapes:
        returns: int64 [t]
    """
    new_visit = np.ones(len(data), np.bool_)
    new_visit[1:] = (data.reader[1:] != data.reader[:-1]) | (np.diff(data.at_s) >= pause_s)
    visits = np.flatnonzero(new_visit & (data.at_s >= since_s))
    visits = np.sort(rng.permutation(visits)[:most])
    return visits[np.argsort(data.at_s[visits], kind="stable")]


def list_soon(data: Interactions, bounds: Rows, visit: int, window_days: float = 7.0) -> Rows:
    """Return what the user of a visit likes from its moment on, within a window; `bounds` are those of the users.

    Shapes:
        bounds: int64 [users + 1]; returns: int64 [k]
    """
    user, moment = data.reader[visit], data.at_s[visit]
    begin = np.searchsorted(data.at_s[bounds[user] : bounds[user + 1]], moment) + bounds[user]
    events = slice(begin, bounds[user + 1])
    soon = data.at_s[events] <= moment + window_days * DAY_S
    return data.item[events][soon & (data.weight[events] > 0)]


@dataclass(frozen=True, slots=True)
class ShownLists:
    """Lists that nobody has clicked yet, what their users take soon after, and the draws that decide about clicks.

    Shapes:
        users: int64 [t]; at_s: float64 [t]; items: int64 [t, LISTED]; draws: float64 [t, LISTED]
    """

    users: Rows
    at_s: Floats
    items: Rows
    liked: list[Rows]
    draws: Floats

    def click(self, likings: Likings | None = None) -> ServedLists:
        """Let people click what they take soon after, or with the chances of `likings` at a look."""
        looks = falling_looks()
        clicks = np.zeros(self.items.shape, np.bool_)
        for row, products in enumerate(self.items):
            chances = np.where(np.isin(products, self.liked[row]), 1.0, STRAY)
            if likings is not None:
                chances = likings(products, self.at_s[row])
            clicks[row] = self.draws[row] < chances * looks
        mixed = np.flatnonzero(clicks.any(axis=1) & ~clicks.all(axis=1))
        return ServedLists(
            users=self.users[mixed],
            at_s=self.at_s[mixed],
            starts=np.arange(len(mixed) + 1) * LISTED,
            items=self.items[mixed].ravel(),
            places=np.tile(np.arange(LISTED), len(mixed)),
            clicks=clicks[mixed].ravel(),
        )


def show_lists(
    engine: TrainedEngine,
    data: Interactions,
    since_s: float,
    *,
    window_days: float = 7.0,
    pause_s: float = 3_600.0,
    most: int = 20_000,
    seed: int = 3,
) -> ShownLists:
    """Show a list before each event after a pause, since a time; the products of the window after it are liked."""
    rng = np.random.default_rng(seed)
    visits = list_visits(data, since_s, pause_s, most, rng)
    users, at_s, bounds = data.reader[visits], data.at_s[visits], data.starts()
    items = np.zeros((len(visits), LISTED), np.int64)
    for first in range(0, len(visits), 250):
        block = slice(first, first + 250)
        histories = cut_histories(data, users[block], at_s[block])
        items[block] = rank_top_items(engine.score(histories), LISTED)
    liked = [list_soon(data, bounds, visit, window_days) for visit in visits]
    return ShownLists(users, at_s, items, liked, rng.random(items.shape))
