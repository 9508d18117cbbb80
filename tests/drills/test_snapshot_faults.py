"""Whatever is wrong with a snapshot, it is refused, and the one that serves goes on serving.

Figures are printed: run with `-m drill -s`.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.records.engine import Engine
from tests.fakes.corner_shop import APP, upload
from tests.fakes.stores.memory import memory_stores
from tests.fakes.trained_snapshot import publish_ring_snapshot, ring_products
from tests.suites.snapshot_damage import damaged_loads, folder_of

pytestmark = [pytest.mark.drill, pytest.mark.timeout(600)]

WITHIN_S = 5.0


@pytest.fixture
def artifacts(tmp_path: Path) -> tuple[Path, SnapshotStore, str, str]:
    snapshots = SnapshotStore(ArtifactStore.open(tmp_path / "shelf"))
    good = publish_ring_snapshot(snapshots, tmp_path / "one", APP, seed=6)
    bad = publish_ring_snapshot(snapshots, tmp_path / "two", APP, seed=7)
    return tmp_path / "shelf", snapshots, good, bad


def test_every_cut_and_every_flipped_bit_is_refused(
    artifacts: tuple[Path, SnapshotStore, str, str], tmp_path: Path
) -> None:
    root, snapshots, good, _ = artifacts
    models = SnapshotLoader(snapshots)
    counts = damaged_loads(models, folder_of(root, good), good, cuts=50, flips=1_000, seed=16)
    print(f"\ncut or flipped: {counts['tried']:,} tried, {counts['refused']:,} refused")
    assert counts == {"tried": 1_050, "refused": 1_050}


class Refusals(SilentMeter):
    """Notes when a snapshot was refused."""

    def __init__(self) -> None:
        self.at_s: list[float] = []

    def count(self, name: str, by: float = 1, **tags: str) -> None:
        if name == "kiosk_snapshots_refused_total":
            self.at_s.append(time.monotonic())


async def test_the_serving_model_survives_promotions_of_damaged_snapshots(
    artifacts: tuple[Path, SnapshotStore, str, str], tmp_path: Path
) -> None:
    """Under steady questions: half of a file gone, a bit flipped, another version's files, another form."""
    root, snapshots, good, bad = artifacts
    stores, meter = memory_stores(SystemClock()), Refusals()
    await upload(stores, ring_products())
    await stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=good))
    host = EngineHost(stores, None, SystemClock(), meter, models=SnapshotLoader(snapshots))
    query = UserQuery("user_to_products", APP, "default", rows=5)
    answers = errors = 0
    reported_s: list[float] = []
    going = True

    async def keep_asking() -> None:
        nonlocal answers, errors
        while going:
            result = await host.answer(query)
            answers += 1
            errors += not (isinstance(result, RecommendationResult) and len(result.products) == 5)
            await asyncio.sleep(0.002)

    await host.answer(query)
    asking = asyncio.create_task(keep_asking())
    for damage in (_halve, _flip, _swap, _reshape):
        version = bad[::-1] if damage is _swap else bad
        folder = folder_of(root, version)
        shutil.rmtree(folder_of(root, bad), ignore_errors=True)
        shutil.copytree(tmp_path / "two", folder, dirs_exist_ok=True)
        damage(folder)
        before, started_s = len(meter.at_s), time.monotonic()
        await _point(stores, version)
        while len(meter.at_s) == before:
            assert time.monotonic() - started_s < WITHIN_S
            await asyncio.sleep(0.01)
        reported_s.append(meter.at_s[-1] - started_s)
        assert (await host._followers.get(APP)).serving_version("default") == good
        # what was refused is not tried again at once, so the next damage needs another look
        (await host._followers.get(APP)).model_registry._refused.clear()
        await _point(stores, good)
        await asyncio.sleep(1.0)
    going = False
    await asking
    await host.close()
    slowest_s = max(reported_s)
    print(f"\n{len(reported_s)} damaged promotions refused, told after {slowest_s:.2f} s at most; ", end="")
    print(f"{answers:,} answers meanwhile, {errors} errors")
    assert errors == 0
    assert answers > 500


async def _point(stores: Any, version: str) -> None:
    engine = await stores.engines.get(APP, "default")
    await stores.engines.put(engine.model_copy(update={"snapshot": version}))


def _halve(folder: Path) -> None:
    path = folder / "ease" / "weights.npy"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(folder: Path) -> None:
    path = folder / "rules" / "items.npy"
    hurt = bytearray(path.read_bytes())
    hurt[len(hurt) // 2] ^= 16
    path.write_bytes(bytes(hurt))


def _swap(folder: Path) -> None:
    """Do nothing to the files: the folder has another version's name."""
    assert (folder / "manifest.json").exists()


def _reshape(folder: Path) -> None:
    path = folder / "trend" / "scores.npy"
    np.save(path, np.load(path).astype(np.float64)[None])
