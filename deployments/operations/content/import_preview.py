"""Use cases of looking at an uploaded file: its columns with a mapping, the first faults, and a dry run."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import Field

from deployments.operations.content.imports import (
    Encoding,
    OfImport,
    Rules,
    find_import,
    refuse_removed,
    state_folder,
)
from deployments.operations.content.preview_task import PreviewTask
from deployments.operations.framework.operation import operation
from deployments.operations.framework.services import AdminServices
from jobs.ingest.files.delimited_files import DelimitedFormat
from jobs.ingest.upload.upload_ingest import fetch_upload


class PreviewImport(OfImport):
    """How to look at the file."""

    mapping: Rules | None = Field(None, description="Rules of a mapping; null: the proposed ones.")
    encoding: Encoding = Field(None, description="Encoding of CSV; null: that of the upload.")


class DryRunImport(OfImport):
    """How to read the file."""

    mapping: Rules = ()
    encoding: Encoding = Field(None, description="Encoding of CSV; null: that of the upload.")
    limit: int = Field(1_000, ge=1, le=10_000)


@operation("imports.preview", "POST", "/apps/{app_id}/imports/{import_id}/preview", "editor", is_query=True)
async def preview_import(services: AdminServices, given: PreviewImport) -> dict[str, Any]:
    """Show the columns of a file, a proposed mapping and the first faults.

    Errors:
        NotFound: there is no such import, or its file was removed
        Invalid: the file does not have its format, or a rule is invalid
    """
    return await _preview(services, given, kind="columns")


@operation("imports.dry_run", "POST", "/apps/{app_id}/imports/{import_id}/dry-run", "editor", is_query=True)
async def dry_run_import(services: AdminServices, given: DryRunImport) -> dict[str, Any]:
    """Show what the first rows of a file would become.

    Nothing is written.
    """
    return await _preview(services, given, kind="rows", limit=given.limit)


async def _preview(
    services: AdminServices, given: PreviewImport | DryRunImport, **task: Any
) -> dict[str, Any]:
    """Look at the file in another process."""
    record = (await find_import(services, given)).record
    refuse_removed(record)
    path = await asyncio.to_thread(fetch_upload, record, services.artifacts, state_folder(services))
    DelimitedFormat("", given.encoding or "")
    return await services.preview(
        PreviewTask(
            record=record,
            path=str(path),
            mapping=given.mapping,
            encoding=given.encoding,
            now_ms=services.now_ms(),
            **task,
        )
    )
