from __future__ import annotations

import numpy as np
import pytest

from actors.vectors.index import VectorIndex
from actors.vectors.types import Matrix, ensure_capacity


def _unit(count: int, dimensions: int = 16, seed: int = 3) -> Matrix:
    vectors = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def vectors() -> Matrix:
    return _unit(200)


@pytest.fixture
def index(vectors: Matrix) -> VectorIndex:
    made = VectorIndex(16)
    made.put(np.arange(200), vectors)
    return made


def test_every_row_finds_itself_first(index: VectorIndex, vectors: Matrix) -> None:
    for row in (0, 57, 199):
        rows, scores = index.search(vectors[row], 3)
        assert rows[0] == row
        assert scores[0] == pytest.approx(1)


def test_full_scores_are_the_inner_products(index: VectorIndex, vectors: Matrix) -> None:
    np.testing.assert_allclose(index.scores(vectors[4]), vectors @ vectors[4], rtol=1e-5, atol=1e-6)


def test_a_search_within_a_mask_equals_sorting_the_allowed_rows(index: VectorIndex, vectors: Matrix) -> None:
    allowed = np.random.default_rng(1).random(200) < 0.1
    rows, _ = index.search(vectors[0], 10, allowed)
    exact = np.flatnonzero(allowed)[np.argsort(-(vectors[allowed] @ vectors[0]))][:10]
    assert rows.tolist() == exact.tolist()


def test_a_mask_with_fewer_rows_than_k_returns_only_those(index: VectorIndex, vectors: Matrix) -> None:
    allowed = np.zeros(200, bool)
    allowed[[7, 150]] = True
    rows, scores = index.search(vectors[7], 10, allowed)
    assert rows.tolist() == [7, 150]
    assert len(scores) == 2
    assert len(index.search(vectors[7], 10, np.zeros(200, bool))[0]) == 0


def test_search_returns_a_replaced_row_at_its_new_place(index: VectorIndex) -> None:
    moved = _unit(1, seed=9)
    index.put(np.array([20]), moved)
    assert index.search(moved[0], 1)[0].tolist() == [20]
    assert len(index) == 200


def test_a_removed_row_scores_nothing(index: VectorIndex, vectors: Matrix) -> None:
    index.remove(np.array([3, 9_000]))
    assert index.scores(vectors[3])[3] == 0


def test_rows_skipped_by_a_put_hold_zeros(vectors: Matrix) -> None:
    index = VectorIndex(16)
    index.put(np.array([5]), vectors[:1])
    assert len(index) == 6
    assert index.scores(vectors[0]).tolist() == pytest.approx([0, 0, 0, 0, 0, 1])


def test_growing_step_by_step_keeps_every_vector(vectors: Matrix) -> None:
    index = VectorIndex(16)
    for row in range(200):
        index.put(np.array([row]), vectors[row : row + 1])
    np.testing.assert_array_equal(index.take(np.arange(200)), vectors)


def test_an_empty_index_answers_with_nothing() -> None:
    index = VectorIndex(16)
    assert len(index.scores(np.zeros(16, np.float32))) == 0
    assert len(index.search(np.zeros(16, np.float32), 5)[0]) == 0


def test_moments_are_sums_over_the_rows(index: VectorIndex, vectors: Matrix) -> None:
    total, outer = index.moments(np.array([1, 2]))
    np.testing.assert_allclose(total, vectors[1] + vectors[2], rtol=1e-5)
    np.testing.assert_allclose(
        outer, np.outer(vectors[1], vectors[1]) + np.outer(vectors[2], vectors[2]), atol=1e-6
    )


def test_room_grows_at_least_twofold_and_keeps_what_was_there() -> None:
    array = np.arange(128, dtype=np.int32)
    assert ensure_capacity(array, 100) is array
    larger = ensure_capacity(array, 129, -1)
    assert len(larger) == 256
    assert larger[:128].tolist() == array.tolist()
    assert set(larger[128:].tolist()) == {-1}
