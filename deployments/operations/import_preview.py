"""Use cases of looking at an uploaded file: its columns with a mapping, the first faults, and a dry run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import Field

from cluster.errors import NotFound
from cluster.records.file_import import FileImport
from deployments.operations.import_mapping import read_choices
from deployments.operations.imports import OneImport, Rules, find_import, state_folder
from deployments.operations.operation import Operation
from deployments.operations.sample_results import RESULTS
from deployments.operations.services import AdminServices
from jobs.ingest.column_proposal import list_noun_fields, propose_columns
from jobs.ingest.delimited_files import DelimitedFormat
from jobs.ingest.preview import IngestPreview, preview_ingest
from jobs.ingest.sources import PlainFiles
from jobs.ingest.upload_ingest import build_order, fetch_upload

_FIRST_ROWS = 200
_LONGEST_VALUE = 2_000
"Characters of a value of a sample record that are shown."


class PreviewImport(OneImport):
    """How to look at the file."""

    mapping: Rules | None = Field(None, description="Rules of a mapping; null: the proposed ones.")


class DryRunImport(OneImport):
    """How to read the file."""

    mapping: Rules = ()
    limit: int = Field(1_000, ge=1, le=10_000)


async def preview_import(services: AdminServices, given: PreviewImport) -> dict[str, Any]:
    """Return the columns of a file with kinds, samples and proposed rules, and the first faults with them.

    Errors:
        NotFound: there is no such import, or its file was removed
        Invalid: the file does not have its format, or a rule is invalid
    """
    record = (await find_import(services, given)).record
    path = await _local_file(services, record)

    def look() -> dict[str, Any]:
        files = PlainFiles(record.format, DelimitedFormat(record.delimiter, record.encoding))
        (source,) = files.find(str(path))
        columns = propose_columns(source, files, record.noun)
        rules = tuple(column.rule for column in columns if column.rule)
        is_plain = record.format == "jsonl" and all(column.field == column.name for column in columns)
        proposed = () if is_plain else rules
        mapping = proposed if given.mapping is None else given.mapping
        return {
            "columns": [column.to_dict() for column in columns],
            **read_choices([column.name for column in columns], mapping, is_plain=is_plain and not mapping),
            "fields": list_noun_fields(record.noun),
            "proposed": list(proposed),
            "mapping": list(mapping),
            "preview": _preview(record, path, mapping, _FIRST_ROWS, services.now_ms()),
        }

    return await asyncio.to_thread(look)


async def dry_run_import(services: AdminServices, given: DryRunImport) -> dict[str, Any]:
    """Return what the first rows would become; nothing is written."""
    record = (await find_import(services, given)).record
    path = await _local_file(services, record)
    now_ms = services.now_ms()
    return await asyncio.to_thread(_preview, record, path, given.mapping, given.limit, now_ms)


async def _local_file(services: AdminServices, record: FileImport) -> Path:
    if record.is_removed:
        raise NotFound("the uploaded file was removed; upload it again")
    return await asyncio.to_thread(fetch_upload, record, services.artifacts, state_folder(services))


def _preview(
    record: FileImport, path: Path, mapping: Sequence[str], limit: int, now_ms: int
) -> dict[str, Any]:
    order = build_order(record.model_copy(update={"mapping": tuple(mapping)}), path, limit=limit)
    return _preview_to_dict(preview_ingest(order, now_ms=now_ms))


def _preview_to_dict(found: IngestPreview) -> dict[str, Any]:
    return {
        "rows": found.rows,
        "accepted": found.accepted,
        "refused": found.refused,
        "reasons": [asdict(reason) for reason in found.reasons],
        "warnings": list(found.warnings),
        "samples": [_shorten(sample) for sample in found.samples],
    }


def _shorten(value: Any) -> Any:
    if isinstance(value, dict):
        return {name[:_LONGEST_VALUE]: _shorten(part) for name, part in islice(value.items(), 200)}
    if isinstance(value, list):
        return [_shorten(part) for part in value[:50]]
    if isinstance(value, str) and len(value) > _LONGEST_VALUE:
        return value[:_LONGEST_VALUE] + "…"
    return value


OPERATIONS: tuple[Operation[AdminServices, Any], ...] = (
    Operation(
        "imports.preview", "Show the columns of a file, a proposed mapping and the first faults.", "editor", "POST",
        "/apps/{app_id}/imports/{import_id}/preview", PreviewImport, preview_import, is_query=True,
        example={"app_id": "bookshop", "import_id": "0190d2b4"},
        example_result=RESULTS["imports.preview"],
    ),
    Operation(
        "imports.dry_run", "Show what the first rows of a file would become.", "editor", "POST",
        "/apps/{app_id}/imports/{import_id}/dry-run", DryRunImport, dry_run_import, is_query=True,
        example={"app_id": "bookshop", "import_id": "0190d2b4", "mapping": ["product_id=sku", "title=name"]},
        example_result=RESULTS["imports.dry_run"],
    ),
)  # fmt: skip
