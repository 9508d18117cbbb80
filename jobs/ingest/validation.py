"""Validation of a chunk: the records that the stores accept, and the rejected rows with their reasons.

Checks of files before the ingest: missing columns and suspicious values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import orjson

from cluster.errors import Invalid, KioskError, Unprocessable
from cluster.records.erasure import RemovedRecords
from cluster.records.field_types.fields import MAX_RECORD_BYTES
from cluster.records.intake import Noun
from cluster.records.validation.accepted_uploads import AcceptedInteractions, AcceptedRecords
from cluster.records.validation.upload import parse_interactions, parse_upload
from jobs.ingest.files.chunks import CHUNK_BYTES
from jobs.ingest.files.columns import ColumnRows
from jobs.ingest.files.sources import RowFiles, SourceFile, propose_source_encoding, read_column_names
from jobs.ingest.files.unreadable_row import Row, UnreadableRow
from jobs.ingest.mappings.mapping import REFUND, RETURNS, FieldMap, RowMapper, is_return
from jobs.ingest.mappings.mapping_rules import join_names
from jobs.ingest.mappings.row_baskets import BasketChunk
from jobs.ingest.plain_interactions import PlainColumns, PlainInteractions

T = TypeVar("T")

RETURN = f"the quantity is negative, as of a return; the rule {RETURNS}:={REFUND} imports returns as refunds"
# The upload validation names bad records by their position: "data.3.price ...".
_BAD_INDEX = re.compile(r"data\.(\d+)\b\.?( is invalid\. )?")
# Characters of a refused row in the quarantine: enough to find it, and a bound for millions of them.
_TEXT_KEPT = 4_000
_TOO_LARGE = f"The record should have at most {MAX_RECORD_BYTES} bytes."


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
    number: int = 0
    "Position among the parts of the chunk, counted before rows of erased people leave it."


@dataclass(frozen=True, slots=True)
class CheckedChunk(Generic[T]):
    """The result of the validation of a chunk."""

    parts: tuple[AcceptedPart[T], ...]
    "Usually one part; none if no row is valid, several if the rows together exceed the limit of one body."
    refused: tuple[RejectedRow, ...]


ERASED = "the user was erased after the file was uploaded"
DELETED = "the user or the product was deleted after the ingest began"


def check_records(
    noun: Any,
    rows: Sequence[Row],
    first: int,
    read: RowMapper,
    now_ms: int,
) -> CheckedChunk[AcceptedRecords]:
    """Validate users or products as the API does, except that an invalid row rejects no other row."""
    return _check_rows(
        rows, first, read, lambda body: parse_upload(noun, body, now_ms=now_ms, is_detailed=True)
    )


def check_interactions(
    rows: Sequence[Row],
    first: int,
    read: RowMapper,
    now_ms: int,
    plain: PlainInteractions | None = None,
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

    return _check_rows(rows, first, read, parse, _interaction_fault)


def check_columns(
    rows: ColumnRows, first: int, fields: FieldMap, now_ms: int, plain: PlainColumns
) -> CheckedChunk[AcceptedInteractions] | None:
    """Validate interactions in columnar form that are all plain; return None to leave them to `check_interactions`."""
    table = fields.map_columns(rows.table)
    accepted = None if table is None else plain.accept(table, now_ms)
    return None if accepted is None else _chunk_without_rejections(accepted, row_numbers(rows, first))


ChunkCheck = Callable[[Sequence[Row], int, RowMapper], CheckedChunk[Any]]
"Validates a chunk; called with its rows, the number of the first one, and the mapping to records."


def build_chunk_check(noun: Noun, fields: FieldMap, now_ms: int) -> ChunkCheck:
    """Return the validation of all chunks of a run."""
    plain = PlainInteractions()
    plain_columns = PlainColumns()

    def check(rows: Sequence[Row], first: int, read: RowMapper) -> CheckedChunk[Any]:
        if noun != "interaction":
            return check_records(noun, rows, first, read, now_ms)
        whole = (
            check_columns(rows, first, fields, now_ms, plain_columns)
            if isinstance(rows, ColumnRows)
            else None
        )
        return check_interactions(rows, first, read, now_ms, plain) if whole is None else whole

    return check


def validate_without_erased_rows(
    rows: Sequence[Row],
    first: int,
    read: RowMapper,
    erased: RemovedRecords,
    check: ChunkCheck,
) -> CheckedChunk[Any]:
    """Validate a chunk and reject the rows of what was erased or deleted; `check` validates it with them.

    The parts are cut with these rows, as a run before cut them. So a continued run finds the part that it announced,
    and writes no row twice and none not at all.
    """
    numbers = row_numbers(rows, first)
    reasons = {number: _explain_erased(row, read, erased) for number, row in zip(numbers, rows, strict=True)}
    gone = {number: reason for number, reason in reasons.items() if reason}
    checked = check(rows, first, read)
    if not gone:
        return checked
    by_number = dict(zip(numbers, rows, strict=True))
    parts: list[AcceptedPart[Any]] = []
    for part in checked.parts:
        left = tuple(number for number in part.rows if number not in gone)
        if len(left) == len(part.rows):
            parts.append(part)
        elif left:
            # Some rows of one valid part are again one valid part.
            (rest,) = check([by_number[number] for number in left], 0, read).parts
            parts.append(AcceptedPart(rest.accepted, left, part.number))
    refused = [bad for bad in checked.refused if bad.row not in gone]
    # Without the text, which names the person.
    refused += [RejectedRow(number, reason, "") for number, reason in gone.items()]
    return CheckedChunk(tuple(parts), tuple(sorted(refused, key=lambda bad: bad.row)))


def _explain_erased(row: Row, read: RowMapper, erased: RemovedRecords) -> str:
    """Return why a row is left out; empty if it is not."""
    if isinstance(row, UnreadableRow):
        return ""
    try:
        record = read(row)
    except (TypeError, ValueError):
        return ""
    if erased.has_erased(record):
        return ERASED
    return DELETED if erased.has_deleted(record) else ""


def _check_plain_chunk(
    rows: Sequence[Row], first: int, read: RowMapper, now_ms: int, plain: PlainInteractions
) -> CheckedChunk[AcceptedInteractions] | None:
    """Validate a chunk as a whole, without a conversion to JSON and back; return None if any row is invalid."""
    try:
        records = [read(row) for row in rows if not isinstance(row, UnreadableRow)]
        # The upload schema accepts an event of nobody, whose user is then the browser that sends it; a file
        # has none.
        if len(records) < len(rows) or any(map(_missing_actor_reason, records)):
            return None
        accepted = plain.accept(records, now_ms) or parse_interactions(records, now_ms=now_ms)
    except (KioskError, TypeError, ValueError):
        return None
    return _chunk_without_rejections(accepted, row_numbers(rows, first))


def row_numbers(rows: Sequence[Row], first: int) -> Sequence[int]:
    """Return the number in the file of each row of a chunk; joined rows have that of their first row."""
    return rows.numbers if isinstance(rows, BasketChunk) else range(first, first + len(rows))


def _chunk_without_rejections(
    accepted: AcceptedInteractions, numbers: Sequence[int]
) -> CheckedChunk[AcceptedInteractions]:
    """Return the result of a chunk whose rows are all valid."""
    return CheckedChunk((AcceptedPart(accepted, tuple(numbers)),), ())


def _missing_actor_reason(record: dict[str, Any]) -> str:
    return "" if record.get("user_id") or record.get("anonymous_id") else "neither user_id nor anonymous_id"


def _interaction_fault(record: dict[str, Any]) -> str:
    """Return why a record can't be an interaction, where the validation of uploads would not say it clearly."""
    return _missing_actor_reason(record) or (RETURN if is_return(record) else "")


def row_from_message(message: str, rows: Sequence[int]) -> int | None:
    """Return the row that a message of the upload validation names, None without one."""
    match = _BAD_INDEX.match(message)
    at = int(match.group(1)) if match else len(rows)
    return rows[at] if at < len(rows) else None


def reason_from_message(message: str) -> str:
    """Return a message of the upload validation without the record's position in its batch.

    The position would make equal reasons differ; the row number is reported separately.
    """
    match = _BAD_INDEX.match(message)
    return message if match is None else message[match.end() :]


def _check_rows(
    rows: Sequence[Row],
    first: int,
    read: RowMapper,
    parse: Callable[[bytes], T],
    also: Callable[[dict[str, Any]], str] = lambda record: "",
) -> CheckedChunk[T]:
    refused: list[RejectedRow] = []
    good: list[tuple[int, bytes]] = []
    for number, row in zip(row_numbers(rows, first), rows, strict=True):
        if isinstance(row, UnreadableRow):
            refused.append(RejectedRow(number, row.reason, row.text))
            continue
        try:
            record = read(row)
            text = orjson.dumps(record)
        except (TypeError, ValueError) as error:
            refused.append(RejectedRow(number, f"can't be written as JSON: {error}", str(row)[:_TEXT_KEPT]))
            continue
        reason = also(record) or (_TOO_LARGE if len(text) > MAX_RECORD_BYTES else "")
        if reason:
            refused.append(RejectedRow(number, reason, _decode_beginning(text)))
        else:
            good.append((number, text))
    # `_parse_until_accepted` appends to `refused`, so the list is complete only behind this line.
    parts = [part for some in _split_by_size(good) for part in _parse_until_accepted(some, parse, refused)]
    parts = [replace(part, number=number) for number, part in enumerate(parts)]
    return CheckedChunk(tuple(parts), tuple(sorted(refused, key=lambda bad: bad.row)))


def _split_by_size(good: list[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """Split records so that those of a part have at most `CHUNK_BYTES` as JSON, which may take more than their rows."""
    part: list[tuple[int, bytes]] = []
    size = 0
    for number, text in good:
        if part and size + len(text) > CHUNK_BYTES:
            yield part
            part = []
            size = 0
        part.append((number, text))
        size += len(text)
    yield part


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
            # Without a position no row can be taken out, and the loop would parse the same body for ever.
            if not reasons:
                raise
            # From the end, so that each `pop` leaves the positions of the others as they were.
            for at in sorted(reasons, reverse=True):
                number, text = good.pop(at)
                refused.append(RejectedRow(number, reasons[at], _decode_beginning(text)))
        except Invalid as error:
            if len(good) == 1:
                number, text = good.pop()
                refused.append(RejectedRow(number, error.message, _decode_beginning(text)))
                return
            # `Invalid` is about the whole body, which is too large: the halves are tried until one record
            # is left.
            middle = len(good) // 2
            yield from _parse_until_accepted(good[:middle], parse, refused)
            yield from _parse_until_accepted(good[middle:], parse, refused)
            return


def _body(good: Sequence[tuple[int, bytes]]) -> bytes:
    return b'{"data":[' + b",".join(text for _, text in good) + b"]}"


def _reasons_by_row(error: Unprocessable, count: int) -> dict[int, str]:
    reasons: dict[int, str] = {}
    for message in error.facts.get("messages", ()):
        match = _BAD_INDEX.match(message)
        if match and int(match.group(1)) < count:
            reasons.setdefault(int(match.group(1)), reason_from_message(message))
    return reasons


def _decode_beginning(text: bytes) -> str:
    return text[:_TEXT_KEPT].decode("utf-8", "replace")


# Rows of a file that are mapped a second time, to look at their values for warnings.
_SAMPLED_ROWS = 200
_MOST_NAMED = 40
_MOST_SAMPLED_FILES = 20


def prepare_mapping(
    mapping: FieldMap, sources: Sequence[SourceFile], files: RowFiles
) -> tuple[FieldMap, list[str]]:
    """Return the mapping of files, and warnings about columns that it does not use.

    A column `order_id` of interactions joins rows without a rule.

    Errors:
        Invalid: a file lacks a column that the mapping names, or does not have its format
    """
    warnings: list[str] = []
    for at, source in enumerate(sources):
        names = read_column_names(source)
        if names is not None and not mapping.is_empty:
            mapping.check_columns(names)
        if at < _MOST_SAMPLED_FILES:
            # JSON Lines have no header, so later rows may bring other names: these can be warned about, not
            # refused.
            columns = [name for name in _sample_names(source, files) if name] if names is None else names
            mapping = mapping.with_order_column(columns)
            warnings += _column_warnings(mapping, [name for name in columns if name])
            warnings += _encoding_warnings(source)
    return mapping, list(dict.fromkeys(warnings))


def _sample_names(source: SourceFile, files: RowFiles) -> list[str]:
    """Return the names in the first rows of JSON Lines."""
    rows = next((rows for _, rows in files.chunks(source, _SAMPLED_ROWS)), ())
    return list(dict.fromkeys(name for row in rows if not isinstance(row, UnreadableRow) for name in row))


def find_warnings(rows: Sequence[Row], read: RowMapper, mapping: FieldMap) -> list[str]:
    """Return warnings about the first rows of a file: missing times and suspicious values."""
    records = [read(row) for row in rows[:_SAMPLED_ROWS] if not isinstance(row, UnreadableRow)]
    warnings = [*_time_warnings(mapping, records)]
    name = mapping.find_float_ids(records)
    if name:
        warnings.append(
            f"every {name} ends in '.0': whole numbers that a table wrote as decimals; map it with :integer"
        )
    return warnings


def _encoding_warnings(source: SourceFile) -> Iterator[str]:
    encoding = propose_source_encoding(source) if source.is_local else ""
    if encoding:
        yield f"{source.name} is not UTF-8; it looks like {encoding} text, read it with --encoding {encoding}"


def _column_warnings(mapping: FieldMap, columns: Sequence[str]) -> Iterator[str]:
    unused = mapping.find_unused(columns)
    if unused.fields:
        yield (
            f"NOT USED, although they have names of fields: {join_names(unused.fields, _MOST_NAMED)}. Map them to "
            "fields, or leave them out with --exclude COLUMN"
        )
    if unused.others:
        yield f"not used: {join_names(unused.others, _MOST_NAMED)}"


def _time_warnings(mapping: FieldMap, records: Sequence[dict[str, Any]]) -> Iterator[str]:
    if mapping.noun != "interaction" or not records:
        return
    missing = sum(not record.get("timestamp") for record in records)
    if missing == len(records):
        yield (
            "no row has a timestamp: ALL EVENTS GET THE TIME OF THE IMPORT. Map the column of their time, for example "
            "--map timestamp=COLUMN"
        )
    elif missing:
        yield f"{missing} of the first {len(records)} rows have no timestamp; such events get the time of the import"


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
        for row in refused:
            text = row.reason
            # Reasons may quote values of the row, so a bad file could have as many reasons as rows.
            if text not in self._counts and len(self._counts) >= MOST_REASONS:
                text = OTHER
            self._counts[text] = self._counts.get(text, 0) + 1
            self._examples.setdefault(text, row)

    def most_frequent(self, most: int = SHOWN) -> tuple[RejectionReason, ...]:
        """Return the most frequent reasons in descending order."""
        ranked = sorted(self._counts.items(), key=lambda entry: -entry[1])[:most]
        return tuple(
            RejectionReason(text, count, self._examples[text].row, self._examples[text].text)
            for text, count in ranked
        )


def merge_reasons(parts: Iterable[Sequence[RejectionReason]]) -> tuple[RejectionReason, ...]:
    """Return the summed reasons of several runs, the most frequent first."""
    merged: dict[str, RejectionReason] = {}
    for reason in (reason for part in parts for reason in part):
        before = merged.get(reason.text)
        merged[reason.text] = reason if before is None else replace(before, count=before.count + reason.count)
    return tuple(sorted(merged.values(), key=lambda reason: -reason.count)[:SHOWN])
