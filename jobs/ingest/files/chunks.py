"""Chunks of rows, bounded in rows and bytes.

Where a chunk ends depends on the rows from its first row on, and on nothing before: a continued ingest must cut the
same chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.vectors.types import Rows
from cluster.errors import Invalid
from jobs.ingest.files.unreadable_row import Row, UnreadableRow

CHUNK_BYTES = 4 << 20
"Bytes after which a chunk ends: a chunk becomes one value of the store, and one entry of the change log."
SizedRow = tuple[int, Row]
"The bytes or characters of a row in its file, and the row."
# A number, or the entry of a value in a list; texts come on top with their length.
_NUMBER_BYTES = 8
# A dictionary needs no look if this many rows of its whole size fit into `_DECODED`.
_MOST_ROWS = 2_000
_DECODED = 64 << 20
"Bytes of Parquet that are decoded at a time."


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """Bounds of reading one file; 0 is no bound."""

    chunk_bytes: int = 0
    decoded_bytes: int = 0
    "Bytes of all rows after decompression and decoding."

    def check_decoded(self, count: int) -> None:
        """Check how many bytes a file held so far.

        Errors:
            Invalid: more than the bound
        """
        if self.decoded_bytes and count > self.decoded_bytes:
            raise Invalid(
                f"the file holds more than {self.decoded_bytes >> 20:,} MB of data after decoding; split it, "
                "or read it with `kiosk ingest`"
            )


def cut_rows(rows: Iterator[SizedRow], size: int, bounds: ReadBounds, skip: int = 0) -> Iterator[list[Row]]:
    """Yield lists of at most `size` rows after the first `skip`; a list ends with the row that passes `chunk_bytes`.

    Errors:
        Invalid: the rows hold more bytes than the bound
    """
    chunk: list[Row] = []
    count = chunk_bytes = 0
    most = bounds.chunk_bytes or float("inf")
    for number, (row_bytes, row) in enumerate(rows):
        # Skipped rows count too: a file is refused at the same row whether the ingest is continued or not.
        count += row_bytes
        bounds.check_decoded(count)
        if number < skip:
            continue
        chunk.append(row)
        # The row that passes the bound still belongs to the chunk, so one huge row makes a chunk of its
        # own.
        chunk_bytes += row_bytes
        if len(chunk) == size or chunk_bytes >= most:
            yield chunk
            chunk = []
            chunk_bytes = 0
    if chunk:
        yield chunk


def cut_batches(batches: Iterator[Any], size: int, bounds: ReadBounds, skip: int = 0) -> Iterator[Any]:
    """Yield tables of record batches, cut as `cut_rows` cuts rows.

    Errors:
        Invalid: the batches hold more bytes than the bound
    """
    waiting: list[Any] = []
    rows = chunk_bytes = count = 0
    most = bounds.chunk_bytes or float("inf")
    for batch in batches:
        sizes = measure_rows(batch)
        count += int(sizes.sum())
        bounds.check_decoded(count)
        # `skip` may span several batches; what this batch does not cover is left for the next one.
        at = min(skip, batch.num_rows)
        skip -= at
        ends = np.cumsum(sizes)
        while at < batch.num_rows:
            begun = int(ends[at - 1]) if at else 0
            last = (
                # First row whose cumulated bytes reach the bound; `ends` is ascending since no row has
                # negative bytes.
                int(np.searchsorted(ends, begun + most - chunk_bytes))
                if most < float("inf")
                else batch.num_rows
            )
            taken = min(size - rows, max(last + 1 - at, 1), batch.num_rows - at)
            # A slice shares the batch's memory; nothing is copied before a chunk is complete.
            waiting.append(batch.slice(at, taken))
            at = at + taken
            rows = rows + taken
            chunk_bytes += int(ends[at - 1]) - begun
            if rows == size or chunk_bytes >= most:
                yield pa.Table.from_batches(waiting)
                waiting = []
                rows = 0
                chunk_bytes = 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def measure_row(row: Row) -> int:
    """Return the characters of a row of texts."""
    if isinstance(row, UnreadableRow):
        return len(row.text)
    return sum(map(len, row.values()))


def measure_rows(batch: Any) -> Rows:
    """Return the decoded bytes of each row of a record batch: of texts their length, of any other value eight.

    Shapes:
        returns: int64 [rows]
    """
    sizes: Rows = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        sizes += _measure_values(column)
    return sizes


def rows_at_once(files: Any, path: str, parquet: Any, group: int) -> int:
    """Return how many rows of a row group are decoded at a time, so that they take about `_DECODED` bytes.

    A text of a dictionary is stored once and decoded at each use: the longest text of each dictionary counts for
    each row. Other texts count with their average.
    """
    chunks = parquet.metadata.row_group(group)
    columns = [chunks.column(at) for at in range(chunks.num_columns)]
    texts = [column for column in columns if column.physical_type == "BYTE_ARRAY"]
    # The footer knows bytes before decoding: a dictionary text that a million rows use counts once here.
    width = sum(column.total_uncompressed_size for column in columns) / max(chunks.num_rows, 1)
    encoded = [
        column
        for column in texts
        if column.has_dictionary_page and column.total_uncompressed_size * _MOST_ROWS > _DECODED
    ]
    if encoded and chunks.num_rows:
        paths = [column.path_in_schema for column in encoded]
        # One decoded row is enough, because Arrow returns each dictionary whole with it.
        with (
            files.open_input_file(path) as stream,
            # without extension types, which hide the dictionary
            pq.ParquetFile(
                stream, pre_buffer=False, read_dictionary=paths, arrow_extensions_enabled=False
            ) as once,
        ):
            first = next(
                once.iter_batches(batch_size=1, row_groups=[group], columns=paths, use_threads=False)
            )
        uses = max(column.num_values for column in encoded) / chunks.num_rows
        width += uses * sum(map(_longest_in_dictionary, first.columns))
    return max(1, int(_DECODED / max(width, 1.0)))


def _measure_values(values: Any) -> Rows:
    """Return the bytes of each value of an Arrow array; a text of a dictionary counts at each use."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return _measure_values(values.storage)
    if pa.types.is_dictionary(kind):
        # One more entry of length 0, to which missing values point.
        lengths = np.append(_measure_values(values.dictionary), 0)
        uses: Rows = lengths[values.indices.fill_null(len(lengths) - 1).to_numpy(zero_copy_only=False)]
        return uses
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _as_numbers(pc.binary_length(values.cast(pa.large_binary())))
    if (
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    ):
        return _as_numbers(pc.binary_length(values))
    if pa.types.is_struct(kind):
        sizes: Rows = np.zeros(len(values), np.int64)
        for part in values.flatten():
            sizes += _measure_values(part)
        return sizes
    if _is_any_list(kind):
        lengths = _as_numbers(pc.list_value_length(values))
        ends = np.cumsum(lengths)
        sums = np.concatenate([[0], np.cumsum(_measure_values(values.flatten()) + _NUMBER_BYTES)])
        # `sums` has a leading 0, so the values of row r are sums[end] - sums[end - length], also for empty
        # lists.
        row_sizes: Rows = sums[ends] - sums[ends - lengths]
        return row_sizes
    if pa.types.is_map(kind):
        return _measure_values(
            values.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        )
    width = kind.byte_width if pa.types.is_fixed_size_binary(kind) else 0
    return np.full(len(values), max(width, _NUMBER_BYTES), np.int64)


def _is_any_list(kind: Any) -> bool:
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def _longest_in_dictionary(values: Any) -> int:
    """Return the bytes of the longest text of the dictionaries within an Arrow array; 0 without one."""
    if pa.types.is_dictionary(values.type):
        return int(_measure_values(values.dictionary).max(initial=0))
    if pa.types.is_struct(values.type):
        return sum(map(_longest_in_dictionary, values.flatten()))
    if pa.types.is_map(values.type):
        return _longest_in_dictionary(values.keys) + _longest_in_dictionary(values.items)
    if _is_any_list(values.type):
        return _longest_in_dictionary(values.flatten())
    return 0


def _as_numbers(lengths: Any) -> Rows:
    numbers: Rows = lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
