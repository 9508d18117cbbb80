"""Validation of a chunk: the records that the stores accept, and the rejected rows with their reasons.

Checks of files before the ingest: missing columns and suspicious values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import orjson

from cluster.errors import HouseError, Invalid, Unprocessable
from cluster.records.validation.accepted import AcceptedInteractions, AcceptedRecords
from cluster.records.validation.upload import parse_interactions, parse_upload
from jobs.ingest.columns import ColumnRows
from jobs.ingest.mapping import FieldMap, RowReader
from jobs.ingest.plain_interactions import PlainColumns, PlainInteractions
from jobs.ingest.row import Row, UnreadableRow
from jobs.ingest.sources import SourceFile, read_column_names

T = TypeVar("T")

_BAD_INDEX = re.compile(r"data\.(\d+)\b\.?( is invalid\. )?")
_TEXT_KEPT = 4_000


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """One rejected row."""

    row: int
    "0-based number in its file."
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class AcceptedPart(Generic[T]):
    """Rows that were accepted together."""

    accepted: T
    rows: tuple[int, ...]
    "Number in the file of every accepted record, in order."


@dataclass(frozen=True, slots=True)
class CheckedChunk(Generic[T]):
    """The result of the validation of a chunk."""

    parts: tuple[AcceptedPart[T], ...]
    "Usually one part; none if no row is valid, several if the rows together exceed the limit of one body."
    refused: tuple[RejectedRow, ...]


def check_records(
    noun: Any, rows: Sequence[Row], first: int, read: RowReader, now_ms: int
) -> CheckedChunk[AcceptedRecords]:
    """Validate users or products as the API does, except that an invalid row rejects no other row."""
    return _check_rows(
        rows, first, read, lambda body: parse_upload(noun, body, now_ms=now_ms, is_detailed=True)
    )


def check_interactions(
    rows: Sequence[Row], first: int, read: RowReader, now_ms: int, plain: PlainInteractions | None = None
) -> CheckedChunk[AcceptedInteractions]:
    """Validate interactions as the API does; an interaction without any user id is rejected.

    Cost:
        6 microseconds a row if all rows of a chunk are plain (`jobs.ingest.plain_interactions`), 12 if all are valid,
        three times that if one is invalid
    """
    whole = _check_plain_chunk(rows, first, read, now_ms, plain or PlainInteractions())
    if whole is not None:
        return whole

    def parse(body: bytes) -> AcceptedInteractions:
        return parse_upload("interaction", body, now_ms=now_ms, is_detailed=True)

    return _check_rows(rows, first, read, parse, _missing_actor_reason)


def check_columns(
    rows: ColumnRows, first: int, fields: FieldMap, now_ms: int, plain: PlainColumns
) -> CheckedChunk[AcceptedInteractions] | None:
    """Validate interactions in columnar form that are all plain; return None to leave them to `check_interactions`."""
    table = fields.map_columns(rows.table)
    accepted = None if table is None else plain.accept(table, now_ms)
    return None if accepted is None else _chunk_without_rejections(accepted, first)


def _check_plain_chunk(
    rows: Sequence[Row], first: int, read: RowReader, now_ms: int, plain: PlainInteractions
) -> CheckedChunk[AcceptedInteractions] | None:
    """Validate a chunk as a whole, without a conversion to JSON and back; return None if any row is invalid."""
    try:
        records = [read(row) for row in rows if not isinstance(row, UnreadableRow)]
        if len(records) < len(rows) or any(map(_missing_actor_reason, records)):
            return None
        accepted = plain.accept(records, now_ms) or parse_interactions(records, now_ms=now_ms)
    except (HouseError, TypeError, ValueError):
        return None
    return _chunk_without_rejections(accepted, first)


def _chunk_without_rejections(
    accepted: AcceptedInteractions, first: int
) -> CheckedChunk[AcceptedInteractions]:
    """Return the result of a chunk whose rows are all valid."""
    return CheckedChunk((AcceptedPart(accepted, tuple(range(first, first + accepted.count))),), ())


def _missing_actor_reason(record: dict[str, Any]) -> str:
    return "" if record.get("user_id") or record.get("anonymous_id") else "neither user_id nor anonymous_id"


def row_from_message(message: str, rows: Sequence[int]) -> int | None:
    """Return the row that a message of the upload validation names, None without one."""
    found = _BAD_INDEX.match(message)
    at = int(found.group(1)) if found else len(rows)
    return rows[at] if at < len(rows) else None


def reason_from_message(message: str) -> str:
    """Return a message of the upload validation without the record's position in its batch.

    The position would make equal reasons differ; the row number is reported separately.
    """
    found = _BAD_INDEX.match(message)
    return message if found is None else message[found.end() :]


def _check_rows(
    rows: Sequence[Row],
    first: int,
    read: RowReader,
    parse: Callable[[bytes], T],
    also: Callable[[dict[str, Any]], str] = lambda record: "",
) -> CheckedChunk[T]:
    refused: list[RejectedRow] = []
    good: list[tuple[int, bytes]] = []
    for number, row in enumerate(rows, first):
        if isinstance(row, UnreadableRow):
            refused.append(RejectedRow(number, row.reason, row.text))
            continue
        try:
            record = read(row)
            text = orjson.dumps(record)
        except (TypeError, ValueError) as error:
            refused.append(RejectedRow(number, f"can't be written as JSON: {error}", str(row)[:_TEXT_KEPT]))
            continue
        if reason := also(record):
            refused.append(RejectedRow(number, reason, _decode_beginning(text)))
        else:
            good.append((number, text))
    parts = tuple(_parse_until_accepted(good, parse, refused))
    return CheckedChunk(parts, tuple(sorted(refused, key=lambda bad: bad.row)))


def _parse_until_accepted(
    good: list[tuple[int, bytes]], parse: Callable[[bytes], T], refused: list[RejectedRow]
) -> Iterator[AcceptedPart[T]]:
    """Parse the remaining rows until none is rejected; split them in halves if they exceed a limit of one body."""
    while good:
        try:
            yield AcceptedPart(parse(_body(good)), tuple(number for number, _ in good))
            return
        except Unprocessable as error:
            reasons = _reasons_by_row(error, len(good))
            if not reasons:
                raise
            for at in sorted(reasons, reverse=True):
                number, text = good.pop(at)
                refused.append(RejectedRow(number, reasons[at], _decode_beginning(text)))
        except Invalid as error:
            if len(good) == 1:
                number, text = good.pop()
                refused.append(RejectedRow(number, error.message, _decode_beginning(text)))
                return
            middle = len(good) // 2
            yield from _parse_until_accepted(good[:middle], parse, refused)
            yield from _parse_until_accepted(good[middle:], parse, refused)
            return


def _body(good: Sequence[tuple[int, bytes]]) -> bytes:
    return b'{"data":[' + b",".join(text for _, text in good) + b"]}"


def _reasons_by_row(error: Unprocessable, count: int) -> dict[int, str]:
    reasons: dict[int, str] = {}
    for message in error.facts.get("messages", ()):
        found = _BAD_INDEX.match(message)
        if found and int(found.group(1)) < count:
            reasons.setdefault(int(found.group(1)), reason_from_message(message))
    return reasons


def _decode_beginning(text: bytes) -> str:
    return text[:_TEXT_KEPT].decode("utf-8", "replace")


_SAMPLED_ROWS = 200


def check_source_columns(mapping: FieldMap, found: Sequence[SourceFile]) -> None:
    """Check that files have the columns that a mapping names.

    Errors:
        Invalid: a file lacks a column
    """
    if not mapping.rules:
        return
    for source in found:
        names = read_column_names(source)
        if names is not None:
            mapping.check_columns(names)


def find_warnings(rows: Sequence[Row], read: RowReader, mapping: FieldMap) -> list[str]:
    """Return warnings about suspicious values in the first rows of an ingest."""
    records = [read(row) for row in rows[:_SAMPLED_ROWS] if not isinstance(row, UnreadableRow)]
    name = mapping.find_float_ids(records)
    if not name:
        return []
    return [f"every {name} ends in '.0': whole numbers that a table wrote as decimals; map it with :integer"]


# Counts of rejected rows by reason, with an example for each.


MOST_REASONS = 200
"Maximum number of reasons that are counted separately; later ones are counted together."
SHOWN = 3
OTHER = "other reasons"


@dataclass(frozen=True, slots=True)
class RejectionReason:
    """One reason, the number of rows that it rejected, and the first of them."""

    text: str
    count: int
    row: int
    "0-based number of the example in its file."
    example: str
    "Beginning of the example's row."


class ReasonCounter:
    """Counts rejected rows by reason, in bounded memory."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, RejectedRow] = {}

    def add(self, refused: Iterable[RejectedRow]) -> None:
        """Count rejected rows."""
        for one in refused:
            text = one.reason
            if text not in self._counts and len(self._counts) >= MOST_REASONS:
                text = OTHER
            self._counts[text] = self._counts.get(text, 0) + 1
            self._examples.setdefault(text, one)

    def most_frequent(self, most: int = SHOWN) -> tuple[RejectionReason, ...]:
        """Return the most frequent reasons in descending order."""
        ranked = sorted(self._counts.items(), key=lambda entry: -entry[1])[:most]
        return tuple(
            RejectionReason(text, count, self._examples[text].row, self._examples[text].text)
            for text, count in ranked
        )


def merge_reasons(
    parts: Iterable[Sequence[RejectionReason]], most: int = SHOWN
) -> tuple[RejectionReason, ...]:
    """Return the summed reasons of several runs, the most frequent first."""
    found: dict[str, RejectionReason] = {}
    for reason in (reason for part in parts for reason in part):
        before = found.get(reason.text)
        found[reason.text] = reason if before is None else replace(before, count=before.count + reason.count)
    return tuple(sorted(found.values(), key=lambda reason: -reason.count)[:most])
