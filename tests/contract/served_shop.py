"""The corner shop behind the API, with an engine of its own in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from actors.serving.host import EngineHost
from cluster.meter import SilentMeter
from cluster.records.validation.boost_rules import read_rules
from tests.fakes.corner_shop import APP, NOW_MS, furnish
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import Corner, StillClock, open_corner
from tests.fakes.stores.memory import memory_stores


@asynccontextmanager
async def open_served_shop(rules: Any = None) -> AsyncIterator[Corner]:
    """Serve the shop, with stored rules if there are any."""
    clock = StillClock(NOW_MS)
    stores = memory_stores(clock)
    await furnish(stores)
    if rules is not None:
        await stores.boost_rules.put(APP, read_rules(rules))
    host = EngineHost(stores, None, clock, SilentMeter())
    await host.start()
    yield await open_corner(
        clock=clock, stores=stores, client=LocalRecommenderClient(host),
        find_unknown_products=host.find_unknown_products,
    )  # fmt: skip
    await host.close()
