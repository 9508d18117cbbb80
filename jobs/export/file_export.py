"""Exports into one file: written in batches into a temporary file, checked and renamed.

If users are erased during the export, the file is written again. So no file contains a user who was erased before the
end of the export.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.artifacts.table_files import STANDARD_OUTPUT, Format, TableFile
from cluster.clock import SystemClock, iso_ms
from cluster.errors import Invalid, NotFound, Unavailable
from cluster.store.stores import Stores
from jobs.export.columns import (
    NOUN_OF,
    SCHEMAS,
    SUBJECTS,
    Subject,
    ingest_record_from_stored,
    table_from_log,
    table_from_records,
)
from jobs.export.export_source import ExportSource, open_source

_TRIES = 5
_POLL_S = 0.1

ExportProgress = Callable[[int, int], None]
"Called with the number of written rows and an upper bound of all rows."


@dataclass(frozen=True, slots=True)
class ExportSpec:
    """The parameters of an export."""

    app_id: str
    subject: Subject
    out: str
    "A path, or `-` for standard output."
    form: Format
    since_ms: int = 0
    "Earliest time of interactions, queries and answers, earliest write time of records. 0: all."
    keep_formulas: bool = False
    wait_s: float = 0.0
    "Seconds to wait for accepted uploads that are not applied yet."


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """The result of an export."""

    order: ExportSpec
    rows: int
    until_ms: int
    "The file contains all data accepted up to this time, except `waiting`."
    sha256: str
    waiting: int
    "Number of earlier uploads that are not applied yet, so not in the file."

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as JSON."""
        order = self.order
        return {
            "app_id": order.app_id,
            "exported": order.subject,
            "rows": self.rows,
            "from": iso_ms(order.since_ms) if order.since_ms else None,
            "to": iso_ms(self.until_ms),
            "file": order.out,
            "format": order.form,
            "digest": f"sha256:{self.sha256}",
            "waiting": self.waiting,
        }


async def export_to_file(
    order: ExportSpec,
    stores: Stores,
    artifacts: ArtifactStore,
    *,
    watch: ExportProgress | None = None,
) -> ExportSummary:
    """Write all present data of a subject into one file and return the summary.

    Errors:
        NotFound: the app does not exist
        Invalid: the file can't be written
        Unavailable: the store does not answer, the disk is full, or users are erased during every attempt
    Cost:
        memory for one segment and one batch, and for the ids of records
    """
    await check_app(stores, order.app_id)
    waiting = await _wait_for_uploads(order, stores)
    until_ms = SystemClock().now_ms()
    for _ in range(_TRIES):
        with _make_scratch_folder(order.out) as folder:
            source = await open_source(
                stores, artifacts, order.app_id, order.subject, order.since_ms, Path(folder)
            )
            file = await asyncio.to_thread(_write_file, order, source, watch)
        if file is not None:
            return ExportSummary(order, file.rows, until_ms, file.digest, waiting)
        # What was written to a pipe can't be taken back.
        if order.out == STANDARD_OUTPUT:
            break
    raise Unavailable("people were erased while their rows were written; nothing was kept, so try again")


async def check_app(stores: Stores, app_id: str) -> None:
    """Check that an app exists.

    Errors:
        NotFound: the app does not exist
    """
    book = await stores.access.read_all()
    if app_id not in book.apps:
        named = ", ".join(sorted(book.apps)) or "none"
        raise NotFound(f"there is no app named {app_id}; there are: {named}")


def check_subject(subject: str) -> Subject:
    """Check that a subject can be exported and return it.

    Errors:
        Invalid: the subject does not exist
    """
    for exportable in SUBJECTS:
        if subject == exportable:
            return exportable
    raise Invalid(f"{subject!r} can't be exported; choose from {', '.join(SUBJECTS)}")


def read_tables(subject: Subject, source: ExportSource) -> list[Any] | None:
    """Return the rows of a source with the columns of an export; None if they are outdated."""
    try:
        tables = [_table_from_batch(subject, batch) for batch in source.tables()]
    except NotFound:
        return None
    return tables if source.is_current() else None


def _table_from_batch(subject: Subject, batch: Any) -> Any:
    """Return a batch of a source with the columns of an export."""
    if subject not in NOUN_OF:
        return table_from_log(subject, batch)
    return table_from_records(subject, batch["json"].to_pylist(), batch["offset"].to_pylist())


async def _wait_for_uploads(order: ExportSpec, stores: Stores) -> int:
    """Wait until accepted uploads are applied; return the number of those that are not."""
    if NOUN_OF.get(order.subject) not in ("user", "product"):
        return 0
    for _ in range(int(order.wait_s / _POLL_S)):
        if not await stores.intake.depth(order.app_id):
            return 0
        await asyncio.sleep(_POLL_S)
    return await stores.intake.depth(order.app_id)


def _write_file(order: ExportSpec, source: ExportSource, watch: ExportProgress | None) -> TableFile | None:
    """Write the file; return None, and write no file, if the rows are outdated."""
    file = TableFile(order.out, order.form, SCHEMAS[order.subject], keep_formulas=order.keep_formulas)
    try:
        with file:
            for batch in source.tables():
                if order.form == "jsonl" and order.subject in NOUN_OF:
                    file.write_json(
                        [ingest_record_from_stored(stored) for stored in batch["json"].to_pylist()]
                    )
                else:
                    file.write(_table_from_batch(order.subject, batch))
                if watch is not None:
                    watch(file.rows, source.rows)
            # Before the file is installed: it must not contain a person who was erased meanwhile.
            if not source.is_current():
                raise _SourceOutdated
    except (_SourceOutdated, NotFound):
        return None
    return file


class _SourceOutdated(Exception):
    """Rows were erased, or files were replaced, after the source was read."""


def _make_scratch_folder(out: str) -> tempfile.TemporaryDirectory[str]:
    """Create the folder for rows before compaction, next to the file."""
    if out == STANDARD_OUTPUT:
        return tempfile.TemporaryDirectory(prefix="kiosk-export-")
    path = Path(out)
    if path.is_dir():
        raise Invalid(f"{out} is a folder; name a file")
    if not path.parent.is_dir():
        raise Invalid(f"there is no folder {path.parent}")
    try:
        # Next to the file: the folder may need as much space, which the target has.
        return tempfile.TemporaryDirectory(prefix=".kiosk-export-", dir=path.parent)
    except OSError as error:
        raise Invalid(f"nothing can be written to {path.parent}: {error.strerror}") from error
