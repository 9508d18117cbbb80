"""Parallel ingest of files: a Ray task reads, validates and uploads each file; the intake actor applies the records.

    ray job submit -- python -m jobs.ingest s3://bucket/events --noun interaction --app bookshop --at-once 8

    from jobs.ingest.driver import ingest_files            # the same from Python, on a machine of the cluster
    from jobs.ingest.pipeline import IngestSpec
    print(ingest_files(IngestSpec("s3://bucket/events", "interaction", "bookshop"), at_once=8))

Files are independent of each other; if two files contain the same record, either one may win. Ray restarts a task
that dies, and the task continues from its progress file. So all machines that run tasks must share the state
directory. Each file is a separate run; a run that was started per file must be continued per file.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import ray

from cluster.admin.schema import check_schema
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import KioskError, Refusal, Unavailable
from cluster.process.artifact_access import artifact_store_opener
from cluster.process.store_connections import ADMIN_S, connect
from cluster.runtime.bootstrap import connect_ray
from cluster.settings import Settings
from cluster.store.connect import OpenStores
from jobs.ingest.files.sources import find_files
from jobs.ingest.pipeline import IngestReport, IngestSpec, ingest, run_from_order
from jobs.ingest.validation import merge_reasons

Connect = Callable[[], OpenStores]
OpenArtifacts = Callable[[], ArtifactStore]

FileCallback = Callable[[str, IngestReport], None]
"Called with the address and the report of each file that ends."

CPUS = 0.5
"CPUs that Ray reserves for a task, which also waits for the store and the intake."


def ingest_files(
    order: IngestSpec,
    *,
    state_dir: Path | None = None,
    restart: bool = False,
    at_once: int = 4,
    on_file: FileCallback | None = None,
) -> IngestReport:
    """Ingest all files of an address on the Ray cluster of this installation, or on a new local one.

    `on_file` is called with every file that ends.
    """
    settings = Settings()
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS", "")
        if address:
            connect_ray(address)
        else:
            # Without the output of the workers, which would tear the progress display.
            ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
    state_dir = settings.data_dir / "ingest" if state_dir is None else state_dir
    started_s = time.monotonic()
    reports = ingest_on_ray(
        order,
        _connect,
        artifact_store_opener(settings),
        state_dir=state_dir,
        restart=restart,
        at_once=at_once,
        on_file=on_file,
    )
    return sum_reports(reports, time.monotonic() - started_s)


def ingest_on_ray(
    order: IngestSpec,
    connect: Connect,
    open_artifacts: OpenArtifacts,
    *,
    state_dir: Path,
    restart: bool = False,
    at_once: int = 4,
    on_file: FileCallback | None = None,
) -> list[IngestReport]:
    """Ingest all files of an address, `at_once` at a time; return a report per file, in their order.

    `connect` opens the stores in the process of the task, so that no store address is sent. `on_file` is called with
    every file that ends.

    Errors:
        KioskError: the error of the first failed file, after the files in progress have ended; Unavailable if its task
            died again and again
    """
    addresses = [
        _file_address(order.address, source.path) for source in find_files(order.address, order.format)
    ]
    if restart:
        # reset here, and only once: a task that Ray restarts must continue, not begin again
        for address in addresses:
            run_from_order(replace(order, address=address), state_dir).reset()
    # Ray retries only after a worker died: errors of ours come back as refusals.
    task = ray.remote(_ingest_file).options(
        max_retries=5, num_cpus=CPUS, **Settings().node_options("training")
    )
    coming = list(enumerate(addresses))
    running: dict[Any, int] = {}
    reports: dict[int, IngestReport] = {}
    failed: KioskError | None = None
    # After a failure no new file begins; those in progress end, so that their chunks are recorded.
    while running or (coming and failed is None):
        while coming and failed is None and len(running) < at_once:
            number, address = coming.pop(0)
            file_order = replace(order, address=address)
            running[task.remote(file_order, connect, open_artifacts, state_dir)] = number
        # One at a time, so that the next file begins as soon as a place is free.
        (done,), _ = ray.wait(list(running), num_returns=1)
        number = running.pop(done)
        try:
            answer = ray.get(done)
        except ray.exceptions.RayError as error:
            # What a task raises has a cause; a worker that died has only a kind.
            cause = error.cause if isinstance(error, ray.exceptions.RayTaskError) else None
            kind = type(error).__name__ if cause is None else f"{type(cause).__name__}: {cause}"
            words = f"the task of {addresses[number]} ended with {kind}"
            answer = Refusal.of(Unavailable(f"{words}; run the same command again, and it continues there"))
        if isinstance(answer, Refusal):
            failed = failed or answer.error()
            continue
        reports[number] = answer
        if on_file is not None:
            on_file(addresses[number], answer)
    if failed is not None:
        raise failed
    return [reports[number] for number in sorted(reports)]


def sum_reports(reports: Sequence[IngestReport], seconds: float) -> IngestReport:
    """Return the sum of the reports of files; `seconds` is the duration of the whole parallel ingest."""
    quarantines = [report.quarantine for report in reports if report.quarantine is not None]
    # several files have several quarantines, all below one folder
    quarantine = quarantines[0] if len(quarantines) == 1 else None
    if len(quarantines) > 1:
        quarantine = quarantines[0].parent.parent / "*" / quarantines[0].name
    return IngestReport(
        rows=sum(report.rows for report in reports),
        accepted=sum(report.accepted for report in reports),
        refused=sum(report.refused for report in reports),
        failed=sum(report.failed for report in reports),
        seconds=seconds,
        quarantine=quarantine,
        already=bool(reports) and all(report.already for report in reports),
        reasons=merge_reasons([report.reasons for report in reports]),
        warnings=tuple(dict.fromkeys(warning for report in reports for warning in report.warnings)),
    )


def _connect() -> OpenStores:
    """Open the stores in the process of a task."""
    return connect(slow_s=ADMIN_S)


def _ingest_file(
    order: IngestSpec, connect: Connect, open_artifacts: OpenArtifacts, state_dir: Path
) -> IngestReport | Refusal:
    async def work() -> IngestReport:
        async with connect() as stores:
            await check_schema(stores)
            segments = SegmentStore(open_artifacts())
            return await ingest(order, stores, state_dir=state_dir, segments=segments)

    try:
        return asyncio.run(work())
    except KioskError as error:
        # As data: Ray would wrap a raised error in a RayTaskError with the traceback of the worker.
        return Refusal.of(error)


def _file_address(address: str, path: str) -> str:
    scheme, separator, rest = address.partition("://")
    _, mark, options = rest.partition("?")
    # Quoted: `?` in the name of a file would begin the options of the address.
    return f"{scheme}{separator}{quote(path)}{mark}{options}" if separator else path
