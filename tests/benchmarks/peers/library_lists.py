"""Rank the queries of a split with a library, in the environment of the peers: nothing of Kiosk is imported.

    python library_lists.py PEER SETTINGS SPLIT OUT SECONDS

SETTINGS is JSON. A peer that learns in epochs takes a list of them and writes lists after each, from one training.
OUT gets `lists-N.parquet` and `runs.json`, which has processor time and peak memory. The process ends itself after
SECONDS of processor time; what it has written by then counts.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
os.environ.update({"LK_NUM_PROCS": "1", "LK_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"})

import numpy as np
import pandas as pd
import scipy.sparse as sp

_BLOCK = 500
"Queries scored at a time."
_SEED = 1
_MOST_BYTES = 10 << 30
"Address space of the process: a matrix of all pairs of items of a large catalog fails early."
_MOST_EVENTS = 100
"Length of the sequences of SASRec and HSTU, the default of RecTools."

Lists = Any
"int64 [q, k]"


@dataclass
class Split:
    """What the files of a split say."""

    train: pd.DataFrame
    history: pd.DataFrame
    query: pd.DataFrame
    hidden: pd.DataFrame
    facts: dict[str, Any]
    matrices: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Split:
        """Read the files of a folder."""
        names = ("train", "history", "query", "hidden")
        frames = [pd.read_parquet(folder / f"{name}.parquet") for name in names]
        split = cls(*frames, json.loads((folder / "split.json").read_text()))
        split.history = split.history[split.history["item"] >= 0]
        return split

    def matrix(self, name: str, rows: str, count: int) -> Any:
        """Return a frame as CSR [rows, items]; a repeated pair has its largest weight."""
        frame = getattr(self, name)
        if "weight" not in frame:
            frame = frame.assign(weight=1.0)
        pairs = frame.groupby([rows, "item"], sort=False)["weight"].max().reset_index()
        places = (pairs[rows], pairs["item"])
        return sp.csr_matrix((pairs["weight"].astype(np.float32), places), (count, self.facts["items"]))


Step = tuple[dict[str, Any], Callable[[], Lists]]
"Settings of a trained model, and what ranks with it."
Rank = Callable[[Split, dict[str, Any]], Iterator[Step]]


def rank_scores(split: Split, score: Callable[[int, int], Any]) -> Lists:
    """Rank by the scores of all items; hidden items and those that are not finite are left out.

    Shapes:
        score: first and last query -> float [q, items]
    """
    hidden = split.matrix("hidden", "query", split.facts["queries"])
    places, lists = split.facts["places"], []
    for first in range(0, split.facts["queries"], _BLOCK):
        last = min(first + _BLOCK, split.facts["queries"])
        scores = np.array(score(first, last), np.float32)
        scores[~np.isfinite(scores)] = -np.inf
        scores[hidden[first:last].nonzero()] = -np.inf
        top = np.argpartition(-scores, places, axis=1)[:, :places]
        order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1, kind="stable")
        top = np.take_along_axis(top, order, axis=1)
        top[np.take_along_axis(scores, top, axis=1) == -np.inf] = -1
        lists.append(top)
    return np.concatenate(lists)


def rank_implicit(
    build: Callable[[dict[str, Any]], Any], split: Split, settings: dict[str, Any]
) -> Iterator[Step]:
    """Train a model of `implicit`; factors of a query are worked out from its history where the library can.

    BPR cannot: its queries get the factors of the training user with the same history.
    """
    model = build(settings)
    model.fit(split.matrix("train", "user", split.facts["users"]), show_progress=False)
    seen = split.matrix("history", "query", split.facts["queries"])
    users = split.query["user"].to_numpy()

    def score(first: int, last: int) -> Any:
        if hasattr(model, "similarity"):
            return (seen[first:last] @ model.similarity).toarray()
        if build is not _bpr:
            vectors = model.recalculate_user(np.arange(last - first), seen[first:last])
        elif (users < 0).any():
            raise SystemExit("ranks only for users that it was trained with")
        else:
            vectors = model.user_factors[users[first:last]]
        return vectors @ model.item_factors.T

    yield settings, partial(rank_scores, split, score)


def _als(settings: dict[str, Any]) -> Any:
    from implicit.cpu.als import AlternatingLeastSquares

    return AlternatingLeastSquares(**settings, random_state=_SEED, num_threads=1)


def _bpr(settings: dict[str, Any]) -> Any:
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    return BayesianPersonalizedRanking(**settings, random_state=_SEED, num_threads=1)


def _bm25(settings: dict[str, Any]) -> Any:
    from implicit.nearest_neighbours import BM25Recommender

    return BM25Recommender(**settings, num_threads=1)


def rank_lenskit(
    build: Callable[[dict[str, Any]], Any], split: Split, settings: dict[str, Any]
) -> Iterator[Step]:
    """Train a scorer of LensKit and ask it for the scores of all items, one history after the other."""
    from lenskit.data import ItemList, RecQuery, from_interactions_df
    from lenskit.training import TrainingOptions

    pairs = split.train[["user", "item"]].drop_duplicates()
    data = from_interactions_df(pairs.rename(columns={"user": "user_id", "item": "item_id"}))
    scorer = build(settings)
    scorer.train(data, TrainingOptions(rng=_SEED, device="cpu"))
    trained = data.items.ids().astype(np.int64)
    every = ItemList(item_ids=trained)
    seen = split.matrix("history", "query", split.facts["queries"])

    def score(first: int, last: int) -> Any:
        scores = np.full((last - first, split.facts["items"]), -np.inf, np.float32)
        for row in range(last - first):
            history = ItemList(item_ids=seen[first + row].indices.astype(np.int64))
            scored = scorer(RecQuery(user_items=history), every)
            scores[row, trained] = scored.scores("numpy")
        return scores

    yield settings, partial(rank_scores, split, score)


def _lenskit_knn(settings: dict[str, Any]) -> Any:
    from lenskit.knn import ItemKNNScorer

    return ItemKNNScorer(feedback="implicit", **settings)


def _lenskit_als(settings: dict[str, Any]) -> Any:
    from lenskit.als import ImplicitMFScorer

    return ImplicitMFScorer(**settings)


def _lenskit_ease(settings: dict[str, Any]) -> Any:
    from lenskit.knn.ease import EASEScorer

    return EASEScorer(**settings)


def rank_rectools(kind: str, split: Split, settings: dict[str, Any]) -> Iterator[Step]:
    """Train a transformer of RecTools epoch by epoch and rank after each number of epochs of the settings."""
    import pytorch_lightning
    import torch
    from rectools import Columns
    from rectools.dataset import Dataset
    from rectools.models import HSTUModel, SASRecModel

    torch.set_num_threads(1)
    pytorch_lightning.seed_everything(_SEED)
    names = {"item": Columns.Item, "weight": Columns.Weight, "at_s": Columns.Datetime}
    train = _timed(split.train).rename(columns={"user": Columns.User, **names})
    history = _timed(split.history).rename(columns={"query": Columns.User, **names})
    data = Dataset.construct(train)
    lengths = split.train.groupby("user").size()
    # Padding costs time and changes nothing, so sequences are as long as nearly all users need, plus the target.
    events = int(min(_MOST_EVENTS, np.quantile(lengths, 0.95) + 1))
    epochs = settings["epochs"]
    options = {**settings, "session_max_len": events, "deterministic": True, "recommend_torch_device": "cpu"}
    if kind == "HSTU":
        # Without times the gaps between events say nothing.
        options["relative_time_attention"] = split.facts["clock"]
    model = {"SASRec": SASRecModel, "HSTU": HSTUModel}[kind](**{**options, "epochs": epochs[-1]})
    before = 0
    for count in epochs:
        model.fit_partial(data, min_epochs=count - before, max_epochs=count - before)
        before = count
        yield {**settings, "epochs": count}, partial(_recommend, model, split, history)


def _timed(events: pd.DataFrame) -> pd.DataFrame:
    return events.assign(at_s=pd.to_datetime(events["at_s"], unit="s"))


def _recommend(model: Any, split: Split, history: pd.DataFrame) -> Lists:
    """Rank with a trained transformer; more places than needed are ranked where some of them are hidden."""
    from rectools import Columns
    from rectools.dataset import Dataset

    places, queries = split.facts["places"], split.query["query"].to_numpy()
    hidden = split.matrix("hidden", "query", split.facts["queries"])
    seen = split.matrix("history", "query", split.facts["queries"])
    hides_all = hidden.nnz == seen.nnz
    spare = 0 if hides_all else int(np.diff(hidden.indptr).max(initial=0))
    trained_items = set(model.data_preparator.get_known_item_ids())
    lists = np.full((len(queries), places), -1, np.int64)
    context = None
    if getattr(model, "require_recommend_context", False):
        context = pd.DataFrame(
            {Columns.User: queries, Columns.Datetime: pd.to_datetime(split.query["now_s"], unit="s")}
        )
    usable = history[history[Columns.Item].isin(trained_items)]
    for first in range(0, len(queries), _BLOCK):
        part = usable[usable[Columns.User].between(first, first + _BLOCK - 1)]
        if part.empty:
            continue
        some = part[Columns.User].unique()
        extra = {} if context is None else {"context": context[context[Columns.User].isin(some)]}
        ranked = model.recommend(
            some, Dataset.construct(part), k=places + spare, filter_viewed=hides_all, **extra
        )
        user, item = ranked[Columns.User].to_numpy(), ranked[Columns.Item].to_numpy()
        if spare:
            allowed = np.asarray(hidden[user, item]).ravel() == 0
            user, item = user[allowed], item[allowed]
        place = pd.Series(user).groupby(user).cumcount().to_numpy()
        kept = place < places
        lists[user[kept], place[kept]] = item[kept]
    return lists


PEERS: dict[str, Rank] = {
    "implicit ALS": partial(rank_implicit, _als),
    "implicit BPR": partial(rank_implicit, _bpr),
    "implicit BM25": partial(rank_implicit, _bm25),
    "LensKit item-kNN": partial(rank_lenskit, _lenskit_knn),
    "LensKit ALS": partial(rank_lenskit, _lenskit_als),
    "LensKit EASE": partial(rank_lenskit, _lenskit_ease),
    "RecTools SASRec": partial(rank_rectools, "SASRec"),
    "RecTools HSTU": partial(rank_rectools, "HSTU"),
}


def read_peak_bytes() -> int:
    """Return the largest memory of this process; `ru_maxrss` would start at that of the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) << 10


def main(peer: str, settings: str, split_folder: str, out: str, seconds: str) -> None:
    """Train, rank and write; `runs.json` grows by a row with every list."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 10))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    split, folder, rows = Split.read(Path(split_folder)), Path(out), []
    steps = PEERS[peer](split, json.loads(settings))
    spent_s = 0.0
    while True:
        began = time.process_time()
        step = next(steps, None)
        if step is None:
            break
        settings_of_step, rank = step
        spent_s += time.process_time() - began
        began = time.process_time()
        lists = rank()
        rank_s = time.process_time() - began
        query, place = np.nonzero(lists >= 0)
        frame = pd.DataFrame({"query": query, "place": place, "item": lists[query, place]})
        frame.to_parquet(folder / f"lists-{len(rows)}.parquet")
        rows.append(
            {
                "settings": settings_of_step,
                "fit_s": spent_s,
                "rank_s": rank_s,
                "peak_bytes": read_peak_bytes(),
            }
        )
        library = peer.split()[0].lower()
        (folder / "runs.json").write_text(json.dumps({"version": version(library), "rows": rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
