"""What the use cases of the administration work on, made once per process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from actors.serving.client import RecommenderClient
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.crypto import Vault
from cluster.errors import Unavailable
from cluster.store.connect import OpenStores
from deployments.operations.content.preview_task import Previewer, preview_in_thread
from deployments.operations.framework.principal import COMMAND_LINE, Principal
from deployments.operations.framework.result_cache import ResultCache
from deployments.operations.insight.replay_bounds import ReplayBounds
from deployments.operations.models.snapshot_bounds import SnapshotBounds

if TYPE_CHECKING:
    from jobs.refresh.evaluation.report_models import EvaluationReport


class ApiCaller(Protocol):
    """Calls an endpoint of the REST API as an app, with its secret key."""

    async def call(
        self, app_id: str, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int, Any]:
        """Return status and parsed body.

        Errors:
            Conflict: the app has no secret key
            Unavailable: this process has no API
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


CompareVersions = Callable[[str, str, str, str], Awaitable["EvaluationReport | None"]]
"""(app, engine, version, serving version) -> the report of a comparison that trains both again, None where they can't
be compared."""
ImportLauncher = Callable[[str, str], Awaitable[None]]
"Starts the process of an import, named by app and import id, and returns at once."


async def refuse_imports(app_id: str, import_id: str) -> None:
    """Refuse, in processes that start no imports.

    Errors:
        Unavailable: always
    """
    raise Unavailable(
        "this process starts no imports; use the console, /v1/admin or `kiosk ingest`", told=True
    )


@dataclass(frozen=True, slots=True)
class AdminConfig:
    """The part of the settings that use cases need."""

    archive_app: str = "playground"
    max_upload_mb: int = 200
    imports_at_once: int = 2
    "Imports of uploaded files that run at once, in the whole installation."
    data_dir: Path | None = None
    "Data directory of this machine: progress and refused rows of ingests are below it."
    public_url: str = ""
    "Address of the API in calls to copy."
    edge_url: str = ""
    "Address of the API in programs for browsers; empty: `public_url`."
    disk_limit: float = 0.94
    "Used share of the disk from which writes are refused."


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
    launch_import: ImportLauncher = refuse_imports
    why_full: Callable[[], str] = str
    "Returns why nothing more can be stored; empty while it can."
    preview: Previewer = preview_in_thread
    "Looks at uploaded files."
    cache: ResultCache = field(default_factory=ResultCache)
    "Results of heavy reads."
    principal: Principal = COMMAND_LINE
    "Who performs the operation; `Administration` sets it for each call."
    recommender: RecommenderClient | None = None
    "Answers for a snapshot that does not serve; None in processes without the API."
    snapshot_bounds: SnapshotBounds = field(default_factory=SnapshotBounds)
    replay_bounds: ReplayBounds = field(default_factory=ReplayBounds)
    compare_versions: CompareVersions | None = None
    "None in processes that serve, which never train."
    training_owner: str = ""
    "Worker id of a process that trains what it orders, so that no other worker claims it."
    training_code: str = ""
    "Digest of the code that this process shipped for the trainings that it orders."

    @property
    def artifacts(self) -> ArtifactStore:
        """Return the artifact store.

        Errors:
            KioskError: it can't be opened
        """
        source = self.artifact_source
        return source if isinstance(source, ArtifactStore) else source()

    def for_principal(self, principal: Principal) -> AdminServices:
        """Return the services for the operations of one person."""
        return replace(self, principal=principal)

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970."""
        return self.clock.now_ms()
