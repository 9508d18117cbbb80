"""How long the first filter on a field takes, and how long others of the same app wait meanwhile.

`python -m tests.benchmarks.first_filter [sizes...]`: a generated shop whose columns nobody built yet, in one process.
One user asks for trending products every few milliseconds; another asks for the first time with each filter.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from dataclasses import replace
from typing import Any

from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import Circle, UserQuery
from actors.serving.app_follower import RECORDS_AT_ONCE, AppFollower
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.query.language.parser import parse
from tests.benchmarks.recommender_inprocess import Shop
from tests.fakes.stores.memory import memory_stores

PLAIN = UserQuery("user_to_trending", "a", "default", user_id="u", rows=10)
FILTERS = {
    "price": replace(PLAIN, filter=parse("price:[10 TO 20]")),
    "brand, tags and rating": replace(
        PLAIN, filter=parse("brand:brand-3 AND tags:tag-3 AND rating:[1 TO *]")
    ),
    "categories": replace(PLAIN, filter=parse("categories:top-1")),
    "created_at": replace(PLAIN, filter=parse("created_at:[2024-03 TO 2024-05]")),
    "attributes.grip": replace(PLAIN, filter=parse("attributes.grip:green")),
    "title": replace(PLAIN, filter=parse("title:line")),
    "url by a wildcard": replace(PLAIN, filter=parse("url:*7")),
    "boost near a point": replace(PLAIN, boost_circles=(Circle(50.0, 7.0, 10),)),
    "grouped by brand": replace(PLAIN, kind="user_to_attributes", field_name="brand", group_rows=2),
    "grouped by tags": replace(PLAIN, kind="user_to_attributes", field_name="tags", group_rows=2),
}


class LongShop(Shop):
    """A shop whose records are as long as real ones, 850 bytes."""

    def product(self, number: int) -> dict[str, Any]:
        """Make one product."""
        at = f"2024-{1 + number % 12:02}-{1 + number % 28:02}T{number % 24:02}:{number % 60:02}:00Z"
        return super().product(number) | {
            "description": "A trowel of good steel, made for hard ground and long days. " * 6,
            "url": f"https://shop.example/p/{number}",
            "image_url": f"https://img.example/{number}.jpg",
            "location": [{"lat": 50 + number % 9, "lon": 7.0}],
            "custom_attributes": {"grip": "green", "size": ["S", "M"], "made": number % 50},
            "original_price": float(number % 300),
            "created_at": at,
            "availability": "IN_STOCK",
        }


async def measure(size: int) -> None:
    """Print the table of one size."""
    shop, clock = LongShop(size, 1_000), SystemClock()
    shop.load()
    shop.learn()
    follower = AppFollower("a", "first", memory_stores(clock), None, clock, SilentMeter(), HashingEmbedder)
    await follower.start()
    follower._recommender = shop.recommender
    shop.recommender.overlay.catalog.columns.limit_reads(RECORDS_AT_ONCE)
    waits: list[float] = []
    others = asyncio.create_task(_others(follower, waits))
    await asyncio.sleep(0.3)
    print(f"\n{size:,} products")
    print(f"  {'':25} {'first ms':>9} {'again ms':>9} {'others at most ms':>18} {'p50':>6}")
    for name, query in {"nothing new": PLAIN, **FILTERS}.items():
        waits.clear()
        await asyncio.sleep(0.02)
        first = await _ask(follower, query)
        await asyncio.sleep(0.02)
        most, middle = max(waits), statistics.median(waits)
        again = await _ask(follower, query)
        print(f"  {name:25} {first:9.1f} {again:9.1f} {most:18.1f} {middle:6.1f}")
    others.cancel()
    await follower.close()


async def _others(follower: AppFollower, waits: list[float]) -> None:
    while True:
        waits.append(await _ask(follower, PLAIN))
        await asyncio.sleep(0.003)


async def _ask(follower: AppFollower, query: UserQuery) -> float:
    started_s = time.perf_counter()
    await follower.answer(query, [], [])
    return (time.perf_counter() - started_s) * 1000


if __name__ == "__main__":
    for argument in sys.argv[1:] or ["100000", "300000"]:
        asyncio.run(measure(int(argument)))
