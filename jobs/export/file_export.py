"""An export from the stores to one file: opened, written batch by batch, checked, put in its place.

When rows were erased while the file was written, it is written again, so that no file holds a person who was erased
before the export ended.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.artifacts.artifact_store import ArtifactStore
from cluster.artifacts.table_files import STANDARD_OUTPUT, Format, TableFile
from cluster.clock import Clock, SystemClock, iso_ms
from cluster.errors import Invalid, NotFound, Unavailable
from cluster.store.ports.stores import Stores
from jobs.export.columns import (
    NOUN_OF,
    SCHEMAS,
    SUBJECTS,
    Subject,
    ingest_record_from_stored,
    table_from_queries,
    table_from_records,
)
from jobs.export.export_source import ExportSource, open_source

_TRIES = 5
_POLL_S = 0.1

ExportProgress = Callable[[int, int], None]
"Called with the rows written and the most there can be."


@dataclass(frozen=True, slots=True)
class ExportOrder:
    """What to export, and where to."""

    app_id: str
    subject: Subject
    out: str
    "A path, or `-` for standard output."
    form: Format
    since_ms: int = 0
    "Interactions and queries from this moment on; records written from this moment on. 0: all."
    keep_formulas: bool = False
    wait_s: float = 0.0
    "How long uploads that were accepted and not applied are waited for."


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """What an export came to."""

    order: ExportOrder
    rows: int
    until_ms: int
    "Everything accepted up to here is in the file."
    sha256: str
    waiting: int
    "Uploads accepted before that are not applied, so not in the file."

    def to_dict(self) -> dict[str, Any]:
        """Write it as JSON."""
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
    order: ExportOrder,
    stores: Stores,
    shelf: ArtifactStore,
    *,
    watch: ExportProgress | None = None,
    clock: Clock | None = None,
) -> ExportSummary:
    """Write everything an app holds of a subject at this moment into one file.

    Errors:
        NotFound: there is no such app
        Invalid: the file can't be written
        Unavailable: the store is away, there is no room, or people are erased all the time
        Fault: a segment is damaged
    Cost:
        memory for one segment and one batch, and for the ids of records
    """
    clock = SystemClock() if clock is None else clock
    await check_app(stores, order.app_id)
    waiting = await _wait_for_uploads(order, stores)
    until_ms = clock.now_ms()
    for _ in range(_TRIES):
        with _make_scratch_folder(order.out) as folder:
            source = await open_source(
                stores, shelf, order.app_id, order.subject, order.since_ms, Path(folder)
            )
            file = await asyncio.to_thread(_write_file, order, source, watch)
        if file is not None:
            return ExportSummary(order, file.rows, until_ms, file.digest, waiting)
        if order.out == STANDARD_OUTPUT:
            break
    raise Unavailable("people were erased while their rows were written; nothing was kept, so try again")


async def check_app(stores: Stores, app_id: str) -> None:
    """Check that an app exists.

    Errors:
        NotFound: it does not
    """
    book = await stores.access.read_all()
    if app_id not in book.apps:
        named = ", ".join(sorted(book.apps)) or "none"
        raise NotFound(f"there is no app named {app_id}; there are: {named}")


def check_subject(subject: str) -> Subject:
    """Check that something is exported.

    Errors:
        Invalid: it is not
    """
    for known in SUBJECTS:
        if subject == known:
            return known
    raise Invalid(f"{subject!r} can't be exported; choose from {', '.join(SUBJECTS)}")


def read_tables(subject: Subject, source: ExportSource) -> list[Any] | None:
    """Read a source into memory, with the columns of an export; None when what was read is out of date."""
    try:
        tables = [_table_from_batch(subject, batch) for batch in source.tables()]
    except NotFound:
        return None
    return tables if source.is_current() else None


def _table_from_batch(subject: Subject, batch: Any) -> Any:
    """Give a batch of a source the columns of an export."""
    if subject == "queries":
        return table_from_queries(batch)
    return table_from_records(subject, batch["json"].to_pylist(), batch["offset"].to_pylist())


async def _wait_for_uploads(order: ExportOrder, stores: Stores) -> int:
    """Wait until accepted uploads are applied; return how many are not."""
    if NOUN_OF.get(order.subject) not in ("user", "product"):
        return 0
    for _ in range(int(order.wait_s / _POLL_S)):
        if not await stores.intake.depth(order.app_id):
            return 0
        await asyncio.sleep(_POLL_S)
    return await stores.intake.depth(order.app_id)


def _write_file(order: ExportOrder, source: ExportSource, watch: ExportProgress | None) -> TableFile | None:
    """Write the file; None, and no file, when what was read is out of date."""
    file = TableFile(order.out, order.form, SCHEMAS[order.subject], keep_formulas=order.keep_formulas)
    try:
        with file:
            for batch in source.tables():
                if order.form == "jsonl" and order.subject != "queries":
                    file.write_json(
                        [ingest_record_from_stored(stored) for stored in batch["json"].to_pylist()]
                    )
                else:
                    file.write(_table_from_batch(order.subject, batch))
                if watch is not None:
                    watch(file.rows, source.rows)
            if not source.is_current():
                raise _SourceOutdated
    except (_SourceOutdated, NotFound):
        return None
    return file


class _SourceOutdated(Exception):
    """Rows were erased, or files replaced, since they were read."""


def _make_scratch_folder(out: str) -> tempfile.TemporaryDirectory[str]:
    """Make the folder that takes what is not settled yet: beside the file."""
    if out == STANDARD_OUTPUT:
        return tempfile.TemporaryDirectory(prefix="kiosk-export-")
    path = Path(out)
    if path.is_dir():
        raise Invalid(f"{out} is a folder; name a file")
    if not path.parent.is_dir():
        raise Invalid(f"there is no folder {path.parent}")
    try:
        return tempfile.TemporaryDirectory(prefix=".kiosk-export-", dir=path.parent)
    except OSError as error:
        raise Invalid(f"nothing can be written to {path.parent}: {error.strerror}") from error
