from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest

from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.records.apps import App, AppSettings
from cluster.records.engine import Engine, SnapshotTrial
from cluster.records.served_list import ServedAnswer
from jobs.refresh.automation.supervisor import ModelSupervisor
from jobs.refresh.automation.trial_samples import SETTLING_MS, TrialSamples
from jobs.refresh.automation.trial_watch import TrialWatch, end_trial
from jobs.refresh.runs.promotion import HOLDBACK, WATCH_MS, promote_version, roll_back_version
from tests.fakes.counting_meter import CountingMeter
from tests.fakes.erased_person import erase_person
from tests.fakes.supervised_shop import APP, NOON_MS, SupervisedShop


@dataclass
class Shop(SupervisedShop):
    """An app whose engine serves the second of two snapshots since noon."""

    old: str = ""
    new: str = ""

    async def promote(self, version: str, **more: Any) -> SnapshotTrial | None:
        await promote_version(
            self.stores, self.artifacts, APP, "default", version, now_ms=self.clock.now_ms(), by="ada", **more
        )
        return (await self.engine()).trial

    async def begin_trial(self) -> SnapshotTrial:
        """Promote the new snapshot and return the trial that watches it."""
        trial = await self.promote(self.new)
        assert trial is not None
        return trial

    def serve(
        self, rates: dict[str, float], people: int = 12_000, share: float = HOLDBACK, took_ms: float = 10.0
    ) -> None:
        """Log two lists for each person, some with a click; the holdback gets the old snapshot."""
        random = np.random.default_rng(3)
        begins_ms = NOON_MS + SETTLING_MS
        answers, clicks = [], []
        for person in range(people):
            version = self.old if random.random() < share else self.new
            for number in range(2):
                at_ms, service_id = begins_ms + person * 4 + number, f"s{person}-{number}"
                answers.append(
                    ServedAnswer(
                        service_id, at_ms, "user_to_products", "default", snapshot=version, user=f"p{person}",
                        took_ms=took_ms if version == self.new else 10.0, products=("a", "b"),
                    )
                )  # fmt: skip
                if random.random() < rates[version]:
                    clicks.append(
                        {
                            "at": at_ms + 9, "type": "click", "service_id": service_id, "answered_at": at_ms,
                            "value": 0.0, "endpoint": "user_to_products", "engine_id": "default",
                            "snapshot": version, "user": f"p{person}",
                        }
                    )  # fmt: skip
        ServedLogStore(self.artifacts, self.clock).append(APP, answers, f"{begins_ms}-0")
        self.write_outcomes(clicks)


@pytest.fixture
async def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    shop.old, shop.new = shop.publish(6), shop.publish(7)
    await shop.set_switch(True)
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=shop.old))
    return shop


@pytest.fixture
def samples_in_memory(monkeypatch: pytest.MonkeyPatch) -> WeakSet[TrialSamples]:
    """The samples that nothing has let go."""
    in_memory = WeakSet[TrialSamples]()
    initialize = TrialSamples.__init__

    def count(samples: TrialSamples, *arguments: Any) -> None:
        initialize(samples, *arguments)
        in_memory.add(samples)

    monkeypatch.setattr(TrialSamples, "__init__", count)
    return in_memory


async def test_a_promotion_begins_a_week_with_a_holdback_and_a_rollback_ends_it(shop: Shop) -> None:
    trial = await shop.begin_trial()
    assert (trial.version, trial.share, trial.is_candidate) == (shop.old, 0.05, False)
    assert (trial.started_at, trial.ends_at) == (NOON_MS, NOON_MS + WATCH_MS)
    await roll_back_version(shop.stores, shop.artifacts, APP, "default", now_ms=NOON_MS + 1, by="ada")
    assert (await shop.engine()).trial is None


@pytest.mark.parametrize(
    "switches",
    [
        {"is_on": False},
        {"is_on": True, "environment": "development"},
        {"is_on": True, "served_log": "anonymous"},
    ],
)
async def test_without_the_switch_or_people_in_the_log_nothing_is_watched(
    shop: Shop, switches: dict[str, Any]
) -> None:
    await shop.set_switch(**switches)
    assert await shop.promote(shop.new) is None


async def test_a_first_promotion_and_promotions_by_force_or_evidence_are_not_watched(shop: Shop) -> None:
    assert (
        await shop.promote(shop.new, force="a reason") is not None
    )  # the gate did not refuse, so it is no force
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="default"))
    assert await shop.promote(shop.new) is None
    assert await shop.promote(shop.old, evidence={"sentence": "better on people"}) is None


async def test_a_promotion_that_hurts_is_taken_back_with_its_evidence(shop: Shop) -> None:
    await shop.promote(shop.new)
    shop.serve({shop.old: 0.2, shop.new: 0.05})
    await shop.look(3_600_000)
    engine = await shop.engine()
    assert (engine.snapshot, engine.trial) == (shop.old, None)
    entry = (await shop.stores.promotions.history(APP, "default"))[0]
    assert (entry.kind, entry.by, entry.before) == ("rolled_back", "automatic_models", shop.new)
    assert entry.reason.startswith("clicks per person ")
    assert entry.evidence["candidate"]["version"] == shop.new
    assert entry.evidence["differences"]["clicks"]["high"] < 0
    ((_, row),) = await shop.stores.audit.begun()
    assert (row.operation, row.way) == ("promotions.roll_back", "automatic")
    assert (row.outcome, row.app_id) == ("done", APP)
    assert row.after == entry.evidence
    await shop.supervisor.run_once()
    assert len(await shop.stores.promotions.history(APP, "default")) == 2


async def test_an_equal_or_better_snapshot_stays_and_its_watch_ends_after_a_week(shop: Shop) -> None:
    await shop.promote(shop.new)
    shop.serve({shop.old: 0.1, shop.new: 0.2})
    await shop.look(3_600_000)
    assert (await shop.engine()).trial is not None
    await shop.look(WATCH_MS)
    engine = await shop.engine()
    assert (engine.snapshot, engine.trial) == (shop.new, None)
    ((_, row),) = await shop.stores.audit.begun()
    assert row.operation == "trials.stop"
    assert row.reason.startswith("its time is over: clicks per person ")


async def test_a_slow_snapshot_is_taken_back_by_the_guardrail(shop: Shop) -> None:
    await shop.promote(shop.new)
    shop.serve({shop.old: 0.1, shop.new: 0.1}, took_ms=200.0)
    await shop.look(3_600_000)
    assert (await shop.engine()).snapshot == shop.old
    assert (await shop.stores.promotions.history(APP, "default"))[0].reason.startswith(
        "latency per person 200.00"
    )


async def test_failed_answers_take_a_snapshot_back_before_the_log_has_a_row(shop: Shop) -> None:
    trial = await shop.begin_trial()
    await shop.supervisor.run_once()
    assert (await shop.engine()).snapshot == shop.new
    await shop.stores.engine_activity.add_failures(APP, trial.trial_id, shop.new, 5)
    await shop.look(1_000)
    assert (await shop.engine()).snapshot == shop.old


async def test_the_switch_stops_a_watch_that_would_roll_back(shop: Shop) -> None:
    await shop.promote(shop.new)
    shop.serve({shop.old: 0.2, shop.new: 0.05})
    await shop.set_switch(False)
    await shop.look(3_600_000)
    engine = await shop.engine()
    assert (engine.snapshot, engine.trial) == (shop.new, None)


async def test_a_candidate_is_promoted_when_better_and_dropped_when_worse(shop: Shop) -> None:
    for rates, serves in (((0.05, 0.3), shop.new), ((0.3, 0.05), shop.old)):
        trial = SnapshotTrial(
            trial_id="t", version=shop.new, is_candidate=True, share=0.5, started_at=NOON_MS,
            ends_at=NOON_MS + WATCH_MS, promote_when_better=True,
        )  # fmt: skip
        await shop.stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=shop.old, trial=trial))
        shop.serve(dict(zip((shop.old, shop.new), rates, strict=True)), people=4_000, share=0.5)
        await shop.look(3_600_000)
        engine = await shop.engine()
        assert (engine.snapshot, engine.trial) == (serves, None)


async def test_a_person_stays_with_the_first_snapshot_and_settling_rows_do_not_count(shop: Shop) -> None:
    trial = await shop.begin_trial()
    begins_ms = NOON_MS + SETTLING_MS
    rows = [
        ("ada", shop.old, begins_ms - 1),
        ("ada", shop.new, begins_ms),
        ("ada", shop.old, begins_ms + 1),
        ("", shop.new, begins_ms),
    ]
    answers = [
        ServedAnswer(
            f"s{at}", at_ms, "search", "default", snapshot=version, user=user, products=("a",), took_ms=4.0
        )
        for at, (user, version, at_ms) in enumerate(rows)
    ]
    ServedLogStore(shop.artifacts, shop.clock).append(APP, answers, f"{begins_ms}-0")
    samples = TrialSamples(shop.artifacts, await shop.engine(), trial)
    assert samples.has_news({})
    serving, other = samples.read({shop.old: 2})
    assert (serving.people, serving.lists, other.people, other.failures) == (1, 2, 0, 2)
    assert not samples.has_news({shop.old: 2})
    assert samples.has_news({shop.old: 3})


async def test_later_pages_count_over_all_pages_and_answers_that_are_no_lists_not(shop: Shop) -> None:
    trial = await shop.begin_trial()
    begins_ms = NOON_MS + SETTLING_MS
    answers = [
        ServedAnswer(
            f"s{start}", begins_ms + start, "search", "default", snapshot=shop.new, user="ada", start=start,
            products=("a",) if start < 30 else (), took_ms=4.0,
        )
        for start in (0, 10, 20, 30)
    ]  # fmt: skip
    later = ServedAnswer("t", begins_ms, "search", "default", snapshot=shop.new, user="bob", start=10)
    ServedLogStore(shop.artifacts, shop.clock).append(APP, [*answers, later], f"{begins_ms}-0")
    clicks = [
        {
            "at": begins_ms + 99, "type": kind, "endpoint": endpoint, "service_id": service_id, "value": value,
            "answered_at": begins_ms, "engine_id": "default", "snapshot": shop.new, "user": "ada",
        }
        for service_id, endpoint, kind, value in (
            ("s0", "search", "click", 0.0), ("s10", "search", "click", 0.0), ("q", "ask/questions", "click", 0.0),
            ("s0", "search", "checkout", 5.0), ("q", "ask/questions", "checkout", 7.0),
            ("c", "autocomplete", "checkout", 9.0),
        )
    ]  # fmt: skip
    shop.write_outcomes(clicks)
    serving, _ = TrialSamples(shop.artifacts, await shop.engine(), trial).read({})
    assert (serving.people, serving.lists) == (1, 4)
    measures = ("clicks", "revenue", "latency", "empty", "coverage")
    sums = {measure: serving.sample(measure).mean for measure in measures}
    assert sums == {"clicks": 0.5, "revenue": 5.0, "latency": 4.0, "empty": 0.0, "coverage": 1.0}


@pytest.mark.parametrize("deed", ["stop", "promote"])
async def test_a_decision_undoes_no_change_that_came_during_the_read(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, deed: str
) -> None:
    await shop.promote(shop.new)
    shop.serve({shop.old: 0.3, shop.new: 0.1})
    newest = shop.publish(8)
    loop, read = asyncio.get_running_loop(), TrialSamples.read

    async def act() -> None:
        if deed == "promote":
            await shop.promote(newest)
        else:
            stopping = await shop.engine()
            assert stopping.trial is not None
            await end_trial(shop.stores, APP, "default", stopping.trial.trial_id)

    def read_slowly(samples: TrialSamples, failures: Any) -> Any:
        asyncio.run_coroutine_threadsafe(act(), loop).result(10)
        return read(samples, failures)

    monkeypatch.setattr(TrialSamples, "read", read_slowly)
    await shop.supervisor.run_once()
    assert (await shop.engine()).snapshot == (newest if deed == "promote" else shop.new)


async def test_sums_of_trials_that_somebody_ended_are_not_kept(
    shop: Shop, samples_in_memory: WeakSet[TrialSamples]
) -> None:
    watch = TrialWatch(shop.stores, shop.artifacts, shop.clock)
    app = App(app_id=APP, environment="production", created_at=0, settings=AppSettings(automatic_models=True))
    for version in (shop.new, shop.old, shop.new):
        await shop.promote(version)
        await watch.examine_app(app)
        assert len(samples_in_memory) == 1
        shop.clock.advance(1_000)
    await roll_back_version(shop.stores, shop.artifacts, APP, "default", now_ms=shop.clock.now_ms(), by="ada")
    await watch.examine_app(app)
    # A thread of the pool lets its last call go a moment after the result is there.
    for _ in range(100):
        if not samples_in_memory:
            break
        await asyncio.sleep(0.01)
    assert not samples_in_memory


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_the_gauge_of_an_uneven_trial_is_set_until_the_trial_ends(shop: Shop, is_deleted: bool) -> None:
    meter = CountingMeter()
    supervisor = ModelSupervisor(shop.stores, shop.artifacts, shop.clock, owner="first", meter=meter)
    await shop.promote(shop.new)
    await supervisor.run_once()
    series = "kiosk_trial_uneven", APP, "default"
    assert meter.gauges == {series: 0.0}
    shop.serve({shop.old: 0.2, shop.new: 0.05}, share=0.5)
    shop.clock.advance(3_600_000)
    await supervisor.run_once()
    assert meter.gauges == {series: 1.0}
    assert (await shop.engine()).snapshot == shop.new
    if is_deleted:
        await shop.stores.engines.remove(APP, "default")
    else:
        shop.clock.advance(WATCH_MS)
    await supervisor.run_once()
    assert meter.gauges == {}


@pytest.mark.parametrize("is_candidate", [True, False])
async def test_an_erasure_ends_the_trial_of_a_snapshot_that_learned_from_the_person(
    shop: Shop, samples_in_memory: WeakSet[TrialSamples], is_candidate: bool
) -> None:
    learned = shop.publish(8, learned_from_people=True)
    trial = SnapshotTrial(
        trial_id="t", version=learned, is_candidate=is_candidate, share=0.5, started_at=NOON_MS,
        ends_at=NOON_MS + WATCH_MS, promote_when_better=True,
    )  # fmt: skip
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=shop.old, trial=trial))
    await shop.supervisor.run_once()
    assert (await shop.engine()).trial == trial
    assert len(samples_in_memory) == 1
    erase_person(shop.artifacts, shop.clock, APP, 7)
    await shop.look(1_000)
    engine = await shop.engine()
    assert (engine.snapshot, engine.trial) == (shop.old, None)
    ((_, row),) = await shop.stores.audit.begun()
    assert (row.operation, row.outcome) == ("trials.stop", "done")
    assert row.reason == f"{learned} learned from people who were erased since"
    assert not samples_in_memory


async def test_an_erased_person_leaves_both_groups_of_a_trial_that_goes_on(shop: Shop) -> None:
    trial = await shop.begin_trial()
    shop.serve({shop.old: 0.2, shop.new: 0.2}, people=400, share=0.5)
    samples = TrialSamples(shop.artifacts, await shop.engine(), trial)
    before = sum(group.people for group in samples.read({}))
    erase_person(shop.artifacts, shop.clock, APP, 7)
    assert samples.has_news({})
    assert (before, sum(group.people for group in samples.read({}))) == (400, 399)
    assert not any("p7" in sums["user"] for sums in samples._sums.values())
    await shop.look(1_000)
    assert (await shop.engine()).trial == trial
