"""Somebody trains, compares, promotes and rolls back in a real browser; the trainings themselves are left out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cluster.artifacts.snapshots import SnapshotStore
from cluster.records.engine import Engine
from cluster.records.run import StageResult, claim_run, update_leased_run
from cluster.store.connect import OpenStores
from jobs.refresh.evaluation.report_store import ReportStore
from tests.browser.stage import HOSTILE, NEEDS_BROWSER, Stage, Tab, open_browser, open_stage
from tests.fakes.model_shop import APP, evaluation
from tests.fakes.trained_snapshot import publish_ring_snapshot

pytestmark = [NEEDS_BROWSER, pytest.mark.redis]
MODELS = f"/apps/{APP}/models"
ENGINE = f"{MODELS}/engines/default"


async def _publish(stage: Stage, folder: Path, seed: int, change: float, serving: str) -> str:
    """Publish a snapshot that was compared with what serves."""
    snapshots = SnapshotStore(stage.artifacts)
    version = await asyncio.to_thread(
        publish_ring_snapshot, snapshots, folder / str(seed), APP, "default", seed
    )
    ReportStore(stage.artifacts).put(APP, "default", version, evaluation(change, serving=serving))
    return version


async def _check(tab: Tab) -> None:
    """Find no fault of the open page, at both widths."""
    assert await tab.find_faults() == []
    await tab.page.set_viewport_size({"width": 390, "height": 844})
    assert await tab.find_faults() == []
    assert await tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    await tab.page.set_viewport_size({"width": 1280, "height": 900})
    assert tab.complaints == []


async def test_somebody_compares_promotes_and_rolls_back(redis_stores: OpenStores, tmp_path: Path) -> None:
    async with open_stage(redis_stores, tmp_path) as stage, open_browser() as browser:
        await stage.add_person()
        await redis_stores.engines.put(Engine(app_id=APP, engine_id="default", created_at=1))
        first = await _publish(stage, tmp_path, 6, 0.01, "")
        tab = await Tab.open(browser, stage.origin)
        await tab.sign_in()
        await tab.page.get_by_role("heading", level=1).wait_for()
        await tab.go(f"{ENGINE}/snapshots/{first}")
        await tab.page.get_by_role("button", name="Promote").click()
        await tab.page.get_by_role("dialog").get_by_role("button", name="Promote").click()
        await tab.page.get_by_text(f"Snapshot {first} is promoted.").wait_for()
        second = await _publish(stage, tmp_path, 7, 0.02, first)
        await tab.go(ENGINE)
        await _check(tab)
        await tab.page.get_by_role("button", name="Compare").click()
        await tab.page.get_by_role("heading", name=f"{first} and {second}").wait_for()
        await tab.page.get_by_label("User ids").fill("gina")
        await tab.page.get_by_role("button", name="Show recommendations").click()
        await tab.page.get_by_role("heading", name="gina").wait_for()
        await _check(tab)
        await tab.go(f"{ENGINE}/evaluations")
        await tab.page.locator(".chart canvas").wait_for()
        await _check(tab)
        await tab.go(f"{ENGINE}/snapshots/{second}")
        await tab.page.get_by_text("Passes the gate").wait_for()
        await _check(tab)
        await tab.page.get_by_role("button", name="Promote").click()
        await tab.page.get_by_role("dialog").get_by_role("button", name="Promote").click()
        await tab.page.get_by_text(f"Snapshot {second} is promoted.").wait_for()
        await tab.page.get_by_role("button", name="Roll back").click()
        await tab.page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
        await tab.page.get_by_text(f"Rolled back to snapshot {first}.").wait_for()
        assert tab.complaints == []
    engine = await redis_stores.engines.get(APP, "default")
    assert engine is not None
    assert engine.snapshot == first


async def test_somebody_orders_a_training_watches_and_cancels_it(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    async with open_stage(redis_stores, tmp_path) as stage, open_browser() as browser:
        await stage.add_person()
        await redis_stores.engines.put(Engine(app_id=APP, engine_id="default", created_at=1))
        tab = await Tab.open(browser, stage.origin)
        await tab.sign_in()
        await tab.page.get_by_role("heading", level=1).wait_for()
        await tab.go(f"{MODELS}/trainings/new")
        await tab.page.get_by_label("Recipe", exact=True).select_option("fast")
        await tab.page.get_by_role("button", name="Estimate").click()
        await tab.page.get_by_role("alert").get_by_text("no data of it is compacted").wait_for()
        await tab.page.get_by_label("Recipe changes").fill("seed=7")
        await tab.page.get_by_role("button", name="Train", exact=True).click()
        await tab.page.get_by_text("is queued.").wait_for()
        (run,) = await redis_stores.runs.newest(APP)
        now_ms = stage.corner.clock.now_ms()
        claimed = claim_run(run, "worker", now_ms)
        assert claimed is not None
        stages = (StageResult(name="dataset", seconds=1.5, facts={HOSTILE: HOSTILE}),)
        running = update_leased_run(
            claimed, "worker", 1, now_ms,
            {"stage": "plan", "message": HOSTILE, "fraction": 0.4, "stages": stages},
        )  # fmt: skip
        assert running is not None
        await redis_stores.runs.compare_and_set(running)
        await tab.page.get_by_text("Now: plan").wait_for()
        await _check(tab)
        await tab.page.get_by_role("button", name="Cancel the training").click()
        await tab.page.wait_for_timeout(2_500)  # the page polls every two seconds; the dialog must outlive it
        assert await tab.page.get_by_role("dialog").is_visible()
        await tab.page.get_by_role("dialog").get_by_role("button", name="Cancel the training").click()
        await tab.page.get_by_text("The training is cancelled.").wait_for()
        await tab.go(f"{MODELS}/schedules")
        await tab.page.get_by_label("Schedule", exact=True).fill("nightly")
        await tab.page.get_by_role("button", name="Add a schedule").click()
        await tab.page.get_by_text("Schedule nightly added.").wait_for()
        await _check(tab)
