"""What was uploaded becomes a search index in the engine's snapshot, replicas map it, and what is uploaded afterwards
is found beside it: through intake, segments, training stages, promotion and two recommenders, without Ray."""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.intake.loop import IntakeLoop
from actors.language.embed import HashingEmbedder
from actors.recommender.champions import Models
from actors.recommender.host import RecommenderHost
from actors.recommender.messages import ReaderQuery, RecommendationResult
from actors.recommender.search.product_texts import ProductTexts
from actors.search.messages import SearchQuery
from cluster.artifacts.segments import SegmentShelf
from cluster.artifacts.shelf import Shelf
from cluster.artifacts.snapshots import SnapshotShelf
from cluster.clock import SystemClock, iso_ms
from cluster.meter import SilentMeter
from cluster.records.access import App
from cluster.records.run import Run
from cluster.store.memory import memory_stores
from jobs.refresh.promoting import promote
from jobs.refresh.training import Bench, Training
from tests.fakes.corner_shop import APP, happen, upload
from tests.fakes.trained import RECIPE, ring_products, ring_walks

MORE = [
    {"product_id": f"cord-{at:02d}", "title": f"Waxed cord {at}", "type": "cord", "language": "en"}
    for at in range(40)
]


async def test_searches_are_answered_out_of_the_snapshot_and_new_products_beside_it(tmp_path: Path) -> None:
    stores, shelf = memory_stores(SystemClock()), Shelf.open(tmp_path / "shelf")
    segments = SegmentShelf(shelf)
    now_ms = SystemClock().now_ms()
    await upload(stores, [*ring_products(), *MORE])
    walks = [
        {
            "type": "click",
            "user_id": reader[2:],
            "product_ids": [product],
            "timestamp": iso_ms(now_ms - 86_400_000),
        }
        for reader, product, _, _ in ring_walks(readers=120)
    ]
    await happen(stores, walks)
    await stores.access.put_app(App(app_id=APP, environment="development", created_at=0))
    intake = IntakeLoop(stores, segments, HashingEmbedder(), SystemClock(), SilentMeter(), owner="test")
    await intake.apply_round()
    assert await intake.settle_round(at_once=True) > 0
    version = trained(shelf, segments, tmp_path)

    def host() -> RecommenderHost:
        models = Models(SnapshotShelf(shelf), tmp_path / "cache")
        return RecommenderHost(stores, segments, SystemClock(), SilentMeter(), models=models)

    running, later = host(), host()
    try:
        before = await found(running, "bead nmber 7 ")
        assert before == ["ring-07"]
        await promote(stores, shelf, APP, "default", version, now_ms=now_ms, by="test", force="a test")
        await until(lambda: serves(running, version))
        for replica in (running, later):
            assert await found(replica, "bead nmber 7 ") == before
            assert await serves(replica, version)
            assert is_mapped(await texts_of(replica))
            assert await found(replica, "waxen cords", partial=True, meaning=0.1)
        await upload(stores, [{"product_id": "clasp", "title": "Silver clasp", "type": "tool"}])
        await upload(stores, [{"product_id": "ring-07", "title": "Amber pearl", "type": "bead"}])
        began = asyncio.get_running_loop().time()
        for replica in (running, later):
            await until(lambda replica=replica: finds(replica, "silver clasp", ["clasp"]))
            await until(lambda replica=replica: finds(replica, "bead number 7 ", []))
            assert await found(replica, "amber") == ["ring-07"]
        took_s = asyncio.get_running_loop().time() - began
        print(f"\nfound {took_s:.2f} s after the upload")
        assert took_s < 1.0
    finally:
        await running.close()
        await later.close()


def trained(shelf: Shelf, segments: SegmentShelf, folder: Path) -> str:
    """Train as a worker does, stage by stage, twice: the same version comes out."""
    versions = []
    for run_id in ("one", "two"):
        run = Run(app_id=APP, engine_id="default", run_id=run_id, recipe=RECIPE, created_at=5)
        bench = Bench(shelf, segments, folder / "scratch" / run_id, "release")
        training = Training(run, bench, lambda what, share: None, None, None)
        for _, stage in training.stages():
            stage()
        versions.append(training.outcome()["version"])
        training.clean_up()
    assert versions[0] == versions[1]
    return str(versions[0])


async def texts_of(host: RecommenderHost) -> ProductTexts:
    follower = await host._followers.of(APP)
    return follower._held.overlay.texts


async def found(host: RecommenderHost, text: str, **wishes: Any) -> list[str]:
    search = SearchQuery(text=text, original=text, personalization=0, **wishes)
    told = await host.answer(ReaderQuery("search", APP, "default", rows=20, search=search))
    assert isinstance(told, RecommendationResult), told
    return [product["product_id"] for product in told.products]


async def finds(host: RecommenderHost, text: str, wanted: list[str]) -> bool:
    return await found(host, text, correct=False) == wanted


async def serves(host: RecommenderHost, version: str) -> bool:
    return (await texts_of(host)).version == version


def is_mapped(texts: ProductTexts) -> bool:
    """Are the postings pages of a file, which every replica of the machine shares?"""
    (laid,) = [one for one in texts._index._parts.serving() if one.lay is not None]
    below: Any = laid.part.rows
    while isinstance(below, np.ndarray):
        below = below.base
    return isinstance(below, mmap.mmap)


async def until(true: Callable[[], Any], within_s: float = 5.0) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not await true():
        assert loop.time() - began < within_s, "did not happen in time"
        await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def world(allow_world: None) -> None:
    """Let time and the disk be real."""
