"""The console and the administration over HTTP of an API replica, over what the replica has open."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from starlette.routing import BaseRoute

from actors.serving.client import RecommenderClient
from cluster.artifacts.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.secrecy import Vault
from cluster.store.connect import OpenStores
from deployments.admin.authentication import Authenticator
from deployments.admin.endpoint import AdminEndpointServices, build_admin_routes
from deployments.admin.openapi import describe_administration
from deployments.archive.services import ArchiveServices
from deployments.console.api_session import find_session_principal
from deployments.console.app import build_console_routes
from deployments.console.identity_provider import ProviderConfig
from deployments.console.services import open_console
from deployments.edge.request_log import AccessLog, RequestCounts
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.open_admin import open_admin
from deployments.operations.services import AdminConfig, ApiCaller, ImportLauncher, refuse_imports


def build_administration_routes(
    stores: OpenStores,
    vault: Vault,
    clock: Clock,
    artifacts: ArtifactStore,
    archive: ArchiveServices,
    app_ids: Callable[[], Iterable[str]],
    request_counts: RequestCounts,
    access_log: AccessLog,
    provider: tuple[str, str, str] | None = None,
    *,
    admin_config: AdminConfig | None = None,
    api: ApiCaller | None = None,
    launch_import: ImportLauncher = refuse_imports,
    recommender: RecommenderClient | None = None,
) -> list[BaseRoute]:
    """Return the routes of the console, which share addresses and limits of the sign-in with the archive, and of
    `/v1/admin`.
    """
    config = archive.config
    admin = open_admin(
        stores, vault, clock, artifacts, config=admin_config or AdminConfig(archive_app=config.app_id), api=api,
        launch_import=launch_import, recommender=recommender,
    )  # fmt: skip
    console = open_console(
        admin, stores, vault, clock, archive.oauth.addresses, app_ids=app_ids,
        provider=None if provider is None else ProviderConfig(*provider),
        client_addresses=config.client_addresses, version=config.version,
    )  # fmt: skip
    http = AdminEndpointServices(
        admin, Authenticator(stores, clock, find_session_principal(console)), clock, request_counts, access_log,
        config.client_addresses,
    )  # fmt: skip
    return [*build_admin_routes(http), *build_console_routes(console)]


def describe_administration_routes() -> dict[str, Any]:
    """Return the description of `/v1/admin` for the OpenAPI document."""
    return describe_administration(OPERATIONS.values())
