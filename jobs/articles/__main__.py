"""`python -m jobs.articles`: the same as `kiosk ingest archive`, for machines without the command line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from cluster.errors import KioskError
from cluster.settings import Settings
from jobs.articles.cli import ArchiveImportOptions, add_archive_command
from jobs.articles.driver import import_archive
from jobs.command_line import build_app, run_program
from jobs.ingest.display import print_report_json, print_stop


def _execute(options: ArchiveImportOptions, _: Sequence[str]) -> int:
    try:
        report = asyncio.run(import_archive(options, Settings()))
    except KioskError as error:
        return print_stop(error, options.as_json)
    if options.as_json and report is not None:
        print_report_json(options.ingest_order(), report)
    return 1 if report is not None and (report.refused or report.failed) else 0


if __name__ == "__main__":
    app = build_app()
    add_archive_command(app, None, _execute)
    sys.exit(run_program(app, "python -m jobs.articles"))
