"""Served lists of which the truth is known: people look at places with a falling chance, and click what they like.

The lists are those of a trained blend. Whether a product is liked comes from the interactions of the data after the
list, so a ranker that is better on the log is better for what people really did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from actors.models.user_histories import DAY_S
from actors.vectors.types import Floats, Rows
from jobs.refresh.build.fit import TrainedEngine
from jobs.refresh.build.rerank import cut_histories
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


def serve_lists(
    engine: TrainedEngine,
    data: Interactions,
    since_s: float,
    *,
    window_days: float = 7.0,
    pause_s: float = 3_600.0,
    likings: Likings | None = None,
    most: int = 20_000,
    seed: int = 3,
) -> ServedLists:
    """Serve a list before each event after a pause, since a time; the products of the window after it are liked.

    With `likings`, these are the chances of a click at a look instead.
    """
    rng = np.random.default_rng(seed)
    looks = falling_looks()
    visits = list_visits(data, since_s, pause_s, most, rng)
    users, at_s, bounds = data.reader[visits], data.at_s[visits], data.starts()
    shown, clicks = [], []
    for first in range(0, len(visits), 250):
        block = slice(first, first + 250)
        lists = rank_top_items(engine.score(cut_histories(data, users[block], at_s[block])), LISTED)
        for row, products in enumerate(lists):
            moment = at_s[first + row]
            if likings is not None:
                shown.append(products)
                clicks.append(rng.random(LISTED) < likings(products, moment) * looks)
                continue
            liked = np.isin(products, list_soon(data, bounds, visits[first + row], window_days))
            chance = np.where(liked, 1.0, STRAY)
            shown.append(products)
            clicks.append(rng.random(LISTED) < chance * looks)
    mixed = [row for row, clicked in enumerate(clicks) if clicked.any() and not clicked.all()]
    return ServedLists(
        users=users[mixed],
        at_s=at_s[mixed],
        starts=np.arange(len(mixed) + 1) * LISTED,
        items=np.concatenate([shown[row] for row in mixed]).astype(np.int64),
        places=np.tile(np.arange(LISTED), len(mixed)),
        clicks=np.concatenate([clicks[row] for row in mixed]),
    )
