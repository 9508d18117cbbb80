"""python -m jobs.ingest <file, directory or URI> --noun product --app development

Progress goes to standard error; with `--json` one object on standard output says how it ended.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from cluster.artifacts.segments import SegmentStore
from cluster.clock import SystemClock
from cluster.errors import HouseError, Unavailable
from cluster.runtime.artifact_access import open_artifact_store
from cluster.runtime.disk import DiskGuard
from cluster.settings import Settings
from cluster.store.connect import open_stores
from jobs.ingest.cli import order_from_arguments, parse_arguments
from jobs.ingest.display import IngestDisplay, print_report_json, print_stop, show_preview
from jobs.ingest.fields import show_fields
from jobs.ingest.pipeline import IngestOrder, IngestReport, ingest
from jobs.ingest.preview import preview_ingest
from jobs.ingest.progress import check_disk_space


def main() -> int:
    """Parse arguments and ingest; return the exit code that `kiosk ingest --help` explains."""
    if sys.argv[1:2] == ["fields"]:
        return show_fields(sys.argv[2:])
    arguments = parse_arguments()
    try:
        settings = Settings()
        state_dir = arguments.state or settings.data_dir / "ingest"
        order = order_from_arguments(arguments)
        if arguments.dry_run:
            found = preview_ingest(order, now_ms=SystemClock().now_ms())
            show_preview(order, found, as_json=arguments.json)
            return 1 if found.refused else 0
        if settings.redis_url is None:
            raise Unavailable("no Redis is known: start the system first, or set KIOSK_REDIS_URL")
        if arguments.at_once > 1:
            report = _ingest_files(order, state_dir, arguments.restart, arguments.at_once, arguments.json)
        else:
            report = asyncio.run(_ingest(order, settings, state_dir, arguments.restart, arguments.json))
    except HouseError as error:
        return print_stop(error, arguments.json)
    if arguments.json:
        print_report_json(order, report)
    return 1 if report.refused or report.failed else 0


def _ingest_files(
    order: IngestOrder, state_dir: Path, restart: bool, at_once: int, as_json: bool
) -> IngestReport:
    from jobs.ingest.driver import ingest_files  # brings Ray along

    display = IngestDisplay(as_json=as_json)
    show = display.show_file_report
    report = ingest_files(order, state_dir=state_dir, restart=restart, at_once=at_once, told=show)
    display.show_report(report)
    return report


async def _ingest(
    order: IngestOrder, settings: Settings, state_dir: Path, restart: bool, as_json: bool
) -> IngestReport:
    assert settings.redis_url is not None
    segments = SegmentStore(open_artifact_store(settings))
    disk = DiskGuard(settings.data_dir, settings.disk_limit, SystemClock())
    async with open_stores(settings.redis_url.get_secret_value(), slow_s=10.0) as stores:
        with IngestDisplay(as_json=as_json) as display:
            watch = check_disk_space(disk.refusal_reason, display.show)
            where = (order, stores)
            report = await ingest(
                *where, state_dir=state_dir, segments=segments, restart=restart, watch=watch
            )
        display.show_report(report)
        return report


if __name__ == "__main__":
    sys.exit(main())
