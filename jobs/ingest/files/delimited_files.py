"""Rows of CSV and TSV files: a header, then one row per line; cells may be quoted and contain newlines.

Blanks around column names are removed. A column without a name (exported tables have one for row numbers) is left out.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from cluster.errors import Invalid
from jobs.ingest.files.unreadable_row import Row, UnreadableRow, shorten_row

MOST_COLUMNS = 10_000
LONGEST_CELL = 1 << 20
"Maximum characters of a cell; limits the damage of an unclosed quote."

# Bytes between pyarrow and Python's text layer, whose default of 8 kB would cross this border far more
# often.
_BLOCK = 1 << 20
_SLOW = ("idna", "punycode")
"Encodings of host names, whose decoders take time that grows with the square of a line."
_NEWLINES = ("\n", "\r")
_QUOTED = re.compile(r'"[^"]*"')


@dataclass(frozen=True, slots=True)
class DelimitedFormat:
    """Delimiter and encoding of a file."""

    delimiter: str = ""
    "One character; empty: a comma, or the separator that the header line shows."
    encoding: str = ""
    "An encoding name of Python; empty: UTF-8."

    def __post_init__(self) -> None:
        if len(self.delimiter) > 1 or self.delimiter in ('"', "\n", "\r"):
            raise Invalid(f"a delimiter is one character that is no quote, not {self.delimiter!r}")
        try:
            # only encodings from bytes to text are allowed; base64 and similar codecs do something else
            "".encode(self.encoding or "utf-8")
            if codecs.lookup(self.encoding or "utf-8").name in _SLOW:
                raise LookupError(self.encoding)
        except (LookupError, ValueError) as error:
            raise Invalid(
                f"there is no encoding {self.encoding!r}; common ones are utf-8, cp1252, latin-1 and utf-16"
            ) from error


class ByteStream(io.RawIOBase):
    """A pyarrow stream in the form that Python's text layer reads; `count` is the number of bytes read."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        data = self._stream.read(len(target))
        target[: len(data)] = data
        self.count += len(data)
        return len(data)


def open_text(stream: ByteStream, layout: DelimitedFormat) -> io.TextIOWrapper:
    """Return a text stream for `read_delimited_rows`; invalid bytes become surrogates."""
    encoding = layout.encoding or "utf-8"
    buffered = io.BufferedReader(stream, _BLOCK)
    return io.TextIOWrapper(buffered, encoding=encoding, errors="surrogateescape", newline="")


WINDOWS_TEXT = "cp1252"
"Encoding of most tables that are not UTF-8: Windows in Western Europe and America; it contains Latin-1's letters."
_MOST_SCANNED = 64 << 20


def propose_encoding(stream: Any) -> str:
    """Return the encoding of a text that is not UTF-8: `cp1252` or `utf-16`; empty for UTF-8.

    `stream` has a method `read`; the first 64 MB are read.
    """
    # Incremental, as a character may be cut between two blocks.
    decoder = codecs.getincrementaldecoder("utf-8")()
    count = 0
    while (block := stream.read(_BLOCK)) and count < _MOST_SCANNED:
        if not count and block[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        count += len(block)
        try:
            decoder.decode(block)
        except UnicodeDecodeError:
            return WINDOWS_TEXT
    return ""


def read_delimited_rows(text: TextIO, separator: str, name: str, longest: int) -> Iterator[Row]:
    """Yield the rows after the header; `name` is the name of the file in messages.

    Without a given separator, the header line determines it: a comma, else the one of `;`, tab and `|` that occurs.

    `text` was opened with `newline=""` and `errors="surrogateescape"`. A line longer than `longest` characters is
    reported as unreadable, and is never in memory as a whole.

    Errors:
        Invalid: there is no header, it is not UTF-8, two columns have the same name, or characters can't be decoded
    """
    with _explain_decoding(text, name):
        yield from _read_rows(_Lines(text, longest), separator, name)


def read_header_names(text: TextIO, separator: str, name: str, longest: int) -> list[str]:
    """Return the names of the columns."""
    lines = _Lines(text, longest)
    with _explain_decoding(text, name):
        first = _first_line(lines, name)
        return _read_header(csv.reader(lines, delimiter=separator or _detect_separator(first)), name)


@contextlib.contextmanager
def _explain_decoding(text: TextIO, name: str) -> Iterator[None]:
    """Refuse a file with bytes that its encoding can't decode; in UTF-8 such bytes are surrogates of one row."""
    try:
        yield
    except UnicodeError as error:
        # Where characters have several bytes, nothing says where the next one or the next line begins.
        raise Invalid(f"{name} is not text in {text.encoding}: {error}") from error


def _read_rows(lines: _Lines, separator: str, name: str) -> Iterator[Row]:
    # the limit of the csv module applies to the process, and its default is too small for the text of an article
    csv.field_size_limit(LONGEST_CELL)
    first = _first_line(lines, name)
    separator = separator or _detect_separator(first)
    cell_rows = csv.reader(lines, delimiter=separator)
    names = _read_header(cell_rows, name)
    while True:
        try:
            cells = next(cell_rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield UnreadableRow(_csv_error_message(error), "")
            continue
        # The csv module returns an empty list for an empty line, which is no row of missing values.
        if cells:
            yield _row_from_cells(names, cells, separator)


class _Lines:
    """Lines up to a maximum length; a longer line is skipped and reported as a format error."""

    def __init__(self, text: TextIO, longest: int) -> None:
        self._text = text
        self._longest = longest
        self._peeked: str | None = None

    def peek(self) -> str:
        """Return the beginning of the first line without consuming it."""
        # The separator must be known before the csv module reads; a stream that is decompressed can't go
        # back. A byte order mark would be part of the first name.
        self._peeked = self._text.readline(self._longest).removeprefix("\ufeff")
        return self._peeked

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._text.readline(self._longest) if self._peeked is None else self._peeked
        self._peeked = None
        if not line:
            raise StopIteration
        # Shorter than asked without a newline: the last line of the file.
        if len(line) < self._longest or line.endswith(_NEWLINES):
            return line
        # The rest of the long line is read in pieces and dropped; the next call starts at a line.
        while rest := self._text.readline(self._longest):
            if rest.endswith(_NEWLINES):
                break
        raise csv.Error(f"a line is longer than {self._longest:,} characters")


def _first_line(lines: _Lines, name: str) -> str:
    """Return the header line without consuming it; refuse UTF-16, whose letters have NUL characters between them.

    The csv module of Python 3.10 raises an error at NUL. Later versions read NUL as part of a name.

    Errors:
        Invalid: the line holds NUL characters, or begins as compressed data
    """
    first = lines.peek()
    if first.startswith("\x1f"):
        raise Invalid(f"{name} is compressed by gzip; give its name the suffix .gz")
    if "\0" in first:
        raise Invalid(f"{name} is not UTF-8; it looks like UTF-16, read it with --encoding utf-16")
    return first


def _detect_separator(header: str) -> str:
    """Return the separator of a header line, by default a comma."""
    # A quoted name may have a comma in it, which separates nothing.
    bare = _QUOTED.sub("", header)
    if "," in bare:
        return ","
    # The most frequent sign; a tie goes to the larger character, so the result does not depend on order.
    count, separator = max((bare.count(other), other) for other in (";", "\t", "|"))
    return separator if count else ","


def _read_header(cell_rows: Iterator[list[str]], name: str) -> list[str]:
    try:
        cells = next(cell_rows, [])
    except csv.Error as error:
        raise Invalid(f"{name} has no header line: {_csv_error_message(error)}") from error
    names = [cell.strip() for cell in cells]
    if not any(names):
        raise Invalid(f"{name} has no header line")
    # Invalid bytes are surrogates after `surrogateescape`, so a bad header is named here and bad rows one
    # by one.
    if not all(map(_is_utf8, names)):
        raise Invalid(f"{name} is not UTF-8; name its encoding, for example --encoding cp1252")
    if len(names) > MOST_COLUMNS:
        raise Invalid(f"{name} has {len(names):,} columns; at most {MOST_COLUMNS:,} are read")
    seen: set[str] = set()
    for column_name in names:
        if column_name and column_name in seen:
            raise Invalid(f"{name} has two columns of the name {column_name!r}")
        seen.add(column_name)
    return names


def _row_from_cells(names: Sequence[str], cells: Sequence[str], separator: str) -> Row:
    reason = ""
    if len(cells) != len(names):
        reason = f"{len(cells)} cells, the header has {len(names)}"
    elif not all(map(_is_utf8, cells)):
        reason = "not UTF-8"
    if reason:
        text = separator.join(cells).encode("utf-8", "surrogateescape")
        return UnreadableRow(reason, shorten_row(text))
    return {name: cell for name, cell in zip(names, cells, strict=True) if cell and name}


def _is_utf8(cell: str) -> bool:
    """Return true if the cell has no surrogates, which stand for invalid bytes."""
    if cell.isascii():
        return True
    try:
        cell.encode()
    except UnicodeEncodeError:
        return False
    return True


def _csv_error_message(error: csv.Error) -> str:
    if "field larger" in str(error):
        return f"a cell is longer than {LONGEST_CELL:,} characters; is a quote left open?"
    return f"can't be read: {error}"
