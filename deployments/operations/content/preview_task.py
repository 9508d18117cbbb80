"""The order to look at an uploaded file, and how a process that has no other way carries it out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from cluster.records.file_import import FileImport

FIRST_ROWS = 200
"Rows that a preview reads by default."


class PreviewTask(BaseModel):
    """A look at a file of this machine."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["check", "columns", "rows"]
    "`check` only refuses files that no import can read."
    record: FileImport
    path: str
    now_ms: int
    mapping: tuple[str, ...] | None = None
    "None: the proposed one, for columns."
    limit: int = FIRST_ROWS
    encoding: str | None = None
    "None: the one of the upload."


Previewer = Callable[[PreviewTask], Awaitable[dict[str, Any]]]


async def preview_in_thread(task: PreviewTask) -> dict[str, Any]:
    """Look at a file in a thread of this process."""
    # imports all of the ingest, polars too, which few commands need
    from deployments.operations.content.file_preview import preview_file

    return await asyncio.to_thread(preview_file, task)
