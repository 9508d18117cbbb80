"""Evaluations and sweeps that the administration orders, and a worker performs: a report, and nothing published."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.crypto import Vault
from cluster.errors import Conflict, Forbidden, Invalid, NotFound
from cluster.records.administration import AppRole
from cluster.records.run import Run
from cluster.store.connect import OpenStores
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.framework.operation_executor import Administration
from deployments.operations.framework.principal import Principal
from deployments.operations.framework.services import AdminServices
from jobs.refresh.runs.worker import TrainingWorker, WorkerResources
from tests.fakes import generated_market
from tests.fakes.audit_list import AuditList
from tests.fakes.stores.memory import memory_stores
from tests.suites.manual_clock import ManualClock

APP = generated_market.APP


@dataclass
class Market:
    """An app with settled data, its administration, and a worker."""

    administration: Administration[AdminServices]
    place: WorkerResources
    audit: AuditList

    async def perform(self, name: str, role: AppRole = "editor", **given: Any) -> Any:
        principal = Principal("ada", "usr-1", "token", roles={APP: role})
        return await self.administration.perform(principal, name, {"app_id": APP, **given})

    async def work(self, run: Run) -> Run:
        done = await TrainingWorker(self.place, "worker").work(APP, run.run_id)
        assert done is not None
        return done


@pytest.fixture
async def market(tmp_path: Path) -> Market:
    artifacts, clock, audit = ArtifactStore.open(tmp_path / "shelf"), ManualClock(), AuditList()
    generated_market.settle(SegmentStore(artifacts), generated_market.table(600, 60, 30, topics=3))
    stores = memory_stores(clock)
    await generated_market.open_market(stores)
    services = AdminServices(cast(OpenStores, stores), Vault(b"v" * 32), clock, artifacts)
    place = WorkerResources(
        stores, artifacts, clock, tmp_path / "scratch", beat_s=0.02, patience_s=0.0, settle_s=0.0
    )
    bind = AdminServices.for_principal
    return Market(Administration(services, OPERATIONS, audit, clock, bind), place, audit)


def published(market: Market) -> list[str]:
    return [version.version for version in SnapshotStore(market.place.artifacts).versions(APP, "default")]


async def test_an_evaluation_is_ordered_done_and_read(market: Market) -> None:
    given = {"recipe": "fast", "protocols": ["by_time"], "readers": 50, "learning_curve": True}
    with pytest.raises(Forbidden):
        await market.perform("evaluations.order", "analyst", **given)
    run = (await market.perform("evaluations.order", **given)).run
    assert (run.kind, run.status, run.by) == ("evaluation", "queued", "ada")
    with pytest.raises(Conflict, match="is queued; it has no report"):
        await market.perform("evaluations.report", run_id=run.run_id)
    done = await market.work(run)
    assert (done.status, done.error, done.version) == ("finished", "", "")
    assert published(market) == []
    report = (await market.perform("evaluations.report", "viewer", run_id=run.run_id)).to_dict()
    assert [outcome["protocol"] for outcome in report["reports"]] == ["by_time"]
    assert report["reports"][0]["figures"] == done.figures
    assert [point["share"] for point in report["reports"][0]["learning_curve"]["data"]] == [
        0.1,
        0.25,
        0.5,
        1.0,
    ]
    assert market.audit.rows[-1].operation == "evaluations.order"


async def test_what_serves_is_compared_and_is_what_is_evaluated_without_a_recipe(market: Market) -> None:
    run = (await market.perform("runs.order", recipe="fast")).run
    version = (await market.work(run)).version
    with pytest.raises(NotFound, match="is a training"):
        await market.perform("evaluations.report", run_id=run.run_id)
    await market.perform("promotions.promote", "editor", engine_id="default", version=version, force="a test")
    order = (await market.perform("evaluations.order", readers=50)).run
    assert (order.recipe["name"], order.options["compare"]) == ("fast", False)
    other = (await market.perform("evaluations.order", recipe="fast", changes={"seed": 9}, readers=50)).run
    assert other.options == {"protocols": ["by_time", "leave_last_out"], "readers": 50, "compare": True}
    assert (await market.work(other)).status == "finished"
    reports = (await market.perform("evaluations.report", run_id=other.run_id)).report.reports
    assert version in [beside.version for beside in reports[0].beside.values()]
    assert published(market) == [version]


async def test_a_sweep_is_ordered_done_and_read(market: Market) -> None:
    run = (await market.perform("evaluations.sweep", recipe="fast", sweep=["parts.rules.window=5,10"])).run
    done = await market.work(run)
    assert (done.status, done.error) == ("finished", "")
    report = (await market.perform("evaluations.report", run_id=run.run_id)).report
    assert {row["parts.rules.window"] for row in report.rows} == {5, 10}
    assert done.figures["ndcg@10"] == report.rows[0]["ndcg@10"]
    assert published(market) == []


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("evaluations.order", {"recipe": "fast", "snapshot": "x"}, "choose one of recipe and snapshot"),
        ("evaluations.order", {"protocols": ["x"]}, "there is no protocol 'x'"),
        ("evaluations.order", {"changes": {"seed": 1}}, "name one"),
        ("evaluations.sweep", {"sweep": ["seed"]}, "is no FIELD=A,B,C"),
        ("evaluations.sweep", {"sweep": ["seed=" + ",".join(map(str, range(300)))]}, "300 combinations"),
    ],
)
async def test_an_impossible_order_is_refused_at_once(
    market: Market, name: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        await market.perform(name, **given)
    assert await market.place.stores.runs.newest(APP, 9) == []


async def test_the_newest_reports_are_kept(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.refresh.runs.measurements.measurement.KEPT_REPORTS", 1)
    runs = []
    for seed in (1, 2):
        runs.append((await market.perform("evaluations.sweep", recipe="fast", sweep=[f"seed={seed}"])).run)
        assert (await market.work(runs[-1])).status == "finished"
    with pytest.raises(NotFound, match="removed for newer ones"):
        await market.perform("evaluations.report", run_id=runs[0].run_id)
    assert (await market.perform("evaluations.report", run_id=runs[1].run_id)).report.rows
