"""The first answer of an app that is not loaded: the calls of functions that it takes, by the number of products."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Awaitable
from pathlib import Path

import numpy as np
import orjson

from actors.intake.segment_rows import build_compaction_batch
from actors.language.hashing_embedder import HashingEmbedder, embedding_text
from actors.recommender.messages import UserQuery
from actors.serving.host import EngineHost
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock, iso_ms
from cluster.meter import SilentMeter
from cluster.store.data.change_log import ChangeLogEntry
from tests.benchmarks.data import interactions, products
from tests.fakes.corner_shop import APP, PRODUCTS, upload
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.stores.memory import memory_stores

COUNT = 1_000
MOST_CALLS_A_PRODUCT = 900
"Measured: 830 for each product with its five interactions, at 1,000 and at 4,000 products."


def write_segments(folder: Path, now_ms: int) -> SegmentStore:
    segments, embedder = SegmentStore(ArtifactStore.open(folder)), HashingEmbedder()
    records = products(COUNT)
    vectors = np.asarray(embedder.embed([embedding_text(record) for record in records])).astype("<f2")
    events = interactions(5 * COUNT, 300, COUNT)
    for number, event in enumerate(events):
        event["timestamp"] = iso_ms(now_ms - number * 60_000)
    entries = {
        "product": ChangeLogEntry("product", "1-0", "put", orjson.dumps(records), vectors.tobytes(), embedder.version),
        "interaction": ChangeLogEntry("interaction", "1-0", "put", orjson.dumps(events)),
    }  # fmt: skip
    for noun, entry in entries.items():
        batch = build_compaction_batch(entry.noun, [entry])
        segments.append(APP, noun, batch.table, first="1-0", last="1-0")
    return segments


async def count_calls(awaited: Awaitable[object]) -> int:
    """Return the calls, of Python and of built-in functions, on every thread until `awaited` has its result."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    # a collection calls finalizers of objects of other tests
    gc.disable()
    threading.setprofile(count)
    sys.setprofile(count)
    try:
        await awaited
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        gc.enable()
    return calls


async def test_the_first_answer_of_an_unloaded_app_takes_a_bounded_number_of_calls_for_each_product(
    tmp_path: Path,
) -> None:
    clock = SystemClock()
    stores, segments = memory_stores(clock), write_segments(tmp_path, clock.now_ms())
    await upload(stores, PRODUCTS[:1])
    host = EngineHost(stores, segments, clock, SilentMeter())
    await host.start()
    client = LocalRecommenderClient(host)
    query = UserQuery(kind="user_to_products", app_id=APP, engine_id="default", user_id="u1", rows=5)
    first = await count_calls(client.answer(query))
    later = await count_calls(client.answer(query))
    answer = await client.answer(query)
    await host.close()
    assert len(answer.products) == 5
    assert later < first / 5, "the first answer loaded the app"
    assert first / COUNT < MOST_CALLS_A_PRODUCT
