"""A split of baskets, for the tests of what is bought together."""

from __future__ import annotations

import numpy as np

from actors.models.user_histories import UserHistories
from actors.vectors.row_selection import distinct_pairs
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.split import EvaluationSplit, Targets


def split_baskets(data: Interactions, instant_s: float, rng: np.random.Generator) -> EvaluationSplit:
    """Return a split of the baskets after an instant: one random line is the history, the others are the targets."""
    train = data.pick(data.at_s <= instant_s)
    after = data.pick(data.at_s > instant_s)
    is_trained = np.zeros(data.n_items, np.bool_)
    is_trained[train.item] = True
    after = after.pick(is_trained[after.item])
    lines, items = distinct_pairs(after.basket, after.item)
    baskets, owner, sizes = np.unique(lines, return_inverse=True, return_counts=True)
    starts = np.concatenate(([0], np.cumsum(sizes)))[:-1]
    given = starts + (rng.random(len(baskets)) * sizes).astype(np.int64)
    rest = np.ones(len(owner), np.bool_)
    rest[given] = False
    whole = EvaluationSplit(
        "rest of basket",
        train,
        UserHistories.of_lists([[item] for item in items[given].tolist()], data.n_items),
        Targets.from_pairs(owner[rest], items[rest], len(baskets)),
        "out",
    )
    # A basket of one line has no line left as a target.
    return whole.pick(np.flatnonzero(sizes > 1))
