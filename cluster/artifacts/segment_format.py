"""The columns of segments, and the conversion of tables to and from Parquet bytes.

    records        one row for each put or removal of a user or product; the newest row of an id counts
    interactions   one row for each interaction; `reader` is `u:<user_id>`, else `a:<anonymous_id>`

Nothing is pickled: JSON is stored as bytes, vectors as little-endian float16 bytes, everything else is typed.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from cluster.errors import Fault

Noun = Literal["user", "product", "interaction"]
NOUNS: tuple[Noun, ...] = ("user", "product", "interaction")

RECORDS = pa.schema(
    [
        ("id", pa.string()),
        ("gone", pa.bool_()),
        ("offset", pa.string()),
        ("product_type", pa.string()),
        ("embedder", pa.string()),
        ("vector", pa.binary()),
        ("json", pa.binary()),
    ]
)
"`gone` marks a removal: no JSON, no vector. `product_type` is null for users."

INTERACTIONS = pa.schema(
    [
        ("reader", pa.string()),
        ("type", pa.string()),
        ("at_ms", pa.int64()),
        ("product_ids", pa.list_(pa.string())),
        ("value", pa.float64()),
        ("offset", pa.string()),
        ("json", pa.binary()),
    ]
)

LOADED_INTERACTIONS = pa.schema([field for field in INTERACTIONS if field.name != "json"])
"The interaction columns of `SegmentStore.load`."


_REPEATING = ("product_type", "embedder", "reader", "type", "offset")


def schema_of(noun: Noun) -> Any:
    """Return the columns of a noun's segments."""
    return INTERACTIONS if noun == "interaction" else RECORDS


def to_parquet(table: Any) -> bytes:
    """Return a table as Parquet; vectors are not compressed, because they do not shrink."""
    sink = io.BytesIO()
    repeating = [name for name in _REPEATING if name in table.column_names]
    compression = {_leaf(name): "none" if name == "vector" else "zstd" for name in table.column_names}
    # Only columns that repeat their values: a dictionary of distinct ids would be as large as they are.
    pq.write_table(table, sink, compression=compression, use_dictionary=repeating)
    return sink.getvalue()


def from_parquet(data: bytes, noun: Noun, columns: Sequence[str] | None = None) -> Any:
    """Return the table of Parquet bytes, whole or some columns, in the noun's own types.

    Errors:
        Fault: not Parquet, or with other columns than the noun's
    """
    schema = schema_of(noun)
    names = [name for name in schema.names if columns is None or name in columns]
    try:
        # one thread: a host may serve during the load, and the checksum costs more than all columns
        table = pq.read_table(pa.BufferReader(data), columns=names, use_threads=False)
        return table.select(names).cast(pa.schema([schema.field(name) for name in names]))
    except (pa.ArrowException, KeyError, OSError) as error:
        raise Fault(f"segment can't be read as {noun} rows: {error}") from error


def _leaf(name: str) -> str:
    return "product_ids.list.element" if name == "product_ids" else name
