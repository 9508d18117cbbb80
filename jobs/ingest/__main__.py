"""`python -m jobs.ingest`: the same as `kiosk ingest`, for `ray job submit`. Progress goes to standard error."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from cluster.admin.schema import check_schema
from cluster.artifacts.segments import SegmentStore
from cluster.clock import SystemClock
from cluster.errors import KioskError, Unavailable
from cluster.process.artifact_access import open_artifact_store
from cluster.process.disk_guard import DiskGuard
from cluster.settings import Settings
from cluster.store.connect import open_stores
from jobs.command_line import run_program
from jobs.ingest.cli import IngestOptions, build_ingest_app
from jobs.ingest.display import IngestDisplay, print_report_json, print_stop, show_files
from jobs.ingest.pipeline import IngestReport, IngestSpec, ingest
from jobs.ingest.progress import check_disk_space


def main() -> int:
    """Run one command and return its exit code; `kiosk ingest --help` explains the codes."""
    return run_program(build_ingest_app(_execute), "python -m jobs.ingest")


def _execute(options: IngestOptions, _: Sequence[str]) -> int:
    try:
        settings = Settings()
        order = options.build_order()
        if options.guess or options.dry_run:
            now_ms = SystemClock().now_ms()
            return show_files(order, is_guess=options.guess, as_json=options.as_json, now_ms=now_ms)
        state_dir = options.state_dir or settings.data_dir / "ingest"
        if options.at_once > 1:
            report = _ingest_on_ray(order, options, state_dir)
        else:
            report = asyncio.run(_ingest_in_process(order, options, state_dir, settings))
    except KioskError as error:
        return print_stop(error, options.as_json)
    if options.as_json:
        print_report_json(order, report)
    return int(bool(report.refused or report.failed))


def _ingest_on_ray(order: IngestSpec, options: IngestOptions, state_dir: Path) -> IngestReport:
    from jobs.ingest.driver import ingest_files  # imports Ray

    display = IngestDisplay(as_json=options.as_json)
    again = options.restart
    show = display.show_file_report
    report = ingest_files(order, state_dir=state_dir, restart=again, at_once=options.at_once, on_file=show)
    display.show_report(report)
    return report


async def _ingest_in_process(
    order: IngestSpec, options: IngestOptions, state_dir: Path, settings: Settings
) -> IngestReport:
    if (address := settings.redis_address) is None:
        raise Unavailable("no Redis is known: start the system first, or set KIOSK_REDIS_URL")
    watch_disk = DiskGuard(settings.data_dir, settings.disk_limit, SystemClock()).refusal_reason
    segments = SegmentStore(open_artifact_store(settings))
    async with open_stores(address, slow_s=10.0, is_serving=False) as stores:
        await check_schema(stores)
        with IngestDisplay(as_json=options.as_json) as display:
            watch = check_disk_space(watch_disk, display.show)
            report = await ingest(
                order, stores, state_dir=state_dir, segments=segments, restart=options.restart, watch=watch
            )
        display.show_report(report)
        return report


if __name__ == "__main__":
    sys.exit(main())
