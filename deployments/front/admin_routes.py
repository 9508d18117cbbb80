"""The console and the administration over HTTP of an API replica, over what the replica has open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from starlette.routing import BaseRoute

from actors.serving.client import RecommenderClient
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.crypto import Vault
from cluster.store.connect import OpenStores
from deployments.admin.authentication import Authenticator
from deployments.admin.endpoint import AdminEndpointServices, build_admin_routes
from deployments.admin.openapi import describe_administration
from deployments.api.http.local_api import LocalApi
from deployments.api.http.request_handler import RequestHandler
from deployments.archive.openapi import describe_archive
from deployments.archive.services import ArchiveServices
from deployments.archive.tools import Tool
from deployments.console.app import build_console_routes
from deployments.console.services import ConsoleServices
from deployments.console.session_principal import find_session_principal
from deployments.demo.routes import DemoServices, build_demo_routes
from deployments.edge.access.keyring import Keyring
from deployments.edge.http.body_pace import UploadSlots
from deployments.edge.http.request_log import RequestLog
from deployments.edge.limits.token_buckets import TokenBuckets
from deployments.front.import_processes import ImportProcesses
from deployments.front.preview_processes import PreviewProcesses
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.framework.services import AdminConfig
from deployments.operations.open_admin import open_admin


def build_administration_routes(
    stores: OpenStores,
    vault: Vault,
    clock: Clock,
    artifacts: ArtifactStore,
    archive: ArchiveServices,
    keyring: Keyring,
    handler: RequestHandler,
    recommender: RecommenderClient,
    data_dir: Path,
    disk_limit: float,
    environment: Callable[[], Mapping[str, str]],
    log: RequestLog,
    why_full: Callable[[], str],
) -> list[BaseRoute]:
    """Return the routes of the console, of `/v1/admin` and of the demonstrations.

    The console shares the sign-in with the archive. `environment` returns the variables of
    processes that import uploaded files.
    """
    config = archive.config
    uploads = UploadSlots()
    admin = open_admin(
        stores,
        vault,
        clock,
        artifacts,
        api=LocalApi(handler, keyring.secret_of),
        recommender=recommender,
        config=AdminConfig(
            config.app_id,
            data_dir=data_dir,
            public_url=config.public_url,
            edge_url=config.edge_url,
            disk_limit=disk_limit,
        ),
        launch_import=ImportProcesses(environment).start,
        preview=PreviewProcesses(environment).preview,
        why_full=why_full,
    )
    console = ConsoleServices(
        admin,
        stores.accounts,
        archive.oauth.sign_in,
        TokenBuckets(clock),
        clock,
        archive.oauth.addresses,
        app_ids=lambda: keyring.app_ids,
        display_name_of=keyring.display_name_of,
        uploads=uploads,
        client_addresses=config.client_addresses,
        version=config.version,
    )
    http = AdminEndpointServices(
        admin,
        Authenticator(stores, clock, find_session_principal(console)),
        clock,
        log,
        config.client_addresses,
        uploads,
    )
    demos = build_demo_routes(DemoServices(keyring))
    return [*build_admin_routes(http), *build_console_routes(console), *demos]


def describe_administration_routes() -> dict[str, Any]:
    """Return the description of `/v1/admin` for the OpenAPI document."""
    return describe_administration(OPERATIONS.values())


def describe_routes(tools: Sequence[Tool], console: bool) -> list[Callable[[], Mapping[str, Any]]]:
    """Return what describes the routes beside the API for the OpenAPI document."""
    archive = partial(describe_archive, tools)
    return [archive, describe_administration_routes] if console else [archive]
