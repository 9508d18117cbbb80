"""Large things: no reading brings more than fits, and everything comes in the end."""

from __future__ import annotations

import pytest

from cluster.store.connect import OpenStores
from cluster.store.data.change_log import MOST_BYTES as MOST_OF_A_LOG
from cluster.store.data.intake import MOST_BYTES as MOST_OF_A_CLAIM
from tests.suites.doing import APP, NOW, OTHER, accept, claim_one

pytestmark = pytest.mark.redis


async def test_a_claim_brings_no_more_than_fits_and_the_next_brings_the_rest(
    redis_stores: OpenStores,
) -> None:
    payload = b"x" * (MOST_OF_A_CLAIM // 3)
    for n in range(5):
        await redis_stores.intake.accept(APP, "user", "put", payload, task_id=f"t{n}", total=1, now_ms=NOW)
    await accept(redis_stores, "small", app_id=OTHER)
    seen = []
    while batches := await redis_stores.intake.claim("worker", [APP, OTHER], count=10, block_ms=0):
        assert len(batches) <= 4
        for batch in batches:
            seen.append(batch.task_id)
            assert await redis_stores.intake.give_up(batch, "enough", now_ms=NOW)
    assert sorted(seen) == ["small", "t0", "t1", "t2", "t3", "t4"]


async def test_a_batch_larger_than_a_claim_comes_alone(redis_stores: OpenStores) -> None:
    payload = b"x" * (MOST_OF_A_CLAIM + 1)
    for n in range(2):
        await redis_stores.intake.accept(APP, "user", "put", payload, task_id=f"t{n}", total=1, now_ms=NOW)
    assert (await claim_one(redis_stores)).payload == payload


async def test_a_reading_brings_no_more_of_a_log_than_fits(redis_stores: OpenStores) -> None:
    payload = b"x" * (MOST_OF_A_LOG // 3)
    offsets = [await redis_stores.interactions.append(APP, payload, []) for _ in range(8)]
    sizes, after = [], "0"
    while changes := await redis_stores.changes.read(APP, {"interaction": after}, count=100, block_ms=0):
        sizes.append(len(changes))
        assert all(change.payload == payload for change in changes)
        after = changes[-1].offset
    assert after == offsets[-1]
    assert sum(sizes) == 8
    assert max(sizes) <= 3
