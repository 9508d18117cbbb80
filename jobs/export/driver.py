"""Exports for Python programs with access to the data directory: into a polars frame or a file.

    from jobs.export.driver import export_frame
    frame = export_frame("bookshop", "interactions", since="2026-03-01")

`KIOSK_DATA_DIR` names the installation, or `KIOSK_REDIS_URL` with an external Redis. The installation must run.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.artifacts.table_files import choose_format
from cluster.errors import Fault, Invalid, Unavailable
from cluster.process.artifact_access import open_artifact_store
from cluster.process.store_connections import ADMIN_S, connect, run_blocking
from cluster.records.field_types.times import moment_ms
from cluster.settings import Settings
from cluster.store.connect import OpenStores
from jobs.export.columns import SCHEMAS
from jobs.export.export_source import open_source
from jobs.export.file_export import (
    ExportSpec,
    ExportSummary,
    check_app,
    check_subject,
    export_to_file,
    read_tables,
)

T = TypeVar("T")
_WAIT_S = 10.0
_TRIES = 5


def export_frame(
    app_id: str,
    subject: str,
    since: str | datetime | None = None,
    *,
    settings: Settings | None = None,
) -> pl.DataFrame:
    """Return users, products, interactions, queries, served answers or archive calls of an app as a polars frame.

    Errors:
        NotFound: the app does not exist
        Invalid: the subject does not exist, or `since` is no date or time
        Unavailable: no installation runs in the data directory, or its store does not answer
    """
    chosen = check_subject(subject)
    since_ms = ms_from_time(since)

    async def read(stores: OpenStores, artifacts: ArtifactStore) -> pl.DataFrame:
        await check_app(stores, app_id)
        for _ in range(_TRIES):
            with tempfile.TemporaryDirectory(prefix="kiosk-export-") as folder:
                source = await open_source(stores, artifacts, app_id, chosen, since_ms, Path(folder))
                tables = await asyncio.to_thread(read_tables, chosen, source)
            if tables is not None:
                # The empty table gives the frame its columns, also when there is no row.
                frame = pl.from_arrow(pa.concat_tables([SCHEMAS[chosen].empty_table(), *tables]))
                assert isinstance(frame, pl.DataFrame)
                return frame
        raise Unavailable("people were erased while their rows were read; try again")

    return _run_with_stores(read, settings)


def export_file(
    app_id: str,
    subject: str,
    out: str,
    since: str | datetime | None = None,
    *,
    form: str = "",
    settings: Settings | None = None,
) -> ExportSummary:
    """Write an export into a Parquet, JSON Lines or CSV file and return the summary.

    The file format follows the suffix, or `form`.

    Errors:
        as `export_frame`; Invalid also: the file can't be written
    """
    order = ExportSpec(
        app_id, check_subject(subject), out, choose_format(out, form), ms_from_time(since), wait_s=_WAIT_S
    )

    async def write(stores: OpenStores, artifacts: ArtifactStore) -> ExportSummary:
        return await export_to_file(order, stores, artifacts)

    return _run_with_stores(write, settings)


def ms_from_time(since: str | datetime | None) -> int:
    """Return a date, a time or a datetime as milliseconds since 1970; 0 for None.

    Errors:
        Invalid: the text is neither a date nor a time
    """
    if since is None or since == "":
        return 0
    if isinstance(since, datetime):
        aware = since if since.tzinfo is not None else since.replace(tzinfo=timezone.utc)
        return int(aware.timestamp() * 1000)
    try:
        return moment_ms(since if len(since) > 10 else f"{since}T00:00")
    except ValueError:
        raise Invalid(f"{since!r} is no day or moment; write 2026-03-01 or 2026-03-01T09:30Z") from None


def _run_with_stores(
    work: Callable[[OpenStores, ArtifactStore], Coroutine[Any, Any, T]], settings: Settings | None
) -> T:
    settings = Settings() if settings is None else settings

    async def run() -> T:
        try:
            stores = connect(settings, slow_s=ADMIN_S)
        except Fault:
            raise Unavailable(
                f"no installation runs in {settings.data_dir}: start it with `kiosk up`, or set KIOSK_DATA_DIR to the "
                "data directory of one that runs here"
            ) from None
        async with stores:
            return await work(stores, open_artifact_store(settings))

    return run_blocking(run())
