"""The initial state of a recommender: compacted products with their vectors, and all compacted interactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_ROWS = 1_000
"Products that are objects at a time."
_COLUMNS = ["json", "embedder", "vector"]


@dataclass(frozen=True, slots=True)
class CompactedProduct:
    """The newest version of one product."""

    json: bytes
    vector: npt.NDArray[np.float16] | None
    """Shapes: float16 [d], read-only; None when it has no vector of the state's embedder."""


@dataclass(frozen=True, slots=True)
class CompactedProducts:
    """All compacted products of an app, each once, as columns. They become objects a few at a time."""

    embedder: str = ""
    "Version of the embedder that made the vectors, empty without vectors."
    tables: tuple[Any, ...] = ()
    "Tables with the columns `json`, `embedder` and `vector`, oldest first."

    def __len__(self) -> int:
        return sum(table.num_rows for table in self.tables)

    def __iter__(self) -> Iterator[CompactedProduct]:
        """Yield the products, oldest first."""
        for table in self.tables:
            for start in range(0, table.num_rows, _ROWS):
                rows = table.slice(start, _ROWS)
                vectors = _vectors(rows, self.embedder)
                for json, vector in zip(rows["json"].to_pylist(), vectors, strict=True):
                    yield CompactedProduct(json, vector)


@dataclass(frozen=True, slots=True)
class CompactedState:
    """All compacted data of one app; the change log after `offsets` completes it."""

    offsets: dict[str, str]
    "Noun -> offset covered; a noun without segments is absent (read its log from the start)."
    products: CompactedProducts
    interactions: Any
    "pyarrow.Table with the columns of `tables.LOADED_INTERACTIONS`, oldest first."
    damaged: tuple[str, ...] = ()
    "Damaged segments that were left out (only with `salvage`)."
    erasures: int = 0
    "Number of erasures before this state was read."


@dataclass(frozen=True, slots=True)
class CompactedRecords:
    """The compacted records of a noun after an offset."""

    offset: str
    "Offset up to which the artifact store holds the records."
    puts: list[bytes]
    "JSON of written records, each id once."
    living: frozenset[str]
    "Ids of all compacted records; any other id was removed, or never compacted."


def assemble_products(oldest_first: Iterable[Any]) -> CompactedProducts:
    """Return the products of record tables, oldest first; vectors of the newest embedder only."""
    tables = [table.select(_COLUMNS) for table in oldest_first]
    # Vectors of two embedders live in different spaces and can't be compared.
    embedder = next((name for table in reversed(tables) if (name := _newest_embedder(table))), "")
    return CompactedProducts(embedder, tuple(tables))


def _newest_embedder(table: Any) -> str:
    return next((name for name in reversed(table["embedder"].to_pylist()) if name), "")


def _vectors(table: Any, embedder: str) -> list[npt.NDArray[np.float16] | None]:
    """Return views into one matrix when all rows have a vector, which is nearly always; else read row by row."""
    column = table["vector"].combine_chunks()
    made_by = table["embedder"].unique().to_pylist()
    if made_by == [embedder] and column.null_count == 0 and len(column):
        # Arrow's layout of a binary column: int32 starts [n + 1], then
        # all bytes; float16 has two for each number.
        starts = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
        width = (starts[-1] - starts[0]) // len(column)
        # Equal widths: the bytes are a matrix [n, d] already, and rows are views without a copy.
        if (np.diff(starts) == width).all():
            values = np.frombuffer(column.buffers()[2], np.float16, (starts[-1] - starts[0]) // 2, starts[0])
            return list(values.reshape(len(column), width // 2))
    return [
        np.frombuffer(vector, np.float16) if vector and name == embedder else None
        for vector, name in zip(column.to_pylist(), table["embedder"].to_pylist(), strict=True)
    ]
