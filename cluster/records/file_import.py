"""Imports of uploaded files: what was uploaded and ordered, and how far the import is.

uploaded -> running -> finished | failed | cancelled        an import that ended otherwise may be started again
            running -> interrupted                          its process is gone; it goes on where it stopped
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

ImportFormat = Literal["csv", "tsv", "jsonl", "parquet"]
ImportNoun = Literal["user", "product", "interaction"]
ImportStatus = Literal["uploaded", "running", "interrupted", "finished", "failed", "cancelled"]

STARTS_WITHIN_MS = 60_000
"Time after which an import without any progress counts as interrupted."
ALIVE_WITHIN_MS = 30_000
"Age of the last progress after which a running import counts as interrupted."
LEASE_MS = 30_000
KEPT_MS = 24 * 3_600_000
"How long an uploaded file rests that was not imported."


class FileImport(BaseModel):
    """An uploaded file and what becomes of it; written by administrators only."""

    model_config = ConfigDict(frozen=True)

    app_id: str
    import_id: str
    file_name: str
    "As the person named it; it is text to show and never a path."
    format: ImportFormat
    size: int
    sha256: str
    noun: ImportNoun
    created_at: int
    created_by: str = ""
    mapping: tuple[str, ...] = ()
    "Rules as `kiosk ingest --map` takes them."
    delimiter: str = ""
    encoding: str = ""
    keep_going: bool = False
    restart: bool = False
    "The newest start takes every row again."
    attempt: str = ""
    "Id of the newest start, which owns the leases of the import; empty before the first."
    slot: str = ""
    "Name of the lease that counts as one of the imports that run at once."
    started_at: int = 0
    is_removed: bool = False
    "The uploaded file is gone."

    @property
    def path(self) -> str:
        return f"{imports_folder(self.app_id)}/{self.import_id}/upload.{self.format}"

    @property
    def lease(self) -> str:
        """Return the name of the lease of the process that carries the import out."""
        return f"import/{self.app_id}/{self.import_id}"


class ImportProgress(BaseModel):
    """How far an attempt is; written by its process only."""

    model_config = ConfigDict(frozen=True)

    attempt: str
    status: Literal["running", "finished", "failed", "cancelled"] = "running"
    at: int
    "When it was written, in milliseconds since 1970."
    rows: int = 0
    accepted: int = 0
    refused: int = 0
    failed: int = 0
    error: str = ""
    run_id: str = ""
    "Name of the folder with progress and refused rows."
    node: str = ""
    "Name of the machine that has this folder."
    reasons: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()


def imports_folder(app_id: str) -> str:
    """Return the folder of an app's uploaded files in the artifact store."""
    return f"imports/{app_id}"


def import_status(record: FileImport, progress: ImportProgress | None, now_ms: int) -> ImportStatus:
    """Return the state of an import as it is now."""
    if not record.attempt:
        return "uploaded"
    if progress is None or progress.attempt != record.attempt:
        return "running" if now_ms - record.started_at < STARTS_WITHIN_MS else "interrupted"
    if progress.status == "running" and now_ms - progress.at >= ALIVE_WITHIN_MS:
        return "interrupted"
    return progress.status
