"""`python -m jobs.playground`: load the sample data, or write it as upload bodies with `--out DIR`."""

from __future__ import annotations

import sys

from jobs.command_line import run_program
from jobs.playground.cli import app

if __name__ == "__main__":
    sys.exit(run_program(app, "python -m jobs.playground"))
