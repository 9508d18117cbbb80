"""One file of rows outside the artifact store: Parquet, JSON Lines or CSV, written atomically.

The file is written under a temporary name with mode 600, synced and renamed. Only its owner may read a file with
personal data. All methods block: call them from a thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Literal, cast, get_args

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from cluster.errors import Invalid, Unavailable
from cluster.ids import new_request_id

Format = Literal["parquet", "jsonl", "csv"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
STANDARD_OUTPUT: Final = "-"
_ENDINGS: Final = (("parquet", ".parquet"), ("jsonl", ".jsonl"), ("jsonl", ".ndjson"), ("csv", ".csv"))
_OPTION: Final = orjson.OPT_PASSTHROUGH_DATETIME
_FORMULA: Final = r"^[=+\-@\t\r]"
"First characters of a cell that a spreadsheet takes for a formula."


def choose_format(out: str, format_name: str = "") -> Format:
    """Return the format by its name, else by the suffix of the file.

    Errors:
        Invalid: neither names a format, or Parquet would go to standard output
    """
    if format_name and format_name not in FORMATS:
        raise Invalid(f"there is no format {format_name!r}; choose from {', '.join(FORMATS)}")
    by_ending = next((name for name, ending in _ENDINGS if out.lower().endswith(ending)), "")
    chosen = format_name or by_ending
    if not chosen:
        raise Invalid(
            f"{out!r} does not say its format; end it with .parquet, .jsonl or .csv, or add --format"
        )
    if out == STANDARD_OUTPUT and chosen == "parquet":
        raise Invalid("Parquet can't go to standard output; choose --format jsonl or csv, or name a file")
    return cast(Format, chosen)


class TableFile:
    """One file being written; leaving its context without an error installs it.

    CSV has lists and objects as JSON. A text cell that a spreadsheet takes for a formula gets an apostrophe in front,
    unless `keep_formulas`.

    Errors (all methods):
        Invalid: the file can't be written
        Unavailable: the disk is full
    """

    def __init__(self, out: str, form: Format, schema: Any, *, keep_formulas: bool = False) -> None:
        self._path = None if out == STANDARD_OUTPUT else Path(out)
        self._form = form
        self._schema = schema
        self._keep_formulas = keep_formulas
        self._sink: _Sink | None = None
        self._writer: Any = None
        self.rows = 0

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the written bytes in hex."""
        assert self._sink is not None
        return self._sink.sha256.hexdigest()

    def __enter__(self) -> TableFile:
        self._sink = _Sink(_open(self._part) if self._path is not None else sys.stdout.buffer)
        if self._form == "parquet":
            self._writer = pq.ParquetWriter(pa.PythonFile(self._sink, "w"), self._schema, compression="zstd")
        elif self._form == "csv":
            fields = [pa.field(field.name, _csv_type(field.type)) for field in self._schema]
            # write the header even without rows
            self._writer = pyarrow.csv.CSVWriter(pa.PythonFile(self._sink, "w"), pa.schema(fields))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._sink is not None
        self._sink.is_given_up = error is not None
        try:
            if self._writer is not None:
                self._writer.close()  # close the writer even on failure: else it writes its end later
            if error is None:
                self._sink.stream.flush()
                if self._path is not None:
                    # Synced before the rename: after a power failure the name
                    # would else lead to an empty file.
                    os.fsync(self._sink.stream.fileno())
                    self._sink.stream.close()
                    os.replace(self._part, self._path)
        # The reader of a pipe ended, as `head` does: no error of the file.
        except BrokenPipeError:
            raise
        except OSError as failure:
            raise _write_error(failure, str(self._path or "standard output")) from failure
        finally:
            if self._path is not None:
                self._sink.stream.close()
                with contextlib.suppress(OSError):
                    self._part.unlink(missing_ok=True)

    def write(self, table: Any) -> None:
        """Write the rows of a table with the file's columns."""
        self.rows += table.num_rows
        with self._translate_errors():
            if self._form == "jsonl":
                self._put(
                    orjson.dumps(_without_nulls(row), default=_json_text, option=_OPTION)
                    for row in table.to_pylist()
                )
            elif self._form == "csv":
                self._writer.write_table(self._as_csv(table))
            else:
                self._writer.write_table(table)

    def write_json(self, records: Sequence[bytes]) -> None:
        """Write records that are JSON already, one in each line; only for JSON Lines."""
        self.rows += len(records)
        with self._translate_errors():
            self._put(records)

    @property
    def _part(self) -> Path:
        assert self._path is not None
        if not hasattr(self, "_part_path"):
            # In the same folder, as a rename is atomic within one file system
            # only; with a dot, so that `*` skips it.
            self._part_path = self._path.with_name(f".{self._path.name}.{new_request_id()}.part")
        return self._part_path

    def _put(self, lines: Iterable[bytes]) -> None:
        assert self._sink is not None
        text = b"\n".join(lines)
        if text:
            self._sink.write(text + b"\n")

    @contextlib.contextmanager
    def _translate_errors(self) -> Any:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as failure:
            raise _write_error(failure, str(self._path or "standard output")) from failure

    def _as_csv(self, table: Any) -> Any:
        columns = []
        for field in self._schema:
            column = table[field.name]
            if pa.types.is_timestamp(field.type):
                column = pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ")
            elif pa.types.is_nested(field.type):
                texts = [None if cell is None else orjson.dumps(cell).decode() for cell in column.to_pylist()]
                column = pa.chunked_array([pa.array(texts, pa.string())])
            elif pa.types.is_string(field.type) and not self._keep_formulas:
                # A spreadsheet would run `=...` of a product's text as a formula.
                column = pc.replace_substring_regex(column, _FORMULA, r"'\0")
            columns.append(column)
        return pa.table(columns, names=self._schema.names)


class _Sink:
    """A binary stream that computes a checksum of the written bytes."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.sha256 = hashlib.sha256()
        self.closed = False
        self.is_given_up = False
        self._size = 0

    def write(self, data: Any) -> int:
        # Arrow writes a footer when it closes, also after an error; the file is dropped anyway.
        if self.is_given_up:
            return len(data)
        self.sha256.update(data)
        self._size += len(data)
        return self.stream.write(data)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        self.stream.flush()

    def close(self) -> None:
        # The stream stays open: Arrow closes its file before `__exit__` syncs.
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def _open(path: Path) -> BinaryIO:
    try:
        # O_EXCL follows no link that somebody else placed under this name.
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except OSError as error:
        raise Invalid(f"nothing can be written to {path.parent}: {error.strerror}") from error


def _write_error(error: OSError, place: str) -> Invalid | Unavailable:
    if error.errno in (28, 122):  # no space, quota
        return Unavailable(f"there is no room for {place}: {error.strerror}")
    return Invalid(f"{place} can't be written: {error.strerror or error}")


def _csv_type(kind: Any) -> Any:
    return pa.string() if pa.types.is_nested(kind) or pa.types.is_timestamp(kind) else kind


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _json_text(value: Any) -> str:
    """Return a time as in the API: UTC, milliseconds, `Z`."""
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"
