"""A record from its upload to being recommended, through the handler, the intake and the recommender, without Ray;
then everything of ours is thrown away and rebuilt from shelf and log."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.intake.compaction import CompactionConfig
from actors.intake.loop import IntakeConfig, IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from actors.serving.host import EngineHost
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock, iso_ms
from cluster.crypto import Vault
from cluster.meter import SilentMeter
from cluster.records.api_keys import issue_key
from cluster.records.apps import App, AppSettings
from cluster.store.stores import Stores
from deployments.api.http.endpoints import ApiServices, build_endpoints
from deployments.api.http.request_handler import RequestHandler
from deployments.edge.access.admission import AdmissionServices
from deployments.edge.access.keyring import Keyring
from deployments.edge.http.request_log import RequestLog
from deployments.edge.limits.leased_buckets import RateLimiter
from tests.fakes.asgi import call
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import PLENTY
from tests.suites.store_kinds import STORE_KINDS, open_store_kind
from tests.suites.waiting import until

pytestmark = pytest.mark.redis
APP = "shop"
CLOCK = SystemClock()


@pytest.fixture(params=STORE_KINDS)
async def stores(request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    async with open_store_kind(request) as stores:
        yield stores


@dataclass
class House:
    """A handler, an intake and a recommender over the same stores and shelf."""

    handler: RequestHandler
    key: str
    intake: IntakeLoop
    segments: SegmentStore
    stores: Stores

    async def ask(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        answer = await call(self.handler, method, path, headers={"x-api-key": self.key}, json=body)
        assert answer.status == status, answer.body
        return answer.json()

    async def ended(self, noun: str, task_id: str) -> dict[str, Any]:
        status: dict[str, Any] = {}

        async def has_ended() -> bool:
            status.update((await self.ask("GET", f"/v1/{noun}s/_status/{task_id}"))["data"])
            return status["status"] in ("finished", "failed")

        await until(has_ended, 7.5)
        return status

    async def recommended(self, kind: str, **body: Any) -> list[str]:
        reply = await self.ask("POST", f"/v1/recommendation/{kind}", {"dithering": 1, **body})
        return [product["product_id"] for product in reply["data"]["products"]]


@asynccontextmanager
async def open_house(stores: Stores, artifacts: Path) -> AsyncIterator[House]:
    """Open everything; the app and its key are made when they are not there."""
    vault = Vault(bytes(range(32)))
    app = App(app_id=APP, environment="development", settings=AppSettings(limits=PLENTY), created_at=0)
    issued = issue_key(vault, app, "secret", now_ms=CLOCK.now_ms())
    await stores.access.put_app(app)
    await stores.access.put_key(issued.record)
    keyring = Keyring(stores.access, vault)
    await keyring.refresh()
    meter, segments = SilentMeter(), SegmentStore(ArtifactStore.open(artifacts))
    host = EngineHost(stores, segments, CLOCK, meter)
    await host.start()
    handler = RequestHandler(
        build_endpoints(ApiServices(stores, LocalRecommenderClient(host), CLOCK)),
        AdmissionServices(keyring, RateLimiter(stores.limits, CLOCK), meter, most_bytes=32 << 20),
        replays=stores.idempotency,
        clock=CLOCK,
        log=RequestLog(),
    )
    rules = IntakeConfig(
        block_ms=50, lease_ms=1_000, apps_every_s=0.05, compaction=CompactionConfig(every_s=3600)
    )
    intake = IntakeLoop(
        stores, segments, HashingEmbedder(), CLOCK, meter, owner=issued.record.key_id, rules=rules
    )
    working = asyncio.create_task(intake.run())
    try:
        yield House(handler, issued.text, intake, segments, stores)
    finally:
        intake.stop()
        await working
        await host.close()


def catalog() -> list[dict[str, Any]]:
    kinds = {"bulb": "spring flower bulb for the garden", "kettle": "steel kettle for tea in the kitchen"}
    return [
        {
            "product_id": f"{kind}-{n}",
            "title": f"{kind.title()} number {n}",
            "description": about,
            "type": kind,
            "categories": [["Home", kind.title()]],
        }
        for kind, about in kinds.items()
        for n in range(12)
    ]


async def content_hash(house: House) -> str:
    """Name everything a restarting host would hold: shelf first, then the log behind it."""
    state = house.segments.load(APP)
    products = {
        orjson.loads(product.json)["product_id"]: (product.json, _bytes(product.vector))
        for product in state.products
    }
    events = state.interactions.select(["reader", "type", "product_ids", "at_ms", "value"]).to_pylist()
    after: dict[Any, str] = {noun: state.offsets.get(noun, "0") for noun in ("product", "interaction")}
    for change in await house.stores.changes.read(APP, after, count=10_000, block_ms=0):
        items = orjson.loads(change.payload)
        if change.noun == "product" and change.op == "put":
            width = len(change.vectors) // len(items)
            for at, item in enumerate(items):
                vector = change.vectors[at * width : (at + 1) * width]
                products[item["product_id"]] = (orjson.dumps(item), vector)
        elif change.noun == "product":
            for product_id in items:
                products.pop(product_id)
        else:
            events += [_event(item) for item in items]
    content = [sorted(products.items()), sorted(map(repr, events))]
    return hashlib.sha256(repr(content).encode()).hexdigest()


def _bytes(vector: Any) -> bytes:
    return b"" if vector is None else bytes(vector.tobytes())


def _event(item: dict[str, Any]) -> dict[str, Any]:
    from cluster.records.field_types.times import moment_ms

    at_ms = moment_ms(item["timestamp"])
    return {
        "reader": "u:" + item["user_id"],
        "type": item["type"],
        "product_ids": item["product_ids"],
        "at_ms": at_ms,
        "value": 0.0,
    }


def clicks(user_id: str, *product_ids: str) -> dict[str, Any]:
    at = iso_ms(CLOCK.now_ms())
    return {
        "data": [
            {"type": "add_to_cart", "user_id": user_id, "product_ids": [product_id], "timestamp": at}
            for product_id in product_ids
        ]
    }


async def test_a_record_from_upload_to_recommendation_and_through_a_restart(
    stores: Stores, tmp_path: Path
) -> None:
    async with open_house(stores, tmp_path) as house:
        sent = catalog()
        uploaded = await house.ask("POST", "/v1/products", {"data": sent})
        task = await house.ended("product", uploaded["data"]["task_id"])
        assert (task["status"], task["succeeded"], task["failed"]) == ("finished", len(sent), 0)
        assert await house.ask("GET", "/v1/products/bulb-3") == sent[3]

        await house.ask("POST", "/v1/interactions", clicks("ann", "bulb-1", "bulb-2"))
        liked = await _changes_to(
            house, lambda ids: len(ids) > 3 and all("bulb" in record_id for record_id in ids[:4])
        )
        assert not {"bulb-1", "bulb-2"} & set(liked), "seen products are left out"

        for user_id in ("bob", "cy", "dee"):
            await house.ask("POST", "/v1/interactions", clicks(user_id, "kettle-7"))

        async def leads() -> bool:
            return (await house.recommended("user_to_trending", rows=5))[:1] == ["kettle-7"]

        await until(leads, 2.0)

        gone = await house.ask("DELETE", "/v1/products/kettle-7")
        assert (await house.ended("product", gone["data"]["task_id"]))["status"] == "finished"
        await house.ask("GET", "/v1/products/kettle-7", status=404)

        async def is_gone() -> bool:
            return "kettle-7" not in await house.recommended("user_to_trending", rows=30)

        await until(is_gone, 5.0)

        unsettled = await content_hash(house)
        assert await house.intake.compact_round(at_once=True) > 0
        await house.ask("POST", "/v1/interactions", clicks("eve", "bulb-9"))
        half = await content_hash(house)
        assert half != unsettled
        products = await house.recommended("user_to_products", user_id="ann", rows=30)

    async with open_house(stores, tmp_path) as again:
        assert (await stores.changes.compacted_offsets(APP)).keys() >= {"product", "interaction"}
        assert await content_hash(again) == half, "what a restart finds is not what was there"
        assert set(await again.recommended("user_to_products", user_id="ann", rows=30)) == set(products)
        assert "kettle-7" not in await again.recommended("user_to_trending", rows=30)
        await again.intake.compact_round(at_once=True)
        assert await content_hash(again) == half
        changed = await again.ask("POST", "/v1/products", {"data": [{**sent[5], "title": "Renamed"}]})
        await again.ended("product", changed["data"]["task_id"])
        assert (await again.ask("GET", f"/v1/products/{sent[5]['product_id']}"))["title"] == "Renamed"


async def _changes_to(house: House, so: Any) -> list[str]:
    """Ask until the answer is as wanted; it must be within a second."""
    recommended: list[str] = []

    async def changed() -> bool:
        recommended[:] = await house.recommended("user_to_products", user_id="ann", rows=8)
        return bool(so(recommended))

    assert await until(changed) < 1.0
    return recommended


async def test_a_poisonous_upload_changes_nothing_and_stalls_nobody(stores: Stores, tmp_path: Path) -> None:
    async with open_house(stores, tmp_path) as house:
        bad = {"data": [{"product_id": "fine"}, {"product_id": "bad", "price": "cheap"}]}
        refused = await house.ask("POST", "/v1/products", bad, status=422)
        assert refused["data"][0].startswith("data.1.price")
        uploaded = await house.ask(
            "POST", "/v1/products", {"data": [{"product_id": "good", "title": "\x00"}]}
        )
        assert (await house.ended("product", uploaded["data"]["task_id"]))["succeeded"] == 1
        await house.ask("GET", "/v1/products/fine", status=404)


async def test_an_erased_reader_is_forgotten_by_every_part(stores: Stores, tmp_path: Path) -> None:
    async with open_house(stores, tmp_path) as house:
        uploaded = await house.ask("POST", "/v1/products", {"data": catalog()})
        await house.ended("product", uploaded["data"]["task_id"])
        users = await house.ask("POST", "/v1/users", {"data": [{"user_id": "ann", "name": "Ann Onymous"}]})
        await house.ended("user", users["data"]["task_id"])
        await house.ask("POST", "/v1/interactions", clicks("ann", "bulb-1"))
        await house.ask("POST", "/v1/interactions", clicks("bob", "bulb-1"))
        await house.intake.compact_round(at_once=True)

        await house.ask("DELETE", "/v1/interactions", {"user_ids": ["ann"]})
        deleted = await house.ask("DELETE", "/v1/users/ann")
        await house.ended("user", deleted["data"]["task_id"])
        await house.intake.compact_round()

        assert house.segments.load(APP).interactions["reader"].to_pylist() == ["u:bob"]
        assert house.segments.records(APP, "user") == []
        assert await stores.interactions.recent(APP, ["u:ann"]) == []
        assert "bulb-1" in await house.recommended("user_to_products", user_id="ann", rows=30)
