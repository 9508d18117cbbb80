"""The use cases of models over memory stores, with two stored snapshots of a ring of products."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.crypto import Vault
from cluster.records.administration import AppRole
from cluster.records.apps import App
from cluster.records.engine import Engine
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.framework.operation_executor import Administration
from deployments.operations.framework.principal import Principal
from deployments.operations.framework.services import AdminServices
from jobs.refresh.evaluation.report_models import EvaluationReport
from jobs.refresh.evaluation.report_store import ReportStore
from tests.fakes.audit_list import AuditList
from tests.fakes.corner_shop import NOW_MS
from tests.fakes.request_handler import MASTER, StillClock
from tests.fakes.stores.memory import memory_stores
from tests.fakes.trained_snapshot import publish_ring_snapshot

APP = "shop"


@dataclass
class ModelShop:
    """The administration of one app, performed by somebody with a role in it."""

    stores: Stores
    artifacts: ArtifactStore
    services: AdminServices
    folder: Path
    audit: AuditList = field(default_factory=AuditList)

    async def perform(self, operation: str, *, role: AppRole = "owner", **arguments: Any) -> Any:
        """Perform an operation on the app."""
        administration = Administration(
            self.services, OPERATIONS, self.audit, self.services.clock, AdminServices.for_principal
        )
        principal = Principal("ada", "usr-1", "console", roles={APP: role})
        named = {"app_id": APP} if "app_id" in OPERATIONS[operation].arguments.model_fields else {}
        return await administration.perform(principal, operation, {**named, **arguments})

    def publish(self, folder: Path, seed: int = 6, **report: Any) -> str:
        """Train a snapshot, put it in the artifact store with its evaluation, and return its version."""
        version = publish_ring_snapshot(SnapshotStore(self.artifacts), folder, APP, seed=seed)
        measured = EvaluationReport.model_validate({**evaluation().to_dict(), **report})
        ReportStore(self.artifacts).put(APP, "default", version, measured)
        return version


async def open_model_shop(folder: Path, **services: Any) -> ModelShop:
    """Open an app with the engine `default` that serves nothing yet."""
    clock = StillClock(NOW_MS)
    stores = memory_stores(clock)
    await stores.access.put_app(App(app_id=APP, environment="development", created_at=NOW_MS))
    await stores.access.put_app(App(app_id="other", environment="development", created_at=NOW_MS))
    await stores.engines.put(Engine(app_id=APP, engine_id="default", created_at=NOW_MS))
    artifacts = ArtifactStore.open(folder / "artifacts")
    opened = AdminServices(cast(OpenStores, stores), Vault(MASTER), clock, artifacts, **services)
    return ModelShop(stores, artifacts, opened, folder)


def evaluation(change: float = 0.01, *, serving: str = "") -> EvaluationReport:
    """Make the evaluation of a snapshot that is better than what serves by a change in NDCG."""
    figures = {
        name: {"mean": 0.2, "low": 0.19, "high": 0.21}
        for name in ("ndcg@10", "recall@10", "hit_rate@10", "mrr@10")
    }
    beside = {
        "figure": "ndcg@10", "readers": 300, "before": 0.2 - change, "after": 0.2,
        "low": change - 0.005, "high": change + 0.005, "coverage_before": 0.5,
        "segments": {"all": dict.fromkeys(figures, 0.2 - change)},
        "intervals": {"all": {"ndcg@10": [0.18, 0.2]}}, "version": serving,
    }  # fmt: skip
    facts = {
        "trial": "by_time", "k": 10, "coverage": 0.8, "protocol": "by_time", "recipe": "ring",
        "segments": [{"name": "all", "readers": 300, "figures": figures}],
        "beside": {"serving" if serving else "popularity": beside},
        "parts": [{"part": "rules", "weight": 1.0, "weight_new": 0.0, "alone": 0.15, "reason": "it gains"}],
        "figures": {"ndcg@10": 0.2}, "verdict": {"allowed": change > -0.005, "sentence": "measured"},
        "run_id": "run-1",
    }  # fmt: skip
    return EvaluationReport.model_validate(facts)
