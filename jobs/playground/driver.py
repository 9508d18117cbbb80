"""Opens the stores of an installation and loads the playground; or writes the sample to files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from actors.language.hashing_embedder import HashingEmbedder
from cluster.admin.schema import check_schema
from cluster.clock import SystemClock
from cluster.log import set_up_logging
from cluster.settings import Settings
from cluster.store.connect import open_stores
from jobs.playground.loader import LoadResult, build_sample, load_playground


def load_into_app(redis_url: str, app_id: str) -> LoadResult:
    """Load the playground into an app; without an address, use the address in the settings.

    Errors:
        ValueError: neither the argument nor the settings have an address
    """
    if not redis_url:
        address = Settings().redis_address
        if address is None:
            raise ValueError("say where Redis is: --redis-url or KIOSK_REDIS_URL")
        redis_url = address
    set_up_logging()
    return asyncio.run(_load_async(redis_url, app_id))


async def _load_async(redis_url: str, app_id: str) -> LoadResult:
    clock = SystemClock()
    # other processes may be starting, and no client waits for this job
    async with open_stores(redis_url, slow_s=10.0, is_serving=False) as stores:
        await check_schema(stores)
        return await load_playground(
            stores, now_ms=clock.now_ms(), embedder=HashingEmbedder(), app_id=app_id, clock=clock
        )


def write_sample(folder: Path, now_ms: int | None) -> dict[str, int]:
    """Write the sample as `{"data": [...]}` bodies of 100 records, ready for upload; return file counts by kind."""
    whole = build_sample(SystemClock().now_ms() if now_ms is None else now_ms)
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "products": _write_bodies(folder, "products", whole.products),
        "users": _write_bodies(folder, "users", whole.users),
        "interactions": _write_bodies(folder, "interactions", whole.interactions),
    }


def _write_bodies(folder: Path, noun: str, records: Sequence[dict[str, Any]]) -> int:
    size = 1_000 if noun == "interactions" else 100
    starts = range(0, len(records), size)
    for at, start in enumerate(starts, 1):
        body = orjson.dumps({"data": records[start : start + size]})
        (folder / f"{noun}-{at:02d}.json").write_bytes(body)
    return len(starts)
