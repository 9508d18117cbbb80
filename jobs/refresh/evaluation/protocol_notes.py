"""What a reader of an evaluation must know: who is new, light and heavy, and when two protocols can't be compared."""

from __future__ import annotations

import numpy as np

from jobs.refresh.data.dataset import Interactions
from jobs.refresh.evaluation.evaluate import LIGHT_USER_BELOW

SEGMENT_NOTE = (
    f"new: no event before the test; light: 1 to {LIGHT_USER_BELOW - 1} events; "
    f"heavy: {LIGHT_USER_BELOW} or more"
)
_MANY = 0.2
"From this share on, last items that share their instant with others are worth a note."


def protocol_note(protocol: str, data: Interactions) -> str:
    """Explain figures of `leave_last_out` on data whose baskets have one time for all products; else empty."""
    if protocol != "leave_last_out":
        return ""
    share = shared_last_timestamp_share(data)
    if share < _MANY:
        return ""
    return (
        f"{share:.0%} of the readers end with several products at one instant, as in one basket: which of them is the "
        "last is chance, and only that one counts as right. Expect lower figures than by_time, where everything "
        "after the instant counts"
    )


def shared_last_timestamp_share(data: Interactions) -> float:
    """Compute the share of readers whose newest instant has events of more than one item.

    Units:
        0 to 1
    """
    liked = data.pick(data.weight > 0)
    if not len(liked):
        return 0.0
    newest = np.full(liked.n_readers, -np.inf)
    np.maximum.at(newest, liked.reader, liked.at_s)
    last = liked.at_s == newest[liked.reader]
    pairs = np.unique(np.stack((liked.reader[last], liked.item[last])), axis=1)
    items = np.bincount(pairs[0], minlength=liked.n_readers)
    return float((items > 1).sum()) / max(int((items > 0).sum()), 1)
