"""Columns of Parquet to rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_YEAR_1_MS, _YEAR_10000_MS = -62_135_596_800_000, 253_402_300_800_000


def batch_rows(names: Sequence[str], batch: Any) -> Iterator[dict[str, Any] | str]:
    """Give the rows of a batch; instead of one that Python can't hold (text that is no UTF-8, the year 300,000) why."""
    try:
        columns = [_values(column) for column in batch.columns]
    except (ValueError, OverflowError) as error:
        if batch.num_rows > 1:
            for at in range(batch.num_rows):
                yield from batch_rows(names, batch.slice(at, 1))
        else:
            yield f"can't be read: {error}"
        return
    if any(column.null_count for column in batch.columns):
        for row in zip(*columns, strict=True):
            yield {name: value for name, value in zip(names, row, strict=True) if value is not None}
    else:
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))


def _values(column: Any) -> list[Any]:
    """Read a column; moments as text in UTC, which is what they become anyway."""
    if pa.types.is_timestamp(column.type):
        at = column.cast(pa.timestamp("ms", "UTC"), safe=False)
        bounds = pc.min_max(at.cast(pa.int64())).as_py()
        if bounds["min"] is None or (bounds["min"] >= _YEAR_1_MS and bounds["max"] < _YEAR_10000_MS):
            return list(pc.strftime(at, "%Y-%m-%dT%H:%M:%SZ").to_pylist())
    return list(column.to_pylist())
