"""A dry run: the records of the first rows of files, and the reasons of rejected rows. It writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobs.ingest import sources as reading
from jobs.ingest.mapping import FieldMap
from jobs.ingest.pipeline import IngestOrder
from jobs.ingest.row import UnreadableRow
from jobs.ingest.validation import (
    CheckedChunk,
    ReasonCounter,
    RejectionReason,
    check_interactions,
    check_records,
    check_source_columns,
    find_warnings,
)

PREVIEWED_ROWS = 1_000
"Default number of rows that a dry run reads."
_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class IngestPreview:
    """The result of a dry run."""

    rows: int
    accepted: int
    refused: int
    reasons: tuple[RejectionReason, ...]
    warnings: tuple[str, ...]
    samples: tuple[dict[str, Any], ...]
    "The first records in upload form."


def preview_ingest(order: IngestOrder, *, now_ms: int) -> IngestPreview:
    """Read, map and validate the first rows of an order, and return the result.

    Errors:
        Invalid: the address, the format or the mapping is invalid
        Unavailable: an object store does not answer
    """
    mapping = FieldMap.parse(order.mapping)
    files = reading.PlainFiles(order.format, order.layout)
    found = files.find(order.address)
    check_source_columns(mapping, found)
    left = order.limit or PREVIEWED_ROWS
    counter, rows_read, refused = ReasonCounter(), 0, 0
    samples: list[dict[str, Any]] = []
    warnings: list[str] = []
    for source in found:
        read = mapping.build_reader(source.format)
        for first, lot in files.chunks(source, order.chunk):
            rows = list(lot[:left])
            if not rows:
                break
            if not rows_read:
                warnings = find_warnings(rows, read, mapping)
            good = (row for row in rows if not isinstance(row, UnreadableRow))
            samples += [read(row) for row, _ in zip(good, range(_SAMPLES - len(samples)), strict=False)]
            checked: CheckedChunk[Any] = (
                check_interactions(rows, first, read, now_ms)
                if order.noun == "interaction"
                else check_records(order.noun, rows, first, read, now_ms)
            )
            counter.add(checked.refused)
            rows_read, refused, left = rows_read + len(rows), refused + len(checked.refused), left - len(rows)
    return IngestPreview(
        rows_read, rows_read - refused, refused, counter.most_frequent(), tuple(warnings), tuple(samples)
    )
