"""Files of millions as rows: JSON Lines, CSV, TSV and Parquet; alone, in directories, or in an object store.

Reading is a stream: memory holds one block of a file, whatever its size. `.gz`, `.bz2`, `.zst` and `.lz4` are
unpacked on the way. A row that can't be read comes as `Unreadable` with its reason and the rest goes on.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from cluster.errors import Invalid

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
"Bytes of one line; a longer one is unreadable."
_BLOCK = 1 << 20
_PARQUET_ROWS = 2_000


@dataclass(frozen=True, slots=True)
class Source:
    """One file to read."""

    path: str
    "As the file system knows it."
    format: Format
    size: int
    changed_ms: int
    files: Any
    "pyarrow.fs.FileSystem"

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A row that could not be read."""

    reason: str
    text: str
    "The beginning of what stood there."


Row = dict[str, Any] | Unreadable


def find(address: str, format: Format | None = None) -> list[Source]:
    """Find the files behind a path, a directory (all files below it of a known kind, by name) or a URI.

    Errors:
        Invalid: there is nothing, or nothing of a known kind
    """
    files, path = _open(address)
    info = files.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        raise Invalid(f"there is no file or directory at {address}")
    if info.type == fs.FileType.File:
        kind = format or format_of(path)
        if kind is None:
            raise Invalid(
                f"can't tell the format of {address} from its name; name one of {', '.join(_kinds())}"
            )
        return [Source(path, kind, info.size, _ms(info), files)]
    below = sorted(
        files.get_file_info(fs.FileSelector(path, recursive=True)), key=lambda found: str(found.path)
    )
    sources = [
        Source(found.path, kind, found.size, _ms(found), files)
        for found in below
        if found.type == fs.FileType.File
        and not PurePosixPath(found.path).name.startswith((".", "_"))
        and (kind := format or format_of(found.path)) is not None
    ]
    if not sources:
        raise Invalid(f"there is no file of a known kind below {address} ({', '.join(_kinds())})")
    return sources


def format_of(path: str) -> Format | None:
    """Tell the format from a name, looking behind a packing suffix."""
    name = path.lower()
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return FORMATS.get(PurePosixPath(name).suffix)


def rows(source: Source) -> Iterator[Row]:
    """Read a file row by row.

    Errors:
        Invalid: the file as a whole is not of its format
    """
    if source.format == "parquet":
        return _parquet_rows(source)
    if source.format == "jsonl":
        return _jsonl_rows(source)
    return _csv_rows(source, "\t" if source.format == "tsv" else ",")


def chunks(source: Source, size: int, skip: int = 0) -> Iterator[tuple[int, list[Row]]]:
    """Read a file in lists of `size` rows after the first `skip`; each with the number of its first row."""
    waiting: list[Row] = []
    first = skip
    for number, row in enumerate(rows(source)):
        if number < skip:
            continue
        waiting.append(row)
        if len(waiting) == size:
            yield first, waiting
            first, waiting = number + 1, []
    if waiting:
        yield first, waiting


# --- formats ------------------------------------------------------------------------------------------------------


def _jsonl_rows(source: Source) -> Iterator[Row]:
    for line in _lines(source):
        if isinstance(line, Unreadable):
            yield line
            continue
        text = line.strip()
        if text:
            yield _json_row(text)


def _json_row(text: bytes) -> Row:
    try:
        row = orjson.loads(text.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        return Unreadable(f"not JSON: {error.msg}", _beginning(text))
    return row if isinstance(row, dict) else Unreadable("not a JSON object", _beginning(text))


def _lines(source: Source) -> Iterator[bytes | Unreadable]:
    """Cut a stream at newlines without ever holding more than one line of bearable length."""
    rest = b""
    skipping = False
    with _stream(source) as stream:
        while block := stream.read(_BLOCK):
            first, *others = block.split(b"\n")
            if not others:
                rest = b"" if skipping else rest + first
            else:
                if not skipping:
                    yield rest + first
                skipping = False
                yield from others[:-1]
                rest = others[-1]
            if len(rest) > LONGEST_ROW:
                yield Unreadable(f"longer than {LONGEST_ROW} bytes", _beginning(rest))
                rest, skipping = b"", True
    if rest and not skipping:
        yield rest


def _csv_rows(source: Source, separator: str) -> Iterator[Row]:
    with _stream(source) as stream:
        text = io.TextIOWrapper(
            io.BufferedReader(_Readable(stream), _BLOCK), encoding="utf-8-sig", errors="replace", newline=""
        )
        reader = csv.reader(text, delimiter=separator)
        header = next(reader, None)
        if not header:
            raise Invalid(f"{source.name} has no header line")
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield Unreadable(f"not {source.format}: {error}", "")
                continue
            if not cells:
                continue
            if len(cells) != len(header):
                yield Unreadable(
                    f"{len(cells)} cells, the header has {len(header)}", _beginning(separator.join(cells))
                )
                continue
            yield {name: cell for name, cell in zip(header, cells, strict=True) if cell != ""}


def _parquet_rows(source: Source) -> Iterator[Row]:
    try:
        with source.files.open_input_file(source.path) as stream, pq.ParquetFile(stream) as parquet:
            for batch in parquet.iter_batches(batch_size=_PARQUET_ROWS, use_threads=False):
                for row in batch.to_pylist():
                    yield {name: value for name, value in row.items() if value is not None}
    except pa.ArrowInvalid as error:
        raise Invalid(f"{source.name} is not Parquet: {error}") from error


# --- inside -------------------------------------------------------------------------------------------------------


class _Readable(io.RawIOBase):
    """A pyarrow stream as Python's text layer wants it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        data = self._stream.read(len(target))
        target[: len(data)] = data
        return len(data)


def _open(address: str) -> tuple[Any, str]:
    if "://" not in address:
        return fs.LocalFileSystem(), str(Path(address).expanduser().resolve())
    try:
        files, path = fs.FileSystem.from_uri(address)
    except (ValueError, OSError) as error:
        raise Invalid(f"can't read from {address}: {error}") from error
    return files, path


def _stream(source: Source) -> Any:
    return source.files.open_input_stream(source.path, compression="detect", buffer_size=_BLOCK)


def _ms(info: Any) -> int:
    return (info.mtime_ns or 0) // 1_000_000


def _kinds() -> Sequence[str]:
    return sorted(set(FORMATS.values()))


def _beginning(text: bytes | str) -> str:
    start = text[:500]
    return start if isinstance(start, str) else start.decode("utf-8", "replace")
