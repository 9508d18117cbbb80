"""Strangers with a browser key do not fill Redis; `tests/drills/test_hostile_writes.py` sends a million writes."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from cluster.store.connect import OpenStores
from tests.suites.hostile_writes import APP, Flood

pytestmark = pytest.mark.redis
WRITES = 20_000
MOST_MB = 24


async def test_a_flood_leaves_little_behind(easy_stores: OpenStores, tmp_path: Path) -> None:
    flood = await Flood.open(easy_stores, tmp_path)
    before = await flood.memory()
    await flood.run(WRITES)
    await flood.work()
    print(flood.report(before))
    assert flood.peak - before <= MOST_MB << 20
    packed = await easy_stores.interactions.recent(APP, ["u:honest"])
    assert [orjson.loads(entry)[1][0] for entry in packed] == flood.honest[:200]
    assert flood.statuses[401] > 0
    await flood.corner.close()
