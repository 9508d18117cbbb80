"""A ring of products and a snapshot trained on it: people walk round the ring, so what comes next is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from actors.models.loading.snapshot import Snapshot
from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.models.loading.validation import validate_snapshot
from actors.models.user_histories import DAY_S
from actors.recommender.recommender import Recommender
from actors.recommender.state.serving_model import ServingModel
from cluster.artifacts.snapshots import SnapshotStore
from jobs.refresh.build.fit import TrainedEngine, train_engine
from jobs.refresh.build.model_snapshot import SnapshotOrigin, write_model_snapshot
from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame
from jobs.refresh.recipe import parse_recipe
from tests.fakes.corner_shop import NOW_MS, open_catalog

RING = 30
NOW_S = NOW_MS / 1000

RECIPE: dict[str, Any] = {
    "name": "ring",
    "parts": {
        "rules": {"learner": "rules", "window": 2, "back": 0.0},
        "ease": {"learner": "ease", "regularisation": 5.0},
        "sessions": {"learner": "session_knn"},
        "trend": {"learner": "popularity"},
        "always": {"learner": "popularity", "half_life_days": None},
    },
    "blend": {
        "weights": {"rules": 1.0, "ease": 0.5, "sessions": 0.3, "trend": 0.05, "always": 0.02},
        "weights_new": {"trend": 1.0},
    },
    "baskets": {"kinds": []},
}


def name(number: int) -> str:
    """Name a product of the ring."""
    return f"ring-{number % RING:02d}"


def ring_products(count: int = RING) -> list[dict[str, Any]]:
    """Make the products of the ring, each in a category of ten."""
    return [
        {
            "product_id": name(number),
            "title": f"Bead number {number} of colour {number // 10}",
            "type": "bead",
            "categories": [[f"tray-{number // 10}"]],
            "brand": f"maker-{number % 3}",
        }
        for number in range(count)
    ]


def ring_walks(users: int = 300, seed: int = 6) -> list[tuple[str, str, float, str]]:
    """Let readers walk some steps round the ring: reader, product, seconds since 1970, basket."""
    rng = np.random.default_rng(seed)
    walks = []
    for user in range(users):
        first, begins = int(rng.integers(RING)), int(rng.integers(30, 60))
        for step in range(int(rng.integers(3, 12))):
            at_s = NOW_S - DAY_S * begins + 60 * step
            walks.append((f"u:r{user:03d}", name(first + step), at_s, f"{user}-{step // 2}"))
    return walks


def ring_data(users: int = 300, seed: int = 6) -> Interactions:
    """Make the walks training data."""
    frame = pl.DataFrame(ring_walks(users, seed), ["reader", "item", "at", "basket"], orient="row")
    return interactions_from_frame(frame, FrameColumns(basket="basket"))


def ring_engine(seed: int = 6, **fields: Any) -> TrainedEngine:
    """Train on the ring."""
    return train_engine(parse_recipe({**RECIPE, **fields}), ring_data(seed=seed))


def build_ring_snapshot(
    folder: Path, seed: int = 6, origin: SnapshotOrigin | None = None, **fields: Any
) -> tuple[Path, str]:
    """Train and write a snapshot; return its folder and version."""
    engine = ring_engine(seed, **fields)
    manifest = write_model_snapshot(engine, folder, written_at_ms=5, origin=origin or SnapshotOrigin())
    return folder, str(manifest.facts["version"])


def load_ring_model(folder: Path, seed: int = 6, **fields: Any) -> LoadedSnapshot:
    """Train, write, and open again."""
    place, version = build_ring_snapshot(folder, seed, **fields)
    return validate_snapshot(Snapshot.open(place), version)


def publish_ring_snapshot(
    snapshots: SnapshotStore,
    folder: Path,
    app_id: str,
    engine_id: str = "default",
    seed: int = 6,
    origin: SnapshotOrigin | None = None,
) -> str:
    """Train and store; return the version."""
    place, _ = build_ring_snapshot(folder, seed, origin)
    return snapshots.publish(app_id, engine_id, place)


def open_ring_shop(
    learned: LoadedSnapshot | None = None, offset: str = f"{NOW_MS - 1_000_000}-0"
) -> Recommender:
    """Open the products of the ring, with a snapshot if one is given."""
    shop = open_catalog(ring_products(), offset)
    if learned is not None:
        serve_snapshot(shop, learned)
    return shop


def serve_snapshot(shop: Recommender, learned: LoadedSnapshot, engine_id: str = "default") -> None:
    """Let an engine serve a snapshot."""
    shop.set_serving_model(engine_id, ServingModel(learned, shop.overlay.catalog.product_ids))


def get_serving_model(shop: Recommender) -> ServingModel:
    """Return the model that the default engine serves."""
    model = shop.default_engine_state.serving_model
    assert model is not None
    return model
