"""What learned re-rankers cost a request: the trees, the whole stage, a list and a search with and without them.

`python -m tests.benchmarks.reranker [items]`: a generated market in one process, four parts, 100 trees of
15 leaves, 200 candidates; medians of alternating rounds, in processor time. Needs LightGBM.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from actors.language.hashing_embedder import HashingEmbedder
from actors.models.loading.snapshot import Snapshot
from actors.models.loading.snapshot_models import RERANKER, SEARCH_RERANKER
from actors.models.loading.validation import validate_snapshot
from actors.models.reranker import OTHER_COLUMNS, ProductFacts, Reranker
from actors.models.tree_ensemble import TreeEnsemble
from actors.recommender import pipeline
from actors.recommender.messages import UserQuery
from actors.recommender.recommender import Recommender
from actors.recommender.state.serving_model import ServingModel
from actors.search import search_pipeline
from actors.serving import dispatch
from cluster.records.interaction import RecentEvent
from deployments.api.wire.search import SearchBody, to_search_query
from jobs.refresh.build.fit import TrainedEngine, train_engine
from jobs.refresh.build.model_snapshot import write_model_snapshot
from jobs.refresh.data.dataset import interactions_from_segments
from jobs.refresh.learners.reranker import RankingRows, RerankerRecipe, export_trees, train_trees
from jobs.refresh.recipe import parse_recipe
from tests.fakes.corner_shop import product_change
from tests.fakes.generated_market import END_MS, table

PARTS = ("item_knn", "rules", "repeats", "popularity")
ROUNDS, CALLS, CANDIDATES, LISTED = 9, 40, 200, 20
RECIPE: dict[str, Any] = {
    "parts": {name: {"learner": name} for name in PARTS},
    "blend": {"weights": dict.fromkeys(PARTS, 0.5), "weights_new": {"popularity": 1.0}},
}


def train_random_trees(columns: int, lists: int = 3_000) -> TreeEnsemble:
    """Train trees that use every column."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(lists * LISTED, columns))
    clicks = rng.random(len(rows)) < 1 / (1 + np.exp(2 - rows.sum(axis=1) / 2))
    places = np.tile(np.arange(LISTED), lists)
    data = RankingRows(rows, rows[:, 0], np.repeat(np.arange(lists), LISTED), places, clicks)
    return TreeEnsemble(export_trees(train_trees(RerankerRecipe(), data, 1)))


class Market:
    """One engine over generated interactions, with and without a re-ranker."""

    def __init__(self, items: int, folder: Path) -> None:
        data = interactions_from_segments(table(20 * items, items, items, topics=40))
        engine = train_engine(parse_recipe(RECIPE), data)
        trees = train_random_trees(len(PARTS) + OTHER_COLUMNS)
        facts = ProductFacts.count(data.item, data.at_s, data.n_items)
        self.reranker = Reranker(trees, PARTS, facts, CANDIDATES)
        self.recents = [
            RecentEvent("click", (f"p{number * 7 % items}",), END_MS - 60_000 * number).pack()
            for number in range(1, 51)
        ]
        self.plain = self._open(engine, folder / "plain", {}, items)
        extras = dict.fromkeys((RERANKER, SEARCH_RERANKER), self.reranker.save())
        self.ranked = self._open(engine, folder / "ranked", extras, items)

    def _open(self, engine: TrainedEngine, folder: Path, extras: Any, items: int) -> Recommender:
        manifest = write_model_snapshot(engine, folder, written_at_ms=1, extras=extras)
        learned = validate_snapshot(Snapshot.open(folder), str(manifest.facts["version"]))
        shop = Recommender(HashingEmbedder())
        names = [{"product_id": f"p{number}", "title": f"Thing {number}"} for number in range(items)]
        shop.apply(product_change(names, f"{END_MS - 1}-0"))
        shop.set_serving_model("default", ServingModel(learned, shop.overlay.catalog.product_ids))
        return shop

    def answer(self, shop: Recommender) -> None:
        """Answer one request for ten products."""
        query = UserQuery("user_to_products", "shop", "default", user_id="somebody", rows=10)
        dispatch.answer(shop, query, self.recents, (), END_MS)

    def search(self, shop: Recommender) -> None:
        """Answer one search that has all products."""
        body = SearchBody(q="thing", rows=10, user_id="somebody")
        query = to_search_query(body, app_id="shop", user_id="somebody", now_ms=END_MS)
        dispatch.answer(shop, query, self.recents, (), END_MS)


def measure_stage(act: Callable[[Recommender], None], market: Market, module: Any, name: str) -> list[float]:
    """Return the times of a stage alone, in ms, as requests run it."""
    stage = getattr(module, name)
    times: list[float] = []

    def measured(*arguments: Any) -> Any:
        begin = time.thread_time()
        ordered = stage(*arguments)
        times.append((time.thread_time() - begin) * 1e3)
        return ordered

    with patch.object(module, name, measured):
        for _ in range(ROUNDS * CALLS):
            act(market.ranked)
    return times


def time_calls(act: Callable[[], object]) -> float:
    """Return the mean time of a call in ms."""
    begin = time.thread_time()
    for _ in range(CALLS):
        act()
    return (time.thread_time() - begin) / CALLS * 1e3


def main() -> None:
    """Print medians in milliseconds."""
    items = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        market = Market(items, Path(folder))
        rows = np.random.default_rng(1).normal(size=(CANDIDATES, len(PARTS) + OTHER_COLUMNS))
        measured: dict[str, list[float]] = {
            "trees": [],
            "list, blend alone": [],
            "list, with the re-ranker": [],
            "search, without": [],
            "search, with the re-ranker": [],
        }
        for _ in range(ROUNDS):
            measured["trees"].append(time_calls(lambda: market.reranker.trees.predict(rows)))
            measured["list, blend alone"].append(time_calls(lambda: market.answer(market.plain)))
            measured["list, with the re-ranker"].append(time_calls(lambda: market.answer(market.ranked)))
            measured["search, without"].append(time_calls(lambda: market.search(market.plain)))
            measured["search, with the re-ranker"].append(time_calls(lambda: market.search(market.ranked)))
        measured["stage: features, trees, order"] = measure_stage(
            market.answer, market, pipeline, "rerank_candidates"
        )
        measured["stage of searches"] = measure_stage(
            market.search, market, search_pipeline, "add_gains_to_hits"
        )
    print(f"{items:,} products, {CANDIDATES} candidates, {len(market.reranker.trees.arrays)} trees")
    for name, times in measured.items():
        print(f"  {name:32} {statistics.median(times):6.3f} ms")


if __name__ == "__main__":
    main()
