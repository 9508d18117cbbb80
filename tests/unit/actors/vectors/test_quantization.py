""" """

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from actors.vectors.quantization import LEAST, QuantizedVectors, search_parts
from actors.vectors.types import Matrix


def vectors(count: int, dimensions: int, *, fading: float) -> Matrix:
    """Unit vectors whose later dimensions say less and less."""
    rng = np.random.default_rng(2)
    made = rng.standard_normal((count, dimensions)).astype(np.float32) * fading ** np.arange(dimensions)
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


@pytest.mark.parametrize(("count", "fading"), [(40, 0.97), (3_000, 0.97), (3_000, 1.0)])
def test_search_equals_a_full_comparison(count: int, fading: float) -> None:
    stored = vectors(count, 160, fading=fading)
    compact = QuantizedVectors.of(stored)
    allowed = np.arange(count) % 4 != 0
    for query in stored[:20]:
        exact = stored @ query
        rows, scores = compact.search(query, 10)
        assert np.allclose(scores, np.sort(exact)[::-1][:10], atol=0.01)
        masked, _ = compact.search(query, 10, allowed)
        assert allowed[masked].all()
        assert exact[masked].min() >= np.sort(exact[allowed])[::-1][9] - 0.01
        assert len(rows) == len(masked) == 10


def test_few_or_no_vectors_are_no_special_case() -> None:
    stored = vectors(3, 16, fading=1.0)
    rows, _ = QuantizedVectors.of(stored).search(stored[1], 100)
    assert rows.tolist()[0] == 1
    assert len(rows) == 3
    assert len(QuantizedVectors.of(stored).search(stored[1], 5, np.zeros(3, bool))[0]) == 0
    assert len(QuantizedVectors.of(np.zeros((0, 16), np.float32)).search(stored[1], 5)[0]) == 0


def test_a_saved_scan_is_mapped_back(tmp_path: Path) -> None:
    stored = vectors(2_000, 160, fading=0.97)
    compact = QuantizedVectors.of(stored)
    assert compact.save_scan(tmp_path / "scan.faiss")
    opened = QuantizedVectors.open(compact.codes, compact.scales, tmp_path / "scan.faiss")
    for query in stored[:5]:
        assert opened.search(query, 20)[0].tolist() == compact.search(query, 20)[0].tolist()
    assert not QuantizedVectors.of(stored[:10]).save_scan(tmp_path / "none.faiss")


def clouds(count: int, dimensions: int) -> Matrix:
    """Unit vectors around two hundred middles."""
    rng = np.random.default_rng(3)
    middles = rng.standard_normal((200, dimensions))
    made = middles[rng.integers(0, 200, count)] + 0.7 * rng.standard_normal((count, dimensions))
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


def recall_of_nearest(compact: QuantizedVectors, stored: Matrix, allowed: np.ndarray | None = None) -> float:
    shares = []
    for query in stored[:200]:
        exact = stored @ query
        if allowed is not None:
            exact = np.where(allowed, exact, -np.inf)
        nearest, scores = compact.search(query, 100, allowed)
        assert len(nearest) == 100
        assert (np.diff(scores) <= 0).all()
        shares.append(np.isin(np.argsort(-exact)[:10], nearest).mean())
    return float(np.mean(shares))


def test_sketches_find_nearly_all_of_the_ten_nearest() -> None:
    stored = clouds(12_000, 64)
    compact = QuantizedVectors.of(stored).with_sketches(least=0)
    assert compact.is_sketched
    assert recall_of_nearest(compact, stored) >= 0.99


def test_scores_are_those_of_the_full_vectors() -> None:
    stored = clouds(3_000, 64)
    compact = QuantizedVectors.of(stored).with_sketches(least=0)
    rows, scores = compact.search(stored[7], 20)
    assert rows[0] == 7
    assert np.allclose(scores, stored[rows] @ stored[7], atol=0.01)


def test_some_lost_vectors_do_not_end_the_quick_way() -> None:
    stored = clouds(12_000, 64)
    compact = QuantizedVectors.of(stored).with_sketches(least=0)
    allowed = np.arange(len(stored)) % 20 != 0
    assert recall_of_nearest(compact, stored, allowed) >= 0.99
    assert allowed[compact.search(stored[0], 100, allowed)[0]].all()


def test_a_mask_that_leaves_few_is_searched_exactly() -> None:
    stored = clouds(6_000, 64)
    compact, exact = QuantizedVectors.of(stored).with_sketches(least=0), QuantizedVectors.of(stored)
    allowed = np.arange(len(stored)) % 3 == 0
    for query in stored[:20]:
        assert compact.search(query, 50, allowed)[0].tolist() == exact.search(query, 50, allowed)[0].tolist()


def test_saved_sketches_find_the_same(tmp_path: Path) -> None:
    compact = QuantizedVectors.of(clouds(3_000, 64)).with_sketches(least=0)
    scan, sketches = tmp_path / "scan.faiss", tmp_path / "sketches.faiss"
    assert compact.save_scan(scan)
    assert compact.save_sketches(sketches)
    opened = QuantizedVectors.open(compact.codes, compact.scales, scan, sketches)
    assert opened.is_sketched
    for query in clouds(5, 64):
        assert opened.search(query, 20)[0].tolist() == compact.search(query, 20)[0].tolist()


def test_few_vectors_have_no_sketches(tmp_path: Path) -> None:
    few = QuantizedVectors.of(clouds(2_000, 64))
    assert len(few) < LEAST
    assert not few.with_sketches().is_sketched
    assert not few.save_sketches(tmp_path / "none.faiss")


@pytest.mark.parametrize("sketched", [False, True])
@pytest.mark.parametrize("by_subject", [False, True])
def test_several_sets_give_what_one_set_gives_for_the_same_work(sketched: bool, by_subject: bool) -> None:
    """Also if a small set has all of the nearest vectors, and if a mask leaves few."""
    stored = clouds(12_000, 64)
    if by_subject:
        stored = stored[np.argsort(stored @ stored[0])]
    cuts = (0, 300, 8_000, 10_000, len(stored))
    ranges = [slice(*pair) for pair in itertools.pairwise(cuts)]
    sets = [QuantizedVectors.of(stored[part]) for part in ranges]
    if sketched:
        sets = [vectors.with_sketches(least=0) for vectors in sets]
    places = np.arange(len(stored))
    for mask in (None, places % 30 != 7, places % 100 == 0):
        allowed = places >= 0 if mask is None else mask
        shares = []
        for query in stored[-30:]:
            masks = [None if mask is None else mask[part] for part in ranges]
            results = search_parts(list(zip(sets, masks, strict=True)), query, 50)
            rows = np.concatenate(
                [each + part.start for (each, _), part in zip(results, ranges, strict=True)]
            )
            scores = np.concatenate([each for _, each in results])
            assert allowed[rows].all()
            assert len(rows) <= 5 * 50 + 20
            assert np.allclose(scores, stored[rows] @ query, atol=0.01)
            nearest = np.argsort(-np.where(allowed, stored @ query, -np.inf))[:50]
            shares.append(np.isin(nearest, rows[np.argsort(-scores)[:50]]).mean())
        assert np.mean(shares) >= 0.98


def test_sets_that_hold_few_or_no_allowed_vectors_are_no_special_case() -> None:
    stored = clouds(3_000, 64)
    sets = [
        QuantizedVectors.of(stored[:2_000]),
        QuantizedVectors.of(stored[2_000:2_003]),
        QuantizedVectors.of(stored[2_003:]),
    ]
    masks = [np.zeros(len(vectors), bool) for vectors in sets]
    assert [len(rows) for rows, _ in search_parts(list(zip(sets, masks, strict=True)), stored[0], 20)] == [
        0,
        0,
        0,
    ]
    masks[2][5] = True
    masks[1][:] = True
    assert [
        rows.tolist() for rows, _ in search_parts(list(zip(sets, masks, strict=True)), stored[0], 20)
    ] == [[], [0, 1, 2], [5]]
