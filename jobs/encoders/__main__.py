"""`python -m jobs.encoders`: the same as `kiosk models`, for machines without the command line."""

from __future__ import annotations

import sys

from cluster.settings import Settings
from jobs.command_line import run_program
from jobs.encoders.cli import build_models_app
from jobs.encoders.driver import publish_encoder

if __name__ == "__main__":
    app = build_models_app(
        lambda: Settings().data_dir / "models", lambda folder: publish_encoder(Settings(), folder)
    )
    sys.exit(run_program(app, "python -m jobs.encoders"))
