"""What the REST door itself costs, without server and network: microseconds a request, in this process.

python -m tests.benchmarks.request_handler             on memory stores
python -m tests.benchmarks.request_handler --redis     on a Redis server started for it
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from contextlib import AsyncExitStack
from typing import Any

import orjson

from cluster.clock import SystemClock
from cluster.store.connect import open_stores
from cluster.store.stores import Stores
from tests.fakes.asgi import call
from tests.fakes.request_handler import Corner, open_corner
from tests.fakes.tokens import token_of
from tests.suites.redis_process import RedisProcess

ROUNDS = 3
REQUESTS = 4000


def requests_of(corner: Corner) -> dict[str, tuple[str, bytes, bytes, dict[bytes, bytes]]]:
    """Name the requests: method, raw path, body, more headers."""
    ask = orjson.dumps({"user_id": "gina-7", "rows": 10, "fl": ["title"]})
    click = {"type": "click", "user_id": "gina-7", "product_ids": ["trowel-02"]}
    token = token_of({"user_id": "gina-7", "exp": int(time.time()) + 3600}, corner.secret())
    path = b"/v1/recommendation/user_to_products"
    return {
        "read a user": ("GET", b"/v1/users/gina-7", b"", {}),
        "unknown user": ("GET", b"/v1/users/nobody", b"", {}),
        "unknown key": ("GET", b"/v1/users/gina-7", b"", {b"x-api-key": b"ksk_dev_nobody"}),
        "one interaction": ("POST", b"/v1/interactions", orjson.dumps({"data": [click]}), {}),
        "100 interactions": ("POST", b"/v1/interactions", orjson.dumps({"data": [click] * 100}), {}),
        "recommendation": ("POST", path, ask, {}),
        "recommendation, token": ("POST", path, ask, {b"authorization": b"Bearer " + token.encode()}),
        "upload of 100 users": (
            "POST",
            b"/v1/users?dry_run=1",
            orjson.dumps({"data": [{"user_id": f"u-{at}", "name": "Gina", "age": 41} for at in range(100)]}),
            {},
        ),
    }


async def measure(stores: Stores | None) -> dict[str, float]:
    """Measure each request one after the other; the best round counts."""
    corner = await open_corner(clock=SystemClock(), stores=stores)
    for path, record in (
        ("users", {"user_id": "gina-7", "name": "Gina"}),
        ("products", {"product_id": "hoe-11"}),
    ):
        await call(corner.handler, "POST", f"/v1/{path}", headers=corner.headers(), json={"data": [record]})
    await corner.apply()
    return {
        name: round(min([await _round(corner, *request) for _ in range(ROUNDS)]), 1)
        for name, request in requests_of(corner).items()
    }


async def _round(corner: Corner, method: str, target: bytes, body: bytes, more: dict[bytes, bytes]) -> float:
    path, _, query = target.partition(b"?")
    headers = {b"host": b"x", b"user-agent": b"bench", b"x-api-key": corner.secret().encode(), **more}
    scope: dict[str, Any] = {
        "type": "http", "method": method, "path": path.decode(), "raw_path": path, "query_string": query,
        "headers": list(headers.items()), "client": ("192.0.2.7", 40000),
    }  # fmt: skip
    message = {"type": "http.request", "body": body, "more_body": False}
    count = REQUESTS // (20 if len(body) > 1000 else 1)

    async def receive() -> dict[str, Any]:
        return message

    async def send(_: Any) -> None:
        return None

    begin = time.perf_counter()
    for _ in range(count):
        await corner.handler(scope, receive, send)
    return (time.perf_counter() - begin) / count * 1e6


async def main(with_redis: bool) -> None:
    """Print the figures as JSON."""
    async with AsyncExitStack() as stack:
        stores = None
        if with_redis:
            server = RedisProcess()
            stack.callback(server.stop)
            stores = await stack.enter_async_context(open_stores(server.start().url))
        print(json.dumps({"unit": "microseconds", **await measure(stores)}, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--redis", action="store_true")
    asyncio.run(main(parser.parse_args().redis))
