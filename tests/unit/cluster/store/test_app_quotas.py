"""Bounds of an app: each one refuses what passes it, and an app without bounds asks no store."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cluster.errors import Conflict, Forbidden
from cluster.records.apps import App, AppSettings
from cluster.records.engine import Engine
from cluster.records.run import Run
from cluster.store.app_quotas import (
    MEASURE_KEEP_S,
    StorageBounds,
    UsageStore,
    check_new_engine,
    check_new_records,
    check_new_training,
    check_stored_bytes,
)
from tests.suites.manual_clock import ManualClock


def _app(**bounds: int) -> App:
    settings = AppSettings(**cast(Any, {"max_storage_mb": 0, **bounds}))
    return App(app_id="shop", environment="development", settings=settings, created_at=0)


class CountingStore:
    """One user and two products, two engines, one open run, 3 MB; counts what it is asked."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.size = 3 << 20

    async def count(self, app_id: str, noun: str) -> int:
        self.calls.append("count")
        return {"user": 1, "product": 2}[noun]

    async def get_many(self, app_id: str, noun: str, ids: list[str]) -> list[bytes | None]:
        self.calls.append("get_many")
        return [b"{}" if record_id in ("p1", "p2") else None for record_id in ids]

    async def all(self, app_id: str) -> list[Engine]:
        self.calls.append("all")
        return [Engine(app_id=app_id, engine_id=name, created_at=0) for name in ("default", "summer")]

    async def list_open(self, app_id: str) -> list[Run]:
        self.calls.append("open")
        return [Run(app_id=app_id, run_id="r", engine_id="default", recipe={}, by="", created_at=0)]

    async def stored_bytes(self, app_id: str) -> int:
        self.calls.append("stored_bytes")
        return self.size


@pytest.fixture
def store() -> Any:
    return CountingStore()


async def test_an_app_without_bounds_asks_no_store(store: Any) -> None:
    app = _app()
    await check_new_records(store, app, "product", ["p3"] * 1_000)
    await check_new_engine(store, app, "winter")
    await check_new_training(store, store, app)
    await StorageBounds(store, ManualClock()).check(app)
    check_stored_bytes(app, 1 << 60)
    assert store.calls == []


async def test_new_records_beyond_the_bound_are_refused_and_updates_are_not(store: Any) -> None:
    await check_new_records(store, _app(max_records=4), "product", ["p1", "p2", "p3", "p3"])
    with pytest.raises(Forbidden, match="holds 3 of at most 4 records, and 2 more do not fit"):
        await check_new_records(store, _app(max_records=4), "product", ["p1", "p3", "p4"])
    await check_new_records(store, _app(max_records=1), "product", ["p1", "p2"])


async def test_the_ids_are_looked_up_near_the_bound_only(store: Any) -> None:
    await check_new_records(store, _app(max_records=5), "product", ["p1", "p3"])
    assert store.calls == ["count", "count"]
    await check_new_records(store, _app(max_records=4), "product", ["p1", "p3"])
    assert store.calls[2:] == ["count", "count", "get_many"]


async def test_storage_is_read_once_in_half_a_minute(store: Any) -> None:
    clock = ManualClock()
    bounds = StorageBounds(cast(UsageStore, store), clock)
    for _ in range(5):
        await bounds.check(_app(max_storage_mb=4))
    with pytest.raises(
        Forbidden, match="stores 3 of at most 3 MB; delete some data or ask the administrator"
    ):
        await bounds.check(_app(max_storage_mb=3))
    assert store.calls == ["stored_bytes"]
    store.size = 5 << 20
    clock.advance(int(MEASURE_KEEP_S * 1000) + 1)
    with pytest.raises(Forbidden, match="stores 5 of at most 4 MB"):
        await bounds.check(_app(max_storage_mb=4))


async def test_a_passed_check_holds_until_the_measurement_is_old_or_the_settings_change(store: Any) -> None:
    clock, app = ManualClock(), _app(max_storage_mb=4)
    bounds = StorageBounds(cast(UsageStore, store), clock)
    assert not bounds.has_valid_check(app, clock.monotonic_s())
    await bounds.check(app)
    assert bounds.has_valid_check(app, clock.monotonic_s())
    assert not bounds.has_valid_check(_app(max_storage_mb=4), clock.monotonic_s())
    clock.advance(int(MEASURE_KEEP_S * 1000) - 1_000)
    # checked again, but not measured again
    await bounds.check(app)
    clock.advance(1_001)
    assert not bounds.has_valid_check(app, clock.monotonic_s())
    store.size = 5 << 20
    with pytest.raises(Forbidden):
        await bounds.check(app)
    assert not bounds.has_valid_check(app, clock.monotonic_s())
    unbounded = _app(max_storage_mb=0)
    await bounds.check(unbounded)
    assert bounds.has_valid_check(unbounded, clock.monotonic_s() + 1e9)


async def test_one_engine_too_many_is_refused(store: Any) -> None:
    await check_new_engine(store, _app(max_engines=3), "winter")
    await check_new_engine(store, _app(max_engines=2), "summer")
    with pytest.raises(Conflict, match=r"shop has 2 of at most 2 engines; .* max_engines=3"):
        await check_new_engine(store, _app(max_engines=2), "winter")


async def test_one_training_too_many_is_refused(store: Any) -> None:
    await check_new_training(store, store, _app(max_trainings=2, max_storage_mb=4))
    with pytest.raises(Conflict, match="shop has 1 of at most 1 trainings queued or running"):
        await check_new_training(store, store, _app(max_trainings=1))
    with pytest.raises(Forbidden, match="stores 3 of at most 3 MB"):
        await check_new_training(store, store, _app(max_storage_mb=3))
