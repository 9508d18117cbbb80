"""What `kiosk ingest` understands."""

from __future__ import annotations

import argparse
from pathlib import Path


def read_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="kiosk ingest", description="Ingest files of any size.")
    parser.add_argument("address", help="a file, a directory, or an s3:// or gs:// URI of either")
    parser.add_argument("--noun", choices=("user", "product", "interaction"), required=True)
    parser.add_argument("--app", required=True, help="the app's id, for example development")
    parser.add_argument(
        "--map", action="append", default=[], metavar="FIELD=COLUMN", help="see jobs/ingest/mapping.py"
    )
    parser.add_argument(
        "--format", choices=("jsonl", "csv", "tsv", "parquet"), help="when the name does not tell"
    )
    parser.add_argument(
        "--chunk", type=int, help="rows written together; 2,000 interactions or 500 records when not said"
    )
    parser.add_argument(
        "--at-once", type=int, default=1, metavar="N", help="so many files at once, each as a task on Ray"
    )
    parser.add_argument("--state", type=Path, help="where progress and refused rows are kept")
    parser.add_argument("--restart", action="store_true", help="forget an interrupted run")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output at the end")
    return parser.parse_args()
