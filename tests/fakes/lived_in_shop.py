"""A shop in which much happens while it serves: uploads, new rules, experiments, promotions, erasures, renewals.

Lists are requested over the HTTP interface in this process, with filters, boosts, pages and searches, by users and
visitors. Every list leaves a row in the log of answers, as in a real replica.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, cast
from uuid import UUID

from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import iso_ms
from cluster.ids import ServiceId
from cluster.meter import SilentMeter
from cluster.records.apps import AppSettings
from cluster.records.engine import Engine, Exploration
from cluster.store.connect import OpenStores
from deployments.api.http.local_api import LocalApi
from deployments.api.http.served_log_writer import ServedLogWriter
from deployments.operations.framework.services import AdminConfig, AdminServices
from jobs.refresh.runs.worker import TrainingWorker, WorkerResources
from tests.fakes.admin_shop import AdminShop
from tests.fakes.asgi import call
from tests.fakes.audit_list import AuditList
from tests.fakes.corner_shop import APP, NOW_MS, happen, upload, withdraw
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import PLENTY, StillClock, open_corner
from tests.fakes.stores.memory import memory_stores
from tests.suites.waiting import until

PRODUCTS, PEOPLE, VISITORS, TOPICS = 90, 40, 10, 5
MINUTE_MS = 60_000
WORDS = ("oak", "steel", "linen", "glass", "wool", "copper")
BRANDS = ("Alder", "Birk", "Mori")
REQUESTS = (
    ("user_to_products", 45), ("user_to_trending", 10), ("product_to_products", 15), ("search", 15),
    ("user_to_categories", 6), ("user_to_history", 5), ("user_to_attributes", 4),
)  # fmt: skip


def make_product(number: int, random: Random) -> dict[str, Any]:
    """Return a product of a topic with a random price."""
    topic = number % TOPICS
    return {
        "product_id": f"p{number}",
        "title": f"{WORDS[topic]} {WORDS[(number // TOPICS) % len(WORDS)]} thing {number}",
        "type": "thing",
        "brand": BRANDS[number % len(BRANDS)],
        "categories": [["House", f"Topic {topic}"]],
        "price": round(random.uniform(1, 100), 2),
        "availability": "OUT_OF_STOCK" if random.random() < 0.05 else "IN_STOCK",
    }


@dataclass
class LivedInShop:
    """The world: `live` lets time pass with requests and changes, `settle` lets the intake do its work."""

    admin: AdminShop
    host: EngineHost
    intake: IntakeLoop
    served_log: ServedLogWriter
    artifacts: ArtifactStore
    random: Random
    place: WorkerResources
    versions: list[str] = field(default_factory=list)
    last_product: int = PRODUCTS
    rules: set[str] = field(default_factory=set)
    erased: set[str] = field(default_factory=set)

    @property
    def clock(self) -> StillClock:
        return cast(StillClock, self.admin.corner.clock)

    @property
    def stores(self) -> OpenStores:
        return self.admin.services.stores

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        reply = await call(
            self.admin.corner.handler, "POST", f"/v1/{path}",
            headers={"X-API-KEY": self.admin.corner.secret(APP), "User-Agent": "Mozilla/5.0"}, json=body,
        )  # fmt: skip
        assert reply.status == 200, reply.body
        return reply.json()["data"]

    async def train(self) -> str:
        """Train the present data, and let the result serve."""
        await self.settle()
        run = (await self.admin.perform("runs.order", recipe="fast")).run
        finished = await TrainingWorker(self.place, "worker").work(APP, run.run_id)
        assert finished is not None
        assert finished.status == "finished", finished.error
        await self.admin.perform(
            "promotions.promote", engine_id="default", version=finished.version, force="for the replay"
        )
        self.versions.append(finished.version)
        await self._adopt(finished.version)
        return finished.version

    async def _adopt(self, version: str) -> None:
        for _, follower in self.host.loaded:
            self.clock.pass_ms(2_000)
            await until(lambda follower=follower: follower.serving_version("default") == version, 30)

    async def settle(self) -> None:
        """Write the logs, and compact them."""
        await self.served_log.write()
        await self.intake.compact_round(at_once=True)

    async def follow(self) -> None:
        """Wait until the host has applied what was written."""
        for noun in ("interaction", "product"):
            last = await self.stores.changes.last(APP, noun)
            for _, follower in self.host.loaded:

                def has_applied(follower: Any = follower, noun: str = noun, last: str = last) -> bool:
                    return bool(follower.recommender.overlay.offsets.get(noun, last) == last)

                await until(has_applied, 30)

    async def live(self, steps: int) -> None:
        """Let requests, clicks and changes follow each other."""
        for step in range(steps):
            self.clock.pass_ms(self.random.choice((40, 90, 1_000, 30_000, 150_000)))
            for _ in range(self.random.randint(1, 3)):
                await self.request()
            await self.click()
            if step % 3 == 0:
                await self.change(step)
            if step % 2 == 0:  # else the replica lags behind, as under load
                await self.follow()
            if step % 25 == 24:
                self.clock.pass_ms(20_000)
                await self.settle()
        await self.follow()
        await self.settle()

    async def request(self) -> None:
        """Send one request of a random kind."""
        random = self.random
        kind = random.choices([name for name, _ in REQUESTS], [share for _, share in REQUESTS])[0]
        people = [f"u{number}" for number in range(PEOPLE) if f"u{number}" not in self.erased]
        body: dict[str, Any] = {"rows": random.choice((4, 6, 10))}
        draw = random.random()
        if draw < 0.75:
            body["user_id"] = random.choice(people)
        elif draw < 0.9:
            body["anonymous_id"] = f"v{random.randrange(VISITORS)}"
        if random.random() < 0.25:
            body["fq"] = random.choice(("brand:Alder", "price:[10 TO 60]", "NOT brand:Mori"))
        if kind == "search":
            body["q"] = random.choice(WORDS)
            body.pop("rows")
            await self.post("search/search", body)
            return
        if kind == "product_to_products":
            body["product_id"] = f"p{random.randrange(PRODUCTS)}"
        if kind == "user_to_attributes":
            body["field"] = "brand"
        if kind in ("user_to_products", "user_to_trending") and random.random() < 0.15:
            body["pagination_id"] = f"page{random.randrange(10**9)}"
            await self.post(f"recommendation/{kind}", body)
            self.clock.pass_ms(3_000)
            await self.served_log.write()
            body["start"] = body["rows"]
        if kind == "user_to_products" and random.random() < 0.1:
            body["boost_fq"] = "brand:Birk"
        await self.post(f"recommendation/{kind}", body)

    async def click(self, steps: int = 1) -> None:
        """Let somebody act on products of a topic."""
        for _ in range(steps):
            number = self.random.randrange(PEOPLE)
            topic = number % TOPICS if self.random.random() < 0.8 else self.random.randrange(TOPICS)
            product = topic + TOPICS * self.random.randrange(PRODUCTS // TOPICS)
            person = {"user_id": f"u{number}"}
            if f"u{number}" in self.erased:
                person = {"anonymous_id": f"v{number % VISITORS}"}
            kind = self.random.choice(("click", "click", "product_detail_page_view", "checkout"))
            item = {
                "type": kind, **person, "product_ids": [f"p{product}"], "timestamp": iso_ms(self.clock.now_ms()),
            }  # fmt: skip
            await happen(cast(Any, self.stores), [item])

    async def change(self, step: int) -> None:
        """Change one thing of the app."""
        random = self.random
        kind = random.randrange(6)
        if kind <= 1:
            await upload(cast(Any, self.stores), [make_product(random.randrange(PRODUCTS), random)])
        elif kind == 2:
            self.last_product += 1
            await upload(cast(Any, self.stores), [make_product(self.last_product, random)])
        elif kind == 3 and step % 2:
            await withdraw(cast(Any, self.stores), [f"p{random.randrange(PRODUCTS)}"])
        elif kind == 4:
            name = f"rule-{random.randrange(4)}"
            rule = {
                "name": name,
                "boost_fq": f"brand:{random.choice(BRANDS)}",
                "position": [random.randrange(1, 4)],
            }
            if random.random() < 0.3:
                rule["api_names"] = ["user_to_products"]
            await self.admin.perform("rules.put", rules=[rule])
            self.rules.add(name)
        elif kind == 5 and self.rules:
            await self.admin.perform("rules.delete", engine_id="default", names=[self.rules.pop()])

    async def erase(self, person: str) -> None:
        """Erase a person, interactions and answers."""
        self.erased.add(person)
        await self.stores.interactions.erase(APP, [f"u:{person}"])
        await self.settle()
        await self.follow()


@asynccontextmanager
async def open_lived_in_shop(folder: Path, seed: int) -> AsyncIterator[LivedInShop]:
    """Open the shop with two weeks of clicks and a snapshot that serves."""
    clock, random, ids = StillClock(NOW_MS), Random(seed), Random(seed)
    stores = memory_stores(clock)
    cast(Any, stores.served).set_salt(APP, ids.randbytes(16))
    artifacts = ArtifactStore.open(folder / "artifacts")
    segments = SegmentStore(artifacts, clock)
    served_log = ServedLogWriter(stores.served, clock)
    host = EngineHost(stores, segments, clock, SilentMeter(), models=SnapshotLoader(SnapshotStore(artifacts)))
    corner = await open_corner(
        clock=clock,
        stores=stores,
        client=LocalRecommenderClient(host),
        served_log=served_log,
        artifacts=artifacts,
        new_service_id=lambda: ServiceId(str(UUID(int=ids.getrandbits(128), version=4))),
    )
    await corner.open_app(APP, settings=AppSettings(limits=PLENTY))
    exploration = Exploration(share=0.1, pool=10, secret="5eed" * 8)
    await stores.engines.put(Engine(app_id=APP, engine_id="default", exploration=exploration))
    await upload(stores, [make_product(number, random) for number in range(PRODUCTS)])
    services = AdminServices(
        stores=cast(OpenStores, stores), vault=corner.vault, clock=clock, artifact_source=artifacts,
        config=AdminConfig(data_dir=folder / "data"), api=LocalApi(corner.handler, corner.keyring.secret_of),
    )  # fmt: skip
    place = WorkerResources(
        stores, artifacts, clock, folder / "scratch", beat_s=0.02, patience_s=0.0, settle_s=0.0
    )
    intake = IntakeLoop(stores, segments, HashingEmbedder(), clock, SilentMeter(), owner="test")
    shop = LivedInShop(
        AdminShop(corner, services, AuditList()), host, intake, served_log, artifacts, random, place
    )  # fmt: skip
    try:
        for _ in range(1_000):
            clock.pass_ms(20 * MINUTE_MS)
            await shop.click()
        await shop.train()
        yield shop
    finally:
        await corner.close()
        await host.close()


async def live_a_day(shop: LivedInShop, steps: int) -> list[dict[str, Any]]:
    """Let a day pass with two experiments, a promotion and an erasure; return the rows of the log in order of time."""
    await shop.live(steps // 4)
    variants = [{"name": "Control"}, {"name": "Birk", "boost_rule": "rule-0"}]
    await shop.admin.perform(
        "rules.put", rules=[{"name": "rule-0", "boost_fq": "brand:Birk", "boosting_tags": ["x"]}]
    )
    made = await shop.admin.perform(
        "experiments.create", experiments=[{"name": "Birk first", "variants": variants}]
    )
    await shop.admin.perform("experiments.start", experiment=made.experiments[0].slug)
    await shop.live(steps // 4)
    first = shop.versions[-1]
    await shop.train()
    await shop.admin.perform("experiments.complete", experiment=made.experiments[0].slug)
    await shop.live(steps // 4)
    await shop.erase("u3")
    await shop.admin.perform("experiments.interleave", name="Former", snapshot=first)
    await shop.live(steps - 3 * (steps // 4))
    table = ServedLogStore(shop.artifacts, shop.clock).read(APP, 0)
    return cast(list[dict[str, Any]], table.to_pylist())
