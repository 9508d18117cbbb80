"""Interleavings that promote by themselves: what the supervisor makes of clicks, and what it leaves alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from actors.experiments.interleaving_report import load_interleaving_report
from actors.experiments.lifecycle import ExperimentLifecycle
from cluster.artifacts.snapshots import SnapshotStore
from cluster.records.engine import Engine
from cluster.records.experiment import Experiment
from cluster.records.served_list import FIRST_SIDE, SECOND_SIDE
from jobs.refresh.automation import interleaving_watch
from jobs.refresh.runs.promotion import HOLDBACK, promote_version
from tests.fakes.erased_person import erase_person
from tests.fakes.supervised_shop import APP, NOON_MS, SupervisedShop


@dataclass
class InterleavedShop(SupervisedShop):
    """An app whose engine serves `now`, interleaved with `rival` since noon."""

    now: str = ""
    rival: str = ""
    experiment: Experiment = field(init=False)

    async def statuses(self) -> list[str]:
        book = await self.stores.experiments.read_all(APP)
        return [experiment.status_at(self.clock.now_ms()) for experiment in book.experiments]

    async def status(self) -> str:
        (status,) = await self.statuses()
        return status

    def click(self, first: int, second: int) -> None:
        """Log a click of so many people on a product of each side."""
        rows = [
            {
                "at": NOON_MS + 9, "type": "click", "product": "a", "value": 0.0, "matched": "id",
                "service_id": f"s{at}", "answered_at": NOON_MS + 1, "places": [1], "origins": [0],
                "sides": [FIRST_SIDE if at < first else SECOND_SIDE], "engine_id": "default",
                "experiments": [{"experiment": self.experiment.experiment_id, "variant": "both"}],
                "user": f"p{at}",
            }
            for at in range(first + second)
        ]  # fmt: skip
        self.write_outcomes(rows)

    async def interleave(self, now: str, rival: str, **fields: Any) -> Experiment:
        """Start an interleaving of two snapshots."""
        variants = [
            {"name": "now", "slug": "first", "snapshot": now},
            {"name": "rival", "slug": "second", "snapshot": rival, "weight": 0.0},
        ]
        draft = {
            "name": "Rival", "method": "interleave", "variants": variants, "goal": ["click"],
            "promote_when_better": True, **fields,
        }  # fmt: skip
        lifecycle = ExperimentLifecycle(self.stores, self.clock)
        (created,) = await lifecycle.create(APP, [draft])
        return await lifecycle.start(APP, created.experiment_id)


@pytest.fixture
async def shop(tmp_path: Path) -> InterleavedShop:
    shop = InterleavedShop(tmp_path)
    shop.now, shop.rival = shop.publish(6), shop.publish(7)
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=shop.now))
    shop.experiment = await shop.interleave(shop.now, shop.rival)
    await shop.set_switch(True)
    return shop


@pytest.fixture
async def learned(shop: InterleavedShop) -> str:
    """A snapshot that learned from people, in place of the interleaving."""
    await ExperimentLifecycle(shop.stores, shop.clock).complete(APP, "rival")
    return shop.publish(8, learned_from_people=True)


async def test_a_preferred_snapshot_is_promoted_with_its_evidence_and_a_trial_guards_it(
    shop: InterleavedShop,
) -> None:
    shop.click(60, 60)
    await shop.look()
    assert (await shop.engine()).snapshot == shop.now
    shop.click(100, 400)
    await shop.look()
    engine = await shop.engine()
    assert engine.snapshot == shop.rival
    assert engine.trial is not None
    assert (engine.trial.version, engine.trial.share) == (shop.now, HOLDBACK)
    assert not engine.trial.is_candidate
    assert await shop.status() == "Completed"
    (entry,) = await shop.stores.promotions.history(APP, "default")
    assert (entry.kind, entry.by, entry.before) == ("promoted", "automatic_models", shop.now)
    assert entry.evidence["experiment_id"] == shop.experiment.experiment_id
    assert entry.evidence["share"]["low"] > 1 / 2
    assert entry.reason.endswith("the second side won 80.0% of 500 days, certainly 70.5% to 89.5%")
    ((_, row),) = await shop.stores.audit.begun()
    assert (row.operation, row.way, row.outcome) == ("promotions.promote", "automatic", "done")
    assert (row.arguments["experiment"], row.after) == ("rival", entry.evidence)
    await shop.look()
    assert len(await shop.stores.promotions.history(APP, "default")) == 1


async def test_the_serving_snapshot_stays_where_people_prefer_it(shop: InterleavedShop) -> None:
    shop.click(400, 100)
    await shop.look()
    assert ((await shop.engine()).snapshot, await shop.status()) == (shop.now, "Completed")
    ((_, row),) = await shop.stores.audit.begun()
    assert row.operation == "experiments.complete"
    assert "is better; the second side won 20.0%" in row.reason


@pytest.mark.parametrize(("is_on", "environment"), [(False, "production"), (True, "development")])
async def test_the_switch_of_the_app_stops_promotions(
    shop: InterleavedShop, is_on: bool, environment: str
) -> None:
    await shop.set_switch(is_on, environment)
    shop.click(100, 400)
    await shop.look()
    assert ((await shop.engine()).snapshot, await shop.status()) == (shop.now, "Active")


async def test_an_interleaving_without_the_option_decides_and_changes_nothing(shop: InterleavedShop) -> None:
    lifecycle = ExperimentLifecycle(shop.stores, shop.clock)
    await lifecycle.complete(APP, "rival")
    shop.experiment = await shop.interleave(shop.now, shop.rival, name="Look", promote_when_better=False)
    shop.click(100, 400)
    await shop.look()
    report = await load_interleaving_report(shop.stores, shop.artifacts, shop.experiment, shop.clock.now_ms())
    assert report.better == "second"
    assert (await shop.engine()).snapshot == shop.now


async def test_an_interleaving_ends_where_another_snapshot_serves(shop: InterleavedShop) -> None:
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=shop.rival))
    shop.click(100, 400)
    await shop.look()
    assert await shop.status() == "Completed"
    ((_, row),) = await shop.stores.audit.begun()
    assert (row.operation, row.reason) == ("experiments.complete", f"the engine serves {shop.rival} now")


async def test_an_erasure_ends_the_interleaving_of_a_snapshot_that_learned_from_the_person(
    shop: InterleavedShop, learned: str
) -> None:
    await shop.interleave(shop.now, learned, name="Learned")
    await shop.look()
    assert sorted(await shop.statuses()) == ["Active", "Completed"]
    erase_person(shop.artifacts, shop.clock, APP, 7)
    await shop.look()
    assert ((await shop.engine()).snapshot, await shop.statuses()) == (shop.now, ["Completed"] * 2)
    ((_, row),) = await shop.stores.audit.begun()
    assert (row.operation, row.outcome) == ("experiments.complete", "done")
    assert row.reason == f"{learned} learned from people who were erased since"


@pytest.mark.parametrize("method", ["interleave", "split"])
@pytest.mark.parametrize("is_on", [True, False])
async def test_an_erasure_ends_every_experiment_that_serves_a_snapshot_with_the_person(
    shop: InterleavedShop, learned: str, method: str, is_on: bool
) -> None:
    await shop.set_switch(is_on)
    look = {"method": method, "promote_when_better": False}
    await shop.interleave(shop.now, learned, name="Learned", **look)
    await shop.interleave(learned, shop.rival, name="First", **look)
    await shop.interleave(shop.now, shop.rival, name="Without", **look)
    await shop.look()
    assert sorted(await shop.statuses()) == ["Active"] * 3 + ["Completed"]
    erase_person(shop.artifacts, shop.clock, APP, 7)
    await shop.look()
    book = await shop.stores.experiments.read_all(APP)
    running = [experiment.name for experiment in book.experiments if experiment.status == "Active"]
    assert running == ["Without"]
    rows = [row for _, row in await shop.stores.audit.begun()]
    assert {row.reason for row in rows} == {f"{learned} learned from people who were erased since"}
    assert sorted(row.arguments["experiment"] for row in rows) == ["first", "learned"]


async def test_an_experiment_with_the_serving_snapshot_goes_on_after_an_erasure(
    shop: InterleavedShop, learned: str
) -> None:
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=learned))
    await shop.interleave(learned, shop.rival, name="Serving", promote_when_better=False)
    erase_person(shop.artifacts, shop.clock, APP, 7)
    await shop.look()
    assert sorted(await shop.statuses()) == ["Active", "Completed"]


async def test_a_snapshot_that_is_gone_is_not_promoted(shop: InterleavedShop) -> None:
    SnapshotStore(shop.artifacts).remove(APP, "default", shop.rival)
    shop.click(100, 400)
    await shop.look()
    assert ((await shop.engine()).snapshot, await shop.status()) == (shop.now, "Completed")


@pytest.mark.parametrize("deed", ["complete", "promote"])
async def test_a_decision_undoes_no_change_that_came_during_the_read(
    shop: InterleavedShop, monkeypatch: pytest.MonkeyPatch, deed: str
) -> None:
    newest = shop.publish(8)

    async def load_slowly(*given: Any) -> Any:
        report = await load_interleaving_report(*given)
        if deed == "promote":
            await promote_version(
                shop.stores, shop.artifacts, APP, "default", newest, now_ms=NOON_MS + 1, by="ada"
            )
        else:
            await ExperimentLifecycle(shop.stores, shop.clock).complete(APP, "rival")
        return report

    monkeypatch.setattr(interleaving_watch, "load_interleaving_report", load_slowly)
    shop.click(100, 400)
    await shop.look()
    assert (await shop.engine()).snapshot == (newest if deed == "promote" else shop.now)


async def test_a_report_is_read_again_only_when_outcomes_changed(
    shop: InterleavedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []

    async def load_counted(*given: Any) -> Any:
        reads.append(given)
        return await load_interleaving_report(*given)

    monkeypatch.setattr(interleaving_watch, "load_interleaving_report", load_counted)
    shop.click(10, 10)
    await shop.look()
    await shop.look()
    assert len(reads) == 1
    shop.click(20, 20)
    await shop.look()
    assert len(reads) == 2


@pytest.mark.parametrize(
    "changes",
    [{"method": "split"}, {"engines": ["default", "home"]}, {"variants": "rule"}, {"variants": "same"}],
)
async def test_only_an_interleaving_of_two_snapshots_of_one_engine_promotes(
    shop: InterleavedShop, changes: dict[str, Any]
) -> None:
    fields = shop.experiment.model_dump() | changes
    if "variants" in changes:
        second = {"boost_rule": "sale"} if changes["variants"] == "rule" else {"snapshot": shop.now}
        fields["variants"] = [
            shop.experiment.variants[0].model_dump(), shop.experiment.variants[1].model_dump() | second,
        ]  # fmt: skip
    with pytest.raises(ValidationError, match="only an interleaving of two snapshots of one engine"):
        Experiment.model_validate(fields)
