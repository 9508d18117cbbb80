"""Ranking quality of the overlay alone on one year of a real shop.

Online Retail II, year 1 (CC BY 4.0): one instant splits the year at nine tenths of its lines; what readers bought
after it and had not bought before is what should be recommended.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from actors.language.hashing_embedder import HashingEmbedder
from actors.models.loading.snapshot import Snapshot
from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.models.loading.validation import validate_snapshot
from actors.recommender.messages import QueryKind, UserQuery
from actors.recommender.ranking.score import personal_scores, select_prior
from actors.recommender.ranking.user_profile import (
    build_user_profile,
    find_interaction_rows,
    parse_recent_events,
)
from actors.recommender.recommender import Recommender
from actors.recommender.state.events import EventArrays
from actors.recommender.state.serving_model import ServingModel
from actors.recommender.state.vote_counts import DAY_MS
from actors.serving import dispatch
from cluster.records.interaction import RecentEvent
from jobs.refresh.build.fit import train_engine
from jobs.refresh.build.model_snapshot import write_model_snapshot
from jobs.refresh.data.dataset import interactions_from_frame
from jobs.refresh.recipe import parse_recipe

pytestmark = [pytest.mark.data, pytest.mark.timeout(300), pytest.mark.slow]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Year:
    """One line an entry, in order of time."""

    products: list[dict[str, Any]]
    rows: Array
    at_ms: Array
    user_ids: list[str]
    "Customer, or the invoice of a guest after `guest-`."


@pytest.fixture(scope="module")
def year() -> Year:
    root = Path(os.environ.get("KIOSK_TEST_DATA", Path(__file__).parents[5] / "shared" / "data"))
    path = root / "online-retail-y1" / "transactions.parquet"
    if not path.exists():
        pytest.skip(f"public data set online-retail-y1 is not in {root} (set KIOSK_TEST_DATA)")
    lines = (
        pl.read_parquet(path)
        .filter(
            ~pl.col("invoice").str.starts_with("C")
            & (pl.col("quantity") > 0)
            & pl.col("stock_code").str.contains(r"^\d{5}")
        )
        .sort("ts", maintain_order=True)
        .with_columns(
            reader=pl.col("customer_id").cast(pl.String).fill_null("guest-" + pl.col("invoice")),
            title=pl.col("description").fill_null("").last().over("stock_code"),
        )
    )
    products = lines.unique("stock_code", keep="first", maintain_order=True).select("stock_code", "title")
    row_of = {code: row for row, code in enumerate(products["stock_code"])}
    return Year(
        products=[{"product_id": code, "title": title.title()} for code, title in products.iter_rows()],
        rows=np.array([row_of[code] for code in lines["stock_code"]]),
        at_ms=lines["ts"].dt.epoch("ms").to_numpy(),
        user_ids=lines["reader"].to_list(),
    )


@dataclass(frozen=True)
class Split:
    """A recommender that learned until an instant, what readers had done and what they did next."""

    recommender: Recommender
    now_ms: int
    before: dict[str, list[tuple[int, int]]]
    after: dict[str, set[int]]

    def recents(self, user_id: str) -> list[bytes]:
        """The reader's recent list as the store would hold it."""
        newest = reversed(self.before.get(user_id, [])[-200:])
        ids = self.recommender.overlay.catalog.product_ids
        return [RecentEvent("checkout", (ids[row],), at_ms).pack() for row, at_ms in newest]

    def list_of(self, kind: QueryKind, user_id: str) -> list[int]:
        """Rows of ten recommendations."""
        query = UserQuery(kind=kind, app_id="a", engine_id="default", user_id=user_id, rows=10)
        result = dispatch.answer(self.recommender, query, self.recents(user_id), (), self.now_ms)
        return self.recommender.overlay.catalog.rows_of(
            [product["product_id"] for product in result.products]
        )


@pytest.fixture(scope="module")
def split(year: Year) -> Split:
    now_ms = int(year.at_ms[int(len(year.at_ms) * 0.9)])
    recommender = Recommender(HashingEmbedder())
    overlay = recommender.overlay
    overlay.put_products(year.products, None)
    past = int(np.searchsorted(year.at_ms, now_ms))
    codes = np.array([overlay.get_user_code("u:" + user_id) for user_id in year.user_ids[:past]])
    events = EventArrays(codes, year.rows[:past], year.at_ms[:past], np.ones(past), np.ones(past, bool))
    for start in range(0, past, 5_000):
        overlay.add_events(events.select(np.arange(start, min(start + 5_000, past))))
    before: dict[str, list[tuple[int, int]]] = defaultdict(list)
    after: dict[str, set[int]] = defaultdict(set)
    for at, (user_id, row, at_ms) in enumerate(
        zip(year.user_ids, year.rows.tolist(), year.at_ms.tolist(), strict=True)
    ):
        if user_id.startswith("guest-"):
            continue
        if at < past:
            before[user_id].append((row, at_ms))
        else:
            after[user_id].add(row)
    return Split(recommender, now_ms, dict(before), dict(after))


def ndcg(ranked: list[int], relevant: set[int], k: int = 10) -> float:
    gained = sum(1 / np.log2(place + 2) for place, row in enumerate(ranked[:k]) if row in relevant)
    return float(gained / sum(1 / np.log2(place + 2) for place in range(min(k, len(relevant)))))


def graded_ndcg(scores: Array, gains: Array, k: int = 20) -> float:
    discount = 1 / np.log2(np.arange(k) + 2)
    best = np.sort(gains)[::-1][:k] @ discount
    return float(gains[np.argsort(-scores)[:k]] @ discount / best)


def test_a_reader_with_a_history_gets_three_times_what_popularity_gives(split: Split) -> None:
    recommender = split.recommender
    priors = recommender.default_engine_state.get_item_priors(split.now_ms)
    overlay = recommender.overlay
    sold = np.bincount([row for lines in split.before.values() for row, _ in lines], minlength=len(priors))
    personal, popular = [], []
    for user_id, bought in split.after.items():
        seen = {row for row, _ in split.before.get(user_id, [])}
        new = bought - seen
        if not seen or not new:
            continue
        profile = build_user_profile(
            find_interaction_rows(parse_recent_events(split.recents(user_id)), overlay.catalog), overlay.index
        )
        for measured, scores in (
            (
                personal,
                personal_scores(profile, recommender.default_engine_state, priors).add_to(
                    select_prior(profile, None, priors).scores
                ),
            ),
            (popular, sold.astype(np.float32)),
        ):
            scores[list(seen)] = -np.inf
            measured.append(ndcg(np.argsort(-scores)[:10].tolist(), new))
    print(f"\nNDCG@10 of new products: personal {np.mean(personal):.4f}, popularity {np.mean(popular):.4f}")
    assert np.mean(personal) > 0.098
    assert np.mean(personal) > 3 * np.mean(popular)


RECIPE = {
    "parts": {
        "ease": {
            "learner": "ease",
            "regularisation": 100.0,
            "half_life_days": 60.0,
            "fading": {"half_life_items": 20.0},
        },
        "rules": {"learner": "rules", "window": 30, "damping": 0.3, "back": 0.5, "half_life_days": 14.0,
                  "fading": {"half_life_items": 20.0}},
        "trend": {"learner": "popularity"},
    },
    "blend": {"weights": {"ease": 1.0, "rules": 0.4, "trend": 0.4}, "weights_new": {"trend": 1.0}},
}  # fmt: skip


def trained_until(year: Year, split: Split, at_ms: int, folder: Path) -> LoadedSnapshot:
    """Train on what had happened by then, and open the snapshot."""
    past = int(np.searchsorted(year.at_ms, at_ms))
    ids = np.array(split.recommender.overlay.catalog.product_ids)
    frame = pl.DataFrame(
        {
            "reader": ["u:" + user_id for user_id in year.user_ids[:past]],
            "item": ids[year.rows[:past]],
            "at": year.at_ms[:past] / 1000.0,
        }
    )
    manifest = write_model_snapshot(
        train_engine(parse_recipe(RECIPE), interactions_from_frame(frame)), folder, written_at_ms=1
    )
    return validate_snapshot(Snapshot.open(folder), str(manifest.facts["version"]))


def test_a_snapshot_is_worth_more_than_the_live_parts_and_live_parts_keep_an_old_one_young(
    year: Year, split: Split, tmp_path: Path
) -> None:
    recommender = split.recommender
    catalog, index, state = (
        recommender.overlay.catalog,
        recommender.overlay.index,
        recommender.default_engine_state,
    )
    fresh = trained_until(year, split, split.now_ms, tmp_path / "fresh")
    old = trained_until(year, split, split.now_ms - 45 * DAY_MS, tmp_path / "old")
    figures: dict[str, list[float]] = defaultdict(list)
    user_ids = [user_id for user_id in split.after if user_id in split.before][::3]
    for name, learned in (("live", None), ("fresh", fresh), ("old", old)):
        state.set_serving_model(None if learned is None else ServingModel(learned, catalog.product_ids))
        priors = state.get_item_priors(split.now_ms)
        for user_id in user_ids:
            seen = {row for row, _ in split.before[user_id]}
            new = split.after[user_id] - seen
            if not new:
                continue
            profile = build_user_profile(
                find_interaction_rows(parse_recent_events(split.recents(user_id)), catalog), index
            )
            scores = personal_scores(profile, state, priors).add_to(
                select_prior(profile, None, priors).scores
            )
            scores[list(seen)] = -np.inf
            figures[name].append(ndcg(np.argsort(-scores)[:10].tolist(), new))
            if state.serving_model is not None and learned is not None:
                past = state.serving_model.build_history(profile.interactions, split.now_ms)
                alone = learned.blend.score(past.to_histories(len(learned.snapshot.items)))[0]
                scores = state.serving_model.expand_to_rows(alone, len(priors))
                scores[list(seen)] = -np.inf
                figures[name + " alone"].append(ndcg(np.argsort(-scores)[:10].tolist(), new))
    state.set_serving_model(None)
    averages = {name: round(float(np.mean(values)), 4) for name, values in figures.items()}
    print(f"\nNDCG@10 of new products: {averages}")
    assert averages["fresh"] > 1.05 * averages["live"]
    assert averages["fresh"] > 0.97 * averages["fresh alone"]
    assert averages["old"] > 1.04 * averages["old alone"]


def test_a_reader_without_history_gets_the_trend(split: Split) -> None:
    cold = [user_id for user_id in split.after if user_id not in split.before]
    figures = [ndcg(split.list_of("user_to_products", user_id), split.after[user_id]) for user_id in cold]
    print(f"\nNDCG@10 of {len(cold)} new readers: {np.mean(figures):.4f}")
    assert np.mean(figures) > 0.112


def test_personal_lists_beat_the_trend_for_those_with_a_history(split: Split) -> None:
    user_ids = [user_id for user_id in split.after if user_id in split.before][::3]
    figures = {
        kind: float(
            np.mean([ndcg(split.list_of(kind, user_id), split.after[user_id]) for user_id in user_ids])
        )
        for kind in ("user_to_products", "user_to_trending")
    }
    print(f"\nNDCG@10 as served, {len(user_ids)} readers: {figures}")
    assert figures["user_to_products"] > 1.1 * figures["user_to_trending"]


def test_the_trend_of_a_week_foretells_the_next_day_and_week(year: Year) -> None:
    recommender = Recommender(HashingEmbedder())
    overlay = recommender.overlay
    overlay.put_products(year.products, np.zeros((len(year.products), 128), np.float32))
    codes = np.array([overlay.get_user_code(user_id) for user_id in year.user_ids])
    days, count = year.at_ms // DAY_MS, len(year.products)
    tested = np.unique(days)[-45:-7].tolist()
    figures: dict[str, list[float]] = defaultdict(list)
    for day in np.unique(days).tolist():
        today = days == day
        if day in tested:
            for name, horizon in (("day", 1), ("week", 7)):
                gains = np.bincount(year.rows[(days >= day) & (days < day + horizon)], minlength=count)
                for half_life in (1.0, 7.0, 30.0):
                    scores = overlay.counts.get_relative_counts(half_life, count)
                    figures[f"{name} {half_life:.0f}"].append(graded_ndcg(scores, gains.astype(float)))
        size = int(today.sum())
        events = EventArrays(
            codes[today], year.rows[today], year.at_ms[today], np.ones(size), np.zeros(size, bool)
        )
        overlay.add_events(events)
    averages = {name: round(float(np.mean(values)), 3) for name, values in figures.items()}
    print(f"\nNDCG@20 of the trend, horizon and half-life in days: {averages}")
    assert averages["day 7"] > 0.80
    assert averages["week 7"] > 0.90
    assert averages["day 7"] > max(averages["day 1"], averages["day 30"])
