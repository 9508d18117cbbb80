"""What readers did becomes a snapshot, the snapshot serves, what happens afterwards counts beside it, and back again:
through intake, segments, training, promotion and the recommender, without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from actors.intake.loop import IntakeLoop
from actors.language.embed import HashingEmbedder
from actors.recommender.champions import Models
from actors.recommender.host import RecommenderHost
from actors.recommender.messages import ReaderQuery, RecommendationResult
from cluster.artifacts.segments import SegmentShelf
from cluster.artifacts.shelf import Shelf
from cluster.artifacts.snapshots import SnapshotShelf
from cluster.clock import SystemClock, iso_ms
from cluster.meter import SilentMeter
from cluster.records.access import App
from cluster.store.memory import memory_stores
from cluster.store.ports import Stores
from jobs.refresh.build import Origin, build
from jobs.refresh.fit import fit
from jobs.refresh.promoting import promote, rollback
from jobs.refresh.recipe import parse
from jobs.refresh.source import read_source
from tests.fakes.corner_shop import APP, happen, upload
from tests.fakes.trained import RECIPE, name, ring_products, ring_walks

DAY_MS = 86_400_000


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf.open(tmp_path / "shelf")


@pytest.fixture
def stores() -> Stores:
    return memory_stores(SystemClock())


@pytest.fixture
async def host(stores: Stores, shelf: Shelf, tmp_path: Path) -> AsyncIterator[RecommenderHost]:
    models = Models(SnapshotShelf(shelf), tmp_path / "cache")
    host = RecommenderHost(stores, SegmentShelf(shelf), SystemClock(), SilentMeter(), models=models)
    yield host
    await host.close()


def walks(now_ms: int) -> list[dict[str, Any]]:
    """Let readers walk round the ring, a month ago."""
    found = ring_walks(readers=120)
    newest_s = max(at_s for _, _, at_s, _ in found)
    return [
        {
            "type": "click",
            "user_id": reader.removeprefix("u:"),
            "product_ids": [product_id],
            "timestamp": iso_ms(int(now_ms - 30 * DAY_MS + (at_s - newest_s) * 1000)),
        }
        for reader, product_id, at_s, _ in sorted(found, key=lambda walk: walk[2])
    ]


async def settled(stores: Stores, segments: SegmentShelf) -> None:
    await stores.access.put_app(App(app_id=APP, environment="development", created_at=0))
    loop = IntakeLoop(stores, segments, HashingEmbedder(), SystemClock(), SilentMeter(), owner="test")
    await loop.apply_round()
    assert await loop.settle_round(at_once=True) > 0


async def ids(host: RecommenderHost, user_id: str, rows: int = 3) -> list[str]:
    found = await host.answer(ReaderQuery("user_to_products", APP, "default", user_id=user_id, rows=rows))
    assert isinstance(found, RecommendationResult), found
    return [product["product_id"] for product in found.products]


async def until(true: Callable[[], Awaitable[bool]], within_s: float) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not await true():
        assert loop.time() - began < within_s, "did not happen in time"
        await asyncio.sleep(0.02)
    return loop.time() - began


@pytest.mark.usefixtures("allow_world")
async def test_from_clicks_to_a_snapshot_that_serves_and_back(
    stores: Stores, host: RecommenderHost, shelf: Shelf, tmp_path: Path
) -> None:
    now_ms = SystemClock().now_ms()
    segments, snapshots = SegmentShelf(shelf), SnapshotShelf(shelf)
    await upload(stores, ring_products())
    await happen(stores, walks(now_ms))
    await settled(stores, segments)

    recipe = parse(RECIPE)
    source = read_source(segments, APP, recipe)
    assert source.offsets.keys() >= {"interaction"}
    build(fit(recipe, source.data), tmp_path / "built", written_at_ms=now_ms, origin=Origin(source.offsets))
    version = snapshots.publish(APP, "default", tmp_path / "built")
    assert await ids(host, "gina")
    follower = await host._followers.of(APP)
    assert follower.serving("default") == ""

    await promote(stores, shelf, APP, "default", version, now_ms=now_ms, by="test", force="a test")

    async def serves(wanted: str) -> bool:
        assert len(await ids(host, "gina")) == 3
        return follower.serving("default") == wanted

    took_s = await until(lambda: serves(version), 3.0)
    print(f"\npromoted after {took_s:.2f} s", end="")

    # the reader's click of a moment ago is asked with, and what was learned answers
    step = {"type": "click", "user_id": "gina", "timestamp": iso_ms(now_ms)}
    await happen(stores, [{**step, "product_ids": [name(11)]}, {**step, "product_ids": [name(12)]}])
    assert (await ids(host, "gina"))[0] == name(13)

    # what was never learned counts beside it within a second
    await upload(stores, [{"product_id": "clasp", "title": "Clasp", "type": "tool", "categories": [["x"]]}])
    pairs = [
        {"type": "click", "user_id": f"new-{n}", "product_ids": [product], "timestamp": iso_ms(now_ms + at)}
        for n in range(40)
        for at, product in enumerate((name(12), "clasp"))
    ]
    await happen(stores, pairs)

    async def clasped() -> bool:
        return "clasp" in await ids(host, "gina", rows=5)

    await until(clasped, 1.5)
    assert name(13) in await ids(host, "gina", rows=5)

    await rollback(stores, shelf, APP, "default", now_ms=now_ms + 1, by="test")
    took_s = await until(lambda: serves(""), 3.0)
    print(f", back after {took_s:.2f} s")
