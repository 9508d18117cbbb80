"""Files between the benchmark and a peer's process: a split as Parquet goes in, ranked lists as Parquet come out.

    train.parquet    user, item, at_s, weight   training events, sorted by user, then time
    history.parquet  query, item, at_s, weight  events before each query, oldest first
    query.parquet    query, user, now_s         the training user with exactly this history, -1 if there is none
    hidden.parquet   query, item                items that lists must not contain
    split.json       counts, and whether the events have times
    lists.parquet    query, place, item         the answer; place 0 is first

Users, items and queries are numbers from 0. The peer never sees the targets.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl

from actors.vectors.types import Rows
from cluster.errors import Invalid
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.split import EvaluationSplit
from jobs.refresh.evaluation.metrics import RankedLists

LIST_LENGTH = 20
"Places of a list."


def write_split(split: EvaluationSplit, folder: Path) -> None:
    """Write what a peer may know of a split; `split.json` is written last, so a folder with it is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    train, histories, hidden = split.train, split.histories, split.excluded_items()
    frames = {
        "train": {
            "user": train.reader,
            "item": train.item,
            "at_s": train.at_s,
            "weight": train.weight,
        },
        "history": {
            "query": histories.owners(),
            "item": histories.items,
            "at_s": histories.at_s,
            "weight": histories.weights,
        },
        "query": {
            "query": np.arange(len(split)),
            "user": find_training_users(split),
            "now_s": histories.now_s,
        },
        "hidden": {"query": hidden.owners(), "item": hidden.items},
    }
    for name, columns in frames.items():
        pl.DataFrame(columns).write_parquet(folder / f"{name}.parquet")
    facts = {
        "users": train.n_readers,
        "items": train.n_items,
        "queries": len(split),
        "clock": train.clock,
        "places": LIST_LENGTH,
    }
    (folder / "split.json").write_text(json.dumps(facts))


def find_training_users(split: EvaluationSplit) -> Rows:
    """Return the training user with the history of each query, -1 if no user has it.

    Peers that learn a vector for each user need it; users with equal histories are alike.

    Shapes:
        returns: int64 [q]
    """
    users = {items.tobytes(): user for user, items in enumerate(_items_by_user(split.train)) if len(items)}
    histories = np.split(split.histories.items, split.histories.starts[1:-1])
    return np.array([users.get(items.tobytes(), -1) for items in histories], np.int64)


def _items_by_user(data: Interactions) -> list[Rows]:
    return np.split(data.item, data.starts()[1:-1])


def write_lists(lists: RankedLists, path: Path) -> None:
    """Write ranked lists; places without an item are left out.

    Shapes:
        lists: int64 [q, k], -1 for places without an item
    """
    query, place = np.nonzero(lists >= 0)
    pl.DataFrame({"query": query, "place": place, "item": lists[query, place]}).write_parquet(path)


def read_lists(path: Path, split: EvaluationSplit) -> RankedLists:
    """Read the lists of a peer.

    Shapes:
        returns: int64 [q, 20], -1 for places without an item
    Errors:
        Invalid: a row is outside the split, a place has two items, a list has an item twice, or a hidden item
    """
    frame = pl.read_parquet(path, columns=["query", "place", "item"]).cast(pl.Int64)
    query, place, item = (frame[name].to_numpy() for name in frame.columns)
    n_items = split.histories.n_items
    limits = ((query, len(split)), (place, LIST_LENGTH), (item, n_items))
    if any(len(values) and not 0 <= values.min() <= values.max() < limit for values, limit in limits):
        raise Invalid(f"{path.name} has a query, place or item that the split does not have")
    pairs = query * n_items + item
    if len(np.unique(pairs)) < len(pairs) or len(np.unique(query * LIST_LENGTH + place)) < len(pairs):
        raise Invalid(f"{path.name} has an item twice in a list, or two items at a place")
    hidden = split.excluded_items()
    if np.isin(pairs, hidden.owners() * n_items + hidden.items).any():
        raise Invalid(f"{path.name} lists items that the split hides")
    lists: RankedLists = np.full((len(split), LIST_LENGTH), -1, np.int64)
    lists[query, place] = item
    return lists
