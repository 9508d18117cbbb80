"""Carries out the import of an uploaded file: lease, progress in the store, requests to stop.

the store has the record            administrators write it; `attempt` names the start that this process serves
leases                              of the import, and of one of the slots; both are owned by the attempt
progress in the store               written every two seconds; without it the import counts as interrupted
<state>/<run>/progress.json         the exact place from which the next attempt goes on (`jobs.ingest.progress`)
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import structlog

from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.errors import Conflict, KioskError, NotFound
from cluster.records.erasure import RemovedRecords
from cluster.records.file_import import LEASE_MS, FileImport, ImportProgress
from cluster.store.data.imports import StoredImport
from cluster.store.stores import Stores
from jobs.ingest.files.delimited_files import DelimitedFormat
from jobs.ingest.pipeline import IngestReport, IngestSpec, ingest, run_from_order
from jobs.ingest.progress import IngestProgress

BEAT_S = 2.0
TOO_MUCH = (
    "the file needs more memory than an import may take; write it with shorter texts and smaller row groups"
)
UPLOADS = "uploads"
"Folder below the state directory for copies of uploaded files of a bucket."
# Free for any file, because a small compressed one may grow by far more than `DECODED_SHARE`.
LEAST_DECODED = 1 << 30
DECODED_SHARE = 20
"Bytes of an import after decoding, as a multiple of its file; any file may have `LEAST_DECODED`."
_REASONS = 20


class UploadedFileIngest:
    """One attempt to import one uploaded file."""

    def __init__(
        self,
        stores: Stores,
        artifacts: ArtifactStore,
        state_dir: Path,
        clock: Clock,
        *,
        node: str,
        why_full: Callable[[], str] = str,
        beat_s: float = BEAT_S,
    ) -> None:
        """`why_full` returns why the disk takes nothing more; empty while it does."""
        self._stores = stores
        self._artifacts = artifacts
        self._state_dir = state_dir
        self._clock = clock
        self._node = node
        self._why_full = why_full
        self._beat_s = beat_s
        self._progress = ImportProgress(attempt="", at=0)
        self._stop_reason = ""
        self._erased = RemovedRecords()
        self._log = structlog.get_logger()

    async def run(self, app_id: str, import_id: str) -> ImportProgress:
        """Carry the newest attempt out and return its last progress.

        Errors:
            NotFound: there is no such import
            Conflict: another process carries it out
        """
        stored = await self._stores.imports.get(app_id, import_id)
        if stored is None or not stored.record.attempt:
            raise NotFound(f"there is no started import {import_id} in {app_id}")
        record = stored.record
        # The leases come before any read of the file: two processes would append the same chunks of
        # interactions.
        if not await self._hold(record):
            raise Conflict("another process carries this import out")
        self._note_stop(stored)
        order = build_order(
            record, await asyncio.to_thread(fetch_upload, record, self._artifacts, self._state_dir)
        )
        self._progress = ImportProgress(
            attempt=record.attempt,
            at=self._clock.now_ms(),
            node=self._node,
            run_id=run_from_order(order, self._state_dir).folder.name,
        )
        # Before the first row, and at each beat after it: the file is older than the erasure and would
        # bring the person back.
        await self._look_for_erasures(record)
        await self._write(record)
        beats = asyncio.create_task(self._beat(record))
        try:
            await self._ingest(record, order)
        finally:
            # Before the last write: a beat in flight could put its older progress over the outcome.
            beats.cancel()
            await asyncio.gather(beats, return_exceptions=True)
        await self._write(record)
        if self._progress.status == "finished":
            # Only after success: a failed or stopped import can be started again from the same file.
            await asyncio.to_thread(discard_upload, record, self._artifacts, self._state_dir)
            await self._stores.imports.put(record.model_copy(update={"is_removed": True}))
        for lease in (record.lease, record.slot):
            # Last, so that the next attempt reads the final progress and the record as they are now.
            await self._stores.leases.release(lease, record.attempt)
        return self._progress

    async def _ingest(self, record: FileImport, order: IngestSpec) -> None:
        """Ingest the file; the outcome is in the progress."""
        try:
            report = await ingest(
                replace(order, erased=self._erased),
                self._stores,
                state_dir=self._state_dir,
                segments=SegmentStore(self._artifacts, self._clock),
                restart=record.restart,
                clock=self._clock,
                watch=self._watch,
            )
        # A file can provoke all three, and the person who uploaded it must read why; other errors are
        # defects and pass.
        except (KioskError, MemoryError, RecursionError) as error:
            status = "cancelled" if self._stop_reason == "stop" else "failed"
            reason = error.message if isinstance(error, KioskError) else TOO_MUCH
            message = "" if status == "cancelled" else reason
            self._progress = self._progress.model_copy(update={"status": status, "error": message})
            self._log.info("import_ended", app=record.app_id, import_id=record.import_id, status=status)
            return
        self._progress = self._progress.model_copy(update={"status": "finished", **_outcome(report)})

    def _watch(self, progress: IngestProgress) -> None:
        self._progress = self._progress.model_copy(
            update={
                "rows": progress.rows,
                "accepted": progress.accepted,
                "refused": progress.refused,
                "failed": progress.failed,
            }
        )
        if reason := self._why_full():
            raise Conflict(f"{reason} The import goes on where it stopped once there is room.")
        if self._stop_reason:
            # Raised from the callback behind a counted chunk, so a stopped import continues exactly there.
            raise Conflict("the import was stopped" if self._stop_reason == "stop" else self._stop_reason)

    async def _beat(self, record: FileImport) -> None:
        """Write the progress, renew the leases and look for a request to stop, again and again."""
        while True:
            await asyncio.sleep(self._beat_s)
            try:
                await self._write(record)
                await self._look_for_erasures(record)
                if not await self._hold(record):
                    self._stop_reason = "another process took this import over"
                stored = await self._stores.imports.get(record.app_id, record.import_id)
                self._note_stop(stored)
            # The beat goes on: after an outage of a few seconds the lease is renewed, while the ingest
            # waits for its own calls.
            except KioskError as error:
                self._log.warning("import_beat_failed", reason=error.message)

    async def _look_for_erasures(self, record: FileImport) -> None:
        """Skip rows of people that were erased after the file was uploaded; the file would bring them back."""
        # Updated in place, because the running ingest holds this object.
        self._erased.update(await self._stores.erasures.erased_since(record.app_id, record.created_at))

    def _note_stop(self, stored: StoredImport | None) -> None:
        if stored is None:
            self._stop_reason = "the import was removed"
        elif stored.is_stopping:
            self._stop_reason = "stop"

    async def _hold(self, record: FileImport) -> bool:
        leases = self._stores.leases
        # The import's own lease first: a second process for it must not take one of the slots that others
        # wait for.
        is_leased = await leases.hold(record.lease, record.attempt, LEASE_MS)
        return is_leased and await leases.hold(record.slot, record.attempt, LEASE_MS)

    async def _write(self, record: FileImport) -> None:
        self._progress = self._progress.model_copy(update={"at": self._clock.now_ms()})
        await self._stores.imports.put_progress(record.app_id, record.import_id, self._progress)


def fetch_upload(record: FileImport, artifacts: ArtifactStore, state_dir: Path) -> Path:
    """Return an uploaded file on this machine; a file of a bucket is copied once for all uses.

    Errors:
        NotFound: the file was removed
    """
    local = artifacts.local_path(record.path)
    if local is not None:
        if not local.is_file():
            raise NotFound("the uploaded file was removed; upload it again")
        return local
    target = _copy_path(record, state_dir)
    # Its checksum was verified when the copy was written; here only the size is compared.
    if not target.is_file() or target.stat().st_size != record.size:
        target.parent.mkdir(parents=True, exist_ok=True)
        artifacts.download(record.path, target, size=record.size, sha256=record.sha256)
    return target


def discard_upload(record: FileImport, artifacts: ArtifactStore, state_dir: Path) -> None:
    """Remove an uploaded file and the copy of this machine."""
    artifacts.remove(record.path)
    shutil.rmtree(_copy_path(record, state_dir).parent, ignore_errors=True)


def _copy_path(record: FileImport, state_dir: Path) -> Path:
    return state_dir / UPLOADS / record.import_id / f"upload.{record.format}"


def build_order(record: FileImport, path: Path, *, limit: int = 0) -> IngestSpec:
    """Return the order of an import whose file is at a path of this machine."""
    return IngestSpec(
        address=str(path),
        noun=record.noun,
        app_id=record.app_id,
        mapping=record.mapping,
        format=record.format,
        chunk=2_000 if record.noun == "interaction" else 500,
        decoded_bytes=max(LEAST_DECODED, DECODED_SHARE * record.size),
        layout=DelimitedFormat(record.delimiter, record.encoding),
        keep_going=record.keep_going,
        limit=limit,
        title=record.file_name,
    )


def _outcome(report: IngestReport) -> dict[str, object]:
    return {
        "accepted": report.accepted,
        "refused": report.refused,
        "failed": report.failed,
        # Without examples: they hold personal data, and an erasure reaches the file of refused rows.
        "reasons": tuple({**asdict(reason), "example": ""} for reason in report.reasons[:_REASONS]),
        "warnings": report.warnings,
    }
