"""What one answer costs without door, hop and store: `python -m tests.benchmarks.recommender_inprocess [sizes...]`.

A generated shop (vectors in clusters, Zipf popularity), users with 30 recent events, one core. Prints a table of
median and 95th percentile per query, with the live parts alone and with a snapshot trained on the same events, and
what loading, learning and training cost.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson
import polars as pl

from actors.language.hashing_embedder import HashingEmbedder
from actors.models.loading.snapshot import Snapshot
from actors.models.loading.validation import validate_snapshot
from actors.recommender.messages import Boost, DiversityRule, UserQuery
from actors.recommender.recommender import Recommender
from actors.recommender.state.events import EventArrays
from actors.recommender.state.serving_model import ServingModel
from actors.serving import dispatch
from cluster.clock import iso_ms
from cluster.query.language.parser import parse
from cluster.records.interaction import RecentEvent
from cluster.store.data.change_log import ChangeLogEntry
from jobs.refresh.build.fit import train_engine
from jobs.refresh.build.model_snapshot import write_model_snapshot
from jobs.refresh.data.dataset import FrameColumns, interactions_from_frame
from jobs.refresh.recipe import parse_recipe as parse_recipe

NOW_MS = 1_772_452_800_000
DAY_MS = 86_400_000
EVENTS_A_PRODUCT = 10
RECIPE = {
    "parts": {
        "rules": {"learner": "rules"},
        "item_knn": {"learner": "item_knn"},
        "trend": {"learner": "popularity"},
    },
    "blend": {
        "weights": {"rules": 1.0, "item_knn": 0.7, "trend": 0.2},
        "weights_new": {"trend": 1.0},
    },
    "baskets": {},
}
USERS = 200
REPEATS = 400


class Shop:
    """Generated products, events and users."""

    def __init__(self, size: int, count: int = 0) -> None:
        self.size = size
        self.count = count or size * EVENTS_A_PRODUCT
        "Events."
        self.rng = np.random.default_rng(11)
        self.recommender = Recommender(HashingEmbedder(), refresh_ms=200)
        self._clusters = self.rng.integers(0, max(size // 50, 2), size)

    def product(self, number: int) -> dict[str, Any]:
        """Make one product."""
        cluster = int(self._clusters[number])
        return {
            "product_id": f"p{number}",
            "product_group_id": f"g{number // 2}" if number % 10 == 0 else f"g{number}s",
            "title": f"Product {number} of line {cluster}",
            "brand": f"brand-{cluster % 97}",
            "type": "ware",
            "categories": [[f"top-{cluster % 12}", f"middle-{cluster % 120}"]],
            "tags": [f"tag-{number % 40}"],
            "price": float(number % 200),
            "rating": (number % 50) / 10,
        }

    def load(self) -> float:
        """Put all products with made-up vectors; return the seconds it took."""
        centres = self.rng.standard_normal((int(self._clusters.max()) + 1, 128))
        vectors = centres[self._clusters] + 0.8 * self.rng.standard_normal((self.size, 128))
        vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        started = time.perf_counter()
        for start in range(0, self.size, 100):
            end = min(start + 100, self.size)
            self.recommender.overlay.put_products(
                [self.product(number) for number in range(start, end)], vectors[start:end]
            )
        return time.perf_counter() - started

    def learn(self) -> float:
        """Let users do things over a month; return the seconds it took."""
        count = self.count
        overlay = self.recommender.overlay
        users = np.sort(self.rng.integers(0, max(count // 20, 1), count))
        rows = (self.size * self.rng.random(count) ** 3).astype(np.int64)
        at_ms = NOW_MS - (30 * DAY_MS * self.rng.random(count)).astype(np.int64)
        events = EventArrays(
            users, rows, at_ms, self.rng.choice([0.3, 0.7, 1.0], count), self.rng.random(count) < 0.1
        )
        events = events.select(np.argsort(at_ms, kind="stable"))
        self.events = events
        started = time.perf_counter()
        for start in range(0, count, 5_000):
            overlay.add_events(events.select(np.arange(start, min(start + 5_000, count))))
        return time.perf_counter() - started

    def train(self, folder: Path) -> tuple[float, float, int]:
        """Train a snapshot on what happened and let it serve; return seconds of both and the bytes of its files."""
        started = time.perf_counter()
        names = np.array([f"p{number}" for number in range(self.size)])
        frame = pl.DataFrame(
            {
                "reader": self.events.users.astype("U12"),
                "item": names[self.events.rows],
                "at": self.events.at_ms / 1000.0,
                "weight": self.events.weights,
            }
        )
        engine = train_engine(
            parse_recipe(RECIPE), interactions_from_frame(frame, FrameColumns(weight="weight"))
        )
        manifest = write_model_snapshot(engine, folder / "snapshot", written_at_ms=1)
        trained = time.perf_counter()
        snapshot = validate_snapshot(Snapshot.open(folder / "snapshot"), str(manifest.facts["version"]))
        self.recommender.set_serving_model(
            "default", ServingModel(snapshot, self.recommender.overlay.catalog.product_ids)
        )
        self.recommender.default_engine_state.get_item_priors(NOW_MS)
        size = sum(entry.size for entry in manifest.files)
        return trained - started, time.perf_counter() - trained, size

    def recents(self) -> list[list[bytes]]:
        """Make recent lists of 30 events."""
        kinds = ("product_detail_page_view", "add_to_cart", "checkout", "click")
        lists = []
        for _ in range(USERS):
            numbers = (self.size * self.rng.random(30) ** 2).astype(int).tolist()
            lists.append(
                [
                    RecentEvent(kinds[at % 4], (f"p{number}",), NOW_MS - at * 60_000, 12.0).pack()
                    for at, number in enumerate(numbers)
                ]
            )
        return lists


def queries(size: int) -> Iterator[tuple[str, UserQuery]]:
    """Name the queries that are measured."""
    products = UserQuery(kind="user_to_products", app_id="a", engine_id="default", user_id="u", rows=10)
    trending = replace(products, kind="user_to_trending", rows=5)
    fq = parse("brand:(brand-1 OR brand-2 OR brand-3) AND price:[10 TO 150] AND rating:[1 TO *]")
    yield "user_to_products 10, fl []", products
    yield "user_to_products 10, no history", replace(products, user_id="")
    yield "user_to_products 10, fl title brand", replace(products, fields=("title", "brand"))
    yield "user_to_products 10, fq 3 clauses", replace(products, filter=fq)
    yield (
        "user_to_products 10, boost + spacing",
        replace(products, boosts=(Boost(parse("tags:tag-7")),), spacing=(DiversityRule("brand", 2),)),
    )
    yield "user_to_products 10, dithering 3", replace(products, dithering=3.0)
    yield "user_to_trending 5", trending
    yield "user_to_trending 5, no history", replace(trending, user_id="")
    yield "user_to_categories 10 x 5", replace(products, kind="user_to_categories", group_rows=5)
    yield (
        "user_to_categories 10 x 5, fq + boost",
        replace(
            products, kind="user_to_categories", group_rows=5, filter=fq, boosts=(Boost(parse("tags:tag-7")),)
        ),
    )
    yield (
        "user_to_attributes 10 x 2, brand",
        replace(products, kind="user_to_attributes", group_rows=2, field_name="brand"),
    )
    yield "product_to_products 10", replace(products, kind="product_to_products", anchors=(f"p{size // 3}",))
    yield (
        "product_to_products 10, buy_together",
        replace(products, kind="product_to_products", anchors=("p7",), buy_together=True),
    )
    yield "user_to_history 10", replace(products, kind="user_to_history")


def timed(work: Callable[[int], object], repeats: int = REPEATS) -> tuple[float, float]:
    """Measure a call; return median and 95th percentile in milliseconds."""
    for turn in range(5):
        work(turn)
    took = []
    for turn in range(repeats):
        started = time.perf_counter()
        work(turn)
        took.append((time.perf_counter() - started) * 1000)
    return statistics.median(took), sorted(took)[int(len(took) * 0.95)]


def measure(size: int) -> None:
    """Print the table of one size."""
    shop = Shop(size)
    loaded_s, learned_s = shop.load(), shop.learn()
    recents = shop.recents()
    recommender = shop.recommender
    print(f"\n{size:,} products x 128, {size * EVENTS_A_PRODUCT:,} events, recent lists of 30, one core")
    print(
        f"  loading {loaded_s:.1f} s, learning {learned_s:.1f} s, {recommender.overlay.nbytes / 2**20:.0f} MiB"
    )
    _ask_everything(shop, recents, "live parts alone")
    with TemporaryDirectory() as folder:
        trained_s, adopted_s, files = shop.train(Path(folder))
        print(f"  training {trained_s:.1f} s, {files / 2**20:.0f} MiB, adopting {adopted_s:.2f} s")
        _ask_everything(shop, recents, "with a snapshot")
        _change_everything(shop)


def _ask_everything(shop: Shop, recents: list[list[bytes]], title: str) -> None:
    recommender = shop.recommender
    print(f"  {title:45} {'p50 ms':>8} {'p95 ms':>8}")
    for name, query in queries(shop.size):

        def ask(turn: int, query: UserQuery = query) -> object:
            recent = recents[turn % USERS] if query.user_id else []
            return dispatch.answer(recommender, query, recent, (), NOW_MS)

        p50, p95 = timed(ask)
        print(f"  {name:45} {p50:8.3f} {p95:8.3f}")


def _change_everything(shop: Shop) -> None:
    recommender = shop.recommender
    global_signals, holdings = recommender._global_signals, recommender.default_engine_state
    tracker = holdings._cold_start
    anew = timed(lambda turn: holdings._build_priors(global_signals._build(NOW_MS), tracker), 20)[0]
    print(f"  {'standing made anew':45} {anew:8.3f}")
    for size in (1, 100):
        p50, p95 = timed(lambda turn, size=size: recommender.apply(_clicks(shop, turn, size)), 50)
        print(f"  {f'change of {size} interactions applied':45} {p50:8.3f} {p95:8.3f}")
    calls = iter([[_clicks(shop, turn * 200 + at, 1) for at in range(200)] for turn in range(26)])
    p50, p95 = timed(lambda turn: recommender.apply(*next(calls)), 20)
    print(f"  {'200 changes of 1 interaction applied':45} {p50:8.3f} {p95:8.3f}")
    p50, p95 = timed(lambda turn: recommender.apply(_upload(shop, turn)), 20)
    print(f"  {'change of 100 products applied':45} {p50:8.3f} {p95:8.3f}")


def _clicks(shop: Shop, turn: int, count: int) -> ChangeLogEntry:
    at_ms = NOW_MS + shop.recommender.overlay.events_version * 1_000 + turn
    items = [
        {
            "type": "click",
            "user_id": f"live-{(turn * count + at) % 500}",
            "product_ids": [f"p{(turn * 37 + at * 11) % shop.size}"],
            "timestamp": iso_ms(at_ms),
        }
        for at in range(count)
    ]
    return ChangeLogEntry("interaction", f"{at_ms * 10}-{count}", "put", orjson.dumps(items))


def _upload(shop: Shop, turn: int) -> ChangeLogEntry:
    embedder = HashingEmbedder()
    products = [shop.product((turn * 100 + at) % shop.size) for at in range(100)]
    vectors = np.zeros((100, 128), "<f2").tobytes()
    return ChangeLogEntry("product", f"{NOW_MS + shop.recommender.overlay.catalog.version}-0", "put",
        orjson.dumps(products),
                  vectors, embedder.version)  # fmt: skip


if __name__ == "__main__":
    for argument in sys.argv[1:] or ["10000", "100000"]:
        measure(int(argument))
