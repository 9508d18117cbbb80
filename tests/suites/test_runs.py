"""What the ports of trainings promise: runs, schedules, promotions."""

from __future__ import annotations

import asyncio

from cluster.records.engine import Engine, Promotion, SnapshotTrial
from cluster.records.run import Run, Schedule, cancel_run, claim_run, end_run
from cluster.store.engines.runs import MOST_KEPT
from cluster.store.stores import Stores
from tests.suites.doing import APP, NOW, OTHER, require


def a_run(run_id: str = "r1", **fields: object) -> Run:
    return Run.model_validate(
        {"app_id": APP, "run_id": run_id, "engine_id": "default", "created_at": NOW, **fields}
    )


async def kept(stores: Stores, run: Run | None) -> Run:
    """Write a run that must be writable."""
    assert run is not None
    written = require(await stores.runs.compare_and_set(run))
    return written


class TestRuns:
    async def test_a_run_reads_back_with_its_revision(self, stores: Stores) -> None:
        written = await kept(stores, a_run(recipe={"name": "träge", "parts": {"x": [1, 2.5, None]}}))
        assert written.revision == 1
        assert await stores.runs.get(APP, "r1") == written
        assert await stores.runs.get(OTHER, "r1") is None
        assert await stores.runs.get(APP, "r2") is None

    async def test_a_run_is_made_once(self, stores: Stores) -> None:
        made = await asyncio.gather(*(stores.runs.compare_and_set(a_run(by=str(n))) for n in range(10)))
        (winner,) = [run for run in made if run is not None]
        assert await stores.runs.get(APP, "r1") == winner

    async def test_only_who_read_the_newest_may_write(self, stores: Stores) -> None:
        first = await kept(stores, a_run())
        second = await kept(stores, claim_run(first, "one", NOW))
        assert await stores.runs.compare_and_set(claim_run(first, "two", NOW) or first) is None
        assert await stores.runs.get(APP, "r1") == second

    async def test_of_many_claims_at_once_one_holds(self, stores: Stores) -> None:
        run = await kept(stores, a_run())
        claims = [claim_run(run, f"worker {n}", NOW) for n in range(10)]
        done = await asyncio.gather(*(stores.runs.compare_and_set(claim) for claim in claims if claim))
        assert len([run for run in done if run is not None]) == 1

    async def test_open_runs_are_those_that_have_not_ended(self, stores: Stores) -> None:
        await kept(stores, a_run("late", created_at=NOW + 5))
        working = await kept(stores, claim_run(await kept(stores, a_run("working")), "one", NOW))
        await kept(stores, cancel_run(await kept(stores, a_run("gone")), NOW))
        assert [run.run_id for run in await stores.runs.list_open(APP)] == ["working", "late"]
        await kept(stores, end_run(working, "one", 1, NOW, "finished", {"version": "v"}))
        assert [run.run_id for run in await stores.runs.list_open(APP)] == ["late"]
        assert await stores.runs.list_open(OTHER) == []

    async def test_the_newest_come_first(self, stores: Stores) -> None:
        for at in (3, 1, 2):
            await kept(stores, a_run(f"r{at}", created_at=NOW + at))
        assert [run.run_id for run in await stores.runs.newest(APP)] == ["r3", "r2", "r1"]
        assert [run.run_id for run in await stores.runs.newest(APP, 1)] == ["r3"]

    async def test_old_ended_runs_are_forgotten_and_open_ones_never(self, stores: Stores) -> None:
        await kept(stores, a_run("open", created_at=1))
        for at in range(MOST_KEPT + 2):
            await kept(stores, a_run(f"r{at}", created_at=NOW + at, status="failed"))
        runs = await stores.runs.newest(APP, 10_000)
        assert len(runs) == MOST_KEPT + 1
        assert runs[-1].run_id == "open"
        assert await stores.runs.get(APP, "r1") is None
        assert await stores.runs.get(APP, "r2") is not None


class TestSchedules:
    async def test_schedules_read_back_sorted_and_are_changed(self, stores: Stores) -> None:
        for name in ("weekly", "nightly"):
            made = Schedule(app_id=APP, name=name, engine_id="default", when="every 1d")
            assert await stores.schedules.add(made)
            assert not await stores.schedules.add(made)
        changed = Schedule(app_id=APP, name="weekly", engine_id="news", when="every 7d", last_slot=NOW)
        assert await stores.schedules.update(APP, "weekly", lambda _: changed) == changed
        assert await stores.schedules.update(APP, "yearly", lambda _: changed) is None
        schedules = await stores.schedules.all(APP)
        assert [schedule.name for schedule in schedules] == ["nightly", "weekly"]
        assert schedules[1] == changed
        assert await stores.schedules.all(OTHER) == []

    async def test_a_removed_schedule_is_gone(self, stores: Stores) -> None:
        await stores.schedules.add(Schedule(app_id=APP, name="a", engine_id="default", when="nightly"))
        assert await stores.schedules.remove(APP, "a")
        assert not await stores.schedules.remove(APP, "a")
        assert await stores.schedules.all(APP) == []


class TestPromotions:
    async def promote(self, stores: Stores, version: str, before: str, **fields: object) -> bool:
        entry = Promotion.model_validate(
            {"app_id": APP, "engine_id": "default", "version": version, "before": before, **fields}
        )
        return await stores.promotions.promote(entry)

    async def test_what_serves_and_its_history_change_together(self, stores: Stores) -> None:
        await stores.engines.put(Engine(app_id=APP, engine_id="default", placement="own", created_at=NOW))
        assert await self.promote(stores, "v1", "", run_id="r1", figures={"ndcg@10": 0.25})
        assert await self.promote(stores, "v2", "v1", by="a person", at_ms=NOW)
        engine = require(await stores.engines.get(APP, "default"))
        assert (engine.snapshot, engine.placement, engine.created_at) == ("v2", "own", NOW)
        history = await stores.promotions.history(APP, "default")
        assert [(entry.version, entry.before) for entry in history] == [("v2", "v1"), ("v1", "")]
        assert history[1].figures == {"ndcg@10": 0.25}
        assert [entry.version for entry in await stores.promotions.history(APP, "default", 1)] == ["v2"]

    async def test_what_was_promoted_meanwhile_is_not_overwritten(self, stores: Stores) -> None:
        await stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot="v2"))
        assert not await self.promote(stores, "v3", "v1")
        engine = require(await stores.engines.get(APP, "default"))
        assert engine.snapshot == "v2"
        assert await stores.promotions.history(APP, "default") == []

    async def test_a_promotion_begins_a_trial_and_the_next_change_ends_it(self, stores: Stores) -> None:
        await stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot="v1"))
        trial = SnapshotTrial(trial_id="t", version="v1", started_at=NOW, ends_at=NOW + 1)
        entry = Promotion(app_id=APP, engine_id="default", version="v2", before="v1", evidence={"people": 3})
        assert await stores.promotions.promote(entry, trial)
        engine = require(await stores.engines.get(APP, "default"))
        assert (engine.snapshot, engine.trial) == ("v2", trial)
        assert (await stores.promotions.history(APP, "default"))[0].evidence == {"people": 3}
        assert await self.promote(stores, "v1", "v2", kind="rolled_back")
        engine = require(await stores.engines.get(APP, "default"))
        assert (engine.snapshot, engine.trial) == ("v1", None)

    async def test_of_many_at_once_one_is_promoted(self, stores: Stores) -> None:
        await stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot="v0"))
        done = await asyncio.gather(*(self.promote(stores, f"v{n}", "v0") for n in range(1, 9)))
        assert sum(done) == 1
        (entry,) = await stores.promotions.history(APP, "default")
        engine = require(await stores.engines.get(APP, "default"))
        assert engine.snapshot == entry.version

    async def test_an_engine_nobody_made_is_not_promoted(self, stores: Stores) -> None:
        assert not await self.promote(stores, "v1", "")
        assert await stores.engines.get(APP, "default") is None
