"""The use cases of the administration over the corner shop: memory stores, a real engine, the API in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from actors.serving.host import EngineHost
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.meter import SilentMeter
from cluster.records.administration import AppRole
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from deployments.api.http.local_api import LocalApi
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.framework.operation_executor import Administration
from deployments.operations.framework.principal import Principal
from deployments.operations.framework.services import AdminConfig, AdminServices
from tests.fakes.audit_list import AuditList
from tests.fakes.corner_shop import APP, NOW_MS, furnish
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import Corner, StillClock, open_corner
from tests.fakes.stores.memory import memory_stores


@dataclass
class AdminShop:
    """The shop, and the administration over it."""

    corner: Corner
    services: AdminServices
    audit: AuditList

    async def perform(self, name: str, /, *, role: AppRole = "owner", **arguments: Any) -> Any:
        """Perform an operation on the shop with a role in it."""
        administration = Administration(self.services, OPERATIONS, self.audit, self.corner.clock)
        principal = Principal("ada", "1", "console", roles={APP: role})
        return await administration.perform(principal, name, {"app_id": APP, **arguments})


@asynccontextmanager
async def open_admin_shop(folder: Path, *, stores: Stores | None = None) -> AsyncIterator[AdminShop]:
    """Open the furnished shop; `folder` holds artifacts and the data directory."""
    clock = StillClock(NOW_MS)
    stores = stores or memory_stores(clock)
    await furnish(stores)
    artifacts = ArtifactStore.open(folder / "artifacts")
    host = EngineHost(stores, None, clock, SilentMeter())
    await host.start()
    corner = await open_corner(
        clock=clock, stores=stores, client=LocalRecommenderClient(host), artifacts=artifacts
    )
    services = AdminServices(
        stores=cast(OpenStores, stores),
        vault=corner.vault,
        clock=clock,
        artifact_source=artifacts,
        config=AdminConfig(data_dir=folder / "data"),
        api=LocalApi(corner.handler, corner.keyring.secret_of),
    )
    try:
        yield AdminShop(corner, services, AuditList())
    finally:
        await corner.close()
        await host.close()
