"""Two snapshots answer for the same users beside what serves, bounded in number and in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.artifacts.snapshots import SnapshotStore
from cluster.errors import Fault, Forbidden, NotFound, TooMany, Unavailable, Unprocessable
from cluster.meter import SilentMeter
from deployments.api.http.local_api import LocalApi
from deployments.operations.models import snapshot_comparison
from deployments.operations.models.snapshot_bounds import LOADED_S, SnapshotBounds
from tests.fakes.corner_shop import NOW_MS, happen, upload, view
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.model_shop import APP, ModelShop, open_model_shop
from tests.fakes.request_handler import StillClock, open_corner
from tests.fakes.trained_snapshot import name, ring_products

ENGINE = {"engine_id": "default"}


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[ModelShop]:
    opened = await open_model_shop(tmp_path)
    stores, artifacts, clock = opened.stores, opened.artifacts, opened.services.clock
    await upload(stores, ring_products(), app_id=APP)
    for number in range(6):
        await happen(stores, [view(f"u{number}", name(number * 3))], app_id=APP)
    models = SnapshotLoader(SnapshotStore(artifacts))
    host = EngineHost(stores, None, clock, SilentMeter(), models=models)
    await host.start()
    opened.services = replace(opened.services, recommender=LocalRecommenderClient(host))
    yield opened
    await host.close()


async def _publish(shop: ModelShop, folder: Path) -> tuple[str, str]:
    first, second = shop.publish(folder / "first", 6), shop.publish(folder / "second", 7)
    await shop.perform("promotions.promote", **ENGINE, version=first)
    return first, second


async def test_the_serving_snapshot_and_another_answer_for_the_same_users(
    shop: ModelShop, tmp_path: Path
) -> None:
    first, second = await _publish(shop, tmp_path)
    given: dict[str, Any] = {**ENGINE, "first": first, "second": second[:8], "user_ids": "u1\n u2 \n"}
    comparison = (await shop.perform("snapshots.compare_lists", role="analyst", **given)).to_dict()
    assert (comparison["first"], comparison["second"]) == (first, second)
    assert [user["user_id"] for user in comparison["users"]] == ["u1", "u2"]
    assert 0 < comparison["overlap"] <= 1
    user = comparison["users"][0]
    assert len(user["first"]) == len(user["second"]) == 10
    assert user["shared"] == sum(product["in_both"] for product in user["second"])
    assert user["first"][0]["title"].startswith("Bead number")
    assert user["first"][0]["came_from"]
    engine = await shop.stores.engines.get(APP, "default")
    assert engine is not None
    assert engine.snapshot == first


async def test_a_snapshot_that_can_not_be_loaded_is_no_list_of_the_serving_one(
    shop: ModelShop, tmp_path: Path
) -> None:
    first, second = await _publish(shop, tmp_path)
    for path in (tmp_path / "artifacts" / "snapshots" / APP / "default" / second).rglob("*.npy"):
        path.write_bytes(b"damaged")
    with pytest.raises(Fault, match=f"snapshot {second} can't be used"):
        await shop.perform("snapshots.compare_lists", **ENGINE, first=first, second=second, user_ids=["u1"])


async def test_snapshots_beyond_the_free_memory_are_refused(
    shop: ModelShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await _publish(shop, tmp_path)
    monkeypatch.setattr(snapshot_comparison, "available_memory", lambda: 100 << 20)
    with pytest.raises(Unavailable, match="100 MB are free, so they are not loaded"):
        await shop.perform("snapshots.compare_lists", **ENGINE, first=first, second=second, user_ids=["u1"])
    assert shop.services.snapshot_bounds.count == 0


async def test_it_needs_an_analyst_bounded_users_and_the_api(shop: ModelShop, tmp_path: Path) -> None:
    first, second = await _publish(shop, tmp_path)
    given: dict[str, Any] = {**ENGINE, "first": first, "second": second}
    with pytest.raises(Forbidden):
        await shop.perform("snapshots.compare_lists", role="viewer", **given)
    with pytest.raises(Unprocessable):
        await shop.perform("snapshots.compare_lists", **given, user_ids=[str(at) for at in range(9)])
    shop.services = replace(shop.services, recommender=None)
    with pytest.raises(Unavailable, match="needs the running API"):
        await shop.perform("snapshots.compare_lists", **given)


def test_loaded_snapshots_are_few_and_released_in_time() -> None:
    bounds = SnapshotBounds(most=2)
    first, second, third = (("shop", "default", version) for version in ("a", "b", "c"))
    bounds.reserve([first, second], 0.0)
    bounds.reserve([first, second], 100.0)
    with pytest.raises(TooMany, match="2 snapshots are loaded for comparisons already") as caught:
        bounds.reserve([third], 200.0)
    assert caught.value.facts["retry_after_s"] == LOADED_S - 100
    bounds.reserve([third], 100.0 + LOADED_S)
    assert bounds.count == 1


async def test_the_serving_snapshot_and_another_one_are_tried_side_by_side(
    shop: ModelShop, tmp_path: Path
) -> None:
    first, second = await _publish(shop, tmp_path)
    client = shop.services.recommender
    assert client is not None
    corner = await open_corner(
        clock=StillClock(NOW_MS), stores=shop.stores, client=client, artifacts=shop.artifacts
    )
    shop.services = replace(shop.services, api=LocalApi(corner.handler, corner.keyring.secret_of))
    given: dict[str, Any] = {"role": "analyst", "variants": [{"user_id": "u1", "rows": 10}] * 2}
    tried = (await shop.perform("try.recommend", snapshots=["", second[:8]], **given))["variants"]
    assert [variant["snapshot"] for variant in tried] == ["", second]
    assert [variant["error"] for variant in tried] == ["", ""]
    scores = [[product["why"]["score"] for product in variant["products"]] for variant in tried]
    assert scores[0] != scores[1]
    same = (await shop.perform("try.recommend", snapshots=[first], **given))["variants"]
    assert [variant["products"] for variant in same] == [tried[0]["products"]] * 2
    with pytest.raises(NotFound):
        await shop.perform("try.recommend", snapshots=["nothing"], **given)
    full = SnapshotBounds(most=1)
    full.reserve([(APP, "default", "another")], shop.services.clock.monotonic_s())
    shop.services = replace(shop.services, snapshot_bounds=full)
    with pytest.raises(TooMany):
        await shop.perform("try.recommend", snapshots=["", second], **given)
    shop.services = replace(shop.services, snapshot_bounds=SnapshotBounds())
    third = shop.publish(tmp_path / "third", 8)
    for path in (tmp_path / "artifacts" / "snapshots" / APP / "default" / third).rglob("*.npy"):
        path.write_bytes(b"damaged")
    _, broken = (await shop.perform("try.recommend", snapshots=["", third], **given))["variants"]
    assert broken["products"] == ()
    assert f"snapshot {third} can't be used" in broken["error"]
    await corner.close()


def test_comparisons_of_one_app_leave_room_for_those_of_others() -> None:
    bounds = SnapshotBounds()
    for number in range(4):
        bounds.reserve([("a", "default", str(number))], 0.0)
    with pytest.raises(TooMany):
        bounds.reserve([("a", "default", "4")], 1.0)
    bounds.reserve([("b", "default", "0"), ("b", "default", "1")], 1.0)
    for app_id in ("c", "d"):
        bounds.reserve([(app_id, "default", str(number)) for number in range(4)], 2.0)
    with pytest.raises(TooMany, match="16 snapshots"):
        bounds.reserve([("e", "default", str(number)) for number in range(4)], 3.0)
    bounds.reserve([("e", "default", str(number)) for number in range(4)], LOADED_S + 3.0)
