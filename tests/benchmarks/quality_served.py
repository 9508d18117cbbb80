"""Quality as it is served: the same train part through the live recommender, with and without a snapshot.

What the trained blend gives offline is the yardstick: the recommender, which adds live counts, live pairs and content
and leaves out what the user dealt with, must not lose against it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from actors.language.hashing_embedder import HashingEmbedder
from actors.models.loading.snapshot import Snapshot
from actors.models.loading.snapshot_models import load_snapshot_models
from actors.models.user_histories import UserHistories
from actors.recommender.messages import UserQuery
from actors.recommender.recommender import Recommender
from actors.recommender.state.compact_histories import CompactHistories
from actors.recommender.state.events import EventArrays
from actors.recommender.state.serving_model import ServingModel
from actors.serving import dispatch
from actors.vectors.types import Floats
from cluster.ids import DEFAULT_ENGINE
from cluster.records.interaction import RecentEvent
from jobs.refresh.build.fit import TrainedEngine, train_engine
from jobs.refresh.build.model_snapshot import SnapshotOrigin, write_model_snapshot
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.split import (
    EvaluationSplit,
    TrainingSplit,
    leave_last_out,
    split_by_time,
    split_next_in_session,
)
from jobs.refresh.evaluation import metrics
from jobs.refresh.evaluation.evaluate import evaluate
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.tuning.plan import make_plan
from tests.benchmarks import quality_sets as sets
from tests.benchmarks.quality_more import MoreLine, ReportProgress

ALLOWED_LOSS = 0.02
"The share of the blend's figure that serving may lose."

_BATCH = 5_000
_RECENTS = 200
_IDS_AN_EVENT = 100
"As the store keeps them."
_USERS = 4_000


def served_lines(folders: set[str], report_progress: ReportProgress) -> list[MoreLine]:
    """Measure what the sets at hand allow."""
    lines: list[MoreLine] = []
    if "online-retail-y1" in folders:
        split = split_by_time(sets.online_retail(), seen="out", folds=2)
        lines += _compared(
            "online-retail-y1, by time", split, "default", "ndcg@10", report_progress, sets.titles()
        )
    if "amazon-toys" in folders:
        split = leave_last_out(sets.amazon_toys(), 2)
        lines += _compared("amazon-toys, leave last out", split, "default", "ndcg@10", report_progress)
    if "ml-latest-small" in folders:
        split = leave_last_out(sets.movielens_small(), 2)
        lines += _compared(
            "ml-latest-small, leave last out", split, "default", "ndcg@10", report_progress, sets.films()
        )
    if "yoochoose-100k" in folders:
        data, begins = sets.yoochoose()
        test = split_next_in_session(data, begins)
        split = TrainingSplit((split_next_in_session(test.train, begins - 86_400.0),), test)
        lines += _compared("yoochoose-100k, sessions", split, "session", "mrr@20", report_progress)
    return lines


def _compared(
    task: str,
    split: TrainingSplit,
    recipe: str,
    figure: str,
    report_progress: ReportProgress,
    texts: Mapping[str, str] | None = None,
) -> list[MoreLine]:
    """Set what is served beside the offline blend of the same engine."""
    report_progress(f"served: {task}")
    plan = make_plan(load_recipe_file(recipe), split.validation)
    returning = split.test.pick(np.flatnonzero(split.test.histories.lengths > 0))
    returning = new_query_split(returning).sample(_USERS, np.random.default_rng(1))
    engine = train_engine(plan.recipe, split.test.train)
    floor = float(evaluate(engine, returning).figures[figure].mean())
    recommender = train_served_model(split.test.train, texts)
    alone = served_figure(recommender, returning, figure)
    with adopt_snapshot(recommender, engine, until_of(split.test.train)):
        together = served_figure(recommender, returning, figure)
    name = f"served: {task}"
    return [
        MoreLine(name, "trained blend, offline", figure, floor),
        MoreLine(name, "live parts alone", figure, alone),
        MoreLine(name, "live with snapshot", figure, together, floor * (1 - ALLOWED_LOSS)),
    ]


def new_query_split(trial: EvaluationSplit) -> EvaluationSplit:
    """Keep those who are asked for something they had not seen: what a user deals with just now is never served."""
    if trial.seen == "out":
        return trial
    seen = trial.histories.seen()
    repeated = np.asarray(seen[trial.targets.owners(), trial.targets.items]).ravel()
    is_new = np.bincount(trial.targets.owners()[~repeated], minlength=len(trial)) == trial.targets.lengths
    return replace(trial.pick(np.flatnonzero(is_new)), seen="out")


def train_served_model(
    data: Interactions,
    texts: Mapping[str, str] | None = None,
    categories: Mapping[str, list[list[str]]] | None = None,
) -> Recommender:
    """Make a recommender that lived through some data.

    `texts` are titles by item, `categories` paths by item. Without a clock an event comes a minute after the one
    before it.
    """
    recommender = Recommender(HashingEmbedder())
    names = data.items.names.to_pylist()
    texts = texts or {}
    placed = categories or {}
    products = [
        {"product_id": name, "title": texts.get(name, ""), "categories": placed.get(name, [])}
        for name in names
    ]
    plain = np.zeros((len(names), HashingEmbedder().dimensions), np.float32)
    recommender.overlay.put_products(products, None if texts else plain)
    at_ms = times_of(data.at_s, data.clock)
    order = np.argsort(at_ms, kind="stable")
    codes = np.array(
        [recommender.overlay.get_user_code(f"u:{name}") for name in data.readers.names.to_pylist()], np.int64
    )
    for first in range(0, len(order), _BATCH):
        batch = order[first : first + _BATCH]
        bought = np.ones(len(batch), np.bool_)
        recommender.overlay.add_events(
            EventArrays(
                codes[data.reader[batch]],
                data.item[batch],
                at_ms[batch],
                data.weight[batch].astype(float),
                bought,
            )
        )
    return recommender


class adopt_snapshot:
    """Let an engine serve a recommender for a while, by way of a snapshot on disk."""

    def __init__(self, recommender: Recommender, engine: TrainedEngine, until_ms: int) -> None:
        self._recommender = recommender
        self._until_ms = until_ms
        self._engine = engine
        self._folder = tempfile.TemporaryDirectory(prefix="kiosk-snapshot-")

    def __enter__(self) -> ServingModel:
        folder = Path(self._folder.name) / "snapshot"
        until = SnapshotOrigin(offsets={"interaction": f"{self._until_ms}-0"})
        write_model_snapshot(self._engine, folder, written_at_ms=0, origin=until)
        serving_model = ServingModel(
            load_snapshot_models(Snapshot.open(folder)), self._recommender.overlay.catalog.product_ids
        )
        self._recommender.set_serving_model(DEFAULT_ENGINE, serving_model)
        return serving_model

    def __exit__(self, *_: object) -> None:
        self._recommender.set_serving_model(DEFAULT_ENGINE, None)
        self._folder.cleanup()


def served_figure(recommender: Recommender, trial: EvaluationSplit, figure: str) -> float:
    """Query the recommender for each user of a split as an API replica does; return the metrics of the lists."""
    _load_histories(recommender, trial.histories, trial.train.clock)
    lists = np.array([_list(recommender, trial, at, 20) for at in range(len(trial))], np.int64)
    hits = metrics.mark_hits(lists, trial.targets, trial.histories.n_items)
    measures: dict[str, Callable[[], Floats]] = {
        "ndcg@10": lambda: metrics.ndcg(hits, trial.targets.lengths, 10),
        "mrr@20": lambda: metrics.reciprocal_rank(hits, 20),
        "hit_rate@20": lambda: metrics.hit_rate(hits, 20),
    }
    return float(measures[figure]().mean())


def _load_histories(recommender: Recommender, histories: UserHistories, clock: bool) -> None:
    """Let the recommender have followed the log of the users of a split, who are called by their places."""
    trained = np.flatnonzero(histories.items >= 0)
    codes = np.array([recommender.overlay.get_user_code(f"u:{at}") for at in range(len(histories))], np.int64)
    recommender.overlay.histories = CompactHistories()
    recommender.overlay.load_histories(
        EventArrays(
            codes[histories.owners()[trained]],
            histories.items[trained],
            times_of(histories.at_s[trained], clock),
            histories.weights[trained].astype(float),
            np.ones(len(trained), np.uint8),
        )
    )


def _list(recommender: Recommender, trial: EvaluationSplit, at: int, rows: int) -> list[int]:
    """Get the items of one user's list, -1 behind its end."""
    recents = recents_of(recommender, trial.histories, at, trial.train.clock)
    now_ms = int(times_of(trial.histories.now_s[at : at + 1], trial.train.clock)[0])
    query = UserQuery(
        kind="user_to_products", app_id="a", engine_id=DEFAULT_ENGINE, user_id=str(at), rows=rows
    )
    result = dispatch.answer(recommender, query, recents, (), now_ms)
    taken = recommender.overlay.catalog.rows_of([product["product_id"] for product in result.products])
    return [*taken, *[-1] * (rows - len(taken))]


def recents_of(recommender: Recommender, histories: UserHistories, at: int, clock: bool) -> list[bytes]:
    """Write a history as the store's recent list: what happened in one moment is one event, as a checkout is."""
    part = slice(histories.starts[at], histories.starts[at + 1])
    names = recommender.overlay.catalog.product_ids
    moments: list[tuple[int, list[str]]] = []
    for item, at_ms in zip(
        histories.items[part].tolist(), times_of(histories.at_s[part], clock).tolist(), strict=True
    ):
        if item < 0:
            continue
        if moments and moments[-1][0] == at_ms and len(moments[-1][1]) < _IDS_AN_EVENT:
            moments[-1][1].append(names[item])
        else:
            moments.append((at_ms, [names[item]]))
    return [RecentEvent("checkout", tuple(ids), at_ms).pack() for at_ms, ids in moments[: -_RECENTS - 1 : -1]]


def until_of(data: Interactions) -> int:
    """Say up to when a snapshot of this data knows everything."""
    return int(times_of(np.array([data.now_s]), data.clock)[0]) + 1


def times_of(at_s: Floats, clock: bool) -> Any:
    """Give milliseconds since 1970; a place in a sequence becomes a minute of one day."""
    if clock:
        return (np.asarray(at_s) * 1000).astype(np.int64)
    return (1_700_000_000_000 + np.asarray(at_s) * 60_000).astype(np.int64)
