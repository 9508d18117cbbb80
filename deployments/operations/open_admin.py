"""Opens the administration over the stores of a process, for API replicas and commands alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from actors.serving.client import RecommenderClient
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.crypto import Vault
from cluster.store.connect import OpenStores
from deployments.operations.content.preview_task import Previewer, preview_in_thread
from deployments.operations.framework.operation_executor import Administration
from deployments.operations.framework.services import (
    AdminConfig,
    AdminServices,
    ApiCaller,
    ImportLauncher,
    NoApi,
    refuse_imports,
)

if TYPE_CHECKING:
    from deployments.operations.all_operations import AdminOperation

Admin = Administration[AdminServices]


def open_admin(
    stores: OpenStores,
    vault: Vault,
    clock: Clock,
    artifacts: ArtifactStore | Callable[[], ArtifactStore],
    *,
    config: AdminConfig | None = None,
    api: ApiCaller | None = None,
    launch_import: ImportLauncher = refuse_imports,
    recommender: RecommenderClient | None = None,
    preview: Previewer = preview_in_thread,
    why_full: Callable[[], str] = str,
    operations: Mapping[str, AdminOperation] | None = None,
    training_owner: str = "",
    training_code: str = "",
) -> Admin:
    """Return the administration with some operations, by default with all.

    Rows of its audit log go to the stores, which the caller protected with proofs.
    """
    if operations is None:
        # Importing the modules of all use cases takes longer than most commands.
        from deployments.operations.all_operations import OPERATIONS

        operations = OPERATIONS
    services = AdminServices(
        stores,
        vault,
        clock,
        artifacts,
        config=config or AdminConfig(),
        api=api or NoApi(),
        launch_import=launch_import,
        recommender=recommender,
        preview=preview,
        why_full=why_full,
        training_owner=training_owner,
        training_code=training_code,
    )
    return Administration(services, operations, stores.audit, clock, AdminServices.for_principal)
