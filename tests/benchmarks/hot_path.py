"""Which files one recommendation touches: `python -m tests.benchmarks.hot_path [--redis] [--filter]`.

The request is a warm `user_to_products` with a secret key, for a user with a history, of an embedded engine with a
trained snapshot. The program prints the modules of the product whose functions run during the request, and the number
of calls. Of `cluster/store` it counts the three modules that `STORE_FILES` names.

`python -m tests.benchmarks.instructions` counts the instructions of this request and of other kinds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import orjson

from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.ids import DEFAULT_ENGINE
from cluster.meter import SilentMeter
from cluster.records.engine import Engine
from cluster.store.connect import open_stores
from cluster.store.stores import Stores
from deployments.api.http.engine_router import EngineRouter
from tests.fakes.asgi import call
from tests.fakes.request_handler import Corner, StillClock, open_corner
from tests.fakes.stores.memory import memory_stores
from tests.fakes.trained_snapshot import name, publish_ring_snapshot, ring_products
from tests.suites.redis_process import RedisProcess

ROOT = Path(__file__).parents[2]
PACKAGES = ("actors", "cluster", "deployments", "jobs")
APP = "shop"
QUERY = {"user_id": "gina-7", "rows": 10, "fl": ["title"]}
FILTER = "brand:maker-1 OR brand:maker-2"
STORE_FILES = frozenset(
    f"cluster/store/{stem}.py" for stem in ("data/interactions", "client/redis_client", "client/multiplexer")
)
PATH = b"/v1/recommendation/user_to_products"


class HotPath:
    """One process that answers recommendations: request handler, router, host, snapshot."""

    def __init__(self, corner: Corner, query: dict[str, Any]) -> None:
        self._corner = corner
        self._body = orjson.dumps(query)
        headers = {b"host": b"x", b"user-agent": b"bench", b"x-api-key": corner.secret().encode()}
        self._scope: dict[str, Any] = {
            "type": "http", "method": "POST", "path": PATH.decode(), "raw_path": PATH, "query_string": b"",
            "headers": list(headers.items()), "client": ("192.0.2.7", 40000),
        }  # fmt: skip

    @classmethod
    async def open(
        cls, folder: Path, stack: AsyncExitStack, stores: Stores | None = None, query: dict[str, Any] = QUERY
    ) -> HotPath:
        """Upload products and a history, promote a trained snapshot, and open the request handler over them."""
        clock = StillClock()
        stores = stores or memory_stores(clock)
        snapshots = SnapshotStore(ArtifactStore.open(folder / "artifacts"))
        version = publish_ring_snapshot(snapshots, folder / "built", APP)
        await stores.engines.put(Engine(app_id=APP, engine_id=DEFAULT_ENGINE, snapshot=version))
        loader = SnapshotLoader(snapshots)
        host = EngineHost(stores, None, clock, SilentMeter(), models=loader)
        stack.push_async_callback(host.close)

        async def connect(app_id: str, engine_id: str) -> Any:
            raise AssertionError("the engine is embedded")

        router = EngineRouter(host.engine_records, host, connect, clock)
        corner = await open_corner(clock=clock, stores=stores, client=router)
        stack.push_async_callback(corner.close)
        headers = corner.headers()
        await call(corner.handler, "POST", "/v1/products", headers=headers, json={"data": ring_products()})
        await corner.apply()
        clicks = [
            {"type": "click", "user_id": "gina-7", "product_ids": [name(number)]} for number in (3, 4, 5)
        ]
        await call(corner.handler, "POST", "/v1/interactions", headers=headers, json={"data": clicks})
        return cls(corner, query)

    async def answer(self) -> bytes:
        """Answer one request; return the body of the reply."""
        parts: list[bytes] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": self._body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            parts.append(message.get("body", b""))

        await self._corner.handler(self._scope, receive, send)
        return b"".join(parts)


async def count_calls(path: HotPath) -> Counter[str]:
    """Count the calls of one warm request in each module of the product; modules without a call are left out."""
    for _ in range(20):
        await path.answer()
    calls: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            calls[frame.f_code.co_filename] += 1

    sys.setprofile(profile)
    try:
        body = await path.answer()
    finally:
        sys.setprofile(None)
    if len(orjson.loads(body)["data"]["products"]) != 10:
        raise RuntimeError(f"the request was not answered: {body!r}")
    product: Counter[str] = Counter()
    for file, count in calls.items():
        place = Path(file)
        if not place.is_relative_to(ROOT) or place.relative_to(ROOT).parts[0] not in PACKAGES:
            continue
        relative = place.relative_to(ROOT).as_posix()
        if not relative.startswith("cluster/store/") or relative in STORE_FILES:
            product[relative] = count
    return product


async def main(*, with_redis: bool, with_filter: bool) -> None:
    """Print the figures as JSON."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        stores = None
        if with_redis:
            server = RedisProcess()
            stack.callback(server.stop)
            stores = await stack.enter_async_context(open_stores(server.start().url))
        path = await HotPath.open(folder, stack, stores, QUERY | {"fq": FILTER} if with_filter else QUERY)
        calls = await count_calls(path)
        files = dict(sorted(calls.items()))
        print(json.dumps({"files": len(files), "calls": calls.total(), "calls of": files}, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--redis", action="store_true", help="real Redis instead of stores in memory")
    parser.add_argument("--filter", action="store_true", help="a query with a filter")
    chosen = parser.parse_args()
    asyncio.run(main(with_redis=chosen.redis, with_filter=chosen.filter))
