"""Drill R20: back up a filled installation under reads, verify, wipe, restore; prints the figures as JSON.

python -m tests.drills.backup_restore --records 1000000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson

from cluster.admin.schema import ensure_schema
from cluster.records.access import App, AppSettings
from cluster.records.interaction import RecentEvent
from cluster.secrecy import new_master_key
from cluster.store import keys
from cluster.store.connect import OpenStores, open_stores
from cluster.store.redis.seal import salt_from_key, seal
from tests.suites.redis_process import RedisProcess

APP = "shop"
NOW = 1_700_000_000_000
BATCH = 1000


async def fill(stores: OpenStores, records: int) -> None:
    """Write products and interactions as the intake stores them, a thousand in a batch."""
    await ensure_schema(stores, NOW)
    await stores.access.put_app(
        App(app_id=APP, environment="development", settings=AppSettings(), created_at=NOW)
    )
    ask = stores.server.execute_slow
    for first in range(0, records, BATCH):
        bodies, waiting = [], list[Any]()
        for n in range(first, first + BATCH):
            body = orjson.dumps(
                {"product_id": f"p{n}", "type": "book", "title": f"Title {n * 7919}", "price": n % 99}
            )
            bodies.append(body)
            key = keys.record(APP, "product", f"p{n}")
            waiting.append(ask("SET", key, seal(body, salt_from_key(key))))
        ids = [f"p{n}" for n in range(first, first + BATCH)]
        waiting.append(ask("ZADD", keys.record_ids(APP, "product"), *(w for i in ids for w in (0, i))))
        waiting.append(ask("HSET", keys.product_type(APP), *(w for i in ids for w in (i, '"book"'))))
        waiting.append(ask("ZADD", keys.product_type_ids(APP), *(w for i in ids for w in (0, f'"book"{i}'))))
        payload = seal(b"[" + b",".join(bodies) + b"]", salt_from_key("product"))
        waiting.append(ask("XADD", keys.change(APP, "product"), "*", "op", "put", "payload", payload))
        clicks = [
            {"user_id": f"u{n % (records // 10)}", "product_id": f"p{n}", "type": "click"}
            for n in range(first, first + BATCH)
        ]
        payload = seal(orjson.dumps(clicks), salt_from_key("interaction"))
        waiting.append(ask("XADD", keys.change(APP, "interaction"), "*", "op", "put", "payload", payload))
        for n in range(first, first + BATCH):
            event = RecentEvent("product_detail_page_view", (f"p{n}",), NOW + n).pack()
            waiting.append(ask("LPUSH", keys.recent(APP, f"u{n % (records // 10)}"), event))
        await asyncio.gather(*waiting)


async def read_records(url: str, records: int, until: asyncio.Event) -> list[float]:
    """Read records at 100 requests/s until told; return the times in milliseconds."""
    took, n = list[float](), 0
    async with open_stores(url) as stores:
        while not until.is_set():
            n += 7919
            began = time.perf_counter()
            await stores.records.get_many(APP, "product", [f"p{(n + k * 31) % records}" for k in range(20)])
            took.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.01)
    return took


def p99(took: list[float]) -> float:
    """Return the 99th percentile."""
    return round(statistics.quantiles(took, n=100)[98], 2)


async def measure(url: str, records: int, command: list[str], variables: dict[str, str]) -> dict[str, Any]:
    """Run a command beside reads; return its answer, its time and the reads' p99 before and during."""
    done = asyncio.Event()
    before = asyncio.create_task(read_records(url, records, done))
    await asyncio.sleep(15)
    done.set()
    quiet, done = await before, asyncio.Event()
    during = asyncio.create_task(read_records(url, records, done))
    began = time.monotonic()
    told = await asyncio.to_thread(run, command, variables)
    took = time.monotonic() - began
    done.set()
    return {
        "seconds": round(took, 1), "p99_before_ms": p99(quiet), "p99_during_ms": p99(await during), **told,
    }  # fmt: skip


def run(command: list[str], variables: dict[str, str]) -> dict[str, Any]:
    """Run one command of `kiosk` and return its JSON and the memory it needed at most."""
    import resource

    found = subprocess.run(
        [sys.executable, "-m", "deployments.cli", *command, "--json"],
        env={**os.environ, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if found.returncode:
        raise SystemExit(f"{command} ended with {found.returncode}: {found.stdout} {found.stderr}")
    told: dict[str, Any] = json.loads(found.stdout)
    most_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    return {**told, "most_mb_of_any_command": most_mb}


def timed(command: list[str], variables: dict[str, str]) -> dict[str, Any]:
    """Run one command; return its answer and its time."""
    began = time.monotonic()
    told = run(command, variables)
    return {"seconds": round(time.monotonic() - began, 1), **told}


def main() -> None:
    """Run the drill."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--pause", default="1")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kiosk-drill-"))
    server = RedisProcess().start()
    try:
        (folder / "key").write_text(new_master_key())
        variables = {
            "KIOSK_REDIS_URL": server.url, "KIOSK_DATA_DIR": str(folder / "data"),
            "KIOSK_MASTER_KEY_FILE": str(folder / "key"),
        }  # fmt: skip
        place = str(folder / "backups")

        async def filled() -> None:
            async with open_stores(server.url, slow_s=60) as stores:
                await fill(stores, given.records)

        began = time.monotonic()
        asyncio.run(filled())
        figures: dict[str, Any] = {"records": given.records, "fill_s": round(time.monotonic() - began, 1)}
        words = ["backup", place, "--pause", given.pause]
        figures["backup"] = asyncio.run(measure(server.url, given.records, words, variables))
        print(json.dumps(figures), flush=True)
        figures["again"] = timed(words, variables)
        figures["verify"] = timed(["backup", "verify", place], variables)
        figures["restore"] = timed(["restore", place, "--replace"], variables)
        print(json.dumps(figures, indent=1))
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
