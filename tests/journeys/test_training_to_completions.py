"""What was uploaded becomes an index in the engine's snapshot, replicas map it, and what is uploaded afterwards is
completed beside it: through intake, segments, training stages, promotion and two recommenders, without Ray."""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
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
from cluster.records.run import Run
from cluster.store.memory import memory_stores
from jobs.refresh.promoting import promote
from jobs.refresh.training import Bench, Training
from tests.fakes.corner_shop import APP, happen, upload
from tests.fakes.trained import RECIPE, ring_products, ring_walks

KEY = ("title", "en", False)


async def test_completions_come_from_the_snapshot_and_new_titles_beside_it(tmp_path: Path) -> None:
    stores, shelf = memory_stores(SystemClock()), Shelf.open(tmp_path / "shelf")
    segments = SegmentShelf(shelf)
    now_ms = SystemClock().now_ms()
    await upload(stores, ring_products())
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

    one, other = host(), host()
    try:
        assert await titles(one, "bead nmber 7") == ["Bead number 7 of colour 0"]
        await promote(stores, shelf, APP, "default", version, now_ms=now_ms, by="test", force="a test")
        await until(lambda: serves(one, version))
        for replica in (one, other):
            assert await titles(replica, "bead nmber 7") == ["Bead number 7 of colour 0"]
            assert await serves(replica, version)
            assert await is_mapped(replica)
        await upload(stores, [{"product_id": "clasp", "title": "Silver clasp", "type": "tool"}])
        began = asyncio.get_running_loop().time()
        for replica in (one, other):
            await until(partial(completes, replica, "silver cl", ["Silver clasp"]))
        took_s = asyncio.get_running_loop().time() - began
        print(f"\ncompleted {took_s:.2f} s after the upload")
        assert took_s < 1.0
    finally:
        await one.close()
        await other.close()


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


async def titles(host: RecommenderHost, typed: str) -> list[str]:
    asked = ReaderQuery(
        "autocomplete", APP, "default", typed=typed, completion_fields=("title",), language="en", rows=1
    )
    found = await host.answer(asked)
    assert isinstance(found, RecommendationResult), found
    return [entry["text"] for entry in found.completions["title"]]


async def completes(host: RecommenderHost, typed: str, wanted: list[str]) -> bool:
    return await titles(host, typed) == wanted


async def field_of(host: RecommenderHost) -> Any:
    follower = await host._followers.of(APP)
    recommender = follower._held
    catalog = recommender.overlay.catalog
    return recommender.completions, recommender.completions.of(KEY, catalog, lambda: np.zeros(len(catalog)))


async def serves(host: RecommenderHost, version: str) -> bool:
    completions, field = await field_of(host)
    return bool(completions.version == version and field.fresh == 0)


async def is_mapped(host: RecommenderHost) -> bool:
    """Are the characters of the titles pages of a file, which every replica of the machine shares?"""
    _, field = await field_of(host)
    below = field._base.built.index.texts.codes
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
