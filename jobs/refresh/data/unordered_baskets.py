"""The share of users whose newest events are one basket, in which no product is the last one."""

from __future__ import annotations

import numpy as np

from actors.vectors.row_selection import distinct_pairs
from jobs.refresh.data.dataset import Interactions

ENDS_IN_BASKETS = 0.2
"Share of users with a shared last timestamp from which the last item of a user is chance."


def shared_last_timestamp_share(data: Interactions) -> float:
    """Return the share of users with events of several items at their newest timestamp.

    Units:
        0 to 1
    """
    liked = data.pick(data.weight > 0)
    if not len(liked):
        return 0.0
    newest = np.full(liked.n_readers, -np.inf)
    # `newest[reader] = ...` would keep one of a user's events: NumPy assigns a repeated index once.
    np.maximum.at(newest, liked.reader, liked.at_s)
    last = liked.at_s == newest[liked.reader]
    users, _ = distinct_pairs(liked.reader[last], liked.item[last])
    items = np.bincount(users, minlength=liked.n_readers)
    return float((items > 1).sum()) / max(int((items > 0).sum()), 1)
