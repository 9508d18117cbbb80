"""The first answer of an app that is not loaded: the processor time that it takes, by the number of products."""

from __future__ import annotations

import time
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
from cluster.store.data.changes import ChangeLogEntry
from tests.benchmarks.data import interactions, products
from tests.fakes.corner_shop import APP, PRODUCTS, upload
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.stores.memory import memory_stores

COUNT = 4_000
MOST_US_A_PRODUCT = 300
"Measured: 140 us for each product with its five interactions, on a busy machine."


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


async def test_the_first_answer_of_an_unloaded_app_takes_a_bounded_time_for_each_product(
    tmp_path: Path,
) -> None:
    clock = SystemClock()
    stores, segments = memory_stores(clock), write_segments(tmp_path, clock.now_ms())
    await upload(stores, PRODUCTS[:1])
    host = EngineHost(stores, segments, clock, SilentMeter())
    await host.start()
    client = LocalRecommenderClient(host)
    query = UserQuery(kind="user_to_products", app_id=APP, engine_id="default", user_id="u1", rows=5)
    begun_s = time.process_time()
    answer = await client.answer(query)
    took_s = time.process_time() - begun_s
    begun_s = time.process_time()
    await client.answer(query)
    later_s = time.process_time() - begun_s
    await host.close()
    assert len(answer.products) == 5
    assert later_s < took_s / 5, "the first answer loaded the app"
    assert took_s / COUNT * 1e6 < MOST_US_A_PRODUCT
