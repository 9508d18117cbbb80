"""A million hostile writes with a browser key: Redis grows by at most 64 MB, and an honest history keeps its order.

KIOSK_HOSTILE_WRITES says how many (1,000,000 unless told).
"""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest

from cluster.store.connect import OpenStores
from tests.suites.hostile_writes import APP, Flood

pytestmark = [pytest.mark.drill, pytest.mark.redis, pytest.mark.timeout(3600)]
WRITES = int(os.environ.get("KIOSK_HOSTILE_WRITES", "1000000"))
MOST_BYTES = 64_000_000


async def test_a_million_hostile_writes_do_not_fill_redis(easy_stores: OpenStores, tmp_path: Path) -> None:
    flood = await Flood.open(easy_stores, tmp_path)
    before = await flood.memory()
    await flood.run(WRITES)
    await flood.work()
    print(flood.report(before))
    assert flood.peak - before <= MOST_BYTES
    packed = await easy_stores.interactions.recent(APP, ["u:honest"])
    assert [orjson.loads(entry)[1][0] for entry in packed] == flood.honest[:200]
    await flood.corner.close()
