"""Imported encoders in the artifact store, for the other nodes of the installation."""

from __future__ import annotations

from pathlib import Path

from actors.language.imported_encoders import EncoderStore
from cluster.process.artifact_access import open_artifact_store
from cluster.settings import Settings


def publish_encoder(settings: Settings, folder: Path) -> None:
    """Copy an imported encoder to the artifact store, unless that is below the data directory."""
    if settings.artifacts_url:
        EncoderStore(folder.parent, open_artifact_store(settings)).publish(folder)
