"""Rows of large files: JSON Lines, CSV, TSV and Parquet; single, in directories, or in an object store.

Files are streamed: memory holds one block of a file, whatever its size. `.gz`, `.bz2`, `.zst` and `.lz4` are
decompressed meanwhile. An unreadable row becomes an `UnreadableRow` with its reason, and the next rows are read. If
an object store fails, stalls or truncates a body, the reader retries after the rows that it has read.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Protocol, TypeVar

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from cluster.artifacts.storage.artifact_store import RetryPolicy
from cluster.errors import Invalid, Malformed, Unavailable
from cluster.records.validation.json_limits import MAX_DEPTH, check_tree
from jobs.ingest.files.chunks import (
    ReadBounds,
    SizedRow,
    cut_batches,
    cut_rows,
    measure_row,
    rows_at_once,
)
from jobs.ingest.files.columns import ColumnRows
from jobs.ingest.files.delimited_files import (
    ByteStream,
    DelimitedFormat,
    open_text,
    propose_encoding,
    read_delimited_rows,
    read_header_names,
)
from jobs.ingest.files.unreadable_row import Row, UnreadableRow, shorten_row

T = TypeVar("T")

Format = Literal["jsonl", "csv", "tsv", "parquet"]

FORMATS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
PACKED = (".gz", ".bz2", ".zst", ".lz4")

LONGEST_ROW = 32 << 20
"Maximum bytes of a line of JSON, and characters of a line of CSV; a longer line is unreadable."
# Bytes that are read at a time, with one request to an object store each.
_BLOCK = 1 << 20
# Rows that are decoded at once when the caller asks for single rows, as the import of articles does.
_PARQUET_ROWS = 2_000


@dataclass(frozen=True, slots=True)
class ReadRetry:
    """Attempts and pauses of requests to an object store."""

    policy: RetryPolicy = field(default_factory=RetryPolicy)
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)

    def pause(self, tried: int) -> None:
        """Wait before the next attempt; the pause increases with each attempt."""
        # pause * 2^tried, then spread by half, so that parallel tasks do not return at one moment.
        pause_s = min(self.policy.longest_s, self.policy.pause_s * 2**tried)
        self.sleep(pause_s * self.rng.uniform(0.5, 1.5))


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file to read."""

    path: str
    "Path within the file system."
    format: Format
    size: int
    changed_ms: int
    files: Any
    "pyarrow.fs.FileSystem"
    retry: ReadRetry = field(default_factory=ReadRetry)
    layout: DelimitedFormat = field(default_factory=DelimitedFormat)
    is_part: bool = False
    "Whether it is a file of a folder."

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def is_local(self) -> bool:
        """Return true if the file is on a local disk, where a retry is useless."""
        return isinstance(self.files, fs.LocalFileSystem)


class RowFiles(Protocol):
    """The source of the rows of an ingest, for example `PlainFiles`."""

    def find(self, address: str) -> list[SourceFile]:
        """Return the files of an address in a stable order."""
        ...

    def chunks(self, source: SourceFile, size: int, skip: int = 0) -> Iterator[tuple[int, Sequence[Row]]]:
        """Yield chunks of at most `size` rows after the first `skip`, each with the number of its first row."""
        ...


@dataclass(frozen=True, slots=True)
class PlainFiles:
    """Files with one record per row."""

    format: Format | None = None
    "Format of all files; None: detected from their names."
    layout: DelimitedFormat = field(default_factory=DelimitedFormat)
    bounds: ReadBounds = field(default_factory=ReadBounds)

    def find(self, address: str) -> list[SourceFile]:
        return [replace(source, layout=self.layout) for source in find_files(address, self.format)]

    def chunks(self, source: SourceFile, size: int, skip: int = 0) -> Iterator[tuple[int, Sequence[Row]]]:
        return read_row_chunks(source, size, skip, self.bounds)


class FirstRows:
    """At most so many rows of all files together."""

    def __init__(self, files: RowFiles, most: int) -> None:
        self._files = files
        self._left = most

    def find(self, address: str) -> list[SourceFile]:
        return self._files.find(address)

    def chunks(self, source: SourceFile, size: int, skip: int = 0) -> Iterator[tuple[int, Sequence[Row]]]:
        if self._left <= 0:
            return
        for first, rows in self._files.chunks(source, size, skip):
            taken = rows[: self._left]
            self._left -= len(taken)
            yield first, taken
            if self._left <= 0:
                return


def find_files(
    address: str, format: Format | None = None, *, asking: ReadRetry | None = None
) -> list[SourceFile]:
    """Return the files of a path, a directory (recursively, those of a known format) or a URI.

    Errors:
        Invalid: the address has no file, or none of a known format
    """
    try:
        return find_files_in(*_open_filesystem(address), address, format, asking=asking)
    except UnicodeError as error:
        raise Invalid(f"the name of a file at {address!a} is not UTF-8; rename it") from error


def find_files_in(
    files: Any, path: str, address: str, format: Format | None = None, *, asking: ReadRetry | None = None
) -> list[SourceFile]:
    """Return the files below a path of a file system; messages call the path `address`.

    Errors:
        Invalid: nothing is at the path, or no file of a known format
    """
    asking = ReadRetry() if asking is None else asking
    info = _call_with_retry(files, address, asking, lambda: files.get_file_info(path))
    if info.type == fs.FileType.File:
        kind = format or detect_format(path)
        if kind is None:
            raise Invalid(
                f"can't tell the format of {address} from its name; name one of {', '.join(_file_suffixes())}"
            )
        return [SourceFile(path, kind, info.size, _modified_ms(info), files, asking)]
    if isinstance(files, fs.LocalFileSystem) and info.type == fs.FileType.NotFound:
        raise Invalid(f"there is no file or directory at {address}")
    # An object store has no folders: a prefix without objects is "not found", and still a valid address.
    selector = fs.FileSelector(path, allow_not_found=True, recursive=True)
    below = _call_with_retry(files, address, asking, lambda: files.get_file_info(selector))
    sources = [
        SourceFile(entry.path, kind, entry.size, _modified_ms(entry), files, asking, is_part=True)
        # Sorted, because the progress names a file by its number; the store lists them in any order.
        for entry in sorted(below, key=lambda entry: str(entry.path))
        if entry.type == fs.FileType.File
        # Spark and Hive write marks such as `_SUCCESS` and `.crc` files beside the data.
        and not PurePosixPath(entry.path).name.startswith((".", "_"))
        and (kind := format or detect_format(entry.path)) is not None
    ]
    if not sources:
        raise Invalid(f"there is no file of a known kind below {address} ({', '.join(_file_suffixes())})")
    return _remove_duplicates(sources)


def detect_format(path: str) -> Format | None:
    """Return the format of a file name, without its compression suffix."""
    name = path.lower()
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return FORMATS.get(PurePosixPath(name).suffix)


def read_column_names(source: SourceFile) -> Sequence[str] | None:
    """Return the column names of a file; None for formats without columns, and for empty files.

    Errors:
        Invalid: the file does not have its format
    """
    if source.format == "jsonl" or _is_empty_text(source):
        return None
    return _call_with_retry(source.files, source.name, source.retry, lambda: _read_column_names(source))


def _read_column_names(source: SourceFile) -> Sequence[str]:
    if source.format == "parquet":
        with source.files.open_input_file(source.path) as stream, _translate_arrow_errors(source):
            return list(pq.read_schema(stream).names)
    with _open_stream(source) as stream, open_text(ByteStream(stream), source.layout) as text:
        return read_header_names(text, _detect_separator(source), source.name, LONGEST_ROW)


def propose_source_encoding(source: SourceFile) -> str:
    """Return the encoding that a file of CSV or TSV seems to have if none is named; empty for UTF-8."""
    if source.format not in ("csv", "tsv") or source.layout.encoding:
        return ""

    def read() -> str:
        with _open_stream(source) as stream:
            return propose_encoding(stream)

    return _call_with_retry(source.files, source.name, source.retry, read)


def read_rows(source: SourceFile) -> Iterator[Row]:
    """Yield the rows of a file; continue after an interrupted read of an object store."""
    if source.format == "parquet":
        return _read_with_retry(
            source, 0, lambda done: islice(_read_parquet_rows(source), done, None), lambda _: 1
        )
    return (row for _, row in _read_sized_rows(source))


def _read_sized_rows(source: SourceFile) -> Iterator[SizedRow]:
    return _read_with_retry(source, 0, lambda done: islice(_read_text_rows(source), done, None), lambda _: 1)


def _read_text_rows(source: SourceFile) -> Iterator[SizedRow]:
    if source.format == "jsonl":
        return _read_jsonl_rows(source)
    return _read_csv_rows(source, _detect_separator(source))


def read_row_chunks(
    source: SourceFile, size: int, skip: int = 0, bounds: ReadBounds | None = None
) -> Iterator[tuple[int, Sequence[Row]]]:
    """Yield chunks of at most `size` rows after the first `skip`, each with the number of its first row.

    Rows of Parquet stay in columnar form until they are accessed.

    Errors:
        Invalid: the file can't be read, or holds more than the bounds allow
    """
    bounds = ReadBounds() if bounds is None else bounds
    chunks: Iterator[Sequence[Row]] = (
        _read_parquet_chunks(source, size, skip, bounds)
        if source.format == "parquet"
        else cut_rows(_read_sized_rows(source), size, bounds, skip)
    )
    first = skip
    for chunk in chunks:
        yield first, chunk
        first += len(chunk)


def _read_parquet_chunks(
    source: SourceFile, size: int, skip: int, bounds: ReadBounds
) -> Iterator[ColumnRows]:
    return _read_with_retry(
        source,
        skip,
        lambda done: map(ColumnRows, cut_batches(_read_batches(source, size), size, bounds, done)),
        len,
    )


def _read_jsonl_rows(source: SourceFile) -> Iterator[SizedRow]:
    for line in _read_lines(source):
        if isinstance(line, UnreadableRow):
            yield len(line.text), line
            continue
        # The byte order mark, which Windows programs write before the first line; orjson refuses it.
        text = line.strip().removeprefix(b"\xef\xbb\xbf")
        if text:
            yield len(text), _parse_json_row(text)


def _parse_json_row(text: bytes) -> Row:
    try:
        row = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return UnreadableRow(f"not JSON: {error.msg}", shorten_row(text))
    # An upload refuses deeper nesting as well. Counting brackets first spares the walk for nearly all rows.
    if text.count(b"{") + text.count(b"[") > MAX_DEPTH:
        try:
            check_tree(row)
        except Malformed as error:
            return UnreadableRow(error.facts["detail"][0]["msg"], shorten_row(text))
    return row if isinstance(row, dict) else UnreadableRow("not a JSON object", shorten_row(text))


def _read_lines(source: SourceFile) -> Iterator[bytes | UnreadableRow]:
    """Split a stream at newlines; memory never holds more than one line of the maximum length."""
    rest = b""
    skipping = False
    count = 0
    with _open_stream(source) as stream:
        while block := stream.read(_BLOCK):
            count += len(block)
            first, *others = block.split(b"\n")
            if not others:
                # A block within one long line: kept only while the line is not too long yet.
                rest = b"" if skipping else rest + first
            else:
                if not skipping:
                    yield rest + first
                skipping = False
                yield from others[:-1]
                rest = others[-1]
            # Checked once a block, so a line may exceed the bound by one block before it is given up.
            if len(rest) > LONGEST_ROW:
                yield UnreadableRow(f"longer than {LONGEST_ROW} bytes", shorten_row(rest))
                rest = b""
                skipping = True
    _check_complete(source, count)
    if rest and not skipping:
        yield rest


def _is_empty_text(source: SourceFile) -> bool:
    """Return true for a file of 0 bytes in a folder, which programs write for a part without rows."""
    return source.is_part and source.size == 0 and source.format != "parquet"


def _read_csv_rows(source: SourceFile, separator: str) -> Iterator[SizedRow]:
    if _is_empty_text(source):
        return
    before: Row | None = None
    with _open_stream(source) as stream:
        counted = ByteStream(stream)
        for row in read_delimited_rows(
            open_text(counted, source.layout), separator, source.name, LONGEST_ROW
        ):
            if before is not None:
                yield measure_row(before), before
            before = row
        # the last row of a truncated body is indistinguishable from other rows
        _check_complete(source, counted.count)
    if before is not None:
        yield measure_row(before), before


def _detect_separator(source: SourceFile) -> str:
    return source.layout.delimiter or ("\t" if source.format == "tsv" else "")


@contextlib.contextmanager
def _translate_arrow_errors(source: SourceFile) -> Iterator[None]:
    """Raise an error of Arrow as a refusal of the file; a name of a column may be no UTF-8."""
    try:
        yield
    except (pa.ArrowException, UnicodeError) as error:
        raise Invalid(f"{source.name} can't be read as Parquet: {error}") from error


def _read_parquet_rows(source: SourceFile) -> Iterator[Row]:
    for batch in _read_batches(source, _PARQUET_ROWS):
        yield from ColumnRows(pa.Table.from_batches([batch]))


def _read_batches(source: SourceFile, most: int) -> Iterator[Any]:
    """Yield the record batches of Parquet, with at most so many rows each."""
    with (
        _translate_arrow_errors(source),
        source.files.open_input_file(source.path) as stream,
        # with read-ahead it would hold the whole file
        pq.ParquetFile(stream, pre_buffer=False) as parquet,
    ):
        names = parquet.schema_arrow.names
        if len(set(names)) < len(names):
            raise Invalid(f"{source.name} has two columns of one name")
        for group in range(parquet.num_row_groups):
            # A batch is decoded as a whole, so its rows are bounded by memory before `most` applies.
            rows = min(most, rows_at_once(source.files, source.path, parquet, group))
            # One thread: files are read in parallel tasks, for which Ray reserves half a CPU each.
            yield from parquet.iter_batches(batch_size=rows, row_groups=[group], use_threads=False)


def _read_with_retry(
    source: SourceFile, done: int, read: Callable[[int], Iterator[T]], size: Callable[[T], int]
) -> Iterator[T]:
    """Read rows; if an object store interrupts the read, continue after the rows that were read.

    Errors:
        Invalid: a local file can't be read
        Unavailable: an object store does not return the file after all attempts
    """
    tried = 0
    while True:
        try:
            for entry in read(done):
                yield entry
                # After the consumer took the entry, so a retry neither repeats nor skips it.
                done = done + size(entry)
                # The attempts count failures in a row; a large file may fail now and then for hours.
                tried = 0
            return
        except OSError as error:
            if source.is_local:
                raise Invalid(f"{source.name} can't be read behind row {done}: {error}") from error
            tried += 1
            if tried == source.retry.policy.attempts:
                raise Unavailable(f"{source.name} can't be read behind row {done}: {error}") from error
            source.retry.pause(tried - 1)


def _open_filesystem(address: str) -> tuple[Any, str]:
    if "://" not in address:
        return fs.LocalFileSystem(), str(Path(address).expanduser().resolve())
    try:
        files, path = fs.FileSystem.from_uri(address)
    except (ValueError, OSError) as error:
        raise Invalid(f"can't read from {address}: {error}") from error
    return files, path


def _call_with_retry(files: Any, address: str, asking: ReadRetry, attempt: Callable[[], T]) -> T:
    tried = 0
    while True:
        try:
            return attempt()
        except OSError as error:
            tried += 1
            if isinstance(files, fs.LocalFileSystem) or tried == asking.policy.attempts:
                raise Unavailable(f"{address} can't be read: {error}") from error
            asking.pause(tried - 1)


def _remove_duplicates(sources: list[SourceFile]) -> list[SourceFile]:
    """Remove files that a link reaches a second time; a folder that contains itself would never end."""
    if not sources[0].is_local:
        return sources
    sources_by_path: dict[Path, SourceFile] = {}
    # The shortest path wins: a file keeps its place, and the ways to it through links are dropped.
    for source in sorted(sources, key=lambda source: (len(Path(source.path).parts), source.path)):
        sources_by_path.setdefault(Path(source.path).resolve(), source)
    return sorted(sources_by_path.values(), key=lambda source: source.path)


def _check_complete(source: SourceFile, count: int) -> None:
    """Check that a stream did not end early; compressed streams detect this themselves."""
    if count < source.size and not source.path.lower().endswith(PACKED):
        raise OSError(f"it ended after {count:,} of {source.size:,} bytes")


def _open_stream(source: SourceFile) -> Any:
    return source.files.open_input_stream(source.path, compression="detect", buffer_size=_BLOCK)


def _modified_ms(info: Any) -> int:
    return (info.mtime_ns or 0) // 1_000_000


def _file_suffixes() -> Sequence[str]:
    return sorted(set(FORMATS.values()))
