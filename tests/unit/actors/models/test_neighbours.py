from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from actors.models import neighbours
from actors.models.neighbours import add_rows


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.sampled_from([0.0, 0.1, 0.9]),
    st.lists(st.integers(0, 39), max_size=30),
    st.sampled_from([np.int32, np.int64]),
    st.booleans(),
)
def test_rows_are_added_up_as_a_product_would(
    seed: int, size: int, density: float, requested: list[int], kind: type[np.signedinteger], compiled: bool
) -> None:
    rng = np.random.default_rng(seed)
    matrix = sp.random(size, size, density, format="csr", dtype=np.float32, random_state=rng)
    matrix.indptr, matrix.indices = matrix.indptr.astype(kind), matrix.indices.astype(kind)
    rows = np.array([row for row in requested if row < size], np.int64)
    weights = rng.normal(size=len(rows)).astype(np.float32)
    total = rng.normal(size=size + 2).astype(np.float32)
    before = total.copy()
    with pytest.MonkeyPatch.context() as without:
        if not compiled:
            without.setattr(neighbours, "csc_matvec", None)
        many = add_rows(matrix, rows, weights, total)
    expected = before[:size] + matrix.toarray()[rows].T @ weights if len(rows) else before[:size]
    np.testing.assert_allclose(total[:size], expected, rtol=1e-4, atol=1e-5)
    assert total[size:].tolist() == before[size:].tolist(), "nothing is written behind the last column"
    assert many == int(np.diff(matrix.indptr)[rows].sum())


def test_scipy_has_the_compiled_way() -> None:
    assert neighbours.csc_matvec is not None, "else every recommendation takes twice as long"


def test_indexes_of_two_types_are_added_up_without_it() -> None:
    matrix = sp.csr_matrix(np.array([[0, 2], [3, 0]], np.float32))
    matrix.indptr = matrix.indptr.astype(np.int64)
    matrix.indices = matrix.indices.astype(np.int32)
    total = np.zeros(2, np.float32)
    assert add_rows(matrix, np.array([1, 0, 1]), np.array([1, 1, 1], np.float32), total) == 3
    assert total.tolist() == [6, 2]
