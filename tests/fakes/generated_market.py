"""Made-up interactions with something to learn in them: readers keep to a few topics, and some things are liked more.

The same arguments give the same table, whatever its size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cluster.artifacts.segment_format import INTERACTIONS, RECORDS
from cluster.artifacts.segments import SegmentStore
from cluster.records.apps import App
from cluster.records.engine import Engine
from cluster.store.stores import Stores

END_MS = 1_772_452_800_000
DAY_MS = 86_400_000
APP = "market"


def table(
    events: int = 3_000,
    users: int = 150,
    items: int = 80,
    *,
    topics: int = 8,
    days: int = 60,
    seed: int = 7,
) -> Any:
    """Make settled interactions (columns of `tables.INTERACTIONS`), oldest first."""
    rng = np.random.default_rng(seed)
    diligence = rng.pareto(1.5, users) + 1
    who = rng.choice(users, events, p=diligence / diligence.sum())
    topic = rng.integers(0, topics, (users, 3))[who, rng.integers(0, 3, events)]
    each = items // topics
    item = topic * each + np.minimum((each * rng.random(events) ** 3).astype(np.int64), each - 1)
    stray = rng.random(events) < 0.1
    item[stray] = rng.integers(0, items, int(stray.sum()))
    at_ms = np.sort(END_MS - (DAY_MS * days * rng.random(events) ** 1.2).astype(np.int64))
    kind = rng.choice(3, events, p=[0.8, 0.15, 0.05])
    kinds = pa.array(["product_detail_page_view", "add_to_cart", "checkout"])
    numbers = pa.array([f"u:{number}" for number in range(users)])
    names = pa.array([f"p{number}" for number in range(items)])
    offsets = pa.array(np.arange(events + 1, dtype=np.int32))
    return pa.table(
        {
            "reader": numbers.take(pa.array(who)),
            "type": kinds.take(pa.array(kind)),
            "at_ms": pa.array(at_ms),
            "product_ids": pa.ListArray.from_arrays(offsets, names.take(pa.array(item))),
            "value": pa.nulls(events, pa.float64()),
            "offset": pa.array([f"{END_MS}-{number}" for number in range(events)]),
            "json": pa.array([b"{}"]).take(pa.array(np.zeros(events, np.int64))),
        },
        schema=INTERACTIONS,
    )


def settle(segments: SegmentStore, made: Any, app_id: str = APP) -> None:
    """Put a table in the artifact store as everything that has settled."""
    segments.append(app_id, "interaction", made, first="1-0", last=f"{END_MS}-{made.num_rows}")


async def open_market(stores: Stores, app_id: str = APP, engine_id: str = "default") -> None:
    """Make the app and its engine."""
    await stores.access.put_app(App(app_id=app_id, environment="development", created_at=0))
    await stores.engines.put(Engine(app_id=app_id, engine_id=engine_id))


def products(items: int, width: int = 128, seed: int = 8) -> Any:
    """Make settled products (columns of `tables.RECORDS`) with a vector each."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((items, width)).astype(np.float16).astype("<f2")
    flat = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(2 * width), items, [None, pa.py_buffer(vectors.tobytes())]
    )
    return pa.table(
        {
            "id": [f"p{number}" for number in range(items)],
            "gone": pa.array([False]).take(pa.array(np.zeros(items, np.int64))),
            "offset": pa.array(["1-0"]).take(pa.array(np.zeros(items, np.int64))),
            "product_type": pa.nulls(items, pa.string()),
            "embedder": pa.array(["made-up"]).take(pa.array(np.zeros(items, np.int64))),
            "vector": flat.cast(pa.binary()),
            "json": pa.array([b'{"product_id":"p%d","title":"Thing %d"}' % (n, n) for n in range(items)]),
        },
        schema=RECORDS,
    )


def settle_products(segments: SegmentStore, made: Any, app_id: str = APP) -> None:
    """Put products in the artifact store."""
    segments.append(app_id, "product", made, first="1-0", last=f"{END_MS}-0")
