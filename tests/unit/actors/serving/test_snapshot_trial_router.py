"""A host answers each person of a trial from the drawn snapshot, and no request fails because of a snapshot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from actors.hosting.memory_budget import MemoryBudget
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.recommender.rerank.exploration import is_in_trial
from actors.serving import app_follower, model_registry, snapshot_trial_router
from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import Unavailable
from cluster.records.engine import Engine, SnapshotTrial
from cluster.store.stores import Stores
from tests.fakes.corner_shop import APP, upload
from tests.fakes.counting_meter import CountingMeter
from tests.fakes.stores.memory import memory_stores
from tests.fakes.trained_snapshot import publish_ring_snapshot, ring_products
from tests.suites.waiting import until

PEOPLE = [f"person-{number}" for number in range(60)]


@dataclass
class Trial:
    """An engine that serves one snapshot, with a trial of another one on a third of the people."""

    stores: Stores
    host: EngineHost
    serving: str
    other: str
    record: SnapshotTrial

    async def ask(self, user_id: str) -> RecommendationResult:
        answered = await self.host.answer(
            UserQuery("user_to_products", APP, "default", user_id=user_id, rows=3)
        )
        assert isinstance(answered, RecommendationResult), answered
        return answered

    async def version_of(self, user_id: str) -> str:
        placements = (await self.ask(user_id)).placements
        assert placements is not None
        return placements.snapshot

    def draws(self, user_id: str) -> bool:
        return is_in_trial(self.record, UserQuery("user_to_products", APP, "default", user_id=user_id))

    async def is_loaded(self) -> bool:
        drawn = next(filter(self.draws, PEOPLE))
        return await self.version_of(drawn) == self.other


@pytest.fixture
async def trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[Trial]:
    monkeypatch.setattr(model_registry, "LOOK_S", 0.02)
    stores, meter = memory_stores(SystemClock()), CountingMeter()
    snapshots = SnapshotStore(ArtifactStore.open(tmp_path / "artifacts"))
    serving, other = (
        publish_ring_snapshot(snapshots, tmp_path / str(seed), APP, seed=seed) for seed in (6, 7)
    )
    await upload(stores, ring_products())
    record = SnapshotTrial(trial_id="t1", version=other, share=1 / 3, started_at=1, ends_at=1 << 60)
    await stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=serving, trial=record))
    budget = MemoryBudget(getattr(request, "param", 1 << 30), meter)
    opened = EngineHost(stores, None, SystemClock(), meter, budget, models=SnapshotLoader(snapshots))
    yield Trial(stores, opened, serving, other, record)
    await opened.close()


@pytest.mark.usefixtures("allow_world")
async def test_each_person_gets_the_drawn_snapshot_and_always_the_same(trial: Trial) -> None:
    await until(trial.is_loaded)
    for user_id in PEOPLE:
        expected = trial.other if trial.draws(user_id) else trial.serving
        assert [await trial.version_of(user_id) for _ in range(2)] == [expected] * 2
    assert 8 <= sum(map(trial.draws, PEOPLE)) <= 32
    anonymous = await trial.host.answer(UserQuery("user_to_trending", APP, "default"))
    assert isinstance(anonymous, RecommendationResult)
    assert anonymous.placements is not None
    assert anonymous.placements.snapshot == trial.serving
    await trial.stores.engines.change(
        APP, "default", lambda engine: engine.model_copy(update={"trial": None})
    )

    async def has_ended() -> bool:
        return {await trial.version_of(user_id) for user_id in PEOPLE} == {trial.serving}

    await until(has_ended)


@pytest.mark.usefixtures("allow_world")
@pytest.mark.parametrize("trial", [1_000], indirect=True)
async def test_a_host_without_memory_for_both_serves_one_snapshot(trial: Trial) -> None:
    for _ in range(20):
        assert {await trial.version_of(user_id) for user_id in PEOPLE[:5]} == {trial.serving}


@pytest.mark.usefixtures("allow_world")
@pytest.mark.parametrize("fails", ["serving", "other"])
async def test_the_other_snapshot_answers_where_one_fails_and_failures_are_counted(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    await until(trial.is_loaded)
    broken = getattr(trial, fails)
    answer = app_follower.AppFollower.answer

    async def fail_sometimes(follower: Any, query: UserQuery, *more: Any) -> RecommendationResult:
        if follower.serving_version(query.engine_id) == broken and not query.snapshot:
            raise ZeroDivisionError("a model of somebody divides by zero")
        return await answer(follower, query, *more)

    monkeypatch.setattr(app_follower.AppFollower, "answer", fail_sometimes)
    monkeypatch.setattr(snapshot_trial_router, "_FAILURES_S", 0.0)
    left = trial.other if fails == "serving" else trial.serving
    assert {await trial.version_of(user_id) for user_id in PEOPLE} == {left}
    counted = await trial.stores.engine_activity.read_failures(APP, "t1")
    drawn = sum(map(trial.draws, PEOPLE))
    assert counted == {broken: drawn if fails == "other" else len(PEOPLE) - drawn}


@pytest.mark.usefixtures("allow_world")
async def test_a_store_that_fails_midway_counts_no_failure_twice(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    await until(trial.is_loaded)
    answer, add = app_follower.AppFollower.answer, trial.stores.engine_activity.add_failures
    broken, calls = [trial.serving], list[str]()

    async def fail_sometimes(follower: Any, query: UserQuery, *more: Any) -> RecommendationResult:
        version = query.snapshot or follower.serving_version(query.engine_id)
        if version in broken:
            raise ZeroDivisionError("a model of somebody divides by zero")
        return await answer(follower, query, *more)

    async def add_or_fail(app_id: str, trial_id: str, version: str, count: int) -> None:
        calls.append(version)
        if len(calls) == 2:
            raise Unavailable("the store")
        await add(app_id, trial_id, version, count)

    monkeypatch.setattr(app_follower.AppFollower, "answer", fail_sometimes)
    monkeypatch.setattr(trial.stores.engine_activity, "add_failures", add_or_fail)
    monkeypatch.setattr(snapshot_trial_router, "_FAILURES_S", 1e9)
    first, *rest = [user_id for user_id in PEOPLE if not trial.draws(user_id)]
    last = next(user_id for user_id in PEOPLE if trial.draws(user_id))
    for user_id in (first, *rest):
        await trial.version_of(user_id)
    broken[:] = [trial.other]
    monkeypatch.setattr(snapshot_trial_router, "_FAILURES_S", 0.0)
    for _ in range(
        2
    ):  # the store fails for the second version of the first batch, and takes it with the next batch
        await trial.version_of(last)
    assert len(calls) > 2
    counted = await trial.stores.engine_activity.read_failures(APP, "t1")
    assert counted == {trial.serving: 1 + len(rest), trial.other: 2}


@pytest.mark.usefixtures("allow_world")
async def test_a_query_that_both_snapshots_refuse_counts_for_neither(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    await until(trial.is_loaded)

    async def fail(follower: Any, query: UserQuery, *more: Any) -> RecommendationResult:
        raise ZeroDivisionError("this query divides by zero")

    monkeypatch.setattr(app_follower.AppFollower, "answer", fail)
    monkeypatch.setattr(snapshot_trial_router, "_FAILURES_S", 0.0)
    for user_id in PEOPLE[:20]:
        with pytest.raises(ZeroDivisionError):
            await trial.ask(user_id)
    assert await trial.stores.engine_activity.read_failures(APP, "t1") == {}


@pytest.mark.usefixtures("allow_world")
async def test_a_trial_that_is_over_draws_nobody_although_it_stands_in_the_record(trial: Trial) -> None:
    await until(trial.is_loaded)
    over = trial.record.model_copy(update={"ends_at": 2})
    await trial.stores.engines.change(
        APP, "default", lambda engine: engine.model_copy(update={"trial": over})
    )

    async def serves_all() -> bool:
        return {await trial.version_of(user_id) for user_id in PEOPLE} == {trial.serving}

    await until(serves_all)
