"""Drill R20: back up a filled installation that answers, verify, wipe, restore; prints the figures as JSON.

python -m tests.drills.backup_restore --records 1000000

Products and interactions are compacted, as in an installation that runs. An API handler with an engine answers
recommendations of a second app of 20,000 products at a steady rate in this process; `kiosk` commands run beside it.
Bounds: during the backup p99 at most 1.5 times the one without, and no answer fails; verify and restore within 10
minutes together, 900 answers compared.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson

from actors.intake.compaction import ChangeLogCompactor, SegmentRebuilder
from actors.language.hashing_embedder import HashingEmbedder, embedding_text
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.app_follower import AppFollower
from actors.serving.client import RecommenderClient
from cluster.admin.schema import ensure_schema
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock, iso_ms
from cluster.compact_json import dump_compact
from cluster.crypto import new_master_key
from cluster.log import set_up_logging
from cluster.meter import SilentMeter
from cluster.records.apps import App, AppSettings
from cluster.records.engine import Engine as EngineRecord
from cluster.records.interaction import RecentEvent
from cluster.store import keys
from cluster.store.connect import OpenStores, open_stores
from cluster.store.seals.seal import salt_from_key, seal
from tests.benchmarks.data import BRANDS, NOUNS, TRAITS
from tests.fakes.asgi import call
from tests.fakes.request_handler import open_corner
from tests.suites.redis_process import RedisProcess

APP, SERVED = "shop", "corner"
SERVED_RECORDS = 20_000
BATCH = 1000
MOST_P99_RATIO = 1.5
MOST_S = 600.0
EMBEDDER = HashingEmbedder()


async def fill(stores: OpenStores, app_id: str, records: int) -> None:
    """Write products and interactions as the intake stores them, a thousand in a batch."""
    now_ms = SystemClock().now_ms()
    await ensure_schema(stores, now_ms)
    app = App(app_id=app_id, environment="development", settings=AppSettings(), created_at=now_ms)
    await stores.access.put_app(app)
    await stores.engines.put(EngineRecord(app_id=app_id, engine_id="default", created_at=now_ms))
    for noun in ("product", "interaction"):
        await stores.server.execute_slow("SET", keys.noun_seen(app_id, noun), "1")
    for first in range(0, records, BATCH):
        await _fill_batch(stores, app_id, range(first, first + BATCH), records // 10, now_ms)


async def _fill_batch(stores: OpenStores, app_id: str, numbers: range, users: int, now_ms: int) -> None:
    ask, waiting, bodies = stores.server.execute_slow, list[Awaitable[Any]](), list[bytes]()
    products = [_product(n) for n in numbers]
    for n, product in zip(numbers, products, strict=True):
        body = dump_compact(product)
        bodies.append(body)
        key = keys.record(app_id, "product", f"p{n}")
        waiting.append(ask("SET", key, seal(body, salt_from_key(key))))
        event = RecentEvent("product_detail_page_view", (f"p{n}",), now_ms - n).pack()
        waiting.append(ask("LPUSH", keys.recent(app_id, f"u:u{n % users}"), event))
    ids = [f"p{n}" for n in numbers]
    waiting.append(ask("ZADD", keys.record_ids(app_id, "product"), *(w for i in ids for w in (0, i))))
    waiting.append(ask("HSET", keys.product_type(app_id), *(w for i in ids for w in (i, '"book"'))))
    waiting.append(ask("ZADD", keys.product_type_ids(app_id), *(w for i in ids for w in (0, f'"book"{i}'))))
    views = [
        {
            "type": "product_detail_page_view", "user_id": f"u{n % users}", "product_ids": [f"p{n}"],
            "timestamp": iso_ms(now_ms - n),
        }
        for n in numbers
    ]  # fmt: skip
    vectors = EMBEDDER.embed([embedding_text(product) for product in products]).astype("<f2").tobytes()
    embedded = ("vectors", seal(vectors, salt_from_key("product")), "embedder", EMBEDDER.version)
    for noun, data, more in (
        ("product", b"[" + b",".join(bodies) + b"]", embedded), ("interaction", orjson.dumps(views), ()),
    ):  # fmt: skip
        payload = seal(data, salt_from_key(noun))
        waiting.append(
            ask("XADD", keys.change_log(app_id, noun), "*", "op", "put", "payload", payload, *more)
        )
    await asyncio.gather(*waiting)


def _product(n: int) -> dict[str, Any]:
    noun, trait, brand = NOUNS[n % 10], TRAITS[n // 10 % 10], BRANDS[n // 100 % 8]
    return {
        "product_id": f"p{n}", "type": "book", "title": f"{trait.title()} {noun} {n}", "brand": brand,
        "categories": [["Shop", noun.title(), trait.title()]], "price": n % 99,
    }  # fmt: skip


async def compact(stores: OpenStores, artifacts: ArtifactStore) -> None:
    """Compact everything, as the intake does."""
    segments, clock = SegmentStore(artifacts), SystemClock()
    rebuilder = SegmentRebuilder(stores, segments, HashingEmbedder(), clock)
    compactor = ChangeLogCompactor(stores.changes, segments, rebuilder, clock, SilentMeter())
    while await compactor.run_once([APP, SERVED], at_once=True):
        pass


class Engine(RecommenderClient):
    """The recommender of the app in this process."""

    def __init__(self, stores: OpenStores, artifacts: ArtifactStore) -> None:
        self._stores = stores
        self.follower = AppFollower(
            SERVED, "drill", stores, SegmentStore(artifacts), SystemClock(), SilentMeter(), HashingEmbedder,
            indexes_texts=False,
        )  # fmt: skip

    async def answer(self, query: UserQuery) -> RecommendationResult:
        """Answer as an engine's host does."""
        recent = await self._stores.interactions.recent(query.app_id, query.user_keys)
        return await self.follower.answer(query, recent, ())


class Shop:
    """An API handler with an engine over the installation."""

    def __init__(self, stores: OpenStores, artifacts: ArtifactStore, rate: float) -> None:
        self._stores, self._users, self._rate = stores, SERVED_RECORDS // 10, rate
        self._engine = Engine(stores, artifacts)

    async def open(self) -> float:
        """Load the engine; return the seconds it took."""
        began_s = time.monotonic()
        await self._engine.follower.start()
        took_s = time.monotonic() - began_s
        self._corner = await open_corner(clock=SystemClock(), stores=self._stores, client=self._engine)
        await self._corner.open_app(SERVED)
        for number in range(20):
            assert await self._recommend(number) == 200
        return took_s

    async def close(self) -> None:
        """Free the memory."""
        await self._engine.follower.close()
        await self._corner.close()

    async def answer_until(self, is_over: Callable[[float], bool]) -> dict[str, float]:
        """Answer at a steady rate; a late answer counts from the moment it was due."""
        took: list[float] = []
        failed, began_s = 0, time.monotonic()
        for turn in itertools.count():
            due_s = began_s + turn / self._rate
            if is_over(due_s - began_s):
                break
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            failed += await self._recommend(turn * 7919) != 200
            took.append((time.monotonic() - due_s) * 1000)
        at = statistics.quantiles(took, n=100)
        return {
            "answers": len(took),
            "failed": failed,
            "p50_ms": round(at[49], 2),
            "p99_ms": round(at[98], 2),
        }

    async def _recommend(self, number: int) -> int:
        body = {"user_id": f"u{number % self._users}", "rows": 10}
        path = "/v1/recommendation/user_to_products"
        answer = await call(
            self._corner.handler, "POST", path, headers=self._corner.headers(SERVED), json=body
        )
        return answer.status


async def measure(
    shop: Shop, command: list[str], variables: dict[str, str], quiet_s: float
) -> dict[str, Any]:
    """Run a command beside answers; return its answer and its time, and the answers before, during and after."""
    before = await shop.answer_until(lambda at_s: at_s > quiet_s)
    running = asyncio.create_task(asyncio.to_thread(timed, command, variables))
    during = await shop.answer_until(lambda _: running.done())
    after = await shop.answer_until(lambda at_s: at_s > quiet_s)
    quiet_ms = min(before["p99_ms"], after["p99_ms"])
    return {
        **await running, "before": before, "during": during, "after": after,
        "p99_ratio": round(during["p99_ms"] / quiet_ms, 2),
    }  # fmt: skip


def timed(command: list[str], variables: dict[str, str]) -> dict[str, Any]:
    """Run one command of `kiosk`; return its JSON, its time, and the memory the largest command needed so far."""
    began_s = time.monotonic()
    completed = subprocess.run(
        [sys.executable, "-m", "deployments.cli", *command, "--json"],
        env={**os.environ, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if completed.returncode:
        raise SystemExit(
            f"{command} ended with {completed.returncode}: {completed.stdout} {completed.stderr}"
        )
    report_figures: dict[str, Any] = json.loads(completed.stdout) if completed.stdout else {}
    most_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    return {
        "seconds": round(time.monotonic() - began_s, 1),
        **report_figures,
        "most_mb_of_any_command": most_mb,
    }


class Drill:
    """The drill, step by step; each step prints its figures."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.records, self.options = folder, int(options.records), options
        self.place = str(folder / "backups")
        self.words = ["backup", self.place, "--pause", str(options.pause)]
        self.server = RedisProcess().start()
        (folder / "key").write_text(new_master_key())
        self.variables = {
            "KIOSK_REDIS_URL": self.server.url, "KIOSK_DATA_DIR": str(folder / "data"),
            "KIOSK_MASTER_KEY_FILE": str(folder / "key"),
        }  # fmt: skip

    async def prepare(self) -> None:
        """Fill the installation and compact it."""
        artifacts = ArtifactStore.open(self.folder / "data" / "shelf")
        async with open_stores(self.server.url, slow_s=60) as stores:
            began_s = time.monotonic()
            await fill(stores, APP, self.records)
            await fill(stores, SERVED, SERVED_RECORDS)
            filled_s = time.monotonic()
            await compact(stores, artifacts)
        report(
            "prepare", records=self.records, fill_s=filled_s - began_s, compact_s=time.monotonic() - filled_s
        )
        timed(["artifacts", "sign"], self.variables)

    async def back_up(self) -> list[str]:
        """Back up beside answers; return which bounds were missed."""
        artifacts = ArtifactStore.open(self.folder / "data" / "shelf")
        async with open_stores(self.server.url, slow_s=60) as stores:
            shop = Shop(stores, artifacts, self.options.rate)
            report("engine", load_s=await shop.open())
            figures = await measure(shop, self.words, self.variables, self.options.quiet_s)
            await shop.close()
        report("backup", **figures)
        ratio, failed = figures["p99_ratio"], figures["during"]["failed"]
        missed = [f"p99 {ratio} times as high"] if ratio > MOST_P99_RATIO else []
        return missed + ([f"{failed} answers failed"] if failed else [])

    def verify_and_restore(self) -> list[str]:
        """Back up again, verify, restore; return what took too long or differs."""
        # nobody is served meanwhile
        report("again", **timed(["backup", self.place, "--pause", "0"], self.variables))
        verified = timed(["backup", "verify", self.place], self.variables)
        report("verify", **verified)
        restored = timed(["restore", self.place, "--replace"], self.variables)
        report("restore", **restored)
        took_s = verified["seconds"] + restored["seconds"]
        missed = [f"verify and restore took {took_s} s"] if took_s > MOST_S else []
        return missed + ([] if verified["answers"]["compared"] >= 900 else ["too few answers were compared"])

    def close(self) -> None:
        """Stop the server and remove everything."""
        self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def report(step: str, **figures: Any) -> None:
    """Print the figures of one step."""
    rounded = {
        name: round(value, 1) if isinstance(value, float) else value for name, value in figures.items()
    }
    print(json.dumps({"step": step, **rounded}), flush=True)


def main() -> None:
    """Run the drill."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--pause", default="1")
    parser.add_argument("--quiet-s", type=float, default=120.0)
    parser.add_argument("--rate", type=float, default=20.0, help="recommendations a second")
    given = parser.parse_args()
    set_up_logging(level=logging.WARNING)
    drill = Drill(Path(tempfile.mkdtemp(prefix="kiosk-drill-")), given)
    try:
        asyncio.run(drill.prepare())
        missed = asyncio.run(drill.back_up())
        if missed := missed + drill.verify_and_restore():
            raise SystemExit("bounds missed: " + "; ".join(missed))
    finally:
        drill.close()


if __name__ == "__main__":
    main()
