"""A flood of everything a browser key can write, against a whole door on a real Redis, with our own work beside it.

Time is simulated: requests come at the rate the app allows, and what runs twice a minute runs twice a minute.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from actors.intake.compaction import ChangeLogCompactor, SegmentRebuilder
from actors.intake.daily_log_compaction import DailyLogCompactor
from actors.language.hashing_embedder import HashingEmbedder
from cluster.artifacts.logs.query_log import QueryLogStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.meter import SilentMeter
from cluster.records.apps import Limits, new_app_settings
from cluster.store.connect import OpenStores
from deployments.api.http.query_log_writer import QueryLogWriter
from deployments.edge.access.identity_proof import sign_user_id
from tests.fakes.asgi import Answer, call
from tests.fakes.request_handler import BROWSER, Corner, StillClock, open_corner

APP = "safe"
EVERY_MS = 20
"Between two requests: fifty a second, the rate of a new app."
WORK_EVERY_MS = 30_000
HONEST_EVERY = 500
ADDRESSES = 50


@dataclass
class Flood:
    """What was sent, what came of it, and what it left in Redis."""

    stores: OpenStores
    corner: Corner
    clock: StillClock
    book: QueryLogWriter
    settler: ChangeLogCompactor
    queries: DailyLogCompactor
    random: Random = field(default_factory=lambda: Random(7))
    writes: int = 0
    requests: int = 0
    peak: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    honest: list[str] = field(default_factory=list)
    "Products the honest reader looked at, newest first."
    _worked_ms: int = 0

    @classmethod
    async def open(cls, stores: OpenStores, folder: Path) -> Flood:
        """Open a door with a production app, and who settles what it takes."""
        clock = StillClock()
        book = QueryLogWriter(stores.queries, clock)
        corner = await open_corner(clock=clock, stores=stores, query_log=book)
        # The app's whole rate for strangers: the bounds under test are the others.
        limits = Limits(queries_per_s=50, query_burst=100)
        settings = new_app_settings("production").model_copy(
            update={"limits": limits, "publishable_experiments": True, "address_share": 1.0}
        )
        await corner.open_app(APP, "production", settings)
        artifacts = ArtifactStore.open(folder)
        segments = SegmentStore(artifacts, clock)
        rebuilder = SegmentRebuilder(stores, segments, HashingEmbedder(), clock)
        settler = ChangeLogCompactor(stores.changes, segments, rebuilder, clock, SilentMeter())
        queries = DailyLogCompactor(stores.queries, QueryLogStore(artifacts, clock), clock, SilentMeter())
        return cls(stores, corner, clock, book, settler, queries)

    async def memory(self) -> int:
        """Ask Redis for the bytes it uses."""
        return int((await self.stores.info("memory"))["used_memory"])

    async def run(self, writes: int) -> None:
        """Send so many hostile writes, honest ones among them."""
        while self.writes < writes:
            self.clock.pass_ms(EVERY_MS)
            self.requests += 1
            if self.requests % HONEST_EVERY == 0:
                await self._look_at(f"p{self.requests}")
            else:
                await self._attack()
            if self.clock.now_ms() - self._worked_ms >= WORK_EVERY_MS:
                await self.work()

    async def work(self) -> None:
        """Do what the intake and the API replicas do twice a minute."""
        self._worked_ms = self.clock.now_ms()
        await self.book.write()
        self.peak = max(self.peak, await self.memory())
        await self.settler.run_once([APP], at_once=True)
        await self.queries.run_once([APP], at_once=True)

    async def _look_at(self, product_id: str) -> None:
        """The honest reader, signed in, looks at a product, and tries again when told to."""
        secret = self.corner.secret(APP).encode()
        event = {"type": "product_detail_page_view", "user_id": "honest", "product_ids": [product_id]}
        body = {"data": [event], "user_hash": sign_user_id(secret, "honest")}
        for _ in range(100):
            answer = await self._send("/v1/interactions", body, "198.18.0.1")
            if answer.status == 200:
                self.honest.insert(0, product_id)
                return
            assert answer.status == 429, answer.body
            self.clock.pass_ms(1_000)
        raise AssertionError("an honest reader was refused for good")

    async def _attack(self) -> None:
        random, at = self.random, self.requests
        ip = f"203.0.113.{random.randrange(ADDRESSES)}"
        kind = random.random()
        if kind < 0.80:
            events = [_event(random, f"v{at}") for _ in range(random.choice((1, 1, 3)))]
        elif kind < 0.83:
            events = [_event(random, f"w{at}-{n % 3}") for n in range(100)]
        elif kind < 0.88:
            events = [
                {**_event(random, ""), "user_id": "honest", "anonymous_id": f"x{at}"} for _ in range(20)
            ]
        elif kind < 0.91:
            self.writes += 1
            metadata = {"k": "v" * random.choice((100, 4_000, 60_000))}
            question = {"question": f"why {at} {'x' * 500}?", "metadata": metadata, "anonymous_id": f"q{at}"}
            return await self._count("/v1/ask/questions", question, ip)
        elif kind < 0.95:
            self.writes += 1
            experiment = {"anonymous_id": f"e{at}", "variant_name": "x"}
            return await self._count("/v1/experiments/none/events", experiment, ip)
        else:
            self.writes += 1
            typed = {"q": f"{at} {'q' * 900}", "anonymous_id": f"s{at}"}
            return await self._count("/v1/search/search", typed, ip)
        self.writes += len(events)
        await self._count("/v1/interactions", {"data": events}, ip, key=f"k{at}" if at % 3 == 0 else "")

    async def _count(self, path: str, body: Any, ip: str, key: str = "") -> None:
        answer = await self._send(path, body, ip, key)
        self.statuses[answer.status] += 1
        assert answer.status < 500, answer.body

    async def _send(self, path: str, body: Any, ip: str, key: str = "") -> Answer:
        headers: dict[str, str | bytes] = {"User-Agent": BROWSER}
        if key:
            headers["Idempotency-Key"] = key
        target = f"{path}?api_key={self.corner.publishable(APP)}"
        return await call(
            self.corner.handler,
            "POST",
            target,
            headers=headers,
            body=json.dumps(body).encode(),
            client=(ip, 4000),
        )

    def report(self, before: int) -> str:
        """Say what came of it."""
        statuses = ", ".join(f"{count:,} times {status}" for status, count in sorted(self.statuses.items()))
        return (
            f"\n{self.writes:,} hostile writes in {self.requests:,} requests ({statuses}); "
            f"Redis grew by at most {(self.peak - before) / 2**20:.1f} MiB"
        )


def _event(random: Random, visitor: str) -> dict[str, Any]:
    context = {"custom_context": {"x": "y" * random.choice((0, 50, 2_000))}}
    kind = random.choice(("product_detail_page_view", "checkout", "add_to_cart"))
    return {
        "type": kind,
        "anonymous_id": visitor,
        "product_ids": [f"h{random.randrange(1000)}"],
        "context": context,
    }
