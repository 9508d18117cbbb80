"""The choice of segments to merge, and the merging of records, without input or output.

The segments of one noun are in the order of their offsets. The segments of one commit form a run. A merge
always takes the newest runs, back to the last one that is larger than everything after it. So sizes stay
geometric, and every row is rewritten a logarithmic number of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cluster.artifacts.manifest import FileEntry

_COUNT_BITS = 20
"Bits of an offset's number within a millisecond."


@dataclass(frozen=True, slots=True)
class MergeRules:
    """The thresholds for merging."""

    runs: int = 8
    "Minimal number of runs for a merge."
    full_rows: int = 1_000_000
    "Interactions: number of rows from which a run is never rewritten."
    piece_bytes: int = 128 << 20
    "A merged segment is split when its rows take more bytes than this."


def find_merge_start(files: Sequence[FileEntry], rules: MergeRules, *, keep_full: bool) -> int | None:
    """Return the first file of the newest runs to merge; None when no merge pays off."""
    runs = [(list(run), key) for key, run in groupby(files, key=lambda entry: entry.facts["run"])]
    sizes = [sum(entry.rows for entry in run) for run, _ in runs]
    first = 0
    if keep_full:
        # Runs before a full one stay too: a merge takes neighbours only, to keep the order of offsets.
        first = max((at + 1 for at, rows in enumerate(sizes) if rows >= rules.full_rows), default=0)
    if len(runs) - first < rules.runs:
        return None
    # sizes[at] <= sum(sizes[at + 1:]): the oldest run that is not larger than all that came after it.
    newer = sum(sizes[first:])
    for at in range(first, len(runs) - 1):
        newer -= sizes[at]
        if sizes[at] <= newer:
            return sum(len(run) for run, _ in runs[:at])
    return None


def latest_rows(tables: Iterable[Any], *, drop_gone: bool, seen: set[str] | None = None) -> Iterator[Any]:
    """Yield the newest row of every id. Tables come newest first; rows within a table oldest first.

    `drop_gone` also drops removals, which is correct only if nothing is older than these tables. `seen` contains
    the ids of newer tables; the ids of these tables are added to it.
    """
    seen = set() if seen is None else seen
    for table in tables:
        rows = find_latest(table, seen, drop_gone=drop_gone)
        yield table if len(rows) == table.num_rows else table.take(rows)


def find_latest(table: Any, seen: set[str], *, drop_gone: bool) -> Any:
    """Return the rows of a table whose ids no newer table has, oldest first; adds the ids to those seen.

    Shapes:
        returns: pyarrow int32 [m]
    """
    rows: list[int] = []
    gone = table["gone"].to_pylist()
    record_ids = table["id"].to_pylist()
    # Backwards: within a table the last row of an id is the newest.
    for row in range(len(record_ids) - 1, -1, -1):
        record_id = record_ids[row]
        if record_id in seen:
            continue
        seen.add(record_id)
        # A removal counts as seen before it is dropped, so that it hides older rows of its id.
        if not (drop_gone and gone[row]):
            rows.append(row)
    rows.reverse()
    return pa.array(rows, pa.int32())


def order_by_offset(tables: Sequence[Any]) -> list[Any]:
    """Return tables of records in the order of their offsets, oldest first; records of one offset keep their order.

    Tables that are in order already are returned as they are. Earlier releases merged the newest segment first.
    """
    keys = [_offset_keys(table["offset"]) for table in tables]
    every = np.concatenate([np.zeros(0, np.int64), *keys])
    if (every[1:] >= every[:-1]).all():
        return list(tables)
    # Stable: rows of one offset keep the order in which they were written.
    return [pa.concat_tables(tables).take(pa.array(np.argsort(every, kind="stable")))]


def _offset_keys(offsets: Any) -> npt.NDArray[np.int64]:
    """Return numbers in the order of offsets `<ms>-<n>`."""
    # Many rows share an offset, so each text is parsed once.
    encoded = offsets.combine_chunks().dictionary_encode()
    parts = [offset.partition("-") for offset in encoded.dictionary.to_pylist()]
    # key = (ms << 20) + n: an int64 has room for 43 bits of milliseconds, about 280 years.
    numbers = np.array([(int(ms) << _COUNT_BITS) + int(count or 0) for ms, _, count in parts], np.int64)
    keys: npt.NDArray[np.int64] = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
    return keys


def split_tables(tables: Iterable[Any], piece_bytes: int) -> Iterator[Any]:
    """Yield tables of about `piece_bytes`, combined from smaller ones; empty ones are left out."""
    waiting: list[Any] = []
    size = 0
    for table in tables:
        if not table.num_rows:
            continue
        waiting.append(table)
        size += table.nbytes
        if size >= piece_bytes:
            yield pa.concat_tables(waiting)
            waiting = []
            size = 0
    if waiting:
        yield pa.concat_tables(waiting)
