"""Use cases of imports: upload a file, import it with progress, stop, remove, and read refused rows."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from cluster.admin.refused_rows import read_rows
from cluster.clock import iso_ms
from cluster.errors import Conflict, Invalid, KioskError, NotFound, ReadOnly, TooMany, Unavailable
from cluster.ids import new_task_id
from cluster.records.file_import import (
    KEPT_MS,
    LEASE_MS,
    STARTS_WITHIN_MS,
    FileImport,
    ImportNoun,
    ImportStatus,
    import_status,
)
from cluster.store.data.imports import StoredImport
from deployments.operations.content.preview_task import PreviewTask
from deployments.operations.content.refused_row_formats import RefusedRowsPage, parse_refused
from deployments.operations.content.upload_files import detect_content, receive_file, remove_stale_uploads
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.services import AdminServices
from jobs.ingest.files.delimited_files import DelimitedFormat
from jobs.ingest.mappings.mapping import FieldMap
from jobs.ingest.upload.upload_ingest import UPLOADS, discard_upload

MOST_IMPORTS = 200
"Imports of an app that are remembered."
MOST_WAITING = 20
"Uploaded files of an app that wait for their import."
RECEIVING = "receiving"
"Folder of files that are being received, below the folder of the ingests."
Rules = Annotated[tuple[str, ...], Field(max_length=500)]
Encoding = Annotated[str | None, Field(max_length=40)]


class UploadFile(OfApp):
    """A file and what its rows are."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=1_000)

    noun: ImportNoun = Field(description="What every row is.")
    file_name: str = Field("upload", min_length=1, max_length=255, description="A name to recognise it by.")
    delimiter: str = Field(
        "", max_length=2, description="Delimiter of CSV; empty: detected from the header line."
    )
    encoding: str = Field("", max_length=40, description="Encoding of CSV; empty: UTF-8.")
    content: Any = Field(None, exclude=True, description="The bytes of the file.")


class OfImport(OfApp):
    """One import."""

    import_id: str = Field(min_length=1, max_length=100)


class StartImport(OfImport):
    """How to import the file."""

    mapping: Rules | None = Field(
        None,
        description="Rules of a mapping; null: those of the last start. Without rules, columns are fields.",
    )
    encoding: Encoding = Field(None, description="Encoding of CSV; null: that of the upload.")
    keep_going: bool = Field(False, description="Read on although none of the first 1,000 rows is accepted.")
    restart: bool = Field(False, description="Take every row again, also those of an earlier attempt.")


class ListRefusedRows(OfImport):
    """Which refused rows."""

    offset: int = Field(0, ge=0, le=1_000_000_000)
    limit: int = Field(1_000, ge=1, le=10_000)


@dataclass(frozen=True, slots=True)
class ImportView:
    """An import as people see it."""

    record: FileImport
    status: ImportStatus
    stored: StoredImport

    def to_dict(self) -> dict[str, Any]:
        """Return the import for JSON."""
        record = self.record
        progress = self.stored.progress
        current = progress if progress is not None and progress.attempt == record.attempt else None
        shown = current or progress
        counts = ("rows", "accepted", "refused", "failed")
        return {
            "import_id": record.import_id,
            "file_name": record.file_name,
            "format": record.format,
            "size": record.size,
            "noun": record.noun,
            "status": self.status,
            "is_stopping": self.stored.is_stopping and self.status == "running",
            "created_at": iso_ms(record.created_at),
            "created_by": record.created_by,
            "started_at": iso_ms(record.started_at) if record.started_at else None,
            "updated_at": iso_ms(shown.at) if shown is not None else None,
            "mapping": list(record.mapping),
            "is_removed": record.is_removed,
            **{name: getattr(shown, name) if shown is not None else 0 for name in counts},
            "error": current.error if current is not None else "",
            "reasons": list(shown.reasons) if shown is not None else [],
            "warnings": list(shown.warnings) if shown is not None else [],
        }


@operation(
    "imports.upload",
    "POST",
    "/apps/{app_id}/imports",
    "editor",
    # A file may be named after a person, and rows of the audit log can't be erased.
    secret_fields={"file_name"},
    stream_field="content",
)
async def upload_file(services: AdminServices, given: UploadFile) -> ImportView:
    """Upload a file of users, products or interactions.

    It is an import that is not started.

    Errors:
        NotFound: there is no such app
        ReadOnly: the app takes no writes
        TooMany: too many uploaded files wait
        Unavailable: the disk is full
        Invalid: the file is empty, compressed, no text, or none of the formats
        TooLarge: the file is larger than allowed
    """
    await require_app(services.stores, given.app_id)
    await _refuse_read_only(services, given.app_id)
    if not isinstance(given.content, AsyncIterator) and not hasattr(given.content, "__aiter__"):
        raise Invalid("the body of the request is the file")
    DelimitedFormat(given.delimiter, given.encoding)
    if reason := services.why_full():
        raise Unavailable(reason, told=True, retry_after_s=60)
    await sweep_imports(services, given.app_id)
    waiting = [
        stored for stored in await services.stores.imports.all(given.app_id) if not stored.record.is_removed
    ]
    # Before the file is received: a refusal must not cost the transfer.
    if len(waiting) >= MOST_WAITING:
        raise TooMany(
            f"{len(waiting)} uploaded files wait in {given.app_id}; import or remove some first",
            retry_after_s=60,
        )
    above = state_folder(services) / RECEIVING
    await asyncio.to_thread(above.mkdir, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=above) as folder:
        path = Path(folder) / "upload"
        received = await receive_file(given.content, path, services.config.max_upload_mb << 20)
        record = FileImport(
            app_id=given.app_id,
            import_id=str(new_task_id()),
            file_name=given.file_name,
            format=detect_content(received.head, given.encoding),
            size=received.size,
            sha256=received.sha256,
            noun=given.noun,
            created_at=services.now_ms(),
            created_by=services.principal.username,
            delimiter=given.delimiter,
            encoding=given.encoding,
        )
        if record.format == "parquet":
            await services.preview(
                PreviewTask(kind="check", record=record, path=str(path), now_ms=services.now_ms())
            )
        # The record comes first: a file without one would stay for ever after a crash between the two.
        await services.stores.imports.put(record)
        try:
            await asyncio.to_thread(services.artifacts.upload, record.path, path)
        except KioskError:
            await services.stores.imports.remove(given.app_id, record.import_id)
            raise
    return _view(services, StoredImport(record, None))


@operation("imports.list", "GET", "/apps/{app_id}/imports", "editor")
async def list_imports(services: AdminServices, given: OfApp) -> dict[str, Any]:
    """List imports, newest first."""
    await require_app(services.stores, given.app_id)
    await sweep_imports(services, given.app_id)
    imports = await services.stores.imports.all(given.app_id)
    return {"imports": [_view(services, stored).to_dict() for stored in imports]}


@operation("imports.get", "GET", "/apps/{app_id}/imports/{import_id}", "editor")
async def get_import(services: AdminServices, given: OfImport) -> ImportView:
    """Show an import and its progress."""
    return _view(services, await find_import(services, given))


@operation(
    "imports.start", "POST", "/apps/{app_id}/imports/{import_id}/start", "editor", secret_fields={"file_name"}
)
async def start_import(services: AdminServices, given: StartImport) -> ImportView:
    """Start an import, or let one go on where it stopped.

    It runs in a process of its own.

    Errors:
        NotFound: there is no such import, or its file was removed
        Conflict: it runs, it is finished, rows were taken with another mapping, or another machine knows their place
        TooMany: as many imports run as may run at once
        Invalid: a rule is invalid
    """
    stored = await find_import(services, given)
    record = stored.record
    status = _view(services, stored).status
    await _refuse_read_only(services, given.app_id)
    refuse_removed(record)
    if status in ("running", "finished"):
        raise Conflict(f"the import is {status}")
    mapping = record.mapping if given.mapping is None else given.mapping
    FieldMap.parse(mapping, record.noun)
    encoding = record.encoding if given.encoding is None else given.encoding
    DelimitedFormat(record.delimiter, encoding)
    has_rows = stored.progress is not None and stored.progress.accepted > 0
    if has_rows and (mapping, encoding) != (record.mapping, record.encoding) and not given.restart:
        raise Conflict("rows were taken with another mapping already; start it again with restart")
    if not given.restart:
        _refuse_duplicates(services, stored)
    attempt = str(new_task_id())
    # The lease decides between two starts at once; it ends by itself if no process takes it over.
    if not await services.stores.leases.hold(record.lease, attempt, STARTS_WITHIN_MS):
        raise Conflict("the import is running")
    slot = await _take_slot(services, attempt)
    if not slot:
        await services.stores.leases.release(record.lease, attempt)
        raise TooMany(
            f"{services.config.imports_at_once} imports run at once; wait until one ends", retry_after_s=30
        )
    started = record.model_copy(
        update={
            "mapping": mapping,
            "encoding": encoding,
            "keep_going": given.keep_going,
            "restart": given.restart,
            "attempt": attempt,
            "slot": slot,
            "started_at": services.now_ms(),
        }
    )
    # A stop of an earlier attempt must not end this one.
    await services.stores.imports.clear_stop(given.app_id, given.import_id)
    await services.stores.imports.put(started)
    try:
        await services.launch_import(given.app_id, given.import_id)
    except KioskError:
        await services.stores.imports.put(record)
        for lease in (record.lease, slot):
            await services.stores.leases.release(lease, attempt)
        raise
    return _view(services, StoredImport(started, stored.progress))


@operation(
    "imports.cancel",
    "POST",
    "/apps/{app_id}/imports/{import_id}/cancel",
    "editor",
    secret_fields={"file_name"},
)
async def cancel_import(services: AdminServices, given: OfImport) -> ImportView:
    """Stop a running import.

    Its rows so far stay, and it can be started again.

    Errors:
        NotFound: there is no such import
        Conflict: it does not run
    """
    stored = await find_import(services, given)
    status = _view(services, stored).status
    if status != "running":
        raise Conflict(f"the import is {status}; only a running one can be cancelled")
    await services.stores.imports.request_stop(given.app_id, given.import_id)
    return _view(services, StoredImport(stored.record, stored.progress, is_stopping=True))


@operation(
    "imports.remove", "DELETE", "/apps/{app_id}/imports/{import_id}", "editor", secret_fields={"file_name"}
)
async def remove_import(services: AdminServices, given: OfImport) -> dict[str, Any]:
    """Remove an import and its uploaded file.

    What was imported stays.

    Errors:
        NotFound: there is no such import
        Conflict: it runs
    """
    stored = await find_import(services, given)
    if _view(services, stored).status == "running":
        raise Conflict("the import runs; cancel it first")
    await _discard(services, stored.record)
    await services.stores.imports.remove(given.app_id, given.import_id)
    return {"removed": given.import_id}


@operation("imports.refused", "GET", "/apps/{app_id}/imports/{import_id}/refused", "editor", recorded=True)
async def list_refused(services: AdminServices, given: ListRefusedRows) -> RefusedRowsPage:
    """List refused rows of an import with their reasons.

    Errors:
        NotFound: there is no such import, or the rows are on another machine
    """
    stored = await find_import(services, given)
    progress = stored.progress
    if progress is None or not progress.run_id:
        return RefusedRowsPage((), has_more=False)
    path = state_folder(services) / progress.run_id / "quarantine.jsonl"
    if not path.exists():
        if progress.refused or progress.failed:
            raise NotFound(f"the refused rows are on the machine {progress.node}, in its data directory")
        return RefusedRowsPage((), has_more=False)

    def read() -> list[dict[str, Any]]:
        rows = (parse_refused(row) for _, row in read_rows(path))
        kept = (row for row in rows if row is not None)
        # One row more than asked for tells whether there is a next page.
        return list(islice(kept, given.offset, given.offset + given.limit + 1))

    page = await asyncio.to_thread(read)
    return RefusedRowsPage(tuple(page[: given.limit]), has_more=len(page) > given.limit)


async def sweep_imports(services: AdminServices, app_id: str) -> None:
    """Remove files that nobody imported within a day, and the oldest imports beyond the bound."""
    now_ms = services.now_ms()
    for name in (RECEIVING, UPLOADS) if services.config.data_dir else ():
        # Files of a killed process, and copies that this machine made of files of a bucket.
        await asyncio.to_thread(remove_stale_uploads, state_folder(services) / name, KEPT_MS / 1000)
    imports = await services.stores.imports.all(app_id)
    for at, stored in enumerate(imports):
        record = stored.record
        if import_status(record, stored.progress, now_ms) == "running":
            continue
        if not record.is_removed and now_ms - max(record.created_at, record.started_at) > KEPT_MS:
            await _discard(services, record)
            await services.stores.imports.put(record.model_copy(update={"is_removed": True}))
        if at >= MOST_IMPORTS:
            await _discard(services, record)
            await services.stores.imports.remove(app_id, record.import_id)


def state_folder(services: AdminServices) -> Path:
    """Return the folder with progress and refused rows of ingests on this machine.

    Errors:
        Unavailable: this process has no data directory
    """
    if services.config.data_dir is None:
        raise Unavailable("this process has no data directory", told=True)
    return services.config.data_dir / "ingest"


def _refuse_duplicates(services: AdminServices, stored: StoredImport) -> None:
    """Refuse to go on with interactions whose exact place only another machine knows: some would count twice."""
    progress = stored.progress
    if stored.record.noun != "interaction" or progress is None or not progress.run_id:
        return
    is_begun = progress.accepted > 0 or progress.status == "running"
    if is_begun and not (state_folder(services) / progress.run_id / "progress.json").exists():
        raise Conflict(
            f"the machine {progress.node} has taken rows of it and alone knows the exact place; start it there, or "
            "take every row again with restart"
        )


def _view(services: AdminServices, stored: StoredImport) -> ImportView:
    status = import_status(stored.record, stored.progress, services.now_ms())
    return ImportView(stored.record, status, stored)


async def find_import(services: AdminServices, given: OfImport) -> StoredImport:
    """Return an import with its progress.

    Errors:
        NotFound: there is no such app or import
    """
    await require_app(services.stores, given.app_id)
    stored = await services.stores.imports.get(given.app_id, given.import_id)
    if stored is None:
        raise NotFound(f"there is no import {given.import_id} in {given.app_id}")
    return stored


def refuse_removed(record: FileImport) -> None:
    """Refuse an import whose file was removed.

    Errors:
        NotFound: it was
    """
    if record.is_removed:
        raise NotFound("the uploaded file was removed; upload it again")


async def _refuse_read_only(services: AdminServices, app_id: str) -> None:
    if (await services.stores.access.read_all()).apps[app_id].read_only:
        raise ReadOnly(f"{app_id} is the playground, which takes no writes; import into another app")


async def _discard(services: AdminServices, record: FileImport) -> None:
    await asyncio.to_thread(discard_upload, record, services.artifacts, state_folder(services))


async def _take_slot(services: AdminServices, attempt: str) -> str:
    """Return the name of a free slot, now held by the attempt; empty if all are held."""
    for number in range(services.config.imports_at_once):
        slot = f"import-slot/{number}"
        if await services.stores.leases.hold(slot, attempt, max(STARTS_WITHIN_MS, LEASE_MS)):
            return slot
    return ""
