"""Opening the artifact store of this installation in any process."""

from __future__ import annotations

from pathlib import Path

from cluster.admin.vault import manifest_signer
from cluster.artifacts.artifact_store import ArtifactStore
from cluster.settings import Settings


def open_artifact_store(settings: Settings | None = None, *, verified: bool = True) -> ArtifactStore:
    """Open the artifact store; manifests and results read from it must be signed by this installation.

    Without `verified` it needs no key, and the caller may look at formats only.

    Actors receive this function itself, without arguments: no key travels through Ray.
    """
    settings = Settings() if settings is None else settings
    signer = manifest_signer(settings) if verified else None
    return ArtifactStore.open(settings.artifact_dir, signer=signer)


def open_artifact_store_of(data_dir: str) -> ArtifactStore:
    """Open the artifact store of another installation's data directory."""
    return open_artifact_store(Settings(data_dir=Path(data_dir)))
