"""An app whose replicas can be compared: made-up products and interactions, compaction, training, several hosts.

Products share few words, so many scores are equal: only the rules for equal scores order them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import orjson
import polars as pl

from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.retrieval.messages import SearchQuery
from actors.serving.host import EngineHost
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock, iso_ms
from cluster.errors import Refusal
from cluster.meter import SilentMeter
from cluster.records.apps import App
from cluster.records.engine import Engine
from cluster.store.stores import Stores
from jobs.refresh.build.fit import train_engine
from jobs.refresh.build.model_snapshot import SnapshotOrigin, write_model_snapshot
from jobs.refresh.build.snapshot_indexes import build_search_index
from jobs.refresh.data.dataset import FrameColumns, interactions_from_frame
from jobs.refresh.recipe import SearchRecipe, parse_recipe
from tests.fakes.corner_shop import happen, upload, withdraw

APP = "replicated"
WORDS = (
    "red", "blue", "green", "steel", "oak", "zinc", "small", "large", "garden",
    "kitchen", "lamp", "chair", "table", "knife", "bowl", "pan", "rug", "board",
)  # fmt: skip
KINDS = ("product_detail_page_view", "add_to_cart", "checkout")
_BATCH = 50
_HOUR_MS = 3_600_000
_RECIPE: dict[str, Any] = {
    "name": "replicas",
    "parts": {
        "rules": {"learner": "rules"},
        "trend": {"learner": "popularity"},
        "always": {"learner": "popularity", "half_life_days": None},
    },
    "blend": {"weights": {"rules": 1.0, "trend": 0.2, "always": 0.1}, "weights_new": {"trend": 1.0}},
}


class ReplicatedShop:
    """The stores of an app, its artifact store, and what happens in it."""

    def __init__(self, stores: Stores, folder: Path, clock: SystemClock, seed: int, products: int) -> None:
        self.stores = stores
        self.clock = clock
        self.seed = seed
        self.products = products
        self.users = max(20, products // 50)
        self._rng = Random(seed)
        self._folder = folder
        self._store = ArtifactStore.open(folder / "artifacts")
        self.segments = SegmentStore(self._store, clock)
        self.snapshots = SnapshotStore(self._store)
        self._events: list[tuple[str, str, float]] = []
        self._versions = 0

    async def open(self) -> None:
        """Create the app."""
        await self.stores.access.put_app(App(app_id=APP, environment="development", created_at=0))
        self._loop = IntakeLoop(
            self.stores, self.segments, HashingEmbedder(), self.clock, SilentMeter(), owner="test"
        )

    def product(self, number: int) -> dict[str, Any]:
        """Make a product; the same number may get other words and another price later."""
        words = self._rng.sample(WORDS, 4)
        return {
            "product_id": f"p{number:06d}",
            "type": "thing",
            "title": " ".join(words),
            "brand": f"brand-{self._rng.randrange(7)}",
            "price": float(self._rng.randrange(5, 90)),
            "categories": [[words[0]]],
        }

    def random_product(self) -> int:
        """Return the number of some product."""
        return self._rng.randrange(self.products)

    async def upload(self, numbers: Sequence[int]) -> None:
        """Upload products in the order of the numbers."""
        for start in range(0, len(numbers), _BATCH):
            await upload(
                self.stores, [self.product(number) for number in numbers[start : start + _BATCH]], app_id=APP
            )

    async def withdraw(self, numbers: Sequence[int]) -> None:
        """Remove products."""
        await withdraw(self.stores, [f"p{number:06d}" for number in numbers], app_id=APP)

    async def interact(self, count: int) -> None:
        """Write interactions of random users, some of them late."""
        now_ms = self.clock.now_ms()
        for _ in range(count):
            user, at_ms = self._rng.randrange(self.users), now_ms - self._rng.randrange(40 * 24) * _HOUR_MS
            product = int(self.products * self._rng.random() ** 2)
            await happen(
                self.stores,
                [
                    {
                        "type": self._rng.choice(KINDS),
                        "user_id": f"u{user}",
                        "product_ids": [f"p{product:06d}"],
                        "timestamp": iso_ms(at_ms),
                    }
                ],
                app_id=APP,
            )
            self._events.append((f"u:u{user}", f"p{product:06d}", at_ms / 1000))

    async def compact(self) -> None:
        """Move the log into segments."""
        await self._loop.compact_round(at_once=True)

    def train(self) -> str:
        """Train on everything that is compacted; return the version of the published snapshot."""
        self._versions += 1
        frame = pl.DataFrame(self._events, ["reader", "item", "at"], orient="row")
        engine = train_engine(parse_recipe(_RECIPE), interactions_from_frame(frame, FrameColumns()))
        extras = build_search_index(SearchRecipe(learn_from=0), self.segments.records(APP, "product"))
        folder = self._folder / f"built-{self._versions}"
        origin = SnapshotOrigin(offsets=self.segments.offsets(APP))
        write_model_snapshot(engine, folder, written_at_ms=5, origin=origin, extras=extras)
        return self.snapshots.publish(APP, "default", folder)

    async def promote(self, version: str) -> None:
        """Let the engine serve a snapshot."""
        await self.stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=version))


def queries(shop: ReplicatedShop, count: int, seed: int = 1) -> list[UserQuery]:
    """Make queries: for users, for products, for words."""
    rng = Random(seed)
    made = [UserQuery("user_to_trending", APP, "default", rows=20, user_id="nobody")]
    for _ in range(count):
        user, product = rng.randrange(shop.users), int(shop.products * rng.random() ** 2)
        words = " ".join(rng.sample(WORDS, rng.choice((1, 2))))
        made += [
            UserQuery("user_to_products", APP, "default", rows=20, user_id=f"u{user}"),
            UserQuery("product_to_products", APP, "default", rows=20, anchors=(f"p{product:06d}",)),
            UserQuery("search", APP, "default", rows=20, search=SearchQuery(text=words)),
        ]
    return made


async def lists(host: EngineHost, user_queries: Sequence[UserQuery]) -> list[bytes]:
    """Return the products of each answer with their scores, as bytes."""
    bodies = []
    for query in user_queries:
        answer = await host.answer(query)
        while isinstance(answer, Refusal) and answer.code == "unavailable":
            answer = await host.answer(query)  # a busy machine takes long to load
        assert isinstance(answer, RecommendationResult), answer
        bodies.append(orjson.dumps(answer.products))
    return bodies


def equal_shares(user_queries: Sequence[UserQuery], left: list[bytes], right: list[bytes]) -> dict[str, str]:
    """Return for each kind of query how many lists are equal, for messages."""
    shares: dict[str, list[bool]] = {}
    for query, before, after in zip(user_queries, left, right, strict=True):
        shares.setdefault(query.kind, []).append(before == after)
    return {kind: f"{sum(equal)} of {len(equal)}" for kind, equal in shares.items()}
