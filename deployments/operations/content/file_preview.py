"""What an uploaded file holds: its columns, a proposed mapping, and what its first rows would become.

A small file can need any amount of memory and time: Parquet expands, a line can have a million cells. So API replicas
look at files in processes of their own, with bounds (`deployments.front.preview_processes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from cluster.errors import Invalid
from cluster.records.file_import import FileImport
from deployments.operations.content.import_mapping import choices_from_mapping
from deployments.operations.content.preview_task import FIRST_ROWS, PreviewTask
from deployments.operations.content.upload_files import check_parquet
from jobs.ingest.files.delimited_files import DelimitedFormat
from jobs.ingest.files.sources import PlainFiles, propose_source_encoding
from jobs.ingest.mappings.column_proposal import list_noun_fields, propose_columns, propose_mapping
from jobs.ingest.mappings.record_fields import read_fields
from jobs.ingest.preview import IngestPreview, preview_ingest
from jobs.ingest.upload.upload_ingest import build_order

_LONGEST_VALUE = 2_000
"Characters of a value of a sample record that are shown."


def preview_file(task: PreviewTask) -> dict[str, Any]:
    """Look at a file.

    Errors:
        Invalid: the file does not have its format, or a rule is invalid
    """
    record = task.record
    path = Path(task.path)
    if task.encoding is not None:
        record = record.model_copy(update={"encoding": task.encoding})
    if task.kind == "check":
        if record.format == "parquet":
            check_parquet(path)
        return {}
    if task.kind == "rows":
        return _preview_rows(record, path, task.mapping or (), task.limit, task.now_ms)
    return _preview_columns(record, path, task.mapping, task.now_ms)


def _preview_columns(
    record: FileImport, path: Path, given: Sequence[str] | None, now_ms: int
) -> dict[str, Any]:
    files = PlainFiles(record.format, DelimitedFormat(record.delimiter, record.encoding))
    (source,) = files.find(str(path))
    proposed_encoding = propose_source_encoding(source)
    try:
        columns = propose_columns(source, files, record.noun)
    except Invalid:
        # not even the header is UTF-8, so there is nothing to choose
        if not proposed_encoding:
            raise
        record = record.model_copy(update={"encoding": proposed_encoding})
        return _preview_columns(record, path, given, now_ms)
    rules = tuple(propose_mapping(columns, record.noun))
    is_plain = record.format == "jsonl" and all(column.field == column.name for column in columns)
    names = [column.name for column in columns]
    proposed = () if is_plain else rules
    mapping = proposed if given is None else given
    return {
        "columns": [column.to_dict() for column in columns],
        **choices_from_mapping(names, mapping, record.noun, is_plain=is_plain and not mapping).to_dict(),
        "fields": list_noun_fields(record.noun),
        "choices": {name: list(values) for name, values in read_fields(record.noun).choices.items()},
        "encoding": record.encoding,
        "proposed_encoding": proposed_encoding,
        "proposed": list(proposed),
        "mapping": list(mapping),
        "preview": _preview_rows(record, path, mapping, FIRST_ROWS, now_ms),
    }


def _preview_rows(
    record: FileImport, path: Path, mapping: Sequence[str], limit: int, now_ms: int
) -> dict[str, Any]:
    order = build_order(record.model_copy(update={"mapping": tuple(mapping)}), path, limit=limit)
    return _preview_to_dict(preview_ingest(order, now_ms=now_ms))


def _preview_to_dict(preview: IngestPreview) -> dict[str, Any]:
    return {
        "rows": preview.rows,
        "accepted": preview.accepted,
        "refused": preview.refused,
        "reasons": [asdict(reason) for reason in preview.reasons],
        "warnings": list(preview.warnings),
        "samples": [_shorten(sample) for sample in preview.samples],
    }


def _shorten(value: Any) -> Any:
    if isinstance(value, dict):
        return {name[:_LONGEST_VALUE]: _shorten(part) for name, part in islice(value.items(), 200)}
    if isinstance(value, list):
        return [_shorten(part) for part in value[:50]]
    if isinstance(value, str) and len(value) > _LONGEST_VALUE:
        return value[:_LONGEST_VALUE] + "…"
    return value
