"""Compacted products stay columns until they are read, a few at a time."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa

from cluster.artifacts.compacted_state import assemble_products

ROWS = 2_500
WIDTH = 4


def table(first: int, rows: int, *, missing: int = -1) -> pa.Table:
    """Return products with vectors of their number; one may have none."""
    numbers = range(first, first + rows)
    vectors = [None if n == missing else np.full(WIDTH, n % 1_000, np.float16).tobytes() for n in numbers]
    return pa.table(
        {
            "id": [f"p{n}" for n in numbers],
            "embedder": [None if n == missing else "e-1" for n in numbers],
            "vector": pa.array(vectors, pa.binary()),
            "json": [b"%d" % n for n in numbers],
        }
    )


def test_products_come_oldest_first_with_their_vectors() -> None:
    products = assemble_products([table(0, ROWS), table(ROWS, 7, missing=ROWS + 3)])
    assert (len(products), products.embedder) == (ROWS + 7, "e-1")
    assert [product.json for product in products] == [b"%d" % n for n in range(ROWS + 7)]
    vectors = [product.vector for product in products]
    assert vectors[ROWS + 3] is None
    assert all(
        vector is not None and vector.tolist() == [n % 1_000] * WIDTH
        for n, vector in enumerate(vectors)
        if n != ROWS + 3
    )


def test_products_that_nobody_reads_are_no_objects() -> None:
    rows = table(0, 20_000)
    tracemalloc.start()
    try:
        products = assemble_products([rows])
        allocated, _ = tracemalloc.get_traced_memory()
        assert sum(1 for _ in products) == 20_000
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert allocated < 100_000
    assert most < 2_000_000
