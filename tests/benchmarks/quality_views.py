"""The other endpoints as they are served: trending, bought together, categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from actors.language.hashing_embedder import HashingEmbedder
from actors.models.user_histories import DAY_S, UserHistories
from actors.recommender.messages import UserQuery
from actors.recommender.recommender import Recommender
from actors.recommender.state.events import EventArrays
from actors.serving import dispatch
from actors.vectors.types import Floats
from cluster.ids import DEFAULT_ENGINE
from jobs.refresh.build.fit import train_engine
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.split import EvaluationSplit
from jobs.refresh.evaluation import metrics
from jobs.refresh.recipe import parse_recipe
from tests.benchmarks import quality_sets as sets
from tests.benchmarks.quality_more import MoreLine, ReportProgress
from tests.benchmarks.quality_served import adopt_snapshot, recents_of, train_served_model, until_of
from tests.fakes.basket_split import split_baskets

QUERY = UserQuery(kind="user_to_products", app_id="a", engine_id=DEFAULT_ENGINE, rows=20)
_BASKETS = 3_000
_TEST_EVENTS = 20
"Films of a user's future whose genres are asked for."


def view_lines(folders: set[str], report_progress: ReportProgress) -> list[MoreLine]:
    """Measure what the sets at hand allow."""
    lines: list[MoreLine] = []
    if "online-retail-y1" in folders:
        report_progress("served: trending")
        lines += _trending(sets.online_retail(guests=True))
        report_progress("served: bought together")
        lines += _together(sets.online_retail(guests=True))
    if "ml-latest-small" in folders:
        report_progress("served: categories")
        lines += _categories(sets.movielens_small(), sets.genres())
    return lines


def _names(recommender: Recommender, now_ms: int, query: UserQuery) -> list[str]:
    result = dispatch.answer(recommender, query, (), (), now_ms)
    return [product["product_id"] for product in result.products]


def _trending(data: Interactions) -> list[MoreLine]:
    """Every morning of the last tenth of the days ask for 20; what sells that day and that week is right."""
    recommender = Recommender(HashingEmbedder())
    names = data.items.names.to_pylist()
    plain = np.zeros((len(names), HashingEmbedder().dimensions), np.float32)
    recommender.overlay.put_products([{"product_id": name} for name in names], plain)
    codes = np.array(
        [recommender.overlay.get_user_code(f"u:{name}") for name in data.readers.names.to_pylist()], np.int64
    )
    order = np.argsort(data.at_s, kind="stable")
    data = replace(data, **{name: getattr(data, name)[order] for name in _COLUMNS})
    day = (data.at_s // DAY_S).astype(np.int64)
    days = np.unique(day)
    gains_by_span: dict[int, list[float]] = {1: [], 7: []}
    for morning in days.tolist():
        if morning >= days[int(len(days) * 0.9)]:
            listed = _names(recommender, morning * int(DAY_S) * 1000, replace(QUERY, kind="user_to_trending"))
            for span, gains in gains_by_span.items():
                if morning + span <= days[-1] + 1:
                    gains.append(_gain(data, (day >= morning) & (day < morning + span), listed))
        today = data.pick(day == morning)
        ones = np.ones(len(today))
        events = EventArrays(
            codes[today.reader], today.item, (today.at_s * 1000).astype(np.int64), ones, ones.astype(bool)
        )
        recommender.overlay.add_events(events)
    floors = {1: 0.805, 7: 0.907}
    return [
        MoreLine(
            "served: trending", f"best sellers of {span} d", "ndcg@20", float(np.mean(gains)), floors[span]
        )
        for span, gains in gains_by_span.items()
    ]


_COLUMNS = ("reader", "item", "at_s", "weight", "basket", "kind")


def _gain(data: Interactions, later: Floats, listed: Sequence[str]) -> float:
    """NDCG@20 of a list; an item is worth the baskets it is in."""
    sold = data.pick(later)
    lines = np.unique(np.stack((sold.basket, sold.item)), axis=1)
    worth = np.bincount(lines[1], minlength=data.n_items).astype(np.float64)
    discounts = metrics.rank_discounts(20)
    gained = worth[data.items.codes(list(listed))] @ discounts[: len(listed)]
    return float(gained / (np.sort(worth)[::-1][:20] @ discounts))


def _together(data: Interactions) -> list[MoreLine]:
    """One line of every later basket is given to `product_to_products`; the others are right."""
    trial = split_baskets(data, float(np.quantile(data.at_s, 0.9)), np.random.default_rng(1))
    recipe = parse_recipe(
        {
            "parts": {"trend": {"learner": "popularity"}},
            "blend": {"weights": {"trend": 1.0}, "weights_new": {"trend": 1.0}},
            "baskets": {"kinds": []},
        }
    )
    recommender = train_served_model(trial.train)
    baskets = trial.sample(_BASKETS, np.random.default_rng(1))
    lines = [_baskets_line(recommender, baskets, "live parts alone", None)]
    with adopt_snapshot(recommender, train_engine(recipe, trial.train), until_of(trial.train)):
        lines.append(_baskets_line(recommender, baskets, "live with snapshot", 0.205))
    return lines


def _baskets_line(
    recommender: Recommender, trial: EvaluationSplit, name: str, floor: float | None
) -> MoreLine:
    names = recommender.overlay.catalog.product_ids
    lists = np.full((len(trial), 10), -1, np.int64)
    now_ms = until_of(trial.train)
    for at in range(len(trial)):
        anchor = names[int(trial.histories.items[trial.histories.starts[at]])]
        query = replace(QUERY, kind="product_to_products", rows=10, anchors=(anchor,), buy_together=True)
        product_ids = _names(recommender, now_ms, query)
        rows = recommender.overlay.catalog.rows_of(product_ids)
        lists[at, : len(rows)] = rows
    hits = metrics.mark_hits(lists, trial.targets, trial.histories.n_items)
    value = float(metrics.ndcg(hits, trial.targets.lengths, 10).mean())
    return MoreLine("served: bought together", name, "ndcg@10", value, floor)


def _categories(data: Interactions, genres: dict[str, list[str]]) -> list[MoreLine]:
    """Ask for a user's categories; a genre is worth as many of their next films as are in it."""
    names = data.items.names.to_pylist()
    from_end = data.starts()[1:][data.reader] - np.arange(len(data))
    train = data.pick(from_end > _TEST_EVENTS)
    later = data.pick(from_end <= _TEST_EVENTS)
    users = np.unique(train.reader)
    recommender = train_served_model(
        train, sets.films(), {name: [[genre] for genre in genres[name]] for name in names}
    )
    every = sorted({genre for named in genres.values() for genre in named})
    table = np.array([[genre in genres[name] for genre in every] for name in names], np.float64)
    popular = table.T @ np.bincount(train.item, minlength=len(names))
    figures: dict[str, list[float]] = {"global": [], "history counts": [], "served": []}
    for user in users.tolist():
        history = UserHistories.of(train, np.array([user]))
        worth = table[later.item[later.reader == user]].sum(axis=0)
        if not worth.any():
            continue
        now_ms = int(train.now_s * 1000)
        result = dispatch.answer(
            recommender, replace(QUERY, kind="user_to_categories", rows=3, user_id="u"),
            recents_of(recommender, history, 0, data.clock), (), now_ms,
        )  # fmt: skip
        served = [every.index(str(group.value[0])) for group in result.groups if group.value[0] in every]
        counts = table[history.items].sum(axis=0) + popular / popular.sum() * 1e-3
        orders = {"global": np.argsort(-popular), "history counts": np.argsort(-counts), "served": served}
        for name, order in orders.items():
            discounts = metrics.rank_discounts(3)
            gained = worth[list(order[:3])] @ discounts[: len(order[:3])]
            figures[name].append(float(gained / (np.sort(worth)[::-1][:3] @ discounts)))
    averages = {name: float(np.mean(values)) for name, values in figures.items()}
    floor = max(averages["global"], averages["history counts"])
    return [
        MoreLine(
            "served: categories of ml-latest-small",
            name,
            "ndcg@3",
            value,
            floor if name == "served" else None,
        )
        for name, value in averages.items()
    ]
