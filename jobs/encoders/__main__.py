"""`python -m jobs.encoders`: the same as `kiosk models`, for machines without the command line."""

from __future__ import annotations

import sys
from pathlib import Path

from actors.language.imported_encoders import EncoderStore
from cluster.process.artifact_access import open_artifact_store
from cluster.settings import Settings
from jobs.command_line import run_program
from jobs.encoders.cli import build_models_app


def _publish(folder: Path) -> None:
    settings = Settings()
    # Without a bucket the artifact store is below the data directory, where the encoder is already.
    if settings.artifacts_url:
        EncoderStore(folder.parent, open_artifact_store(settings)).publish(folder)


if __name__ == "__main__":
    app = build_models_app(lambda: Settings().data_dir / "models", _publish)
    sys.exit(run_program(app, "python -m jobs.encoders"))
