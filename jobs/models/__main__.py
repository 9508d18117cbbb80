"""`python -m jobs.models`: what `kiosk models` does, for machines without the command line."""

from __future__ import annotations

import sys

from cluster.settings import Settings
from jobs.command_line import run_program
from jobs.models.cli import build_models_app

if __name__ == "__main__":
    sys.exit(run_program(build_models_app(lambda: Settings().data_dir / "models"), "python -m jobs.models"))
