"""What the use cases of the administration work on, made once per process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cluster.artifacts.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.secrecy import Vault
from cluster.store.connect import OpenStores
from deployments.operations.principal import COMMAND_LINE, Principal


class ApiCaller(Protocol):
    """Calls an endpoint of the REST API as an app, with its secret key."""

    async def call(
        self, app_id: str, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int, Any]:
        """Return status and parsed body.

        Errors:
            Unavailable: this process has no API, or the app has no secret key
        """
        ...


class NoApi:
    """For processes without the REST API, such as commands."""

    async def call(
        self, app_id: str, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int, Any]:
        """Refuse.

        Errors:
            Unavailable: always
        """
        raise Unavailable("this needs the running API; use the console or /v1/admin", told=True)


@dataclass(frozen=True, slots=True)
class AdminConfig:
    """The part of the settings that use cases need."""

    archive_app: str = "playground"
    max_upload_mb: int = 200
    data_dir: str = ""
    "Folder whose disk the overview checks; empty: none."


@dataclass(frozen=True, slots=True)
class AdminServices:
    """Stores, keys, artifacts and the API."""

    stores: OpenStores
    vault: Vault
    clock: Clock
    artifact_source: ArtifactStore | Callable[[], ArtifactStore]
    "The artifact store, or a function that opens it when an operation needs it first."
    config: AdminConfig = field(default_factory=AdminConfig)
    api: ApiCaller = field(default_factory=NoApi)
    principal: Principal = COMMAND_LINE
    "Who performs the operation; `Administration` sets it for each call."

    @property
    def artifacts(self) -> ArtifactStore:
        """Return the artifact store.

        Errors:
            HouseError: it can't be opened
        """
        source = self.artifact_source
        return source if isinstance(source, ArtifactStore) else source()

    def for_principal(self, principal: Principal) -> AdminServices:
        """Return the services for the operations of one person."""
        return replace(self, principal=principal)

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        return self.clock.now_ms()
