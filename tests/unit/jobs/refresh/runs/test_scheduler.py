from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from cluster.errors import Conflict, NotFound, ReadOnly, Unavailable
from cluster.records.apps import App
from cluster.records.run import DAY_MS, LEASE_MS, Run, Schedule, claim_run
from cluster.store.stores import Stores
from jobs.refresh.runs import scheduler
from jobs.refresh.runs.run_commands import cancel_training, check_promotable, create_run, get_run, update_run
from jobs.refresh.runs.scheduler import RunAssignment, RunScheduler
from tests.fakes import generated_market
from tests.fakes.stores.memory import memory_stores
from tests.suites.manual_clock import ManualClock

RECIPE = {"name": "any"}


@dataclass
class FakeWorkerPool:
    capacity: int = 1
    sent: list[RunAssignment] = field(default_factory=list)
    ended: list[RunAssignment] = field(default_factory=list)
    failure: Exception | None = None

    def start(self, assignment: RunAssignment) -> None:
        if self.failure is not None:
            raise self.failure
        self.sent.append(assignment)

    def collect_finished(self) -> list[RunAssignment]:
        ended, self.ended = self.ended, []
        return ended


@dataclass
class AwayRuns:
    """Runs of a store that may be away."""

    runs: Any
    is_away: bool = False

    def __getattr__(self, name: str) -> Any:
        if self.is_away:
            raise Unavailable("the store is away")
        return getattr(self.runs, name)


@dataclass
class Office:
    stores: Stores
    clock: ManualClock
    pool: FakeWorkerPool
    scheduler: RunScheduler

    def another(self) -> Office:
        pool = FakeWorkerPool()
        return Office(
            self.stores, self.clock, pool, RunScheduler(self.stores, pool, self.clock, owner="second")
        )

    async def order(self, run_id: str = "") -> Run:
        now_ms = self.clock.now_ms()
        return await create_run(
            self.stores, generated_market.APP, "default", RECIPE, now_ms=now_ms, by="a test", run_id=run_id
        )

    async def begin(self, assignment: RunAssignment) -> Run:
        """Do what a worker does first."""
        run = await get_run(self.stores, assignment.app_id, assignment.run_id)
        taken = await update_run(
            self.stores, run, lambda now: claim_run(now, assignment.owner, self.clock.now_ms())
        )
        assert taken is not None
        return taken


@pytest.fixture
async def office() -> Office:
    clock = ManualClock()
    stores = memory_stores(clock)
    await generated_market.open_market(stores)
    pool = FakeWorkerPool()
    return Office(stores, clock, pool, RunScheduler(stores, pool, clock, owner="first"))


async def test_an_ordered_run_gets_one_worker(office: Office) -> None:
    run = await office.order()
    assert [await office.scheduler.run_once() for _ in range(3)] == [1, 0, 0]
    (assignment,) = office.pool.sent
    assert (assignment.app_id, assignment.run_id) == (generated_market.APP, run.run_id)


async def test_a_run_whose_worker_failed_to_start_is_sent_again(office: Office) -> None:
    run = await office.order()
    office.pool.failure = Unavailable("the cluster starts no worker")
    with pytest.raises(Unavailable):
        await office.scheduler.run_once()
    office.pool.failure = None
    assert await office.scheduler.run_once() == 1
    assert [assignment.run_id for assignment in office.pool.sent] == [run.run_id]


async def test_no_more_workers_are_sent_than_there_are_places(office: Office) -> None:
    first, second = await office.order("a"), await office.order("b")
    await office.scheduler.run_once()
    assert [assignment.run_id for assignment in office.pool.sent] == [first.run_id]
    await cancel_training(office.stores, generated_market.APP, first.run_id, office.clock.now_ms())
    office.pool.ended = office.pool.sent[:]
    await office.scheduler.run_once()
    assert [assignment.run_id for assignment in office.pool.sent] == [first.run_id, second.run_id]


async def test_a_finished_worker_is_replaced_at_once(office: Office) -> None:
    await office.order()
    await office.scheduler.run_once()
    await office.begin(office.pool.sent[0])
    office.pool.ended = office.pool.sent[:]
    assert await office.scheduler.run_once() == 1
    assert (await office.begin(office.pool.sent[1])).attempt == 2


async def test_a_worker_nobody_knows_of_is_replaced_when_its_lease_has_ended(office: Office) -> None:
    await office.order()
    await office.scheduler.run_once()
    await office.begin(office.pool.sent[0])
    other = office.another()
    await office.scheduler.release()
    assert await other.scheduler.run_once() == 0
    office.clock.advance(LEASE_MS)
    assert await other.scheduler.run_once() == 1


async def test_of_two_foremen_one_works(office: Office) -> None:
    other = office.another()
    assert await office.scheduler.run_once() == 0
    await office.order()
    assert await other.scheduler.run_once() == 0
    assert await office.scheduler.run_once() == 1
    await office.order("another")
    office.clock.advance(60_000)
    assert await other.scheduler.run_once() >= 1


async def test_a_run_whose_workers_die_every_time_is_given_up(office: Office) -> None:
    run = await office.order()
    for _ in range(run.most_attempts):
        assert await office.scheduler.run_once() == 1
        await office.begin(office.pool.sent[-1])
        office.pool.ended = office.pool.sent[-1:]
    assert await office.scheduler.run_once() == 0
    now = await get_run(office.stores, generated_market.APP, run.run_id)
    assert now.status == "failed"
    assert "its worker died 5 times" in now.error


async def test_a_schedule_fires_once_a_slot_whoever_looks_and_however_often(office: Office) -> None:
    now_ms = office.clock.now_ms()
    nightly = Schedule(
        app_id=generated_market.APP,
        name="nightly",
        engine_id="default",
        when="nightly",
        recipe=RECIPE,
        created_at=now_ms,
    )
    await office.stores.schedules.add(nightly)
    await office.scheduler.run_once()
    assert await office.stores.runs.newest(generated_market.APP) == []
    office.clock.advance(3 * DAY_MS)
    await office.scheduler.run_once()
    await office.scheduler.run_once()
    # as if a scheduler had died before it could mark the slot
    await office.stores.schedules.update(nightly.app_id, nightly.name, lambda _: nightly)
    await office.scheduler.run_once()
    (run,) = await office.stores.runs.newest(generated_market.APP)
    assert (run.by, run.promote, run.recipe) == ("schedule nightly", True, RECIPE)
    office.clock.advance(DAY_MS)
    await office.scheduler.run_once()
    assert len(await office.stores.runs.newest(generated_market.APP)) == 2


async def _bound(office: Office, **bounds: int) -> None:
    app = (await office.stores.access.read_all()).apps[generated_market.APP]
    settings = app.settings.model_copy(update=bounds)
    await office.stores.access.put_app(app.model_copy(update={"settings": settings}))


async def test_trainings_beyond_the_bound_are_refused(office: Office) -> None:
    await _bound(office, max_trainings=1)
    first = await office.order("a")
    with pytest.raises(Conflict, match="1 of at most 1 trainings queued or running"):
        await office.order("b")
    assert await office.order("a") == first
    await cancel_training(office.stores, generated_market.APP, "a", office.clock.now_ms())
    await office.order("b")


async def test_a_schedule_skips_a_slot_beyond_the_bound(office: Office) -> None:
    nightly = Schedule(
        app_id=generated_market.APP, name="nightly", engine_id="default", when="nightly", recipe=RECIPE,
        created_at=office.clock.now_ms(),
    )  # fmt: skip
    await office.stores.schedules.add(nightly)
    await _bound(office, max_trainings=1)
    await office.order("a")
    office.clock.advance(DAY_MS)
    await office.scheduler.run_once()
    await cancel_training(office.stores, generated_market.APP, "a", office.clock.now_ms())
    await office.scheduler.run_once()
    assert [run.run_id for run in await office.stores.runs.newest(generated_market.APP)] == ["a"]
    office.clock.advance(DAY_MS)
    await office.scheduler.run_once()
    assert len(await office.stores.runs.newest(generated_market.APP)) == 2


@pytest.mark.parametrize("is_full", [False, True], ids=["fired", "skipped"])
async def test_a_schedule_that_changes_while_it_fires_keeps_the_change(
    office: Office, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    stores, app_id = office.stores, generated_market.APP
    for name in ("changed", "removed"):
        await stores.schedules.add(
            Schedule(app_id=app_id, name=name, engine_id="default", when="nightly", created_at=1)
        )
    if is_full:
        await _bound(office, max_trainings=1)
        await office.order("a")

    async def create_slowly(*args: Any, **fields: Any) -> Run:
        await stores.schedules.update(
            app_id, "changed", lambda stored: stored.model_copy(update={"promote": False})
        )
        await stores.schedules.remove(app_id, "removed")
        return await create_run(*args, **fields)

    monkeypatch.setattr(scheduler, "create_run", create_slowly)
    await office.scheduler.run_once()
    (left,) = await stores.schedules.all(app_id)
    assert (left.name, left.promote, left.last_slot > 0) == ("changed", False, True)


async def test_a_schedule_of_an_engine_that_is_gone_stops_nothing(office: Office) -> None:
    gone = Schedule(app_id=generated_market.APP, name="gone", engine_id="gone", when="every 1h", created_at=1)
    await office.stores.schedules.add(gone)
    await office.order()
    assert await office.scheduler.run_once() == 1
    assert len(await office.stores.runs.newest(generated_market.APP)) == 1


async def test_orders_name_apps_and_engines_that_exist(office: Office) -> None:
    stores, now_ms = office.stores, office.clock.now_ms()
    with pytest.raises(NotFound, match="no app named nowhere; there are: market"):
        await create_run(stores, "nowhere", "default", RECIPE, now_ms=now_ms, by="")
    with pytest.raises(NotFound, match="no engine nope; there are: default"):
        await create_run(stores, generated_market.APP, "nope", RECIPE, now_ms=now_ms, by="")


async def test_nothing_is_promoted_on_a_read_only_app(office: Office) -> None:
    await office.stores.access.put_app(App(app_id="playground", environment="playground", created_at=0))
    with pytest.raises(ReadOnly, match=r"read-only\. Name another app, or leave out --promote"):
        await check_promotable(office.stores, "playground")
    await check_promotable(office.stores, generated_market.APP)
    await check_promotable(office.stores, "nowhere")


async def test_the_same_order_twice_is_one_run(office: Office) -> None:
    first = await office.order("r")
    assert await office.order("r") == first


async def test_a_run_is_cancelled_once(office: Office) -> None:
    run = await office.order()
    assert (await cancel_training(office.stores, generated_market.APP, run.run_id, 1)).status == "cancelled"
    with pytest.raises(Conflict, match="has ended already: cancelled"):
        await cancel_training(office.stores, generated_market.APP, run.run_id, 2)
    with pytest.raises(NotFound, match="kiosk runs list market"):
        await cancel_training(office.stores, generated_market.APP, "nope", 2)


async def test_a_store_that_is_away_when_workers_end_leaves_their_places_free(office: Office) -> None:
    office.pool.capacity = 2
    await office.order("a")
    await office.order("b")
    away = AwayRuns(office.stores.runs)
    scheduler = RunScheduler(replace(office.stores, runs=away), office.pool, office.clock, owner="first")
    assert await scheduler.run_once() == 2
    for assignment in office.pool.sent:
        await office.begin(assignment)
    office.pool.ended = office.pool.sent[:]
    away.is_away = True
    with pytest.raises(Unavailable):
        await scheduler.run_once()
    away.is_away = False
    office.clock.advance(LEASE_MS)
    assert await scheduler.run_once() == 2
