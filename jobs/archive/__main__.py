"""kiosk ingest archive <file, directory or URI> --app development; without an address only the passages are built."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from cluster.errors import HouseError
from cluster.log import set_up_logging
from cluster.settings import Settings
from jobs.archive.article_files import KINDS, ArchiveReading
from jobs.archive.driver import ArchiveImportOptions, import_archive
from jobs.archive.source_article import DEFAULT_LICENCE
from jobs.ingest.cli import parse_count
from jobs.ingest.display import print_report_json, print_stop


def main() -> int:
    """Parse arguments and ingest; 0 when everything is in, 1 when some was refused, 2 when it could not be done."""
    given = _arguments()
    set_up_logging(level=logging.WARNING, people=True)
    wishes = ArchiveImportOptions(
        app_id=given.app,
        address=given.address or "",
        reading=ArchiveReading(given.kind, given.licence, given.topic, given.language),
        chunk=given.chunk,
        state_dir=given.state,
        restart=given.restart,
        passages=not given.no_passages,
        embedder=given.embedder or "",
        as_json=given.json,
    )
    try:
        report = asyncio.run(import_archive(wishes, Settings()))
    except HouseError as error:
        return print_stop(error, given.json)
    if given.json and report is not None:
        print_report_json(wishes.ingest_order(), report)
    return 1 if report is not None and (report.refused or report.failed) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="kiosk ingest archive",
        description="Bring an archive of articles into an app and build the passages it is searched by.",
    )
    parser.add_argument(
        "address",
        nargs="?",
        help="a file, a directory or a URI: MediaWiki dumps (.xml, .xml.bz2), RSS and Atom, JSON Lines, CSV, "
        "Parquet; left out: only build the passages",
    )
    parser.add_argument("--app", required=True, help="the app's id, for example development")
    parser.add_argument("--kind", choices=KINDS, help="when names and beginnings do not tell")
    parser.add_argument(
        "--licence", default=DEFAULT_LICENCE, help=f"of articles that do not say ({DEFAULT_LICENCE})"
    )
    parser.add_argument("--topic", default="", help="of articles that do not say, for example Science")
    parser.add_argument("--language", default="", help="of articles that do not say, for example en")
    parser.add_argument(
        "--chunk", type=parse_count, default=200, metavar="N", help="articles written together"
    )
    parser.add_argument("--state", type=Path, help="where progress and refused articles are kept")
    parser.add_argument("--restart", action="store_true", help="forget an interrupted run")
    parser.add_argument(
        "--embedder",
        choices=("built-in", "imported"),
        help="who makes the vectors: trained on the articles, or the encoder imported last (when there is one)",
    )
    parser.add_argument("--no-passages", action="store_true", help="leave the building to a later run")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on standard output")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
