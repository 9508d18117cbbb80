"""A dry run: the records of the first rows of files, and the reasons of rejected rows. It writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobs.ingest.files import sources as reading
from jobs.ingest.files.unreadable_row import UnreadableRow
from jobs.ingest.mappings.mapping import FieldMap, RowMapper
from jobs.ingest.mappings.row_baskets import BasketFiles
from jobs.ingest.pipeline import IngestSpec
from jobs.ingest.validation import (
    CheckedChunk,
    ReasonCounter,
    RejectionReason,
    check_interactions,
    check_records,
    find_warnings,
    prepare_mapping,
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


def preview_ingest(order: IngestSpec, *, now_ms: int) -> IngestPreview:
    """Read, map and validate the first rows of an order, and return the result.

    Errors:
        Invalid: the address, the format or the mapping is invalid
    """
    mapping = FieldMap.parse(order.mapping, order.noun)
    files: reading.RowFiles = reading.PlainFiles(order.format, order.layout)
    sources = files.find(order.address)
    mapping, warnings = prepare_mapping(mapping, sources, files)
    baskets: BasketFiles | None = None
    if mapping.order_rule is not None:
        files = baskets = BasketFiles(reading.FirstRows(files, order.limit or PREVIEWED_ROWS), mapping)
    left = order.limit or PREVIEWED_ROWS
    counter = ReasonCounter()
    rows_read = 0
    refused = 0
    samples: list[dict[str, Any]] = []
    for source in sources:
        read: RowMapper = dict if baskets is not None else mapping.build_row_mapper(source.format)
        for first, chunk in files.chunks(source, order.chunk):
            rows = chunk[:left] if len(chunk) > left else chunk
            if not rows:
                break
            if not rows_read:
                warnings += find_warnings(rows, read, mapping)
            good = (row for row in rows if not isinstance(row, UnreadableRow))
            samples += [read(row) for row, _ in zip(good, range(_SAMPLES - len(samples)), strict=False)]
            checked: CheckedChunk[Any] = (
                check_interactions(rows, first, read, now_ms)
                if order.noun == "interaction"
                else check_records(order.noun, rows, first, read, now_ms)
            )
            counter.add(checked.refused)
            rows_read = rows_read + len(rows)
            refused = refused + len(checked.refused)
            left = left - len(rows)
    warnings += baskets.report.warnings() if baskets is not None else []
    return IngestPreview(
        rows_read, rows_read - refused, refused, counter.most_frequent(), tuple(warnings), tuple(samples)
    )
