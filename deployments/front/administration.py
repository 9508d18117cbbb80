"""The console and the administration over HTTP of an API replica, over what the replica has open."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from starlette.routing import BaseRoute

from cluster.artifacts.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.secrecy import Vault
from cluster.store.connect import OpenStores
from deployments.archive.services import ArchiveServices
from deployments.console.app import build_console_routes
from deployments.console.identity_provider import ProviderConfig
from deployments.console.services import open_console
from deployments.operations.open_admin import open_admin
from deployments.operations.services import AdminConfig


def build_administration_routes(
    stores: OpenStores,
    vault: Vault,
    clock: Clock,
    artifacts: ArtifactStore,
    archive: ArchiveServices,
    app_ids: Callable[[], Iterable[str]],
    provider: tuple[str, str, str] | None = None,
    data_dir: str = "",
) -> list[BaseRoute]:
    """Return the routes of the console, which share addresses and limits of the sign-in with the archive."""
    config = archive.config
    admin = open_admin(
        stores, vault, clock, artifacts, config=AdminConfig(archive_app=config.app_id, data_dir=data_dir)
    )
    console = open_console(
        admin, stores, vault, clock, archive.oauth.addresses, app_ids=app_ids,
        provider=None if provider is None else ProviderConfig(*provider),
        client_addresses=config.client_addresses, version=config.version,
    )  # fmt: skip
    return build_console_routes(console)
